//! Which entries of the logs are on the disk.
//!
//! The commits of the server are durable before they are sent. Other programs may commit with
//! `synchronous = NORMAL`. Then a commit is in the WAL file and reaches the disk with a later one.
//! The number of such a commit must not be sent to a remote yet: after a power cut it would be
//! assigned again, to a change that the remote would miss (trap 27).
//!
//! Syncing the WAL makes all earlier commits durable; before SQLite copies them to the database
//! file it syncs them. One sync serves all downloads that wait.

use super::watermark::LogMark;
use model::{Code, Failure};
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Tables, and where their logs end.
pub(super) type Ends = Vec<(String, LogMark)>;

/// Up to where the logs of one database file are known to be on the disk; shared by all
/// connections of the process to that file.
#[derive(Debug)]
pub(super) struct Durable {
    wal: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By table and incarnation of its log.
    ends: HashMap<(String, i64), i64>,
}

/// The files that are open in this process.
static OPEN: Mutex<Vec<(PathBuf, Weak<Durable>)>> = Mutex::new(Vec::new());

impl Durable {
    /// What is known of this database.
    pub(super) fn of(database: &Path) -> Arc<Durable> {
        let path = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let mut open = lock(&OPEN);
        open.retain(|(_, durable)| durable.strong_count() > 0);
        let found = open.iter().find(|(known, _)| *known == path);
        if let Some(durable) = found.and_then(|(_, durable)| durable.upgrade()) {
            return durable;
        }
        let mut wal = path.clone().into_os_string();
        wal.push("-wal");
        let durable = Arc::new(Durable { wal: wal.into(), known: Mutex::default() });
        open.push((path, Arc::downgrade(&durable)));
        durable
    }

    /// Notes what a commit has made durable.
    pub(super) fn note(&self, ends: &Ends) {
        note(&mut lock(&self.known), ends);
    }

    /// Returns when everything up to these ends, which was committed, is on the disk.
    pub(super) fn ensure(&self, ends: &Ends) -> Result<(), Failure> {
        // Held in the meantime: a second caller finds what the first has made durable.
        let mut known = lock(&self.known);
        let is_known = |(table, end): &(String, LogMark)| {
            let known = known.ends.get(&(table.clone(), end.incarnation));
            end.sequence == 0 || known.is_some_and(|known| *known >= end.sequence)
        };
        if ends.iter().all(is_known) {
            return Ok(());
        }
        match File::options().read(true).write(true).open(&self.wal) {
            Ok(wal) => wal.sync_data().map_err(|error| self.failed("sync", error))?,
            // All of it lies in the database file already.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(self.failed("open", error)),
        }
        note(&mut known, ends);
        Ok(())
    }

    fn failed(&self, doing: &str, error: std::io::Error) -> Failure {
        let message = format!("cannot {doing} {}", self.wal.display());
        Failure::new(Code::DatabaseDiskFull, message).source(error)
    }
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
    use crate::connection::{Administration, Reader as _};
    use crate::echo::Echo;
    use crate::sqlite::{Admin, Reader};
    use crate::sync_model::SyncModel;
    use crate::synchronization::FetchRequest;
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
        let durable = Durable::of(&database);
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
        Admin::open(&path).unwrap().deploy(&[model], false).unwrap();
        let mut reader = Reader::open(&path, &crate::Serving::default()).unwrap();
        let (user, remote) = (UserName::new("ann").unwrap(), RemoteId::new("r").unwrap());
        let session = reader.session(&user, Default::default(), &remote, None, &[]).unwrap();
        foreign.execute_batch("PRAGMA synchronous = NORMAL; INSERT INTO t VALUES (1)").unwrap();
        let durable = Durable::of(&path);
        assert_eq!(lock(&durable.known).ends.len(), 0);
        let request = FetchRequest {
            session: &session,
            counter: Counter(1),
            marks: &[],
            key_changes: false,
            echo: &Echo::default(),
            batch_bytes: 1 << 20,
            batch_rows: 100,
            row_bytes_max: u64::MAX,
        };
        reader.fetch(&request, &mut |_| Ok(())).unwrap();
        let known: Vec<i64> = lock(&durable.known).ends.values().copied().collect();
        assert_eq!(known, [1]);
    }
}
