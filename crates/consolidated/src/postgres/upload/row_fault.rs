//! What the database says about one row, by the code of its error.

use crate::postgres::errors::Fault;
use crate::postgres::upload::batch::Reason;
use crate::upload::reason::DatabaseFault;
use model::Code;

/// What is wrong with one row.
#[derive(Debug, Clone)]
pub(in crate::postgres) enum RowFault {
    /// Another row has a value that must be unique, perhaps the key.
    NotUnique(Reason),
    /// It refers to a row that is not there, or others refer to it.
    References(Reason),
    Refused(Reason),
}

impl RowFault {
    /// Why the row is rejected, where nothing else can be done about it.
    pub(in crate::postgres) fn into_reason(self) -> Reason {
        let (RowFault::NotUnique(reason)
        | RowFault::References(reason)
        | RowFault::Refused(reason)) = self;
        reason
    }
}

/// Whether it met another transaction.
pub(in crate::postgres) fn may_collide(fault: &Fault) -> bool {
    matches!(fault.sqlstate(), Some("40001" | "40P01"))
}

/// Whether doing it again row by row can help.
pub(in crate::postgres) fn may_be_a_row(fault: &Fault) -> bool {
    row_fault(fault).is_some()
}

/// Whether a value is there already that must be unique, perhaps a key.
pub(in crate::postgres) fn is_not_unique(fault: &Fault) -> bool {
    matches!(row_fault(fault), Some(RowFault::NotUnique(_)))
}

/// What is wrong with the row that a statement was run for; none if nothing is wrong with it.
pub(in crate::postgres) fn row_fault(fault: &Fault) -> Option<RowFault> {
    let said = fault.db()?;
    let state = said.state();
    let reason = |code| {
        let fault = DatabaseFault::new(state, None);
        Reason::said(code, said.message().to_owned(), fault)
    };
    let refused = |code| Some(RowFault::Refused(reason(code)));
    match state {
        "23505" | "23P01" => Some(RowFault::NotUnique(reason(Code::RowNotUnique))),
        "23503" | "23001" => Some(RowFault::References(reason(Code::RowReferences))),
        // 54000: an index entry that is too large; 54001: a value that is nested too deep; 44000: a
        // view's check option.
        "54000" | "54001" | "44000" => refused(Code::RowRefused),
        // The row is not one that the policies of the table admit. Every other missing privilege
        // is the database owner's to mend, and no row's fault.
        _ if said.is_row_security() => refused(Code::RowRefused),
        // Whatever a function raises by itself.
        state if state.starts_with("P0") => refused(Code::RowVetoed),
        state if state.starts_with("22") || state.starts_with("23") => refused(Code::RowRefused),
        state if is_unassigned(state) => refused(Code::RowVetoed),
        _ => None,
    }
}

/// Logs at the center what PostgreSQL adds to its message, which quotes rows and columns that the
/// remote must not see. Tells whether there was any.
pub(in crate::postgres) fn log_detail(fault: &Fault, table: &str) -> bool {
    let Some(said) = fault.db() else { return false };
    let Some(detail) = said.detail() else { return false };
    tracing::info!(table, state = said.state(), %detail, "PostgreSQL on a row");
    true
}

/// A state that only people invent: PostgreSQL's own classes are below.
fn is_unassigned(state: &str) -> bool {
    const CLASSES: [&str; 41] = [
        "00", "01", "02", "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "20", "21", "22",
        "23", "24", "25", "26", "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F",
        "40", "42", "44", "53", "54", "55", "57", "58", "72", "F0", "HV",
    ];
    let class = state.get(..2).unwrap_or_default();
    !(CLASSES.contains(&class) || matches!(class, "P0" | "XX"))
}
