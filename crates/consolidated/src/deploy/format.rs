//! Which system tables a database has.

use super::system_tables::SystemColumns;
use crate::sql::{Sql, Words, number, text};
use model::{Code, Failure};

/// Whether there are any.
pub(crate) fn is_deployed<Q: Sql>(sql: &mut Q) -> Result<bool, Failure> {
    Ok(!sql.run("look for the system tables", Q::Words::DEPLOYED, &[])?.is_empty())
}

/// Their layout, if there are any.
pub(crate) fn read<Q: Sql>(sql: &mut Q) -> Result<Option<i64>, Failure> {
    if !is_deployed(sql)? {
        return Ok(None);
    }
    let query = "SELECT CAST(value AS text) FROM {}syncline_system WHERE name = 'format'";
    let rows = sql.bookkeep("read the format of the system tables", query, &[])?;
    rows.first().map(|row| number(row, 0)).transpose()
}

/// Refuses those that a newer program made (trap 18).
pub(crate) fn require_known<Q: Sql>(sql: &mut Q) -> Result<(), Failure> {
    read(sql)?.map_or(Ok(()), |format| Q::Words::SYSTEM.require_known(format))
}

/// Refuses those of an older program too, and a database without any.
pub(crate) fn require_own<Q: Sql>(sql: &mut Q) -> Result<(), Failure> {
    let nothing = || Failure::new(Code::NotDeployed, "nothing is deployed in this database");
    Q::Words::SYSTEM.require_own(read(sql)?.ok_or_else(nothing)?)
}

/// The columns that they have.
pub(crate) fn columns<Q: Sql>(sql: &mut Q) -> Result<SystemColumns, Failure> {
    let rows = sql.run("describe the system tables", Q::Words::COLUMNS, &[])?;
    Ok(rows.iter().map(|row| (text(row, 0), text(row, 1))).collect())
}
