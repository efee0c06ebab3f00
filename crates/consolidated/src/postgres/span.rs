//! Which rows of a table a remote is sent: none, the changes, or all.

use super::catalog::Table;
use super::orphans::Digests;
use super::snapshot::Snapshot;
use super::timeline::Timelines;
use super::watermark::{Mark, Place};
use crate::identity::Void;
use crate::script::Parameter;
use crate::synchronization::{DownloadedTable, Session, TableMark};
use model::{Code, Counter, Failure};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashMap;
use std::hash::Hasher;

/// The database at the moment of a download.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) place: Place,
    pub(super) snapshot: Snapshot,
    pub(super) generation: i64,
    /// Which watermarks of this remote count for nothing.
    pub(super) void: Void,
    /// The first transaction whose number may be given out again after a crash.
    pub(super) perishable: u64,
    /// By published name.
    pub(super) logs: HashMap<String, LogState>,
    /// Of tables that have orphans, or whose parents have.
    pub(super) orphans: Digests,
}

/// The state of a table's departure log.
#[derive(Debug, Clone)]
pub(super) struct LogState {
    /// Changes when the table was emptied or its log created again.
    pub(super) incarnation: i64,
    /// Entries of older transactions may have been trimmed.
    pub(super) floor: u64,
    /// The last transaction that wrote without foreign keys.
    pub(super) bypassed: Option<String>,
    /// It is not known yet whether it has left rows without a parent.
    pub(super) loose: bool,
    /// A key has changed that the remote may not have heard of.
    pub(super) keys_changed: bool,
}

/// What of a table is sent, and up to where it is complete then.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) mode: DownloadedTable,
    /// The snapshot of the last download, where only changes are sent.
    pub(super) since: Option<Snapshot>,
    pub(super) until: Mark,
}

impl Moment {
    /// Compares what the remote holds of `table` with the database.
    pub(super) fn span(
        &self,
        table: &Table,
        session: &Session,
        held: Option<&TableMark>,
        timelines: &Timelines,
        counter: Counter,
    ) -> Result<Span, Failure> {
        let published = &table.deployed.published;
        let mut until = Mark {
            place: self.place,
            generation: self.generation,
            counter,
            incarnations: 0,
            claims: 0,
            perishable: self.perishable,
            snapshot: None,
        };
        if !published.direction.downloads() {
            // The mark still carries the counter, which settles what the remote was sent.
            return Ok(Span { mode: DownloadedTable::None, since: None, until });
        }
        let logs = self.logs_of(table)?;
        until.snapshot = Some(self.snapshot.clone());
        until.incarnations = incarnations(&logs, self.orphans.get(&published.name));
        until.claims = claims(table, session);
        let floor = logs.iter().map(|log| log.floor).max().unwrap_or(0);
        let since = held
            .filter(|_| !table.deployed.details.afresh)
            .filter(|held| held.fingerprint == published.fingerprint)
            .and_then(|held| Mark::read(held.watermark.as_ref()?))
            .filter(|mark| mark.incarnations == until.incarnations && mark.claims == until.claims)
            .filter(|mark| self.is_past(mark, timelines, counter))
            .and_then(what_it_shows)
            .filter(|shown| shown.xmin >= floor);
        let mode = match since {
            Some(_) => DownloadedTable::Changes,
            None => DownloadedTable::Refresh,
        };
        Ok(Span { mode, since, until })
    }

    /// Whether the mark is of the past of this database.
    pub(super) fn is_past(&self, mark: &Mark, timelines: &Timelines, now: Counter) -> bool {
        mark.generation == self.generation
            && self.void.leaves(mark.counter, now)
            && timelines.prove(mark)
    }

    /// Whether the mark is void only because the remote alone is compared.
    pub(super) fn is_of_void(&self, mark: &Mark, now: Counter) -> bool {
        mark.generation == self.generation && !self.void.leaves(mark.counter, now)
    }

    /// The logs of the table and of those that decide which of its rows a remote has.
    fn logs_of(&self, table: &Table) -> Result<Vec<LogState>, Failure> {
        let own = &table.deployed.published.name;
        let others = table.deployed.details.depends_on.iter().filter(|name| *name != own);
        let logs = std::iter::once(own).chain(others).map(|name| {
            self.logs
                .get(name)
                .cloned()
                .ok_or_else(|| Failure::new(Code::Drift, format!("table {name} has no log")))
        });
        logs.collect()
    }
}

/// The snapshot of the remote's last download, as the remote presents it.
pub(super) fn shown(held: &TableMark) -> Option<Snapshot> {
    what_it_shows(Mark::read(held.watermark.as_ref()?)?)
}

fn what_it_shows(mark: Mark) -> Option<Snapshot> {
    Some(mark.snapshot?.below(mark.perishable))
}

fn incarnations(logs: &[LogState], orphans: Option<&u64>) -> u64 {
    let mut hasher = SipHasher13::new();
    for log in logs {
        hasher.write_i64(log.incarnation);
    }
    orphans.into_iter().for_each(|digest| hasher.write_u64(*digest));
    hasher.finish128().h1
}

/// The selection and the values of this user that it depends on.
pub(super) fn claims(table: &Table, session: &Session) -> u128 {
    let mut hasher = SipHasher13::new();
    let mut add = |text: Option<&str>| match text {
        None => hasher.write_u8(0),
        Some(text) => {
            hasher.write_u8(1);
            hasher.write_u64(text.len() as u64);
            hasher.write(text.as_bytes());
        }
    };
    add(Some(&table.deployed.details.selection));
    for parameter in &table.claims {
        match parameter {
            Parameter::Claim(name) => add(Some(name)),
            other => add(Some(&format!("{other:?}"))),
        }
        add(session_value(parameter, session));
    }
    hasher.finish128().as_u128()
}

/// The value of a parameter that is the same for all rows.
pub(super) fn session_value<'a>(parameter: &Parameter, session: &'a Session) -> Option<&'a str> {
    match parameter {
        Parameter::RemoteId => Some(session.remote_id.as_str()),
        Parameter::Username => Some(session.user.as_str()),
        Parameter::ScriptVersion => Some(session.script_version.as_str()),
        Parameter::Claim(name) => session.claims.get(name).map(String::as_str),
        Parameter::LastDownload
        | Parameter::LastDownloadOf(_)
        | Parameter::LastUpload
        | Parameter::UploadedFirst
        | Parameter::UploadedLast
        | Parameter::New(_)
        | Parameter::Old(_) => None,
    }
}
