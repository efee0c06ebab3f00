//! Records the conflicts of an upload.
//!
//! A record costs what its bytes cost, and a statement costs something too. So records wait until
//! there are enough of them for a statement of many rows.

use crate::administration::readable::{self, Names, UNCHANGED};
use crate::sqlite::details::CatalogTable;
use crate::synchronization::Session;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use rusqlite::{CachedStatement, Connection};
use std::ops::Range;

/// Records that are written by one statement.
const RECORDS: usize = 8;

/// Most bytes of rows that wait to be written; with more of them fewer records wait.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// The parameters that all records of a statement have: the conflicts of one upload have one time.
const REMOTE: usize = 1;
const USER: usize = 2;
const TABLE: usize = 3;
const OPERATION: usize = 4;
const RULE: usize = 5;
const DETECTED_AT: usize = 6;

/// The first parameter of the rows of records: each has four.
const ROWS: usize = 7;
const IMAGES: usize = 4;

/// Adds `records` of them. If it fails, the upload fails: it need not undo the first of them.
fn insert(records: usize) -> String {
    let values = (0..records).map(|record| {
        let [old, new, now, result] = std::array::from_fn(|at| ROWS + IMAGES * record + at);
        format!("(?6, ?1, ?2, ?3, ?4, ?5, ?{old}, ?{new}, ?{now}, ?{result})")
    });
    format!(
        "INSERT OR FAIL INTO syncline_conflict (detected_at, remote_id, user_name, table_name,
             operation, conflict_rule, old_row, new_row, consolidated_row, result_row)
         VALUES {}",
        values.collect::<Vec<_>>().join(", ")
    )
}

/// The row that a conflict is about, at the center: as it was, and as it is afterwards.
#[derive(Clone, Copy)]
pub(super) struct Images<'r> {
    pub(super) now: Option<&'r [u8]>,
    pub(super) result: Option<&'r [u8]>,
}

/// The records of an upload's conflicts.
pub(super) struct Conflicts<'c> {
    /// Writes one of them, or [`RECORDS`].
    one: Inserting<'c>,
    many: Inserting<'c>,
    /// What the records that wait are about.
    of: Option<Of>,
    waiting: Vec<[Image; IMAGES]>,
    /// Their rows, spelled for people.
    spelled: String,
}

/// A statement that writes records, and what of their rows it is bound to.
struct Inserting<'c> {
    statement: CachedStatement<'c>,
    bound: Vec<Bound>,
}

/// What a parameter is bound to.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    Null,
    Unchanged,
    /// The row of a record that was written.
    Written,
}

/// What all records of a statement are about.
struct Of {
    table: String,
    operation: &'static str,
    names: Names,
}

impl Of {
    fn is(&self, table: &str, operation: &str) -> bool {
        self.table == table && self.operation == operation
    }
}

/// A row of a record that waits.
enum Image {
    None,
    Unchanged,
    Spelled(Range<usize>),
}

impl<'c> Conflicts<'c> {
    pub(super) fn begin(
        connection: &'c Connection,
        session: &Session,
    ) -> rusqlite::Result<Conflicts<'c>> {
        let now = connection.prepare_cached("SELECT datetime('now')");
        let now: String = now?.query_row([], |row| row.get(0))?;
        let begin = |records: usize| -> rusqlite::Result<Inserting<'c>> {
            let mut statement = connection.prepare_cached(&insert(records))?;
            statement.raw_bind_parameter(REMOTE, session.remote_id.as_str())?;
            statement.raw_bind_parameter(USER, session.user.as_str())?;
            statement.raw_bind_parameter(DETECTED_AT, now.as_str())?;
            // A statement that stays prepared has its parameters of before.
            let bound = vec![Bound::Written; IMAGES * records];
            Ok(Inserting { statement, bound })
        };
        let (one, many) = (begin(1)?, begin(RECORDS)?);
        Ok(Conflicts { one, many, of: None, waiting: Vec::new(), spelled: String::new() })
    }

    pub(super) fn add(
        &mut self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        images: Images<'_>,
    ) -> rusqlite::Result<()> {
        let (published, operation) = (&table.published, readable::operation(row.change));
        if self.of.as_ref().is_none_or(|of| !of.is(&published.name, operation)) {
            self.go_to(table, row.change)?;
        }
        let of = self.of.get_or_insert_with(|| Of {
            table: published.name.clone(),
            operation,
            names: Names::of(published),
        });
        let (spelled, waiting) = (&mut self.spelled, &mut self.waiting);
        let mut spell = |write: &mut dyn FnMut(&mut String)| {
            let begin = spelled.len();
            write(spelled);
            Image::Spelled(begin..spelled.len())
        };
        let mut image = |image: Option<&[u8]>| match image {
            Some(image) => spell(&mut |out| of.names.append_row(out, image)),
            None => Image::None,
        };
        let new = image((row.change != Change::Delete).then(|| row.new_image()));
        let now = image(images.now);
        // The result is mostly the row that was there.
        let result = match images.now.is_some() && images.result == images.now {
            true => Image::Unchanged,
            false => image(images.result),
        };
        let old = match row.change {
            Change::Insert => Image::None,
            _ => spell(&mut |out| of.names.append_values(out, &row.old)),
        };
        waiting.push([old, new, now, result]);
        match self.waiting.len() >= RECORDS || self.spelled.len() >= WAITING_BYTES_MAX {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes the records that wait, because the next one is about something else.
    fn go_to(&mut self, table: &CatalogTable, change: Change) -> rusqlite::Result<()> {
        self.write()?;
        self.of = None;
        for Inserting { statement, .. } in [&mut self.one, &mut self.many] {
            statement.raw_bind_parameter(TABLE, &table.published.name)?;
            statement.raw_bind_parameter(OPERATION, readable::operation(change))?;
            statement.raw_bind_parameter(RULE, table.decides(change))?;
        }
        Ok(())
    }

    /// Writes the records that wait.
    pub(super) fn write(&mut self) -> rusqlite::Result<()> {
        let Conflicts { one, many, waiting, spelled, .. } = self;
        let (inserting, at_once) = match waiting.len() == RECORDS {
            true => (many, RECORDS),
            false => (one, 1),
        };
        for records in waiting.chunks(at_once) {
            inserting.write(records, spelled)?;
        }
        waiting.clear();
        spelled.clear();
        Ok(())
    }
}

impl Inserting<'_> {
    /// Writes as many records as it has room for.
    fn write(&mut self, records: &[[Image; IMAGES]], spelled: &str) -> rusqlite::Result<()> {
        let images = records.iter().flatten().zip(&mut self.bound);
        for (at, (image, bound)) in images.enumerate() {
            let (text, binds) = match image {
                Image::None => (None, Bound::Null),
                Image::Unchanged => (Some(UNCHANGED), Bound::Unchanged),
                Image::Spelled(range) => (spelled.get(range.clone()), Bound::Written),
            };
            // Most records lack the same row, or say the same of it.
            if binds == Bound::Written || *bound != binds {
                *bound = binds;
                self.statement.raw_bind_parameter(ROWS + at, text)?;
            }
        }
        self.statement.raw_execute().map(|_| ())
    }
}
