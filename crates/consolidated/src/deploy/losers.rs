//! The table of the user's that keeps the rows that lose conflicts of a table.

use super::schema::{Schema, TablePlanner};
use super::table::{ColumnFacts, TableFacts};
use model::Failure;

impl<S: Schema> TablePlanner<'_, S> {
    /// The statement that keeps a row of these columns that lost, if the model wants that.
    ///
    /// A table that remotes download is refused: whatever an upload writes is taken for its own.
    pub(crate) fn losers(&self, columns: &[String]) -> Result<Option<String>, Failure> {
        let Some(name) = &self.table_model.keep_losers else { return Ok(None) };
        let wrong = |why: &str| Err(self.wrong(&format!("keep_losers names {name}, {why}")));
        let Some((published, losers)) = S::find(self.version.user_tables, name) else {
            return wrong("but there is no such table");
        };
        if self.version.chosen.contains_key(published) {
            return wrong("which is published");
        }
        for column in columns {
            let Some(kept) = losers.column(column).filter(|kept| !kept.is_generated()) else {
                return wrong(&format!("which has no column {column}"));
            };
            if !self.table.column(column).is_some_and(|from| S::can_keep(kept, from)) {
                return wrong(&format!("whose column {column} is of another type"));
            }
        }
        let is_missing = |column: &&<S::Table as TableFacts>::Column| {
            column.must_be_given() && !columns.iter().any(|known| known == column.name())
        };
        match losers.columns().iter().find(is_missing) {
            Some(column) => wrong(&format!(
                "whose column {} is not published, and neither accepts NULL nor has a default",
                column.name()
            )),
            None => Ok(Some(S::keeping(losers, columns))),
        }
    }
}
