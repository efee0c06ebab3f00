//! Rows that deletes and key changes of an upload change by the actions of foreign keys.
//!
//! The owner of the database declared these actions, but they are reported: the rows are counted,
//! also those of unpublished tables and of table partitions. One query before the statement, in the
//! same flight, finds them, because rows that a foreign key deletes leave no trace. The catalog
//! says whether there is anything to query; it is read with the deployment. An upload that can
//! reach no other row is sent without the query.
//!
//! A table that the server's user may not read is not examined: foreign keys act with the rights of
//! the table's owner, and a query does not. `deploy` and `check` name such tables, for their own
//! user and for each user that a server may have: those that may write to our tables.

use super::batch::{self, Batch};
use super::careful::{Careful, batches};
use super::catalog::Table;
use super::details::TableDetails;
use super::errors::failed;
use super::fetch::unreadable;
use super::link::{Answer, Call, Link, Row, Unreadable};
use super::outline::Outline;
use super::statement::Statement;
use super::upload::{Stop, Upload, stopped};
use crate::catalog::CatalogTable;
use crate::quote::{ident, idents, join};
use crate::reach::{self, Action, By, Effect, ForeignKey};
use crate::script::{Event, Script};
use crate::synchronization::Change;
use model::{Failure, ValueRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every foreign key with an action, but those that a partition has from its parent.
pub(super) const READ: &str = include_str!("reached.sql");

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
pub(super) fn unreadable_tables(
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

/// Around the queries: a plan that was made for other tables is not kept.
const PLAN: &str = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)";
const PLAN_NO_MORE: &str = "SELECT set_config('plan_cache_mode', 'auto', true)";

/// The foreign keys of the database that do something to rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reach {
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

#[derive(Debug, Clone, PartialEq)]
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
    pub(super) fn of(rows: &[Row]) -> Result<Reach, Unreadable> {
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
    fn query(
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
                 ) AS step)
             SELECT DISTINCT id FROM reached
             WHERE id IS NOT NULL AND (rel, tid) NOT IN (SELECT rel, tid FROM seed)",
            statement.sql,
            name(table),
            same_key(table, "t"),
            steps.join("\nUNION ALL\n"),
        );
        Ok(Some(statement))
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
pub(super) struct TableReach {
    reach: Arc<Reach>,
    /// When they are deleted.
    pub(super) by_delete: Option<Statement>,
    /// The marks of the rows themselves, where others reach them.
    marks: Option<Statement>,
    /// A key that changes may reach others.
    by_key_change: bool,
}

impl TableReach {
    pub(super) fn of(reach: &Arc<Reach>, table: &CatalogTable<TableDetails>) -> TableReach {
        // A script that cannot be written is that of a table without a key: nothing is uploaded.
        let by_delete = reach.query(table, Effect::Gone).ok().flatten();
        let marks = reach.marks(table).ok().flatten();
        let acts =
            |key: &ActingKey| key.parent.is(&table.details) && key.on_update != Action::Nothing;
        let by_key_change = reach.keys.iter().any(acts);
        TableReach { reach: reach.clone(), by_delete, marks, by_key_change }
    }
}

impl TableReach {
    /// Finds the keys of rows of `above`, the table itself, and those of the rows of `below` that
    /// would go with them or change.
    pub(super) fn children(
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

/// Adds the query for reached rows before the next statement of `calls`.
pub(super) fn ask<'p>(calls: &mut Vec<Call<'p>>, queries: impl Iterator<Item = Call<'p>>) {
    let first = calls.len();
    calls.push(Call::new(PLAN, &[]));
    calls.extend(queries);
    match calls.len() == first + 1 {
        true => calls.truncate(first),
        false => calls.push(Call::new(PLAN_NO_MORE, &[])),
    }
}

/// The marks that the queries among the calls of [`ask`] have found.
pub(super) fn found_by(answers: &[Answer]) -> Result<Vec<i64>, Failure> {
    let Some((_, answers)) = answers.split_first() else { return Ok(Vec::new()) };
    let rows = answers.split_last().map_or(&[][..], |(_, queries)| queries).iter();
    rows.flat_map(|answer| &answer.rows).map(|row| row.try_get(0).map_err(unreadable)).collect()
}

/// By what rows are reached at an event; none where nothing is asked then.
pub(super) fn by(event: Event) -> Option<By> {
    match event {
        Event::UploadDelete | Event::ResolveDeleteConflict => Some(By::Delete),
        Event::UploadKeyChange => Some(By::KeyChange),
        _ => None,
    }
}

/// A query and the rows that it is about, as if they were deleted.
pub(super) type Question = (Arc<Statement>, Vec<Vec<u8>>);

impl Careful<'_, '_> {
    /// The query before the script of `event` for `rows`.
    pub(super) fn questions(
        &self,
        table: usize,
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<Vec<Question>, Failure> {
        let this = self.table(table);
        match by(event) {
            None => Ok(Vec::new()),
            Some(By::Delete) => {
                let query = this.reach.by_delete.clone();
                Ok(query.map(|query| (Arc::new(query), rows.to_vec())).into_iter().collect())
            }
            Some(By::KeyChange) if !this.reach.by_key_change => Ok(Vec::new()),
            Some(By::KeyChange) => {
                let columns = &this.deployed.published.columns;
                let mut groups: BTreeMap<BTreeSet<String>, Vec<Vec<u8>>> = BTreeMap::new();
                for bytes in rows {
                    let row = self.read(table, Change::KeyChange, bytes)?;
                    let pairs = columns.iter().zip(row.old.iter().zip(&row.new));
                    let changed =
                        pairs.filter(|(_, (old, new))| !ValueRef::identical(**old, **new));
                    let changed = changed.map(|(column, _)| column.clone()).collect();
                    groups.entry(changed).or_default().push(super::key_change::image(&row.old));
                }
                let mut questions = Vec::new();
                for (changed, rows) in groups {
                    let effect = Effect::Changed(changed);
                    let query = this.reach.reach.query(&this.deployed, effect)?;
                    questions.extend(query.map(|query| (Arc::new(query), rows)));
                }
                Ok(questions)
            }
        }
    }

    /// Takes note of the rows that the upload changes or deletes itself, where others of it may
    /// reach them.
    pub(super) fn name_rows(&mut self, outline: &Outline) -> Result<(), Stop> {
        if !outline.reaches(self.upload) {
            return Ok(());
        }
        let upload = self.upload;
        let mut named: BTreeMap<(usize, bool), Vec<Vec<u8>>> = BTreeMap::new();
        let mut bytes = 0;
        outline.visit(upload, &mut |table, row| {
            if row.change == Change::Insert || upload.tables[table].reach.marks.is_none() {
                return Ok(());
            }
            bytes += row.bytes.len();
            let deleted = row.change == Change::Delete;
            named.entry((table, deleted)).or_default().push(super::key_change::image(&row.old));
            if bytes >= batch::BATCH_BYTES {
                bytes = 0;
                self.name_these(std::mem::take(&mut named))?;
            }
            Ok(())
        })?;
        self.name_these(named)
    }

    fn name_these(&mut self, named: BTreeMap<(usize, bool), Vec<Vec<u8>>>) -> Result<(), Stop> {
        for ((table, deleted), rows) in named {
            let this = self.table(table);
            let Some(statement) = &this.reach.marks else { continue };
            let batches = batches(this, statement, self.upload, Change::Delete, &rows)?;
            for mark in self.marks_of(&batches)? {
                self.reached.name(mark, deleted);
            }
        }
        Ok(())
    }

    fn marks_of(&mut self, batches: &[Batch<'_>]) -> Result<Vec<i64>, Stop> {
        self.flush()?;
        let values: Vec<_> = batches.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let mut calls = Vec::new();
        ask(&mut calls, batches.iter().zip(&parameters).map(|(batch, p)| batch::query(batch, p)));
        let answers = self.link.flight(&calls).map_err(stopped("look for rows of the upload"))?;
        Ok(found_by(&answers)?)
    }
}

/// Whether deletes or key changes of `table` may reach others.
pub(super) fn reaches(table: &Table, change: Change) -> bool {
    match change {
        Change::Delete => table.reach.by_delete.is_some(),
        Change::KeyChange => table.reach.by_key_change,
        Change::Insert | Change::Update => false,
    }
}

impl Outline {
    /// Whether anything of the upload may reach rows by the actions of foreign keys.
    fn reaches(&self, upload: Upload<'_>) -> bool {
        let table = |at: &usize| -> &Table { &upload.tables[*at] };
        self.deleted().any(|at| reaches(table(at), Change::Delete))
            || self.key_changed().any(|at| reaches(table(&at), Change::KeyChange))
    }
}
