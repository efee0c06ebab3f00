//! Looks rows with conflicts up, and records the conflicts.
//!
//! All rows of an upload may have one. So the statements stay prepared from row to row, and only
//! what differs is bound and spelled again.

use super::attempt::Attempt;
use super::records::{Fetching, Images, Records};
use crate::script::{Event, Script};
use crate::sqlite::binding::{bind_row, bind_sessions};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{failed, script_failed};
use crate::sqlite::values::write_row;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;

impl Attempt<'_> {
    /// The row as it is at the center now.
    pub(in crate::sqlite) fn fetch(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let script = table.required(Event::UploadFetch)?;
        let name = &table.published.name;
        let failing = |error| script_failed(error, name, Event::UploadFetch.name());
        let mut fetching = self.fetching.borrow_mut();
        let statement = match fetching.as_mut().filter(|fetching| fetching.table == *name) {
            Some(fetching) => &mut fetching.statement,
            None => {
                let mut statement = self.connection.prepare_cached(&script.sql).map_err(failing)?;
                bind_sessions(&mut statement, script, self.request.session).map_err(failing)?;
                &mut fetching.insert(Fetching { table: name.clone(), statement }).statement
            }
        };
        bind_row(statement, script, row).map_err(failing)?;
        let mut rows = statement.raw_query();
        let of = (table, row, Event::UploadFetch);
        let found = rows.next().map_err(|error| self.unanswered(error, &script.sql, of))?;
        let Some(found) = found else { return Ok(None) };
        let mut image = Vec::with_capacity(row.bytes.len());
        write_row(&mut image, found, table.published.width()).map_err(failing)?;
        Ok(Some(image))
    }

    /// The row at the center if it certainly is not what the row of the upload expects.
    pub(super) fn foresee(
        &mut self,
        script: &Script,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let expects = matches!(row.change, Change::Update | Change::Delete);
        if !expects || !self.foresight.looks_first() {
            return Ok(None);
        }
        let Some(now) = self.fetch(table, row)? else { return Ok(None) };
        let certain = self.foresight.is_certain(script, table, position, row, &now)?;
        Ok(certain.then_some(now))
    }

    /// Records a conflict with its rows, so that people can look at them later.
    pub(in crate::sqlite) fn record_conflict(
        &mut self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        images: Images<'_>,
    ) -> Result<(), Failure> {
        let noting = failed("note a conflict");
        let records = match &mut self.records {
            Some(records) => records,
            none => {
                none.insert(Records::begin(self.connection, self.request.session).map_err(&noting)?)
            }
        };
        records.add(table, row, images).map_err(&noting)
    }

    /// Writes the records that wait.
    pub(super) fn write_records(&mut self) -> Result<(), Failure> {
        self.records.as_mut().map_or(Ok(()), Records::write).map_err(failed("note a conflict"))
    }
}
