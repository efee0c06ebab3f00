//! The folder that the demo fills, and how it recognizes a former demo.

use model::{Code, Failure};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file that marks a folder as made by the demo, and so as free to be created again.
const MARKER: &str = ".syncline-demo";

/// What a former demo left, apart from the marker.
const LEFT_FILES: &[&str] = &[
    "consolidated.db",
    "consolidated.db-wal",
    "consolidated.db-shm",
    "consolidated.db-syncline",
    "syncline.toml",
    "syncline.mark",
    "model.toml",
    "server.log",
];
const LEFT_FOLDERS: &[&str] = &["remotes", "passwords"];

/// The folder of a demo.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder, or empties that of a former demo; any other that has something in it is
    /// refused.
    pub(super) fn prepare(path: &Path) -> Result<Folder, Failure> {
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if path.join(MARKER).is_file() {
                    remove_former(path)?;
                } else if entries.next().is_some() {
                    return Err(Failure::new(
                        Code::FileExists,
                        format!("{} is not empty and is not an earlier demo", path.display()),
                    )
                    .hint("name another folder with --dir"));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_write(path, error)),
        }
        let folder = Folder(path.to_owned());
        for name in LEFT_FOLDERS {
            let path = folder.path(name);
            fs::create_dir_all(&path).map_err(|error| cannot_write(&path, error))?;
        }
        folder.write(MARKER, "`syncline demo` created this folder and will create it again.\n")?;
        Ok(folder)
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    /// A file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The consolidated database.
    pub(super) fn consolidated(&self) -> PathBuf {
        self.path("consolidated.db")
    }

    /// The remote database of this sales representative.
    pub(super) fn remote(&self, name: &str) -> PathBuf {
        self.path(&format!("remotes/{name}.db"))
    }

    /// Writes a file that only its owner can read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| cannot_write(&path, error))
    }
}

// By name and not by emptying the folder, because files of others must stay.
fn remove_former(path: &Path) -> Result<(), Failure> {
    for name in LEFT_FILES {
        ignore_missing(fs::remove_file(path.join(name)))
            .map_err(|error| cannot_write(&path.join(name), error))?;
    }
    for name in LEFT_FOLDERS {
        ignore_missing(fs::remove_dir_all(path.join(name)))
            .map_err(|error| cannot_write(&path.join(name), error))?;
    }
    Ok(())
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_demo_is_made_anew_and_any_other_full_folder_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("demo");
        let folder = Folder::prepare(&path).unwrap();
        folder.write("remotes/ann.db", "x").unwrap();
        folder.write("mine.txt", "keep").unwrap();
        Folder::prepare(&path).unwrap();
        assert!(!folder.remote("ann").exists());
        assert!(folder.path("mine.txt").exists(), "the demo removes only what it made");

        let other = parent.path().join("other");
        fs::create_dir(&other).unwrap();
        Folder::prepare(&other).unwrap();
        let full = parent.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.txt"), "x").unwrap();
        assert_eq!(Folder::prepare(&full).unwrap_err().code(), Code::FileExists);
        let file = full.join("thesis.txt");
        assert_eq!(Folder::prepare(&file).unwrap_err().code(), Code::CannotWrite);
    }
}
