//! Files of a package, written with the folders above them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Copies a file, with all folders above it.
pub(super) fn install(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    make_folder_of(to)?;
    fs::copy(from, to).map_err(|error| at(from, &error))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|error| at(to, &error))
}

pub(super) fn write(to: &Path, text: &str) -> Result<(), String> {
    make_folder_of(to)?;
    fs::write(to, text).map_err(|error| at(to, &error))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644)).map_err(|error| at(to, &error))
}

fn make_folder_of(file: &Path) -> Result<(), String> {
    match file.parent() {
        Some(folder) => fs::create_dir_all(folder).map_err(|error| at(folder, &error)),
        None => Ok(()),
    }
}

pub(super) fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
