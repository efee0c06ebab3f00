//! What the foreign keys of the database do to rows, as queries for the rows of a table.
//!
//! A table that the server's user may not read is not examined: foreign keys act with the rights of
//! the table's owner, and a query does not. `deploy` and `check` name such tables, for their own
//! user and for each user that a server may have: those that may write to our tables.

use crate::catalog::table::CatalogTable;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Link, Row, Unreadable};
use crate::postgres::statement::Statement;
use crate::quote::{ident, idents, join};
use crate::script::Script;
use crate::upload::reach::{self, Action, Effect, ForeignKey};
use crate::upload::reached::TOLD_APART_MAX;
use model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every foreign key with an action, but those that a partition has from its parent.
pub(in crate::postgres) const READ: &str = include_str!("table_reach.sql");

/// The tables below `$1` whose rows foreign keys change or delete, and who may not read them: the
/// present user, and everybody as whom a server may run.
const UNREADABLE: &str = "WITH RECURSIVE below(oid) AS (
    SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS name
    UNION
    SELECT o.conrelid FROM below AS b JOIN pg_constraint AS o ON o.confrelid = b.oid
    WHERE o.contype = 'f'
        AND (o.confdeltype IN ('c', 'n', 'd') OR o.confupdtype IN ('c', 'n', 'd'))
), server AS (
    SELECT oid, rolname FROM pg_roles
    WHERE rolname = current_user OR rolcanlogin
        AND has_table_privilege(oid, to_regclass('syncline.syncline_remote'), 'INSERT')
)
SELECT format('%I.%I', n.nspname, c.relname), string_agg(quote_ident(r.rolname), ', ' ORDER BY 1)
FROM below AS b JOIN pg_class AS c ON c.oid = b.oid
JOIN pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN server AS r
WHERE NOT has_table_privilege(r.oid, c.oid, 'SELECT') GROUP BY 1 ORDER BY 1";

/// Notices about tables that uploads to `tables`, which have these names in SQL, may reach unseen.
pub(in crate::postgres) fn unreadable_tables(
    link: &mut Link,
    tables: &BTreeSet<String>,
) -> Result<Vec<String>, Failure> {
    let names: Vec<&str> = tables.iter().map(String::as_str).collect();
    let rows = link
        .query(UNREADABLE, &[&names])
        .map_err(failed("look for tables that uploads reach unseen"))?;
    let notice = |row: &Row| {
        let name: &str = row.try_get(0).map_err(unreadable)?;
        let who: &str = row.try_get(1).map_err(unreadable)?;
        Ok(format!(
            "{name}: {who} may not read it. If a server connects as that user, rows there that \
             foreign keys change or delete during an upload are not counted as reached, and not \
             named: GRANT SELECT ON {name} TO {who}"
        ))
    };
    rows.iter().map(notice).collect()
}

/// The foreign keys of the database that do something to rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::postgres) struct Reach {
    keys: Vec<ActingKey>,
}

/// A foreign key, for queries.
#[derive(Debug, Clone, PartialEq)]
struct ActingKey {
    parent: Relation,
    child: Relation,
    /// Of the child, of the parent, and what compares the parent's with the child's.
    columns: Vec<String>,
    referred: Vec<String>,
    operators: Vec<String>,
    on_delete: Action,
    on_update: Action,
    /// The child's primary key.
    key: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Relation {
    /// Its own number, or that of the table whose partition it is.
    root: i64,
    schema: String,
    name: String,
    partitioned: bool,
}

impl Relation {
    /// As the database itself reads it for a foreign key.
    fn sql(&self) -> String {
        let only = if self.partitioned { "" } else { "ONLY " };
        format!("{only}{}.{}", ident(&self.schema), ident(&self.name))
    }

    fn is(&self, details: &TableDetails) -> bool {
        self.schema == details.schema && self.name == details.name
    }
}

impl Reach {
    /// What [`READ`] has found.
    pub(in crate::postgres) fn of(rows: &[Row]) -> Result<Reach, Unreadable> {
        let keys = rows.iter().map(ActingKey::of).collect::<Result<_, _>>()?;
        Ok(Reach { keys })
    }

    fn graph(&self) -> Vec<ForeignKey> {
        let mut numbers: BTreeMap<i64, usize> = BTreeMap::new();
        let mut number = |root: i64| {
            let next = numbers.len();
            *numbers.entry(root).or_insert(next)
        };
        let keys = self.keys.iter().map(|key| ForeignKey {
            child: number(key.child.root),
            parent: number(key.parent.root),
            referred: key.referred.clone(),
            on_delete: key.on_delete.clone(),
            on_update: key.on_update.clone(),
        });
        keys.collect()
    }

    /// Finds the rows that others of `table` reach when `effect` happens to them; none where no
    /// foreign key acts then.
    pub(in crate::postgres) fn query(
        &self,
        table: &CatalogTable<TableDetails>,
        effect: Effect,
    ) -> Result<Option<Statement>, Failure> {
        let graph = self.graph();
        let of_table = self.keys.iter().position(|key| key.parent.is(&table.details));
        let Some(start) = of_table.map(|at| graph[at].parent) else { return Ok(None) };
        let steps = reach::steps(&graph, start, effect);
        if steps.is_empty() {
            return Ok(None);
        }
        let steps: Vec<String> = steps
            .iter()
            .map(|step| {
                let key = &self.keys[step.key];
                format!(
                    "SELECT {} AS state, c.tableoid AS rel, c.ctid::text AS tid, {} AS id
                     FROM {} AS p JOIN {} AS c ON {}
                     WHERE r.state = {} AND p.tableoid = r.rel AND p.ctid = r.tid::tid",
                    step.to,
                    key.mark("c"),
                    key.parent.sql(),
                    key.child.sql(),
                    key.condition(),
                    step.from,
                )
            })
            .collect();
        let mut statement = keys(table)?;
        statement.sql = format!(
            "WITH RECURSIVE sent AS ({}),
             seed(rel, tid) AS MATERIALIZED (
                 SELECT t.tableoid, t.ctid::text FROM {} AS t JOIN sent AS k ON {}),
             reached(state, rel, tid, id) AS (
                 SELECT 0, rel, tid, NULL::int8 FROM seed
                 UNION
                 SELECT step.state, step.rel, step.tid, step.id
                 FROM reached AS r CROSS JOIN LATERAL (
                     {}
                 ) AS step),
             found AS MATERIALIZED (
                 SELECT DISTINCT id FROM reached
                 WHERE id IS NOT NULL AND (rel, tid) NOT IN (SELECT rel, tid FROM seed))
             (SELECT id, 0::int8 FROM found LIMIT {TOLD_APART_MAX})
             UNION ALL
             SELECT NULL, count(*) - {TOLD_APART_MAX} FROM found
             HAVING count(*) > {TOLD_APART_MAX}",
            statement.sql,
            name(table),
            same_key(table, "t"),
            steps.join("\nUNION ALL\n"),
        );
        Ok(Some(statement))
    }

    /// The tables with rows that a delete of a row of this one may change.
    fn changed_by_delete(&self, table: &TableDetails) -> BTreeSet<Relation> {
        let graph = self.graph();
        let of_table = self.keys.iter().position(|key| key.parent.is(table));
        let Some(start) = of_table.map(|at| graph[at].parent) else { return BTreeSet::new() };
        let steps = reach::steps(&graph, start, Effect::Gone);
        let keys = steps.iter().map(|step| &self.keys[step.key]);
        let writing = keys.filter(|key| !key.written().is_empty());
        writing.map(|key| key.child.clone()).collect()
    }

    /// The columns of the table that foreign keys write.
    fn written(&self, table: &TableDetails) -> BTreeSet<String> {
        let keys = self.keys.iter().filter(|key| key.child.is(table));
        keys.flat_map(ActingKey::written).collect()
    }

    /// Finds the marks of rows of `table`, where foreign keys reach them.
    fn marks(&self, table: &CatalogTable<TableDetails>) -> Result<Option<Statement>, Failure> {
        let Some(key) = self.keys.iter().find(|key| key.child.is(&table.details)) else {
            return Ok(None);
        };
        let mut statement = keys(table)?;
        statement.sql = format!(
            "SELECT {} FROM {} AS t JOIN ({}) AS k ON {}",
            key.mark("t"),
            name(table),
            statement.sql,
            same_key(table, "t"),
        );
        Ok(Some(statement))
    }
}

/// The keys of uploaded rows as a relation.
fn keys(table: &CatalogTable<TableDetails>) -> Result<Statement, Failure> {
    let script = Script::parse("SELECT * FROM {keys} AS k", &table.published)?;
    Ok(Statement::of(&script, &table.published, &table.details.columns))
}

fn name(table: &CatalogTable<TableDetails>) -> String {
    format!("ONLY {}.{}", ident(&table.details.schema), ident(&table.details.name))
}

fn same_key(table: &CatalogTable<TableDetails>, alias: &str) -> String {
    let names = table.published.key.iter().map(|at| &table.published.columns[usize::from(*at)]);
    join(&names.collect::<Vec<_>>(), " AND ", |name| format!("{alias}.{0} = k.{0}", ident(name)))
}

impl ActingKey {
    fn of(row: &Row) -> Result<ActingKey, Unreadable> {
        let relation = |root: usize, at: usize| -> Result<Relation, Unreadable> {
            Ok(Relation {
                root: row.try_get(root)?,
                schema: row.try_get(at)?,
                name: row.try_get(at + 1)?,
                partitioned: row.try_get(at + 2)?,
            })
        };
        let columns: Vec<String> = row.try_get(8)?;
        let action = |letter: &str, written: Vec<String>| match letter {
            "c" => Action::Delete,
            "n" | "d" => Action::Write(written),
            _ => Action::Nothing,
        };
        let on_delete = action(row.try_get(11)?, row.try_get(13)?);
        let on_update = match row.try_get(12)? {
            "c" | "n" | "d" => Action::Write(columns.clone()),
            _ => Action::Nothing,
        };
        Ok(ActingKey {
            parent: relation(0, 2)?,
            child: relation(1, 5)?,
            columns,
            referred: row.try_get(9)?,
            operators: row.try_get(10)?,
            on_delete,
            on_update,
            key: row.try_get(14)?,
        })
    }

    /// The columns of the child that it writes.
    fn written(&self) -> Vec<String> {
        let actions = [&self.on_delete, &self.on_update];
        actions.into_iter().filter_map(Action::written).flatten().cloned().collect()
    }

    /// Parent `p` and child `c` belong together.
    fn condition(&self) -> String {
        let pairs = self.referred.iter().zip(&self.operators).zip(&self.columns);
        let same = pairs.map(|((referred, operator), column)| {
            format!("p.{} {operator} c.{}", ident(referred), ident(column))
        });
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// What tells rows of the child apart, as a number.
    fn mark(&self, alias: &str) -> String {
        let row = match self.key.is_empty() {
            true => format!("{alias}.tableoid, {alias}.ctid"),
            false => idents(&format!("{alias}."), &self.key),
        };
        format!("hashtextextended(ROW({row})::text COLLATE \"C\", {})", self.child.root)
    }
}

/// What the rows of one table reach.
#[derive(Debug, Default)]
pub(in crate::postgres) struct TableReach {
    pub(in crate::postgres) reach: Arc<Reach>,
    /// When they are deleted.
    pub(in crate::postgres) by_delete: Option<Statement>,
    /// The marks of the rows themselves, where others reach them.
    pub(in crate::postgres) marks: Option<Statement>,
    /// A key that changes may reach others.
    pub(in crate::postgres) by_key_change: bool,
    /// The tables with rows that foreign keys may change when a row here is deleted.
    changed_by_delete: BTreeSet<Relation>,
    /// Its own columns that foreign keys write.
    pub(in crate::postgres) written: BTreeSet<String>,
}

impl TableReach {
    pub(in crate::postgres) fn of(
        reach: &Arc<Reach>,
        table: &CatalogTable<TableDetails>,
    ) -> TableReach {
        // A script that cannot be written is that of a table without a key: nothing is uploaded.
        let by_delete = reach.query(table, Effect::Gone).ok().flatten();
        let marks = reach.marks(table).ok().flatten();
        let acts =
            |key: &ActingKey| key.parent.is(&table.details) && key.on_update != Action::Nothing;
        let by_key_change = reach.keys.iter().any(acts);
        let changed_by_delete = reach.changed_by_delete(&table.details);
        let written = reach.written(&table.details);
        let reach = reach.clone();
        TableReach { reach, by_delete, marks, by_key_change, changed_by_delete, written }
    }

    /// Whether deletes may change rows of `other`, and not only delete them.
    pub(in crate::postgres) fn changes(&self, other: &TableDetails) -> bool {
        self.changed_by_delete.iter().any(|relation| relation.is(other))
    }
}

impl TableReach {
    /// Finds the keys of rows of `above`, the table itself, and those of the rows of `below` that
    /// would go with them or change.
    pub(in crate::postgres) fn children(
        &self,
        above: &CatalogTable<TableDetails>,
        below: &CatalogTable<TableDetails>,
    ) -> Result<Vec<Statement>, Failure> {
        let acts = |key: &&ActingKey| {
            let between = key.parent.is(&above.details) && key.child.is(&below.details);
            between && key.on_delete != Action::Nothing
        };
        let select = |alias: &str, of: &CatalogTable<TableDetails>| {
            let columns = of.published.key.iter().map(|at| usize::from(*at)).map(|at| {
                let cast = if of.details.columns[at].read_as_text() { "::text" } else { "" };
                format!("{alias}.{}{cast}", ident(&of.published.columns[at]))
            });
            columns.collect::<Vec<_>>().join(", ")
        };
        let query = |key: &ActingKey| {
            let mut statement = keys(above)?;
            statement.sql = format!(
                "SELECT {}, {} FROM ({}) AS k JOIN {} AS p ON {} JOIN {} AS c ON {}",
                select("k", above),
                select("c", below),
                statement.sql,
                name(above),
                same_key(above, "p"),
                key.child.sql(),
                key.condition(),
            );
            Ok(statement)
        };
        self.reach.keys.iter().filter(acts).map(query).collect()
    }
}
