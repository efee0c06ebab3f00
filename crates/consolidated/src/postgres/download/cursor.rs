//! The values of a download's parameters.

use crate::postgres::download::owed::KeyArray;
use crate::postgres::download::snapshot::{Snapshot, Xid8};
use crate::postgres::statement::Slot;
use crate::script::Parameter;
use crate::synchronization::Session;
use postgres_types::ToSql;

/// What other cursors read is for the planner to decide, again each time (decision 0011).
pub(in crate::postgres) const FOR_SCRIPTS: [&str; 2] = [
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
        set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true)",
    "SET LOCAL max_parallel_workers_per_gather TO DEFAULT",
];

/// The value of a parameter.
pub(in crate::postgres) enum Value<'a> {
    Text(Option<&'a str>),
    Snapshot(Option<&'a Snapshot>),
    Number(Xid8),
    Keys(KeyArray),
}

impl Value<'_> {
    pub(in crate::postgres) fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Value::Text(text) => text,
            Value::Snapshot(snapshot) => snapshot,
            Value::Number(number) => number,
            Value::Keys(keys) => keys,
        }
    }
}

/// All values of a statement, as the connection wants them.
pub(in crate::postgres) fn as_parameters<'v>(
    values: &'v [Value<'_>],
) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(Value::as_parameter).collect()
}

/// Where values come from that are the same for all rows of a table.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Source<'a> {
    pub(in crate::postgres) session: &'a Session,
    /// The last download, where only changes are sent.
    pub(in crate::postgres) since: Option<&'a Snapshot>,
    /// The transaction that the remote need not be sent.
    pub(in crate::postgres) own_upload: Xid8,
}

impl<'a> Source<'a> {
    pub(in crate::postgres) fn value(&self, slot: &Slot) -> Value<'a> {
        match slot {
            Slot::Session(Parameter::LastDownload) => Value::Snapshot(self.since),
            Slot::Session(Parameter::LastUpload) => Value::Number(self.own_upload),
            Slot::Session(parameter) => Value::Text(self.session.value_of(parameter)),
            // There is no row.
            Slot::New(_)
            | Slot::Old(_)
            | Slot::NewColumn(_)
            | Slot::OldColumn(_)
            | Slot::Bound(..) => Value::Text(None),
        }
    }
}
