//! Deployed objects that are no longer what was deployed.

use super::{Finding, Severity, table_gone};
use std::collections::BTreeSet;

/// An object of a deployment that is not as it was deployed.
pub(crate) struct Strayed {
    /// `TABLE`, `TRIGGER` and so on.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The user's table that it belongs to, if any.
    pub(crate) table: Option<String>,
    /// That table is not there.
    pub(crate) table_is_gone: bool,
    /// It is not there; otherwise it was changed.
    pub(crate) is_missing: bool,
}

/// One finding for each, and one for a table that is gone with all that belongs to it.
pub(crate) fn findings(strayed: impl IntoIterator<Item = Strayed>) -> Vec<Finding> {
    let (mut findings, mut gone) = (Vec::new(), BTreeSet::new());
    for object in strayed {
        if let Some(table) = object.table.as_ref().filter(|_| object.table_is_gone) {
            if gone.insert(table.clone()) {
                findings.push(table_gone(table.clone()));
            }
            continue;
        }
        let fault = if object.is_missing { "is missing" } else { "was changed" };
        let of = object.table.as_ref().map_or(String::new(), |table| format!(" of {table}"));
        let (kind, name) = (object.kind.to_lowercase(), object.name);
        findings.push(Finding {
            severity: Severity::Error,
            message: format!("the {kind} {name}{of} {fault}: changes may be missed"),
            table: object.table,
        });
    }
    findings
}
