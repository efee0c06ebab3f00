//! What SQLite says of its tables to a plan, and how it spells what a plan decides.

use crate::catalog::deciding;
use crate::deploy::{self, Schema, TableFacts, TablePlanner, Wanted};
use crate::digest::digest;
use crate::download::resume;
use crate::quote::{ident, idents};
use crate::script::{Event, Script};
use crate::sqlite::deploy::remote_ddl;
use crate::sqlite::deploy::scripts::Generator;
use crate::sqlite::deploy::tables::{self, UserColumn, UserTable};
use crate::sqlite::details::TableDetails;
use crate::sqlite::tracking;
use crate::sqlite::tracking::log_table::Kept;
use crate::sqlite::tracking::object::Object;
use crate::sqlite::upload::affinity::Affinity;
use crate::sync_model::Wins;
use model::{Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};

/// A database of SQLite.
#[derive(Debug)]
pub(in crate::sqlite) struct SqliteSchema;

pub(in crate::sqlite) type Plan = deploy::Plan<SqliteSchema>;

impl Schema for SqliteSchema {
    type Table = UserTable;
    /// They are the same at both ends.
    type Values = ();
    type Details = TableDetails;
    type Tracking = Vec<Object>;

    const FENCES_SEE_STORED_ROWS: bool = true;
    const HAS_TIME_ZONES: bool = false;
    const SENDS_ROWS_TOGETHER: bool = false;
    const GENERATED_COLUMNS_CROSS: bool = true;

    fn find<'t>(
        tables: &'t BTreeMap<String, UserTable>,
        name: &str,
    ) -> Option<(&'t String, &'t UserTable)> {
        tables::find(tables, name).map(|table| (&table.name, table))
    }

    fn unsupported(table: &UserTable) -> Option<Failure> {
        tables::unsupported(table)
    }

    fn is_offered(tables: &BTreeMap<String, UserTable>, table: &UserTable) -> bool {
        !tables::is_shadow(table, tables)
    }

    /// Any column may hold anything.
    fn can_decide(_: &UserColumn, _: &Wins) -> bool {
        true
    }

    fn is_number(column: &UserColumn) -> bool {
        matches!(Affinity::of(column), Affinity::Integer | Affinity::Real | Affinity::Numeric)
    }

    fn can_keep(_: &UserColumn, _: &UserColumn) -> bool {
        true
    }

    fn keeping(losers: &UserTable, columns: &[String]) -> String {
        let numbers: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
        format!(
            "INSERT INTO {} ({})\nVALUES ({})",
            ident(&losers.name),
            idents("", columns),
            numbers.join(", "),
        )
    }

    fn notices(name: &str, table: &UserTable) -> Vec<String> {
        let mut notices = Vec::new();
        for column in table.nullable_key() {
            notices.push(format!(
                "{name}: the key column {column} may be NULL; rows where it is are not synchronized"
            ));
        }
        if table.uniques.iter().any(|unique| unique.columns.contains(&None)) {
            notices.push(format!(
                "{name}: a UNIQUE index on an expression is not watched for INSERT OR REPLACE"
            ));
        }
        notices
    }

    fn values(planner: &TablePlanner<'_, SqliteSchema>, _: &[String]) -> Result<(), Failure> {
        let numbers = planner.table_model.stored_as.keys().map(|column| ("as", column));
        let mut named = numbers.chain(planner.table_model.times.keys().map(|it| ("times", it)));
        match named.next() {
            Some((key, column)) => Err(planner.wrong(&format!(
                "`{key}` names {column}; SQLite keeps values as they are at both ends"
            ))),
            None => Ok(()),
        }
    }

    fn create(
        table: &UserTable,
        columns: &[String],
        (): &(),
        foreign_keys: &[usize],
    ) -> (Vec<String>, Vec<String>) {
        remote_ddl::create(table, columns, foreign_keys)
    }

    fn known_by(_: &UserTable, _: &[String], (): &()) {}

    fn fingerprint(outward: &PublishedTable, (): &()) -> String {
        digest(&[&serde_json::json!(outward).to_string()])
    }

    fn scripts(
        planner: &TablePlanner<'_, SqliteSchema>,
        published: &PublishedTable,
        (): &(),
    ) -> Vec<(Event, String)> {
        let generator = Generator {
            table: planner.table,
            columns: &published.columns,
            direction: published.direction,
            rule: &planner.table_model.conflict,
            selection: planner.selection,
        };
        generator.scripts()
    }

    fn details(
        planner: &TablePlanner<'_, SqliteSchema>,
        published: &PublishedTable,
        (): (),
        scripts: &BTreeMap<Event, Script>,
        local: Vec<String>,
    ) -> TableDetails {
        let (table, selection) = (planner.table, planner.selection);
        let cursors = resume::cursors_of(scripts);
        let mut details = TableDetails { local, cursors, ..TableDetails::default() };
        let parents = table.foreign_keys.iter().map(|key| key.parent.as_str());
        let parents: BTreeSet<&str> = parents.filter(|name| *name != table.name).collect();
        details.parents = parents.into_iter().map(str::to_owned).collect();
        details.kept_by_refresh = planner.table_model.kept_by_refresh;
        details.written = planner.written_unseen(&published.columns);
        details.references = planner.references(&published.columns);
        details.added = planner.added(&published.columns);
        details.losers = planner.losers(&published.columns).ok().flatten();
        // Of a table with triggers, or where a time is clamped, only the row itself tells what
        // became of it.
        let plain = !table.has_triggers && table.utf8;
        if plain && planner.table_model.conflict.clamped().is_none() {
            let columns = published.columns.iter().filter_map(|name| table.column(name));
            details.affinities = columns.map(Affinity::of).collect();
        }
        if selection.is_all() {
            return details;
        }
        if let (true, Some((column, _))) = (plain, selection.sought()) {
            let position = published.columns.iter().position(|published| published == column);
            details.decider = position.map(|position| position as u16);
        }
        let logs = if selection.departs() { selection.logs() } else { Vec::new() };
        TableDetails {
            selection: selection.to_string(),
            claims: selection.claims().into_iter().collect(),
            logs: logs.into_iter().map(|table| table.name.clone()).collect(),
            deciding: deciding::of(selection, published, str::to_owned),
            sent_afresh: selection.is_custom(),
            may_leave: planner.table_model.may_leave,
            ..details
        }
    }

    /// Only the row itself tells what became of it.
    fn writes_as_it_likes(details: &mut TableDetails) {
        details.affinities.clear();
        details.decider = None;
    }

    fn notice_of_sessions(version: &model::ScriptVersion) -> Option<String> {
        Some(format!(
            "script version {version} keeps one connection for each synchronization: other uploads \
             wait until its download is fetched"
        ))
    }

    /// A log has what rows were only where departures count.
    fn tracking(table: &UserTable, wanted: &Wanted) -> Option<Vec<Object>> {
        let kept = (wanted.departs || !wanted.sought.is_empty())
            .then(|| Kept { place: wanted.places.clone(), sought: wanted.sought.clone() });
        let counts = wanted.downloaded || wanted.departs;
        counts.then(|| tracking::objects(table, kept.as_ref()))
    }
}
