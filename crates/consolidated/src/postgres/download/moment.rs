//! The state of the database by which a download is judged.

use crate::download::range::{self, DownloadTable};
use crate::download::time::Time;
use crate::identity::Void;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::key_order;
use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::download::timeline::Timelines;
use crate::postgres::download::watermark::{Mark, NumberSpace, Point};
use crate::script::{Event, Parameter, Script};
use crate::synchronization::{Session, TableMark};
use model::{Code, Failure, PublishedTable};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;

/// The database at the moment of a download.
#[derive(Debug)]
pub(in crate::postgres) struct Moment {
    pub(in crate::postgres) space: NumberSpace,
    pub(in crate::postgres) snapshot: Snapshot,
    pub(in crate::postgres) generation: i64,
    /// Which watermarks of this remote count for nothing.
    pub(in crate::postgres) void: Void,
    /// The first transaction whose number may be given out again after a crash.
    pub(in crate::postgres) perishable: u64,
    /// A time before everything that the snapshot does not show; none where that is not known.
    pub(in crate::postgres) time: Option<Time>,
    /// By published name.
    pub(in crate::postgres) logs: HashMap<String, LogState>,
    /// Of tables that have orphans, or whose parents have.
    pub(in crate::postgres) orphans: Digests,
}

/// Digests by published name of a table, of those that have any or whose parents have.
pub(in crate::postgres) type Digests = HashMap<String, u64>;

/// The state of a table's departure log.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct LogState {
    /// Changes when the table was emptied or its log created again.
    pub(in crate::postgres) incarnation: i64,
    /// Entries of older transactions may have been trimmed.
    pub(in crate::postgres) floor: u64,
    /// The last transaction that wrote without foreign keys.
    pub(in crate::postgres) bypassed: Option<String>,
    /// It is not known yet whether it has left rows without a parent.
    pub(in crate::postgres) loose: bool,
}

/// Which rows of a table are sent; changes are sent since the snapshot of the last download.
pub(in crate::postgres) type DownloadRange = range::DownloadRange<Point, Snapshot>;

impl Moment {
    /// The logs of the table and of those that decide which of its rows a remote has.
    fn logs_of(&self, table: &Table) -> Result<Vec<&LogState>, Failure> {
        let own = &table.deployed.published.name;
        let others = table.deployed.details.depends_on.iter().filter(|name| *name != own);
        let logs = std::iter::once(own).chain(others).map(|name| {
            let log = self.logs.get(name);
            log.ok_or_else(|| Failure::new(Code::Drift, format!("table {name} has no log")))
        });
        logs.collect()
    }
}

/// The database at a moment, and what it was before.
pub(in crate::postgres) struct Witness<'a> {
    pub(in crate::postgres) moment: &'a Moment,
    pub(in crate::postgres) timelines: &'a Timelines,
}

impl range::Moment for Witness<'_> {
    type Table = Table;
    type Point = Point;
    type Since = Snapshot;
    /// Entries of older transactions may have been trimmed.
    type Floor = u64;

    fn generation(&self) -> i64 {
        self.moment.generation
    }

    fn void(&self) -> Void {
        self.moment.void
    }

    fn proves(&self, mark: &Mark) -> bool {
        self.timelines.prove(mark)
    }

    fn time(&self) -> Option<Time> {
        self.moment.time
    }

    fn nowhere(&self) -> Point {
        let Moment { space, perishable, .. } = *self.moment;
        Point { space, perishable, incarnations: 0, snapshot: None }
    }

    fn now(&self, table: &Table) -> Result<(Point, u64), Failure> {
        let logs = self.moment.logs_of(table)?;
        let orphans = self.moment.orphans.get(&table.deployed.published.name);
        let point = Point {
            incarnations: incarnations(&logs, orphans),
            snapshot: Some(self.moment.snapshot.clone()),
            ..self.nowhere()
        };
        Ok((point, logs.iter().map(|log| log.floor).max().unwrap_or(0)))
    }

    fn since(&self, held: Point, now: &Point, floor: &u64) -> Option<Snapshot> {
        let same = held.incarnations == now.incarnations;
        what_it_shows(held).filter(|shown| same && shown.xmin >= *floor)
    }
}

impl DownloadTable for Table {
    fn published(&self) -> &PublishedTable {
        &self.deployed.published
    }

    fn scripts(&self) -> &BTreeMap<Event, Script> {
        self.deployed.scripts()
    }

    fn has_custom_selection(&self) -> bool {
        self.deployed.details.afresh
    }

    fn selection_claims(&self, session: &Session) -> Result<u128, Failure> {
        Ok(claims(self, session))
    }

    fn generated_cursors(&self) -> Option<&String> {
        self.deployed.details.cursors.as_ref()
    }

    fn is_kept_by_refresh(&self) -> bool {
        self.deployed.details.kept_by_refresh
    }

    fn has_key_order(&self) -> bool {
        key_order::exists(self)
    }

    fn can_compare(&self, key: &[u8]) -> bool {
        key_order::takes(key, self)
    }
}

/// The snapshot of the remote's last download, as the remote presents it.
pub(in crate::postgres) fn shown(held: &TableMark) -> Option<Snapshot> {
    what_it_shows(Mark::held(held)?.point)
}

fn what_it_shows(point: Point) -> Option<Snapshot> {
    Some(point.snapshot?.below(point.perishable))
}

fn incarnations(logs: &[&LogState], orphans: Option<&u64>) -> u64 {
    let mut hasher = SipHasher13::new();
    for log in logs {
        hasher.write_i64(log.incarnation);
    }
    orphans.into_iter().for_each(|digest| hasher.write_u64(*digest));
    hasher.finish128().h1
}

/// The selection and the values of this user that it depends on.
fn claims(table: &Table, session: &Session) -> u128 {
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
        add(session.value_of(parameter));
    }
    hasher.finish128().as_u128()
}
