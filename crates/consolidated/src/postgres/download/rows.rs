//! Turns the rows of cursors into compact rows, as they arrive.

use crate::download::Sink;
use crate::download::batches::{Batches, Kind, Part};
use crate::download::owed::{OwedKeys, Page};
use crate::postgres::catalog::table::Table;
use crate::postgres::link::RowRef;
use crate::postgres::values::{ColumnType, Reading};
use crate::synchronization::{FetchRequest, Fetched};
use model::{Code, Failure};
use std::sync::Arc;

/// A download under way.
pub(in crate::postgres) struct Download<'a, 's> {
    tables: &'a [Arc<Table>],
    /// What is owed of each table, until it is begun.
    owed: Vec<Option<OwedKeys>>,
    /// The cursor whose rows arrive.
    cursor: Option<usize>,
    /// How its columns are read.
    readings: Vec<Reading>,
    batches: Batches<'a, 's>,
}

impl<'a, 's> Download<'a, 's> {
    pub(in crate::postgres) fn new(
        tables: &'a [Arc<Table>],
        owed: Vec<OwedKeys>,
        request: &'a FetchRequest<'a>,
        sink: Sink<'s>,
    ) -> Download<'a, 's> {
        let batches = Batches::new(request, sink);
        let owed = owed.into_iter().map(Some).collect();
        Download { tables, owed, cursor: None, readings: Vec::new(), batches }
    }

    /// Takes a row of cursor `at`; rows arrive in the order of the cursors.
    pub(in crate::postgres) fn row(
        &mut self,
        parts: &[Part],
        at: usize,
        row: RowRef<'_>,
    ) -> Result<(), Failure> {
        let part = parts[at];
        if self.cursor != Some(at) || self.readings.is_empty() {
            self.proceed(parts, at)?;
            self.readings = readings(&self.tables[part.position], part, row)?;
        }
        let table = &self.tables[part.position].deployed.published;
        let readings = &self.readings;
        self.batches.row(part, table, |buffer| {
            for (column, (reading, raw)) in readings.iter().zip(row.values()).enumerate() {
                if reading.write(raw, buffer).is_err() {
                    let message = format!("a value of column {column} does not decode");
                    return Err(Failure::new(Code::Bug, message).table(table.name.as_str()));
                }
            }
            Ok(())
        })
    }

    /// Ends the cursors before the one at `at`, whose rows have all arrived.
    pub(super) fn proceed(&mut self, parts: &[Part], at: usize) -> Result<(), Failure> {
        while self.cursor != Some(at) {
            self.next(parts)?;
            self.readings.clear();
        }
        Ok(())
    }

    /// Keys behind `behind` of owed rows that may be there: of the present table those that no
    /// cursor so far has returned, of a later one all.
    pub(super) fn findable(&self, position: usize, behind: Option<&[u8]>) -> Result<Page, Failure> {
        match self.owed.get(position).and_then(Option::as_ref) {
            Some(later) => later.findable(behind),
            None => self.batches.findable(behind),
        }
    }

    /// Ends the download: cursors that returned nothing are ended too.
    pub(in crate::postgres) fn finish(mut self, parts: &[Part]) -> Result<Fetched, Failure> {
        while self.cursor.is_none_or(|at| at < parts.len()) {
            self.next(parts)?;
        }
        Ok(self.batches.finish())
    }

    /// Ends the present cursor and goes to the next.
    fn next(&mut self, parts: &[Part]) -> Result<(), Failure> {
        if let Some(part) = self.cursor.and_then(|at| parts.get(at)) {
            self.batches.end(*part)?;
        }
        let at = self.cursor.map_or(0, |at| at + 1);
        self.cursor = Some(at);
        if let Some(Part { position, .. }) = parts.get(at).filter(|part| part.begins_table()) {
            let owed = self.owed.get_mut(*position).and_then(Option::take);
            self.batches.begin(owed);
        }
        Ok(())
    }
}

/// How the columns of a cursor's rows are read.
fn readings(table: &Table, part: Part, row: RowRef<'_>) -> Result<Vec<Reading>, Failure> {
    let (published, types) = (&table.deployed.published, &table.deployed.details.columns);
    let expected: Vec<usize> = match part.kind {
        Kind::Rows | Kind::Owed => (0..published.width()).collect(),
        Kind::DeletedKeys => published.key.iter().map(|at| usize::from(*at)).collect(),
    };
    let wrong =
        |message: String| Failure::new(Code::ScriptFailed, message).table(published.name.as_str());
    let found = row.columns().len();
    if found != expected.len() {
        return Err(wrong(format!("a script returns {found} columns, not {}", expected.len())));
    }
    let reading = |(place, column): (usize, usize)| {
        let kind: Option<&ColumnType> = types.get(column);
        let result = &row.columns()[place].type_;
        kind.and_then(|kind| Reading::of(result, kind)).ok_or_else(|| {
            let name = &published.columns[column];
            wrong(format!("a script returns column {name} as {result}; select it with ::text"))
        })
    };
    expected.into_iter().enumerate().map(reading).collect()
}
