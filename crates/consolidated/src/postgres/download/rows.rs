//! Turns the rows of cursors into compact rows, as they arrive.

use crate::download::Sink;
use crate::download::batches::{Batches, Kind, Part};
use crate::download::owed::{OwedKeys, Page};
use crate::postgres::catalog::table::Table;
use crate::postgres::link::RowRef;
use crate::postgres::values::ColumnType;
use crate::postgres::values::row_decoder::Decoder;
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
    /// How they are read, once there is one.
    decoder: Option<Decoder>,
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
        Download { tables, owed, cursor: None, decoder: None, batches }
    }

    /// Takes a row of cursor `at`; rows arrive in the order of the cursors.
    pub(in crate::postgres) fn row(
        &mut self,
        parts: &[Part],
        at: usize,
        row: RowRef<'_>,
    ) -> Result<(), Failure> {
        let part = parts[at];
        if self.cursor != Some(at) {
            self.proceed(parts, at)?;
        }
        let table = &self.tables[part.position];
        let decoder = match &self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(decoder(table, part, row)?),
        };
        let published = &table.deployed.published;
        self.batches.row(part, published, |buffer| {
            decoder.write(row, buffer).map_err(|failure| failure.table(published.name.as_str()))
        })
    }

    /// Ends the cursors before the one at `at`, whose rows have all arrived.
    pub(super) fn proceed(&mut self, parts: &[Part], at: usize) -> Result<(), Failure> {
        while self.cursor != Some(at) {
            self.next(parts)?;
            self.decoder = None;
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
        if let Some(position) = begun(parts, at) {
            let owed = self.owed.get_mut(position).and_then(Option::take);
            self.batches.begin(owed);
        }
        Ok(())
    }
}

/// The table that begins with the cursor at `at`, where its rows are among what is sent.
fn begun(parts: &[Part], at: usize) -> Option<usize> {
    let position = parts.get(at)?.position;
    let before = at.checked_sub(1).map(|before| parts[before].position);
    let mut of_table = parts[at..].iter().take_while(|part| part.position == position);
    (before != Some(position) && of_table.any(|part| part.kind == Kind::Rows)).then_some(position)
}

/// How a cursor's rows are read.
fn decoder(table: &Table, part: Part, row: RowRef<'_>) -> Result<Decoder, Failure> {
    let (published, types) = (&table.deployed.published, &table.deployed.details.columns);
    let columns: Vec<&ColumnType> = match part.kind {
        Kind::Rows | Kind::Owed => types.iter().collect(),
        Kind::DeletedKeys => published.key.iter().map(|at| &types[usize::from(*at)]).collect(),
    };
    let found = row.columns().len();
    let decoder = match found == columns.len() {
        true => Decoder::new(row, columns.into_iter()),
        false => {
            let message = format!("a script returns {found} columns, not {}", columns.len());
            Err(Failure::new(Code::ScriptFailed, message))
        }
    };
    decoder.map_err(|failure| failure.table(published.name.as_str()))
}
