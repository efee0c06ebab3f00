//! One entry of a change table: the row before and now, and the query that reads both.

use crate::capture::moves::Validity;
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
    /// The row was there before, and has not got another key since.
    pub(crate) existed: bool,
    /// The row that is there came from another key, so it counts as the row of that one.
    has_come: bool,
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

/// Where the parts of an entry lie in a row of the query: existed, captured, old image; key; live
/// row; of the newer entry likewise existed, captured, old image; whether the row has left its
/// key, and whether that which is there has come from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a> {
    table: &'a RemoteTable,
    kind: Kind,
    /// The open generation is looked at for what the row was when the frozen one ended.
    with_newer: bool,
    has_large: bool,
    key_start: usize,
    live_start: usize,
    newer_start: usize,
    moves_start: usize,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All entries, each for itself.
    Entries,
    /// All entries, less the halves of key changes.
    AmongMoves,
    /// Key changes: the entry is that of the old key, the row that of the new one.
    KeyChanges,
}

/// Where the old image lies.
const BASE_START: usize = 2;

/// What became of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is as it was.
    None,
    Insert,
    Update,
    /// It has another key, or one that is spelled differently.
    Moved,
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
        let (has_left, has_come) = match layout.kind {
            Kind::AmongMoves => (row.get(layout.moves_start)?, row.get(layout.moves_start + 1)?),
            Kind::Entries | Kind::KeyChanges => (false, false),
        };
        let existed = row.get::<_, bool>(0)? && !has_left;
        Ok(Entry { row, layout, existed, has_come, newer, captured: captured(1)? })
    }

    /// What became of the row.
    pub(crate) fn change(&self) -> rusqlite::Result<Change> {
        Ok(match (self.existed, self.exists_after()?) {
            (false, false) => Change::None,
            (false, true) => Change::Insert,
            (true, false) => Change::Delete,
            (true, true) if self.changed_key()? => Change::Moved,
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

    /// Whether the key of a row that was and is there differs, be it in its spelling.
    pub(crate) fn changed_key(&self) -> rusqlite::Result<bool> {
        for key in &self.layout.table.key {
            if self.changed(key.position)? {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// The key as it was, as people read it.
    pub(crate) fn old_key_text(&self) -> rusqlite::Result<String> {
        let table = self.layout.table;
        let values = table.key.iter().map(|key| self.before(key.position));
        Ok(table.key_text(values.collect::<Result<Vec<_>, _>>()?.into_iter()))
    }

    /// The row is there afterwards, and did not come from another key.
    pub(crate) fn exists_after(&self) -> rusqlite::Result<bool> {
        if self.has_come {
            return Ok(false);
        }
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
    pub(super) fn new(table: &'a RemoteTable, kind: Kind, with_newer: bool) -> Layout<'a> {
        let (width, key_start) = (table.width(), BASE_START + table.width());
        let live_start = key_start + table.key.len();
        let newer_start = live_start + width;
        Layout {
            table,
            kind,
            with_newer,
            has_large: table.large_bits() != 0,
            key_start,
            live_start,
            newer_start,
            moves_start: newer_start + if with_newer { BASE_START + width } else { 0 },
        }
    }

    pub(super) fn sql(self, condition: &str) -> String {
        let table = self.table;
        let captured = if self.has_large { "c.\"captured\"" } else { "0" };
        // Where the key of now is.
        let now = if self.kind == Kind::KeyChanges { "m." } else { "c." };
        let mut columns = vec![
            "c.\"existed\"".to_owned(),
            captured.to_owned(),
            table.images_sql("c.", Image::Old),
            table.our_keys_sql(now),
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
                table.same_our_key("n.", now),
            );
        }
        if self.kind == Kind::AmongMoves {
            let validity = Validity { table, with_newer: self.with_newer };
            columns.extend([validity.has_left("c."), validity.has_come("c.")]);
        }
        let entries = match self.kind {
            Kind::Entries | Kind::AmongMoves => format!("{} AS c", table.change_sql()),
            Kind::KeyChanges => format!(
                "{} AS m CROSS JOIN {change} AS c ON c.\"generation\" = m.\"generation\" \
                 AND c.\"existed\" = 1 AND {} AND EXISTS (SELECT 1 FROM {change} AS k \
                 WHERE k.\"generation\" = m.\"generation\" AND {})",
                table.moved_sql(),
                table.came_from("m.", "c."),
                table.same_our_key("k.", "m."),
                change = table.change_sql(),
            ),
        };
        let first = if self.kind == Kind::KeyChanges { "m" } else { "c" };
        format!(
            "SELECT {} FROM {entries} LEFT JOIN {} AS t ON {}{joined} \
             WHERE {first}.\"generation\" = ?1{condition}",
            list(columns),
            table.table_sql(),
            table.same_key("t.", now),
        )
    }

    /// Its statement, spelled when it is needed first.
    pub(super) fn spelled(self) -> &'a str {
        let spelled = &self.table.collecting;
        let of_kind = match self.kind {
            Kind::Entries => &spelled.entries,
            Kind::AmongMoves => &spelled.among_moves,
            Kind::KeyChanges => &spelled.key_changes,
        };
        of_kind[usize::from(self.with_newer)].get_or_init(|| self.sql(""))
    }
}
