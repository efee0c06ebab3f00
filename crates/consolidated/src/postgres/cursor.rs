//! The values of a download's parameters.

use super::owed::KeyArray;
use super::snapshot::{Snapshot, Xid8};
use super::span::session_value;
use super::statement::Slot;
use crate::script::Parameter;
use crate::synchronization::Session;
use postgres_types::ToSql;

/// The value of a parameter.
pub(super) enum Value<'a> {
    Text(Option<&'a str>),
    Snapshot(Option<&'a Snapshot>),
    Number(Xid8),
    Keys(KeyArray),
}

impl Value<'_> {
    pub(super) fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Value::Text(text) => text,
            Value::Snapshot(snapshot) => snapshot,
            Value::Number(number) => number,
            Value::Keys(keys) => keys,
        }
    }
}

/// All values of a statement, as the connection wants them.
pub(super) fn as_parameters<'v>(values: &'v [Value<'_>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(Value::as_parameter).collect()
}

/// Where values come from that are the same for all rows of a table.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) session: &'a Session,
    /// The last download, where only changes are sent.
    pub(super) since: Option<&'a Snapshot>,
    /// The transaction that the remote need not be sent.
    pub(super) own_upload: Xid8,
}

impl<'a> Source<'a> {
    pub(super) fn value(&self, slot: &Slot) -> Value<'a> {
        match slot {
            Slot::Session(Parameter::LastDownload) => Value::Snapshot(self.since),
            Slot::Session(Parameter::LastUpload) => Value::Number(self.own_upload),
            Slot::Session(parameter) => Value::Text(session_value(parameter, self.session)),
            // There is no row.
            Slot::New(_) | Slot::Old(_) | Slot::NewColumn(_) | Slot::OldColumn(_) => {
                Value::Text(None)
            }
        }
    }
}
