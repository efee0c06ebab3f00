//! Which system tables a database has.

use crate::sql::{Sql, Words, number};
use model::{Code, Failure};

/// Whether there are any.
pub(crate) fn is_deployed<Q: Sql>(sql: &mut Q) -> Result<bool, Failure> {
    Ok(!sql.run("look for the system tables", Q::Words::DEPLOYED, &[])?.is_empty())
}

/// Whether there are any; refuses those of another layout (trap 18), but for the one before.
pub(crate) fn is_known<Q: Sql>(sql: &mut Q) -> Result<bool, Failure> {
    let format = read(sql)?;
    format.map_or(Ok(()), |format| Q::Words::SYSTEM.require_known(format))?;
    Ok(format.is_some())
}

/// Refuses a database without any, and one with those of another layout.
pub(crate) fn require<Q: Sql>(sql: &mut Q) -> Result<(), Failure> {
    let missing = || Failure::new(Code::NotDeployed, "nothing is deployed in this database");
    Q::Words::SYSTEM.require(read(sql)?.ok_or_else(missing)?)
}

/// The statements that bring the layout before to the one of this program.
pub(crate) fn upgrade<Q: Sql>(sql: &mut Q) -> Result<Vec<String>, Failure> {
    let system = Q::Words::SYSTEM;
    if !read(sql)?.is_some_and(|format| system.is_former(format)) {
        return Ok(Vec::new());
    }
    let (table, format) = (Q::Words::PREFIX, system.format);
    let number =
        format!("UPDATE {table}syncline_system SET value = '{format}' WHERE name = 'format'");
    Ok(system.upgrade().into_iter().chain([number]).collect())
}

fn read<Q: Sql>(sql: &mut Q) -> Result<Option<i64>, Failure> {
    if !is_deployed(sql)? {
        return Ok(None);
    }
    let query = "SELECT CAST(value AS text) FROM {}syncline_system WHERE name = 'format'";
    let rows = sql.bookkeep("read the format of the system tables", query, &[])?;
    rows.first().map_or(Ok(Some(0)), |row| number(row, 0).map(Some))
}
