//! Which entries of the logs are on the disk.
//!
//! The commits of the server are durable before they are sent. Other programs may commit with
//! `synchronous = NORMAL`. Then a commit is in the WAL file and reaches the disk with a later one.
//! The number of such a commit must not be sent to a remote yet: after a power cut it would be
//! assigned again, to a change that the remote would miss (trap 27).
//!
//! Syncing the WAL makes all earlier commits durable; before SQLite copies them to the database
//! file it syncs them. One sync serves all downloads that wait. Where somebody has switched the WAL
//! off, a commit is durable when the end of its journal is.

use crate::disk::Location;
use crate::sqlite::download::watermark::LogMark;
use model::{Code, Failure};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Tables, and where their logs end.
pub(in crate::sqlite) type Ends = Vec<(String, LogMark)>;

/// The VFS, and the path.
type FileName = (Option<String>, PathBuf);

/// Up to where the logs of one database file are known to be on the disk; shared by all
/// connections of the process to that file.
#[derive(Debug)]
pub(in crate::sqlite) struct Durable {
    place: Location,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By table and incarnation of its log.
    ends: HashMap<(String, i64), i64>,
}

/// The files that are open in this process, by the VFS and the path.
static OPEN: Mutex<Vec<(FileName, Weak<Durable>)>> = Mutex::new(Vec::new());

impl Durable {
    /// What is known of this database.
    pub(in crate::sqlite) fn of(place: &Location) -> Arc<Durable> {
        let path = place.disk.canonical(&place.path).unwrap_or_else(|_| place.path.clone());
        let name = (place.disk.vfs().map(str::to_owned), path.clone());
        let mut open = lock(&OPEN);
        open.retain(|(_, durable)| durable.strong_count() > 0);
        let found = open.iter().find(|(known, _)| *known == name);
        if let Some(durable) = found.and_then(|(_, durable)| durable.upgrade()) {
            return durable;
        }
        let place = Location { path, disk: place.disk.clone() };
        let durable = Arc::new(Durable { place, known: Mutex::default() });
        open.push((name, Arc::downgrade(&durable)));
        durable
    }

    /// Notes what a commit has made durable.
    pub(in crate::sqlite) fn note(&self, ends: &Ends) {
        note(&mut lock(&self.known), ends);
    }

    /// Returns when everything up to these ends, which was committed, is on the disk.
    pub(in crate::sqlite) fn ensure(&self, ends: &Ends) -> Result<(), Failure> {
        // Held in the meantime: a second caller finds what the first has made durable.
        let mut known = lock(&self.known);
        let is_known = |(table, end): &(String, LogMark)| {
            let known = known.ends.get(&(table.clone(), end.incarnation));
            end.sequence == 0 || known.is_some_and(|known| *known >= end.sequence)
        };
        if ends.iter().all(is_known) {
            return Ok(());
        }
        if !self.sync("-wal")? && !self.sync("-journal")? {
            // All of it lies in the database file already, but a journal whose removal is not on
            // the disk would take it back.
            let path = &self.place.path;
            self.place.disk.sync_folder_of(path).map_err(|error| failed(path, error))?;
        }
        note(&mut known, ends);
        Ok(())
    }

    /// Syncs a file beside the database; false if there is none.
    fn sync(&self, suffix: &str) -> Result<bool, Failure> {
        let path = self.place.beside(suffix);
        match self.place.disk.sync(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Code::DatabaseDiskFull, format!("cannot sync {}", path.display())).source(error)
}

fn note(known: &mut Known, ends: &Ends) {
    for (table, end) in ends {
        let known = known.ends.entry((table.clone(), end.incarnation)).or_default();
        *known = end.sequence.max(*known);
    }
}

/// What is guarded is whole after every statement, so a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Reader as _;
    use crate::sqlite::{Reader, administer};
    use crate::sync_model::SyncModel;
    use crate::synchronization::FetchRequest;
    use crate::upload::echo::Echo;
    use model::{Counter, RemoteId, UserName};
    use rusqlite::Connection;

    fn end(sequence: i64) -> Ends {
        vec![("t".to_owned(), LogMark { incarnation: 1, sequence })]
    }

    // S2, Trap 27
    #[test]
    fn what_is_not_known_to_be_on_the_disk_is_synced_first() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("c.db");
        let durable = Durable::of(&Location::system(&database));
        durable.ensure(&end(5)).expect("without a WAL file everything lies in the database");
        durable.note(&end(7));
        // What cannot be synced is reported: a folder cannot.
        std::fs::create_dir(folder.path().join("c.db-wal")).unwrap();
        durable.ensure(&end(7)).expect("known, so the file is not asked");
        let failure = durable.ensure(&end(8)).unwrap_err();
        assert_eq!(failure.code(), Code::DatabaseDiskFull);
        // A log that was created again has numbers of its own.
        let anew = vec![("t".to_owned(), LogMark { incarnation: 2, sequence: 1 })];
        durable.ensure(&anew).unwrap_err();
    }

    // S2, Trap 27: a change that another program had committed with synchronous = NORMAL was sent
    // to a remote and lost in a power cut; its number was given out again, and that change was
    // never sent.
    #[test]
    fn a_download_makes_foreign_commits_durable_before_it_tells_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let foreign = Connection::open(&path).unwrap();
        foreign.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY)").unwrap();
        let model = SyncModel::parse("script_version = \"v1\"\n[table.t]", "model.toml").unwrap();
        administer(Location::system(&path)).unwrap().deploy(&[model], false).unwrap();
        let mut reader =
            Reader::open(&Location::system(&path), &crate::Serving::default()).unwrap();
        let (user, remote) = (UserName::new("ann").unwrap(), RemoteId::new("r").unwrap());
        let session = reader.session(&user, Default::default(), &remote, None, &[]).unwrap();
        foreign.execute_batch("PRAGMA synchronous = NORMAL; INSERT INTO t VALUES (1)").unwrap();
        let durable = Durable::of(&Location::system(&path));
        assert_eq!(lock(&durable.known).ends.len(), 0);
        let request = FetchRequest {
            session: &session,
            counter: Counter(1),
            marks: &[],
            held_marks: &[],
            is_counted: false,
            echo: &Echo::default(),
            time_us: None,
            wanted: &[],
            batch_bytes: 1 << 20,
            batch_rows: 100,
            row_bytes_max: u64::MAX,
            resuming: Default::default(),
        };
        reader.fetch(&request, &mut |_| Ok(())).unwrap();
        let known: Vec<i64> = lock(&durable.known).ends.values().copied().collect();
        assert_eq!(known, [1]);
    }
}
