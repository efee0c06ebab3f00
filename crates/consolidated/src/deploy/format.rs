//! Which system tables a database has.

use crate::sql::{Sql, Words, number};
use model::{Code, Failure};

/// Whether there are any.
pub(crate) fn is_deployed<Q: Sql>(sql: &mut Q) -> Result<bool, Failure> {
    Ok(!sql.run("look for the system tables", Q::Words::DEPLOYED, &[])?.is_empty())
}

/// Whether there are any; refuses those of another layout (trap 18).
pub(crate) fn is_known<Q: Sql>(sql: &mut Q) -> Result<bool, Failure> {
    if !is_deployed(sql)? {
        return Ok(false);
    }
    let query = "SELECT CAST(value AS text) FROM {}syncline_system WHERE name = 'format'";
    let rows = sql.bookkeep("read the format of the system tables", query, &[])?;
    let format = rows.first().map(|row| number(row, 0)).transpose()?;
    Q::Words::SYSTEM.require(format.unwrap_or_default())?;
    Ok(true)
}

/// Refuses a database without any, too.
pub(crate) fn require<Q: Sql>(sql: &mut Q) -> Result<(), Failure> {
    match is_known(sql)? {
        true => Ok(()),
        false => Err(Failure::new(Code::NotDeployed, "nothing is deployed in this database")),
    }
}
