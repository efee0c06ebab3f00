//! Files that programs use without SQLite: locks, and what is remembered beside a database.

use super::Disk;
use super::locks::Level;
use super::machine::{HandleId, Machine, Opening};
use super::operation::Outcome;
use super::system::System;
use rusqlite::ffi;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that a program has locked; free again when this is dropped.
struct Locked {
    system: Arc<System>,
    id: HandleId,
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.system.machine().close(self.id);
    }
}

const EXISTING: Opening =
    Opening { may_create: false, must_create: false, delete_on_close: false, syncs_names: false };

impl Machine {
    /// Opens a file, and closes it after `work`.
    fn with<T>(
        &mut self,
        name: &str,
        opening: Opening,
        work: impl FnOnce(&mut Machine, HandleId) -> Outcome<T>,
    ) -> io::Result<T> {
        let is_missing = !opening.may_create && self.directory.find(name).is_none();
        let id = match self.open(Some(name), opening) {
            Err(_) if is_missing && !self.faults.is_dead() => {
                return Err(ErrorKind::NotFound.into());
            }
            result => result.map_err(failed)?,
        };
        let done = work(self, id);
        self.close(id);
        done.map_err(failed)
    }
}

fn failed(code: std::ffi::c_int) -> io::Error {
    match code {
        ffi::SQLITE_FULL => ErrorKind::StorageFull.into(),
        _ => io::Error::other(format!("the simulated disk fails ({code})")),
    }
}

fn name(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| ErrorKind::InvalidInput.into())
}

/// Number and length of a file; none of a folder.
type Found = Option<(u64, u64)>;

impl Disk {
    fn find(&self, path: &Path) -> io::Result<Found> {
        // There is one folder.
        if path.parent().is_none() {
            return Ok(None);
        }
        let mut machine = self.machine();
        let name = name(path)?;
        if !machine.exists(name, false).map_err(failed)? {
            return Err(ErrorKind::NotFound.into());
        }
        let number = machine.directory.find(name);
        let found =
            number.and_then(|it| machine.files.get(&it).map(|file| (it, file.len() as u64)));
        found.map(Some).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        let deleted = self.machine().delete(name(path)?, false);
        match deleted {
            Err(ffi::SQLITE_IOERR_DELETE_NOENT) => Err(ErrorKind::NotFound.into()),
            result => result.map_err(failed),
        }
    }

    fn take(&self, path: &Path) -> io::Result<Option<Locked>> {
        let mut machine = self.machine();
        let opening = Opening { may_create: true, ..EXISTING };
        let id = machine.open(Some(name(path)?), opening).map_err(failed)?;
        match machine.lock(id, Level::Exclusive) {
            Ok(()) => Ok(Some(Locked { system: self.system.clone(), id })),
            Err(code) => {
                machine.close(id);
                if code == ffi::SQLITE_BUSY { Ok(None) } else { Err(failed(code)) }
            }
        }
    }
}

impl client::Disk for Disk {
    fn vfs(&self) -> Option<&str> {
        Some(Disk::vfs(self))
    }

    fn status(&self, path: &Path) -> io::Result<client::FileStatus> {
        let found = self.find(path)?;
        let (number, bytes) = found.unwrap_or_default();
        Ok(client::FileStatus { is_regular: found.is_some(), bytes, number })
    }

    fn create_private(&self, path: &Path) -> io::Result<()> {
        let opening = Opening { may_create: true, must_create: true, ..EXISTING };
        self.machine().with(name(path)?, opening, |_, _| Ok(()))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.machine().with(name(path)?, EXISTING, |machine, id| {
            let len = (machine.size(id)? as u64).min(bytes_max);
            let mut bytes = vec![0; len as usize];
            machine.read(id, 0, &mut bytes)?;
            Ok(bytes)
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let opening = Opening { may_create: true, ..EXISTING };
        self.machine().with(name(path)?, opening, |machine, id| {
            machine.truncate(id, 0)?;
            machine.write(id, 0, bytes)?;
            machine.sync(id)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.delete(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send>>> {
        Ok(self.take(path)?.map(|locked| Box::new(locked) as Box<dyn Any + Send>))
    }
}

impl consolidated::Disk for Disk {
    fn vfs(&self) -> Option<&str> {
        Some(Disk::vfs(self))
    }

    fn status(&self, path: &Path) -> io::Result<consolidated::FileStatus> {
        let found = self.find(path)?;
        let (number, _) = found.unwrap_or_default();
        // No number is given twice, so it can stand for the birth too.
        let born_ns = number.into();
        let (is_regular, device, names) = (found.is_some(), 1, 1);
        Ok(consolidated::FileStatus { is_regular, device, number, names, born_ns })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.machine().with(name(path)?, EXISTING, |machine, id| machine.sync(id))
    }

    fn sync_folder_of(&self, _path: &Path) -> io::Result<()> {
        self.machine().sync_names().map_err(failed)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.delete(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        Ok(self.take(path)?.map(|locked| Box::new(locked) as Box<dyn Any + Send + Sync>))
    }
}
