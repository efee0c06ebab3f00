//! What a backend says of the tables of its database, and how it spells what a plan decides.

use super::table::TableFacts;
use super::wanted::{Tracked, Wanted};
use crate::script::{Event, Script};
use crate::selection::{Rows, Selection};
use crate::sync_model::{SyncModel, TableModel, Wins};
use model::{Code, Failure, PublicationName, PublishedTable};
use serde::Serialize;
use std::collections::BTreeMap;

/// A kind of database, as far as plans are concerned.
pub(crate) trait Schema: Sized {
    type Table: TableFacts;
    /// How the values of published columns travel.
    type Values;
    /// What a server has to know of a published table beyond what remotes know.
    type Details: Serialize;
    /// What tracks a table.
    type Tracking;

    /// A fence looks at the row that was written, and not at the one that was sent.
    const FENCES_SEE_STORED_ROWS: bool;

    /// A table that is published as a whole has its generated columns at remotes too.
    const GENERATED_COLUMNS_CROSS: bool;

    /// The database stamps rows with local times.
    const HAS_TIME_ZONES: bool;

    /// The rows of a batch are sent to the database together, whatever a script does with them.
    const SENDS_ROWS_TOGETHER: bool;

    /// The table that a model calls `name`, and its published name.
    fn find<'t>(
        tables: &'t BTreeMap<String, Self::Table>,
        name: &str,
    ) -> Option<(&'t String, &'t Self::Table)>;

    /// Why the table cannot be synchronized, if it cannot.
    fn unsupported(table: &Self::Table) -> Option<Failure>;

    /// Why a model to start from leaves the table out, beside that.
    fn initial_refusal(_: &Self::Table) -> Option<Failure> {
        None
    }

    /// Whether a model to start from has the table, if it names none.
    fn is_offered(tables: &BTreeMap<String, Self::Table>, table: &Self::Table) -> bool;

    /// Whether this column can decide a conflict.
    fn can_decide(column: &<Self::Table as TableFacts>::Column, wins: &Wins) -> bool;

    /// Whether values of this column can be added.
    fn is_number(column: &<Self::Table as TableFacts>::Column) -> bool;

    /// Whether a column of the table that keeps the rows that lost takes the values of another one.
    fn can_keep(
        kept: &<Self::Table as TableFacts>::Column,
        from: &<Self::Table as TableFacts>::Column,
    ) -> bool;

    /// The statement that keeps rows of these columns in a table.
    fn keeping(losers: &Self::Table, columns: &[String]) -> String;

    /// What is special about the table itself, for people.
    fn notices(name: &str, table: &Self::Table) -> Vec<String>;

    /// How the values of these columns travel; refuses what the model wants of them and cannot be.
    fn values(
        planner: &TablePlanner<'_, Self>,
        columns: &[String],
    ) -> Result<Self::Values, Failure>;

    /// The statements that make the table with these columns, and of its foreign keys those at
    /// these positions, at remotes; and what is left out.
    fn create(
        table: &Self::Table,
        columns: &[String],
        values: &Self::Values,
        foreign_keys: &[usize],
    ) -> (Vec<String>, Vec<String>);

    /// The same values as far as remotes know a table by them. What merely spells equal values in
    /// another way is no part of it.
    fn known_by(table: &Self::Table, columns: &[String], values: &Self::Values) -> Self::Values;

    /// What remotes know the published table by, if two of them are the same.
    fn fingerprint(outward: &PublishedTable, values: &Self::Values) -> String;

    /// The generated scripts, in the order of their events.
    fn scripts(
        planner: &TablePlanner<'_, Self>,
        published: &PublishedTable,
        values: &Self::Values,
    ) -> Vec<(Event, String)>;

    /// What a server has to know of the table. `local` are the database's names of its columns,
    /// where remotes have others.
    fn details(
        planner: &TablePlanner<'_, Self>,
        published: &PublishedTable,
        values: Self::Values,
        scripts: &BTreeMap<Event, Script>,
        local: Vec<String>,
    ) -> Self::Details;

    /// A user's script writes rows of the table: nothing is known of what becomes of them.
    fn writes_as_it_likes(details: &mut Self::Details);

    /// What a version costs others whose synchronizations have one connection each.
    fn notice_of_sessions(version: &model::ScriptVersion) -> Option<String>;

    /// What tracks a table, if anything has to.
    fn tracking(table: &Self::Table, wanted: &Wanted) -> Option<Self::Tracking>;
}

/// A model with its names resolved.
pub(crate) struct Version<'a, S: Schema> {
    pub(crate) model: &'a SyncModel,
    pub(crate) user_tables: &'a BTreeMap<String, S::Table>,
    /// By their published names.
    pub(crate) chosen: BTreeMap<String, &'a TableModel>,
    pub(crate) selections: BTreeMap<String, Selection>,
    pub(crate) publications: Vec<(PublicationName, Vec<String>)>,
}

impl<S: Schema> Version<'_, S> {
    /// Whether a foreign key keeps a row from coming before the parent that decides about it.
    pub(crate) fn is_guarded(&self, child: &Selection) -> bool {
        let Rows::Parent { link, parent } = &child.rows else { return false };
        let Some(table) = self.user_tables.get(&child.table.name) else { return false };
        table.foreign_keys().iter().any(|key| {
            key.parent == parent.table.name
                && key.columns.len() == link.len()
                && link.iter().all(|pair| key.columns.contains(pair))
        })
    }
}

/// One table of a model, to be planned.
pub(crate) struct TablePlanner<'a, S: Schema> {
    pub(crate) version: &'a Version<'a, S>,
    /// Its published name.
    pub(crate) name: &'a str,
    pub(crate) table: &'a S::Table,
    pub(crate) table_model: &'a TableModel,
    pub(crate) selection: &'a Selection,
    pub(crate) tracked: &'a Tracked,
    /// Only what an older shape knows of it: the other columns fill themselves, or refuse a row.
    pub(crate) part: bool,
}

impl<'a, S: Schema> TablePlanner<'a, S> {
    pub(super) fn new(
        version: &'a Version<'a, S>,
        name: &'a str,
        tracked: &'a Tracked,
    ) -> TablePlanner<'a, S> {
        TablePlanner {
            version,
            name,
            table: &version.user_tables[name],
            table_model: version.chosen[name],
            selection: &version.selections[name],
            tracked,
            part: false,
        }
    }

    /// Plans the part of a table that `table_model` says.
    pub(super) fn part(
        version: &'a Version<'a, S>,
        name: &'a str,
        tracked: &'a Tracked,
        table_model: &'a TableModel,
    ) -> TablePlanner<'a, S> {
        TablePlanner { table_model, part: true, ..TablePlanner::new(version, name, tracked) }
    }

    /// Those of `columns` that actions of foreign keys write, where no download tells a remote.
    pub(crate) fn written_unseen(&self, columns: &[String]) -> Vec<String> {
        if self.table_model.direction.downloads() {
            return Vec::new();
        }
        let is_written = |column: &&String| {
            let mut keys = self.table.foreign_keys().iter();
            keys.any(|key| {
                key.writes_columns() && key.columns.iter().any(|(from, _)| from == *column)
            })
        };
        columns.iter().filter(is_written).cloned().collect()
    }

    /// The failure that the model wants something of this table that cannot be.
    pub(crate) fn wrong(&self, why: &str) -> Failure {
        let message = format!("table {}: {why}", self.name);
        mismatch(self.version.model, message).table(self.name)
    }
}

/// The columns that a published table can have. While rows of an upload are changed again, a remote
/// selects three values of each column, the key, and four more. A result of SQLite has 2,000
/// columns at most: with a key of two, 664 were possible. The centers take more. PostgreSQL
/// selects two values of each, 1,664 at most: 832. An expression of SQLite is 1,000 deep at most:
/// 998, and fewer with parents.
pub(crate) const COLUMNS_MAX: usize = 650;

/// Why a table cannot be published with so many columns, if it cannot.
pub(crate) fn too_wide(name: &str, columns: usize) -> Option<Failure> {
    (columns > COLUMNS_MAX).then(|| {
        let message =
            format!("table {name} has {columns} columns to publish; {COLUMNS_MAX} are possible");
        Failure::new(Code::UnsupportedTable, message)
            .hint("name fewer with `columns` in its section of the model")
            .table(name)
    })
}

pub(super) fn mismatch(model: &SyncModel, message: String) -> Failure {
    Failure::new(Code::ModelMismatch, format!("{}: {message}", model.file_name))
}
