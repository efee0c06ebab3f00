//! Values of a script's parameters, bound to its statement.

use super::values::Bind;
use crate::script::{Parameter, Script};
use crate::synchronization::Session;
use crate::upload::uploaded_row::UploadedRow;
use rusqlite::Statement;

/// Binds every parameter of `script`.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    bind_sessions(statement, script, session)?;
    bind_row(statement, script, row)
}

/// Binds what is the same for all rows: it stays bound from row to row.
pub(super) fn bind_sessions(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        if !matches!(parameter, Parameter::New(_) | Parameter::Old(_)) {
            bind_session(statement, index + 1, parameter, session)?;
        }
    }
    Ok(())
}

/// Binds what differs from row to row.
pub(super) fn bind_row(
    statement: &mut Statement<'_>,
    script: &Script,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::New(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.new[*column]))?
            }
            Parameter::Old(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.old[*column]))?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Binds a parameter that is the same for all rows.
pub(super) fn bind_session(
    statement: &mut Statement<'_>,
    index: usize,
    parameter: &Parameter,
    session: &Session,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(index, session.value_of(parameter))
}
