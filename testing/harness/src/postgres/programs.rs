//! Where PostgreSQL's programs are, and how they are run free of the surroundings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Where Debian keeps the versions, each in a folder named by its number.
const VERSIONS: &str = "/usr/lib/postgresql";

static FOLDER: LazyLock<PathBuf> = LazyLock::new(find);

/// One of the programs, of the same version as the server.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(FOLDER.join(program));
    without_surroundings(&mut command);
    command
}

/// The folder with the programs.
pub fn programs_folder() -> &'static Path {
    &FOLDER
}

/// Takes away every variable that would tell a client of PostgreSQL where to connect, and as whom.
pub fn without_surroundings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
}

/// The newest version that is installed, or the one that `pg_config` belongs to.
fn find() -> PathBuf {
    let has_server = |folder: &Path| folder.join("postgres").is_file();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(VERSIONS)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| has_server(folder))
        .collect();
    versions.sort();
    if let Some((_, folder)) = versions.pop() {
        return folder;
    }
    let answer = Command::new("pg_config").arg("--bindir").output();
    let answer = answer.map(|output| output.stdout).unwrap_or_default();
    let folder = PathBuf::from(String::from_utf8_lossy(&answer).trim());
    assert!(has_server(&folder), "no PostgreSQL server is installed");
    folder
}
