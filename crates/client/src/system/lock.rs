//! The lock of the engine, in a file beside the remote.

use crate::disk::Location;
use model::{Code, Failure};
use std::any::Any;
use std::fmt;
use std::io;

/// The right to synchronize one remote file, held against other processes and other
/// [`crate::Remote`]s of this one. Ends with the value, and with the process however it dies.
pub(crate) struct RemoteLock {
    _held: Box<dyn Any + Send>,
}

impl RemoteLock {
    /// Takes the lock of the remote, or says that another has it.
    pub(crate) fn take(location: &Location) -> Result<RemoteLock, Failure> {
        let path = location.beside(SUFFIX);
        let cannot = |error: io::Error| {
            Failure::new(Code::CannotWrite, format!("cannot lock `{}`", path.display()))
                .source(error)
        };
        let held = location.disk.lock(&path).map_err(cannot)?;
        let in_use = || {
            let message = format!("another process synchronizes `{}`", location.path.display());
            Failure::new(Code::RemoteInUse, message)
        };
        Ok(RemoteLock { _held: held.ok_or_else(in_use)? })
    }

    /// Removes the lock file: the file is no remote any more.
    pub(crate) fn remove(self, location: &Location) -> Result<(), Failure> {
        let path = location.beside(SUFFIX);
        location.disk.remove(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot remove `{}`", path.display()))
                .source(error)
        })
    }
}

impl fmt::Debug for RemoteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLock").finish_non_exhaustive()
    }
}

const SUFFIX: &str = "-syncline";

#[cfg(test)]
mod tests {
    use super::super::disk::SystemDisk;
    use super::*;
    use std::sync::Arc;

    // S8
    #[test]
    fn a_remote_is_locked_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location { path: folder.path().join("r.db"), disk: Arc::new(SystemDisk) };
        let lock = RemoteLock::take(&location).unwrap();
        assert_eq!(RemoteLock::take(&location).unwrap_err().code(), Code::RemoteInUse);
        drop(lock);
        RemoteLock::take(&location).unwrap();
    }
}
