//! Prepares the next synchronization to bring the rows that differ.
//!
//! A few are named in its Hello. Where there are more, the watermark of their table is forgotten,
//! so that all of it is downloaded. Either way they come in an ordinary download, which never
//! overwrites a pending change.

use super::verification::Verification;
use crate::Remote;
use crate::connection::{begin_immediate, explain};
use crate::schema::history::History;
use crate::schema::stored_tables;
use model::Failure;
use protocol::{WANTED_ROWS_MAX, WantedRow};

impl Remote {
    /// Has the next synchronization download again what a comparison has found. Returns the tables
    /// that it downloads as a whole, because too many of their rows differ. Pending changes are
    /// uploaded before, and are not overwritten.
    pub fn repair(&mut self, verification: &Verification) -> Result<Vec<String>, Failure> {
        let (mut wanted, mut whole) = (Vec::new(), Vec::new());
        for table in &verification.tables {
            let differs = table.missing + table.extra + table.different > 0;
            match &table.wanted {
                Some(keys) if wanted.len() + keys.len() <= WANTED_ROWS_MAX => {
                    let row = |key: &Vec<u8>| WantedRow { table: table.position, key: key.clone() };
                    wanted.extend(keys.iter().map(row));
                }
                _ if differs => whole.push(table),
                _ => {}
            }
        }
        forget_watermarks(self, whole.iter().map(|table| table.position).collect())?;
        self.wanted = wanted;
        Ok(whole.into_iter().map(|table| table.name.clone()).collect())
    }
}

/// What the rows were received with is kept beside, until they are compared.
fn forget_watermarks(remote: &Remote, positions: Vec<u16>) -> Result<(), Failure> {
    if positions.is_empty() {
        return Ok(());
    }
    let transaction = begin_immediate(&remote.connection)?;
    let mut history = History::read(&transaction)?;
    let stored = stored_tables(&transaction)?;
    for position in positions {
        if let Some(stored) = stored.get(usize::from(position)) {
            history.keep_watermark(stored);
        }
        let sql = "UPDATE syncline_table SET watermark = NULL WHERE position = ?1";
        transaction.execute(sql, [position]).map_err(explain)?;
    }
    history.write(&transaction)?;
    transaction.commit().map_err(explain)
}
