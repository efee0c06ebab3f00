//! Which held table, and which of its columns, each table of a new schema continues.
//!
//! Names alone are not sufficient: they are exchanged, given up and used again. The server says
//! where they differ (`SchemaChange::renamed`), and everything else is recognized by its name.
//! After a reset it does not know what the remote holds. Then pending changes are carried over by
//! names, unless something contradicts.

use crate::schema::stored_table::StoredTable;
use model::{Code, Failure, PublishedTable};
use protocol::{RenamedTable, SchemaChange};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A table of the new schema.
#[derive(Debug)]
pub(super) struct Heir<'a> {
    pub(super) published: &'a PublishedTable,
    /// What it goes on; none where the remote holds no such table.
    pub(super) held: Option<Held<'a>>,
}

/// The held table that a new one goes on.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) stored: &'a StoredTable,
    /// Per column of the new table: its position among the held ones.
    pub(super) columns: Vec<Option<usize>>,
    /// It was published once, and not since.
    pub(super) former: bool,
    /// Per column of the new table: it has the name of a held one, and may be another all the same.
    pub(super) doubtful: Vec<bool>,
}

impl Heir<'_> {
    /// The table is not exactly what is held.
    pub(super) fn changes(&self) -> bool {
        let same = |held: &Held<'_>| held.stored.published == *self.published;
        !self.held.as_ref().is_some_and(same)
    }
}

impl Held<'_> {
    /// Doubts columns that the server has not named. A column that is dropped, renamed or added
    /// moves those behind it, and one whose name is used again has its old place only where all in
    /// front of it have theirs. So a name counts as long as all names and types agree.
    pub(super) fn doubt(&mut self, published: &PublishedTable) {
        let (old, new) = (declared(&self.stored.published), declared(published));
        let known = published.columns.iter().enumerate().take_while(|(at, name)| {
            let held = self.stored.published.columns.get(*at);
            let of = |types: &Types| types.get(&name.to_ascii_lowercase()).cloned();
            let typed =
                old.as_ref().and_then(of).is_some_and(|it| Some(it) == new.as_ref().and_then(of));
            held.is_some_and(|held| same_name(held, name)) && typed
        });
        let known = known.count();
        self.doubtful = (0..published.width()).map(|at| at >= known).collect();
    }

    /// Where the value of a column of the new table is known to be; none where it is not, or may be
    /// that of another column.
    pub(super) fn origin(&self, column: usize) -> Option<usize> {
        let doubtful = self.doubtful.get(column).copied().unwrap_or_default();
        self.columns.get(column).copied().flatten().filter(|_| !doubtful)
    }

    /// Positions of held columns whose changes cannot be carried over.
    pub(super) fn not_carried(&self) -> Vec<usize> {
        let carried: Vec<_> = (0..self.columns.len()).map(|at| self.origin(at)).collect();
        (0..self.stored.published.width()).filter(|at| !carried.contains(&Some(*at))).collect()
    }

    /// Columns of the new table that the held one does not have.
    pub(super) fn added<'a>(&self, published: &'a PublishedTable) -> Vec<&'a str> {
        let with_held = published.columns.iter().zip(&self.columns);
        with_held.filter(|(_, held)| held.is_none()).map(|(name, _)| name.as_str()).collect()
    }
}

/// The tables of the new schema, in its order. Those that are not held may be `former` ones.
pub(super) fn heirs<'a>(
    change: &'a SchemaChange,
    stored: &'a [StoredTable],
    former: &'a [StoredTable],
) -> Result<Vec<Heir<'a>>, Failure> {
    for renamed in &change.renamed {
        check(renamed, change, stored)?;
    }
    let named = |position: usize| {
        change.renamed.iter().find(|renamed| usize::from(renamed.table) == position)
    };
    let taken = |held: usize| change.renamed.iter().any(|it| usize::from(it.held) == held);
    let heir = |(position, published): (usize, &'a PublishedTable)| {
        let held = match named(position) {
            Some(renamed) => Some(Held {
                stored: &stored[usize::from(renamed.held)],
                columns: renamed.columns.iter().map(|it| it.map(usize::from)).collect(),
                former: false,
                doubtful: Vec::new(),
            }),
            None => {
                let same = |it: &&StoredTable| same_name(&it.published.name, &published.name);
                let mut held = stored.iter().enumerate().filter(|(held, _)| !taken(*held));
                let held = held.find(|(_, it)| same(it)).map(|(_, it)| by_name(published, it));
                // A table whose name another table has is not a table that returns.
                let given_up = stored.iter().any(|it| same(&it));
                let former = former.iter().find(same).filter(|_| !given_up);
                held.or(former.map(|it| Held { former: true, ..by_name(published, it) }))
            }
        };
        Heir { published, held }
    };
    Ok(change.schema.tables.iter().enumerate().map(heir).collect())
}

fn by_name<'a>(published: &PublishedTable, stored: &'a StoredTable) -> Held<'a> {
    let position =
        |name: &String| stored.published.columns.iter().position(|held| same_name(held, name));
    let columns = published.columns.iter().map(position).collect();
    Held { columns, stored, former: false, doubtful: Vec::new() }
}

/// The declared types of a table's columns, both in small letters.
type Types = BTreeMap<String, String>;

/// None where the table cannot be created without others.
fn declared(table: &PublishedTable) -> Option<Types> {
    let scratch = Connection::open_in_memory().ok()?;
    scratch.execute_batch(table.create.first()?).ok()?;
    let mut statement =
        scratch.prepare("SELECT lower(name), lower(type) FROM pragma_table_xinfo(?1)").ok()?;
    let rows = statement.query_map([&table.name], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    rows.collect::<rusqlite::Result<_>>().ok()
}

fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// What a server says is looked at before anything is changed.
fn check(
    renamed: &RenamedTable,
    change: &SchemaChange,
    stored: &[StoredTable],
) -> Result<(), Failure> {
    let malformed = |message: &str| Err(Failure::new(Code::MalformedMessage, message.to_owned()));
    let table = change.schema.tables.get(usize::from(renamed.table));
    let (Some(table), Some(held)) = (table, stored.get(usize::from(renamed.held))) else {
        return malformed("a schema change renames a table that is not there");
    };
    if renamed.columns.len() != table.width() {
        return malformed("a schema change renames other columns than the table has");
    }
    let mut known: Vec<u16> = renamed.columns.iter().copied().flatten().collect();
    known.sort_unstable();
    let twice = known.windows(2).any(|pair| pair[0] == pair[1]);
    if twice || known.last().is_some_and(|last| usize::from(*last) >= held.published.width()) {
        return malformed("a schema change gives a column to two others, or one that is not there");
    }
    let others = change.renamed.iter().filter(|it| !std::ptr::eq(*it, renamed));
    if others.into_iter().any(|it| it.held == renamed.held || it.table == renamed.table) {
        return malformed("a schema change renames a table twice");
    }
    Ok(())
}
