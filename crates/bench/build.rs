//! Tells the program the profile it is built with: figures mean little without it.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    // Cargo has a variable for the profile, but it says `release` for all that inherit from it. The
    // folder has the name: `target/dist/build/…/out`.
    let folders: Vec<_> = out.iter().collect();
    let build = folders.iter().rposition(|folder| *folder == "build");
    let profile = build.and_then(|at| folders.get(at.checked_sub(1)?));
    let profile = profile.map_or("unknown".into(), |name| name.to_string_lossy());
    println!("cargo::rustc-env=SYNCLINE_PROFILE={profile}");
}
