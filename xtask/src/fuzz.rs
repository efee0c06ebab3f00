//! Looks for inputs of a target of `testing/fuzz` with libFuzzer.
//!
//! The compiler counts which parts of the program an input reaches, with an option of LLVM that
//! the stable compiler has too. It is given for the target's platform only: what runs while
//! something is built has no counters.

use crate::checkout::output;
use crate::problem::Problem;
use std::path::Path;
use std::process::Command;

/// What libFuzzer needs of the compiler.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// The memory of the whole process.
const MEMORY_MIB_MAX: &str = "-rss_limit_mb=1024";
/// The longest input, in bytes.
const INPUT_BYTES_MAX: &str = "-max_len=4096";

/// Looks for so many seconds. What fails is left in the folder from which this was called, and new
/// inputs are left in `target/fuzz/found`.
pub(crate) fn run(root: &Path, target: &str, seconds: &str) -> Result<Vec<Problem>, String> {
    let known = root.join("testing/fuzz/corpus").join(target);
    if !known.is_dir() {
        return Err(format!("testing/fuzz/corpus has no folder {target}"));
    }
    let found = root.join("target/fuzz/found").join(target);
    std::fs::create_dir_all(&found).map_err(|error| error.to_string())?;
    let host = host()?;
    let program = build(root, &host)?;
    let done = Command::new(program)
        .env("SYNCLINE_FUZZ_TARGET", target)
        .args([MEMORY_MIB_MAX, INPUT_BYTES_MAX, "-timeout=60", "-print_final_stats=1"])
        .arg(format!("-max_total_time={seconds}"))
        .args([&found, &known])
        .status();
    match done {
        Ok(status) if status.success() => Ok(Vec::new()),
        Ok(status) => Err(format!("{target}: {status}; the input is in the file named above")),
        Err(error) => Err(error.to_string()),
    }
}

/// The platform of this compiler.
fn host() -> Result<String, String> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say its host".to_owned())
}

fn build(root: &Path, host: &str) -> Result<std::path::PathBuf, String> {
    let folder = root.join("target/fuzz");
    let place = root.join("testing/fuzz/guided");
    // The same versions as in the workspace; libFuzzer is added.
    std::fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock"))
        .map_err(|error| error.to_string())?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["build", "--target", host, "--target-dir"])
        .arg(&folder)
        .current_dir(place)
        .env("RUSTFLAGS", FLAGS)
        .status();
    match status {
        Ok(status) if status.success() => Ok(folder.join(host).join("debug/guided")),
        Ok(status) => Err(format!("the build failed: {status}")),
        Err(error) => Err(error.to_string()),
    }
}
