//! The file system of the operating system.

use crate::disk::{Disk, FileStatus};
use std::any::Any;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Files as the operating system has them.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {
    fn vfs(&self) -> Option<&str> {
        None
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let metadata = std::fs::metadata(path)?;
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(FileStatus {
            is_regular: metadata.is_file(),
            device: metadata.dev(),
            number: metadata.ino(),
            names: metadata.nlink(),
            born_ns: born.map_or(0, |born| born.as_nanos()),
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::options().read(true).write(true).open(path)?.sync_data()
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let file = File::options().create(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(Locked(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A file that is locked as long as this is.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child that this process is just starting holds a copy of every
        // open file for a moment, and the lock would last as long.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
impl crate::disk::Location {
    /// A file of the operating system.
    pub(crate) fn system(path: &Path) -> crate::disk::Location {
        crate::disk::Location { path: path.to_owned(), disk: std::sync::Arc::new(SystemDisk) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A server that was stopped and started again in a process that starts children was refused as
    // a second one: the lock lasted as long as the copy that a child had of the file.
    #[test]
    fn a_lock_ends_with_its_value_whoever_has_a_copy_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = SystemDisk.lock(&path).unwrap().unwrap();
        assert!(SystemDisk.lock(&path).unwrap().is_none());
        let copy = lock.downcast_ref::<Locked>().unwrap().0.try_clone().unwrap();
        drop(lock);
        assert!(SystemDisk.lock(&path).unwrap().is_some());
        drop(copy);
    }
}
