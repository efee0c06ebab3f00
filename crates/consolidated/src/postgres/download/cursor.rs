//! The statements of a download, and the values of their parameters.

use crate::download::batches::{Kind, Part};
use crate::download::time::Times;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::owed;
use crate::postgres::download::snapshot::{Snapshot, Xid8};
use crate::postgres::statement::{Slot, Statement, Value};
use crate::script::{Event, Parameter};
use crate::synchronization::Session;
use model::Failure;
use std::borrow::Cow;

/// What other cursors read is for the planner to decide, again each time (decision 0011).
pub(in crate::postgres) const FOR_SCRIPTS: [&str; 2] = [
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
        set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true)",
    "SET LOCAL max_parallel_workers_per_gather TO DEFAULT",
];

/// Where values come from that are the same for all rows of a table.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Source<'a> {
    pub(in crate::postgres) session: &'a Session,
    /// The last download, where only changes are sent.
    pub(in crate::postgres) since: Option<&'a Snapshot>,
    /// The transaction that the remote need not be sent.
    pub(in crate::postgres) own_upload: Xid8,
    pub(in crate::postgres) times: Times,
}

impl<'a> Source<'a> {
    pub(in crate::postgres) fn value(&self, slot: &Slot) -> Value<'a> {
        match slot {
            Slot::Session(Parameter::Watermark) => Box::new(self.since),
            Slot::Session(Parameter::LastUpload) => Box::new(self.own_upload),
            Slot::Session(Parameter::LastDownload) => Box::new(self.times.oldest),
            Slot::Session(Parameter::LastTableDownload) => Box::new(self.times.table),
            Slot::Session(parameter) => Box::new(self.session.value_of(parameter)),
            // There is no row.
            Slot::New(_)
            | Slot::Old(_)
            | Slot::NewColumn(_)
            | Slot::OldColumn(_)
            | Slot::Bound(..) => Box::new(None::<&str>),
        }
    }
}

/// A statement of the second flight, and what its rows are.
pub(super) struct Cursor<'a> {
    pub(super) event: Event,
    pub(super) statement: Cow<'a, Statement>,
    pub(super) source: Source<'a>,
    /// The keys between which its rows lie.
    pub(super) bounds: [Option<&'a [u8]>; 2],
    pub(super) part: Part,
}

impl Cursor<'_> {
    /// Whether it is sent when the answers of those before it are there.
    pub(super) fn waits(&self) -> bool {
        self.part.kind == Kind::Owed && self.part.meets_owed
    }

    /// For a table that is sent as a whole, a new plan is better than the kept one.
    pub(super) fn keeps_plan(&self) -> bool {
        self.statement.keeps_plan && !self.part.refreshed
    }

    /// Its parameters. Where there is a `session`, it knows what scripts have set.
    pub(super) fn values<'v>(
        &'v self,
        table: &Table,
        keys: &[Vec<u8>],
        session: Option<&'v Session>,
    ) -> Result<Vec<Value<'v>>, Failure> {
        let source = Source { session: session.unwrap_or(self.source.session), ..self.source };
        let values = self.statement.slots.iter().map(|slot| match slot {
            Slot::NewColumn(column) | Slot::OldColumn(column) => {
                let keys = keys.iter().map(Vec::as_slice);
                Ok(Box::new(owed::key_array(keys, table, *column)?) as Value<'v>)
            }
            Slot::Bound(which, column) => {
                let key = self.bounds[*which].into_iter();
                Ok(Box::new(owed::key_array(key, table, *column)?) as Value<'v>)
            }
            _ => Ok(source.value(slot)),
        });
        values.collect()
    }
}
