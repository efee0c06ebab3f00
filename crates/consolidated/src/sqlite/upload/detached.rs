//! Rows that refer to nothing while the value that they refer to passes from one row to another.

use super::super::errors::script_failed;
use super::attempt::{Attempt, Stop};
use crate::script::Event;
use crate::sqlite::deploy::tables;
use crate::synchronization::change::Change;
use crate::upload::detached::{self, DetachedRows, Reference};
use crate::upload::uploaded_row::UploadedRow;
use model::{Code, Failure, PublishedTable};

impl Attempt<'_> {
    /// Detaches rows before the deletes, where one that was deleted may be waited for.
    pub(super) fn detach(&mut self) -> Result<(), Stop> {
        if self.waiting_rows.is_empty() {
            return Ok(());
        }
        let references = self.references()?;
        let published: Vec<&PublishedTable> =
            self.tables.iter().map(|table| &table.published).collect();
        let found = detached::find(&references, &published, self.request.batches, self.spills)?;
        let mut found = found.reader();
        while let Some(row) = found.next_row()? {
            // One that lost, or cannot refer to nothing, is what the database makes of it.
            if let Ok(1..) = self.refer(row.table, &row.away)? {
                self.detached.push(&row)?;
            }
        }
        Ok(())
    }

    /// Attaches them, now that the value is another row's.
    pub(super) fn attach(&mut self) -> Result<(), Stop> {
        let none = DetachedRows::within(self.spills);
        let all = std::mem::replace(&mut self.detached, none);
        let mut all = all.reader();
        while let Some(detached) = all.next_row()? {
            if let Err(message) = self.refer(detached.table, &detached.back)? {
                let table = self.tables[detached.table].clone();
                let mut row = UploadedRow::default();
                row.read(&detached.row, detached.change, table.published.width())?;
                self.reject(&table, detached.table, &row, (Code::RowReferences, message))?;
            }
        }
        Ok(())
    }

    /// Runs an update of references, and says how many rows it changed.
    fn refer(&mut self, position: usize, bytes: &[u8]) -> Result<Result<usize, String>, Stop> {
        let (table, event) = (self.tables[position].clone(), Event::UploadUpdate);
        let mut row = UploadedRow::default();
        row.read(bytes, Change::Update, table.published.width())?;
        let script = table.required(event)?;
        let failing = |error| script_failed(error, &table.published.name, event.name());
        let mut statement = self.connection.prepare_cached(&script.sql).map_err(failing)?;
        super::bind_sessions(&mut statement, script, self.request.session).map_err(failing)?;
        super::bind_row(&mut statement, script, &row).map_err(failing)?;
        let changes = self.execute(&mut statement, &script.sql, (&table, &row, event))?;
        if let Ok(changes) = changes {
            self.changed(position, changes);
        }
        Ok(changes.map_err(|(_, message)| message))
    }

    /// The foreign keys between the tables of the upload.
    pub(in super::super) fn references(&self) -> Result<Vec<Reference>, Failure> {
        let user_tables = tables::read(self.connection)?;
        let published = |at: usize| &self.tables[at].published;
        let at = |name: &str| self.tables.iter().position(|table| table.published.name == name);
        let place = |table: usize, name: &String| {
            published(table).columns.iter().position(|column| column == name)
        };
        let mut references = Vec::new();
        for child in 0..self.tables.len() {
            let keys = user_tables.get(&published(child).name).map(|table| &table.foreign_keys);
            for key in keys.into_iter().flatten() {
                let Some(parent) = at(&key.parent) else { continue };
                let columns = key.columns.iter().map(|(from, _)| place(child, from)).collect();
                let referred = key.columns.iter().map(|(_, to)| place(parent, to)).collect();
                if let (Some(columns), Some(referred)) = (columns, referred) {
                    references.push(Reference { child, columns, parent, referred });
                }
            }
        }
        Ok(references)
    }
}
