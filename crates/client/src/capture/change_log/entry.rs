//! One entry of a change table: the row before and now, and the query that reads both.

use crate::connection::value;
use crate::schema::{Image, RemoteTable};
use crate::sql::list;
use model::{Value, ValueRef};
use rusqlite::Row;

/// A row of a table before and after the changes of one generation.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    row: &'a Row<'a>,
    layout: Layout<'a>,
    /// The row was there before.
    pub(crate) existed: bool,
    /// It was deleted, and entered again.
    pub(crate) again: bool,
    /// What the row was when this generation ended, where the next one has touched it.
    newer: Option<Base>,
    /// The large columns that were captured.
    captured: i64,
}

/// What the entry of the next generation says.
#[derive(Debug, Clone, Copy)]
struct Base {
    existed: bool,
    captured: i64,
}

/// Where the parts of an entry lie in a row of the query: existed, captured, again, old image; key;
/// live row; of the newer entry likewise existed, captured, old image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a> {
    table: &'a RemoteTable,
    /// The open generation is looked at for what the row was when the frozen one ended.
    with_newer: bool,
    has_large: bool,
    key_start: usize,
    live_start: usize,
    newer_start: usize,
}

/// Where the old image lies.
const BASE_START: usize = 3;

/// What became of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is as it was.
    None,
    Insert,
    Update,
    Delete,
}

impl<'a> Entry<'a> {
    pub(super) fn new(row: &'a Row<'a>, layout: Layout<'a>) -> rusqlite::Result<Entry<'a>> {
        let captured = |at: usize| if layout.has_large { row.get(at) } else { Ok(0) };
        let newer = match layout.with_newer {
            true => row.get::<_, Option<bool>>(layout.newer_start)?,
            false => None,
        };
        let newer = match newer {
            Some(existed) => Some(Base { existed, captured: captured(layout.newer_start + 1)? }),
            None => None,
        };
        let (existed, again) = (row.get(0)?, row.get(2)?);
        Ok(Entry { row, layout, existed, again, newer, captured: captured(1)? })
    }

    /// What became of the row.
    pub(crate) fn change(&self) -> rusqlite::Result<Change> {
        Ok(match (self.existed, self.exists_after()?) {
            (false, false) => Change::None,
            (false, true) => Change::Insert,
            (true, false) => Change::Delete,
            (true, true) => {
                for column in 0..self.layout.table.width() {
                    if self.changed(column)? {
                        return Ok(Change::Update);
                    }
                }
                Change::None
            }
        })
    }

    /// Whether a column of an updated row differs.
    pub(crate) fn changed(&self, column: usize) -> rusqlite::Result<bool> {
        let old = self.before(column)?;
        Ok(old != ValueRef::Absent && !old.identical(self.after(column)?))
    }

    /// A column as it was; `Absent` where it is large and did not change.
    #[inline]
    pub(crate) fn before(&self, column: usize) -> rusqlite::Result<ValueRef<'a>> {
        if self.uncaptured(self.captured, column) {
            return Ok(ValueRef::Absent);
        }
        value(self.row, BASE_START + column)
    }

    /// A column as it became.
    #[inline]
    pub(crate) fn after(&self, column: usize) -> rusqlite::Result<ValueRef<'a>> {
        match self.newer {
            Some(newer) if !self.uncaptured(newer.captured, column) => {
                value(self.row, self.layout.newer_start + 2 + column)
            }
            _ => value(self.row, self.layout.live_start + column),
        }
    }

    /// The value of a key's column, from whichever image has it.
    pub(crate) fn key(&self, n: usize) -> rusqlite::Result<ValueRef<'a>> {
        value(self.row, self.layout.key_start + n)
    }

    /// The key, to be kept.
    pub(crate) fn key_values(&self) -> rusqlite::Result<Vec<Value>> {
        let keys = 0..self.layout.table.key.len();
        keys.map(|n| self.key(n).map(|value| value.to_owned())).collect()
    }

    /// The key as people read it.
    pub(crate) fn key_text(&self) -> rusqlite::Result<String> {
        let table = self.layout.table;
        let values = (0..table.key.len()).map(|n| self.key(n)).collect::<Result<Vec<_>, _>>()?;
        Ok(table.key_text(values.into_iter()))
    }

    /// The row is there afterwards.
    pub(crate) fn exists_after(&self) -> rusqlite::Result<bool> {
        if let Some(newer) = self.newer {
            return Ok(newer.existed);
        }
        // A missing row is read as NULL in all columns, and a key is never NULL.
        let key = self.layout.table.key[0].position;
        Ok(value(self.row, self.layout.live_start + key)? != ValueRef::Null)
    }

    fn uncaptured(&self, captured: i64, column: usize) -> bool {
        self.layout.has_large
            && self.layout.table.large[column].is_some_and(|bit| captured & 1 << bit == 0)
    }
}

impl<'a> Layout<'a> {
    pub(super) fn new(table: &'a RemoteTable, with_newer: bool) -> Layout<'a> {
        let (width, key_start) = (table.width(), BASE_START + table.width());
        let live_start = key_start + table.key.len();
        let newer_start = live_start + width;
        Layout {
            table,
            with_newer,
            has_large: table.large_bits() != 0,
            key_start,
            live_start,
            newer_start,
        }
    }

    pub(super) fn sql(self) -> String {
        let table = self.table;
        let captured = if self.has_large { "c.\"captured\"" } else { "0" };
        let mut columns = vec![
            "c.\"existed\"".to_owned(),
            captured.to_owned(),
            "c.\"again\"".to_owned(),
            table.images_sql("c.", Image::Old),
            table.our_keys_sql("c."),
            table.columns_sql("t."),
        ];
        let mut joined = String::new();
        if self.with_newer {
            columns.push("n.\"existed\"".to_owned());
            columns.push(captured.replace("c.", "n."));
            columns.push(table.images_sql("n.", Image::Old));
            joined = format!(
                " LEFT JOIN {} AS n ON n.\"generation\" = ?2 AND {}",
                table.change_sql(),
                table.same_our_key("n.", "c."),
            );
        }
        format!(
            "SELECT {} FROM {} AS c LEFT JOIN {} AS t ON {}{joined} \
             WHERE c.\"generation\" = ?1",
            list(columns),
            table.change_sql(),
            table.table_sql(),
            table.same_key("t.", "c."),
        )
    }

    /// Its statement, spelled when it is needed first.
    pub(super) fn spelled(self) -> &'a str {
        let entries = &self.table.collecting.entries[usize::from(self.with_newer)];
        entries.get_or_init(|| self.sql())
    }
}
