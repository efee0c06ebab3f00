//! The steps from the present objects to the planned ones. Nothing is changed here.

use crate::deploy;
use crate::postgres::deploy::installed::{Installed, OBJECTS, ObjectId};
use crate::postgres::deploy::plan::Plan;
use crate::postgres::deploy::system_tables::SYSTEM;
use crate::postgres::tracking::{FUNCTIONS, Object, Tracking, UNLINKED, WATCHED, watch};
use crate::postgres::words::PostgresWords;
use crate::quote::{ident, literal};
use crate::sql::Words;
use std::collections::{BTreeMap, BTreeSet};

/// What is done at once.
#[derive(Debug, PartialEq)]
pub(in crate::postgres) enum Step {
    /// Statements of one short transaction; the user's table that it locks, where it locks one.
    Together(Option<String>, Vec<String>),
    /// A statement that must not be in a transaction.
    Alone(String),
}

impl Step {
    /// As a person would type it.
    pub(in crate::postgres) fn statements(&self) -> Vec<String> {
        match self {
            Step::Alone(statement) => vec![statement.clone()],
            Step::Together(_, statements) => {
                let begin = std::iter::once("BEGIN".to_owned());
                begin.chain(statements.iter().cloned()).chain(["COMMIT".to_owned()]).collect()
            }
        }
    }
}

/// What `deploy` has to do.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Steps {
    /// What uploads under the present deployment do not touch.
    pub(in crate::postgres) before: Vec<Step>,
    /// While there is no upload (`held.rs`); the last brings the new model, where there is any.
    pub(in crate::postgres) held: Vec<Step>,
    /// What only makes things faster, and takes its time.
    pub(in crate::postgres) after: Vec<Step>,
}

impl Steps {
    pub(in crate::postgres) fn all(&self) -> impl Iterator<Item = &Step> {
        self.before.iter().chain(&self.held).chain(&self.after)
    }
}

/// What `deploy` has to do.
pub(in crate::postgres) fn deploy(plan: &Plan, present: &Installed) -> Steps {
    let mut steps = Steps::default();
    if !present.has_system_tables {
        steps.before.push(Step::Together(None, system_tables(present.has_schema)));
    }
    if !present.system_upgrade.is_empty() {
        steps.before.push(Step::Together(None, present.system_upgrade.clone()));
    }
    let functions = shared_functions(present);
    if !functions.is_empty() {
        steps.before.push(Step::Together(None, functions));
    }
    let planned: BTreeMap<&str, &Tracking> =
        plan.tracking.iter().map(|tracking| (tracking.sql_name.as_str(), tracking)).collect();
    let by_table = by_table(present);
    let (untracked, strays) = removals(&planned, present, &by_table);
    steps.held.extend(untracked);
    let known: BTreeSet<&str> =
        present.recorded.keys().map(|(_, table, _)| table.as_str()).collect();
    for tracking in &plan.tracking {
        let is_known = known.contains(tracking.sql_name.as_str());
        let found = by_table.get(tracking.sql_name.as_str()).map_or(&[][..], Vec::as_slice);
        let (at_once, slowly) = track(tracking, present, found);
        match is_known {
            true => {
                steps.held.extend(at_once);
                steps.after.extend(slowly);
            }
            false => steps.before.extend(at_once.into_iter().chain(slowly)),
        }
    }
    // Only now: a table that has got another name had its triggers until here.
    steps.held.extend(strays);
    let replacement = deploy::row_replacement(
        &present.rows,
        deploy::planned_rows(plan, PostgresWords::PREFIX),
        PostgresWords::PREFIX,
    );
    if replacement.is_empty() && plan.shapes.is_empty() && steps.all().next().is_none() {
        return steps;
    }
    let mut statements = replacement;
    statements.extend(plan.shapes.iter().cloned());
    statements.push(
        "UPDATE syncline.syncline_system SET value = (value::bigint + 1)::text \
         WHERE name = 'deployment'"
            .into(),
    );
    steps.held.push(Step::Together(None, statements));
    steps
}

fn system_tables(has_schema: bool) -> Vec<String> {
    let mut statements = Vec::new();
    if !has_schema {
        statements.push("CREATE SCHEMA syncline".to_owned());
    }
    statements.extend(SYSTEM.statements());
    let random = "replace(gen_random_uuid()::text, '-', '')";
    for (name, value) in [
        ("format", literal(&SYSTEM.format.to_string())),
        // Not from zero: a server that runs on while all is undeployed and deployed again must
        // not take the new deployment for the one that it knows.
        ("deployment", "((random() * 1000000000)::bigint)::text".into()),
        ("database_id", random.into()),
        ("generation", "((random() * 9007199254740992)::bigint)::text".into()),
        ("incarnation", "((random() - 0.5) * 9e18)::bigint::text".into()),
        ("token_key", format!("{random} || {random}")),
        ("receipt_key", format!("{random} || {random}")),
        // Whether `undeploy` drops the schema too.
        ("schema_created", literal(if has_schema { "0" } else { "1" })),
    ] {
        let name = literal(name);
        statements.push(format!("INSERT INTO syncline.syncline_system VALUES ({name}, {value})"));
    }
    statements
}

fn shared_functions(present: &Installed) -> Vec<String> {
    let mut statements = Vec::new();
    for (name, sql) in FUNCTIONS {
        let id = (String::from("FUNCTION"), String::new(), name.to_owned());
        if !is_as_deployed(&id, sql, present) {
            statements.push(sql.to_owned());
            statements.push(record(&id, sql));
        }
    }
    statements
}

/// Whether the object is there, as it was deployed, and as it would be deployed now.
fn is_as_deployed(id: &ObjectId, sql: &str, present: &Installed) -> bool {
    let Some((recorded, definition)) = present.recorded.get(id) else { return false };
    recorded == sql && present.objects.get(id) == Some(definition)
}

/// Notes an object with the definition that the database gives it. Looks only where this object
/// can be, or a large schema would take minutes.
fn record((kind, table, name): &ObjectId, sql: &str) -> String {
    let is_of_kind = |query: &&str| query.starts_with(&format!("SELECT {}", literal(kind)));
    let query = OBJECTS.split("UNION ALL\n").find(is_of_kind).unwrap_or(OBJECTS).trim_end();
    let place = match kind.as_str() {
        "FUNCTION" => format!("p.proname = {}", literal(name)),
        "TABLE" => format!("c.relname = {}", literal(name)),
        _ => format!("c.oid = {}::regclass", literal(table)),
    };
    format!(
        "INSERT INTO syncline.syncline_object\n\
         SELECT o.table_name, o.kind, o.name, {sql}, o.definition FROM (\n\
         {query} AND {place}) AS o (kind, table_name, name, definition)\n\
         WHERE o.kind = {kind} AND o.table_name = {table} AND o.name = {name}\n\
         ON CONFLICT (table_name, kind, name) DO UPDATE\n\
         SET sql = excluded.sql, definition = excluded.definition",
        sql = literal(sql),
        kind = literal(kind),
        table = literal(table),
        name = literal(name),
    )
}

fn forget((kind, table, name): &ObjectId) -> String {
    format!(
        "DELETE FROM syncline.syncline_object WHERE kind = {} AND table_name = {} AND name = {}",
        literal(kind),
        literal(table),
        literal(name)
    )
}

fn id_of(object: &Object, tracking: &Tracking) -> ObjectId {
    let table = match object.kind {
        "TABLE" | "FUNCTION" => String::new(),
        _ => tracking.sql_name.clone(),
    };
    (object.kind.to_owned(), table, object.name.clone())
}

/// The statement that removes an object.
fn drop_object((kind, table, name): &ObjectId) -> String {
    match kind.as_str() {
        "COLUMN" => format!("ALTER TABLE {table} DROP COLUMN {}", ident(name)),
        "TRIGGER" => format!("DROP TRIGGER {} ON {table}", ident(name)),
        "INDEX" => {
            // An index is in the schema of its table.
            let schema = table.rsplit_once("\".\"").map_or("", |(schema, _)| schema);
            format!("DROP INDEX {schema}\".{}", ident(name))
        }
        "FUNCTION" => format!("DROP FUNCTION syncline.{}()", ident(name)),
        _ => format!("DROP TABLE syncline.{}", ident(name)),
    }
}

/// Triggers need functions, and the column is in triggers and indexes.
fn drop_order(id: &ObjectId) -> usize {
    ["TRIGGER", "INDEX", "COLUMN", "FUNCTION", "TABLE"]
        .iter()
        .position(|kind| *kind == id.0)
        .unwrap_or(0)
}

/// Everything of Syncline in the database, in the order in which it can be dropped, by table.
fn by_table(present: &Installed) -> BTreeMap<&str, Vec<&ObjectId>> {
    let mut tables: BTreeMap<&str, Vec<&ObjectId>> = BTreeMap::new();
    for id in present.objects.keys() {
        tables.entry(&id.1).or_default().push(id);
    }
    tables.values_mut().for_each(|ids| ids.sort_by_key(|id| drop_order(id)));
    tables
}

/// Stops tracking tables outside the plan, and removes logs without a table.
fn removals(
    planned: &BTreeMap<&str, &Tracking>,
    present: &Installed,
    by_table: &BTreeMap<&str, Vec<&ObjectId>>,
) -> (Vec<Step>, Option<Step>) {
    let mut steps = Vec::new();
    for (&table, ids) in by_table {
        if table.is_empty() || planned.contains_key(table) {
            continue;
        }
        let statements = ids.iter().flat_map(|id| [drop_object(id), forget(id)]).collect();
        steps.push(Step::Together(Some(table.to_owned()), statements));
    }
    let mut wanted: BTreeSet<ObjectId> = BTreeSet::new();
    for tracking in planned.values() {
        wanted.extend(tracking.objects.iter().map(|object| id_of(object, tracking)));
        wanted.extend(index_id(tracking));
    }
    wanted.extend(FUNCTIONS.map(|(name, _)| ("FUNCTION".into(), String::new(), name.to_owned())));
    let stray = |id: &&ObjectId| id.1.is_empty() && !wanted.contains(*id);
    let mut strays: Vec<&ObjectId> = present.objects.keys().filter(stray).collect();
    strays.sort_by_key(|id| drop_order(id));
    let mut statements: Vec<String> = strays.iter().map(|id| drop_object(id)).collect();
    // What is gone already is forgotten too.
    let gone = present.recorded.keys().filter(|id| !wanted.contains(*id));
    statements.extend(gone.filter(|id| !is_dropped(id, planned, present)).map(forget));
    if statements.is_empty() {
        return (steps, None);
    }
    let tables: Vec<String> = planned.values().map(|t| literal(&t.table)).collect();
    let kept = if tables.is_empty() { "NULL".to_owned() } else { tables.join(", ") };
    statements.push(format!(
        "DELETE FROM syncline.syncline_logs WHERE (table_name IN ({kept})) IS NOT TRUE"
    ));
    (steps, Some(Step::Together(None, statements)))
}

/// Whether a step of its table forgets it.
fn is_dropped(id: &ObjectId, planned: &BTreeMap<&str, &Tracking>, present: &Installed) -> bool {
    !id.1.is_empty() && !planned.contains_key(id.1.as_str()) && present.objects.contains_key(id)
}

fn index_id(tracking: &Tracking) -> Option<ObjectId> {
    let index = tracking.version_index.as_ref()?;
    Some(("INDEX".into(), tracking.sql_name.clone(), index.name.clone()))
}

/// Makes the tracking of one table what is planned; apart from it an index of a large table. What
/// of Syncline the table has is `found`.
fn track(tracking: &Tracking, present: &Installed, found: &[&ObjectId]) -> (Vec<Step>, Vec<Step>) {
    let table = &tracking.sql_name;
    let ids: Vec<ObjectId> = tracking.objects.iter().map(|o| id_of(o, tracking)).collect();
    let as_deployed =
        |(object, id): (&Object, &ObjectId)| is_as_deployed(id, &object.sql.join(";\n"), present);
    let restored = present.from_the_future.contains(table);
    let whole = !restored && tracking.objects.iter().zip(&ids).all(as_deployed);
    let index = index_id(tracking);
    let mut slowly = Vec::new();
    let mut statements = Vec::new();
    if !whole {
        statements =
            upgrade(tracking, &ids, present).unwrap_or_else(|| retrack(tracking, &ids, present));
    }
    for &id in found.iter().filter(|id| !ids.contains(id) && Some(**id) != index.as_ref()) {
        statements.insert(0, forget(id));
        statements.insert(0, drop_object(id));
    }
    if !statements.is_empty() {
        statements.push(watch::store(&tracking.table, &tracking.sql_name));
    }
    let Some((index, id)) = tracking.version_index.as_ref().zip(index) else {
        return (Vec::from_iter(together(table, statements)), slowly);
    };
    // With the column the index went too.
    let drop_column = format!("ALTER TABLE {table} DROP COLUMN ");
    let column_drops_it = statements.iter().any(|sql| sql.starts_with(&drop_column));
    if column_drops_it || !is_as_deployed(&id, &index.sql, present) {
        if present.objects.contains_key(&id) && !column_drops_it {
            statements.insert(0, drop_object(&id));
        }
        if index.large {
            let concurrently = index.sql.replacen("INDEX", "INDEX CONCURRENTLY", 1);
            slowly.push(Step::Alone(concurrently));
            slowly.push(Step::Together(None, vec![record(&id, &index.sql)]));
        } else {
            statements.extend([index.sql.clone(), record(&id, &index.sql)]);
        }
    }
    (Vec::from_iter(together(table, statements)), slowly)
}

fn together(table: &str, statements: Vec<String>) -> Option<Step> {
    (!statements.is_empty()).then(|| Step::Together(Some(table.to_owned()), statements))
}

/// Makes what was deployed what it is now, if that does not touch what the table or its log knows.
///
/// Everything is as it was deployed, so nothing has gone unnoticed until now; nor does it while the
/// table is locked. The log keeps its entries and its incarnation, and no remote is sent more than
/// its changes.
fn upgrade(tracking: &Tracking, ids: &[ObjectId], present: &Installed) -> Option<Vec<String>> {
    if present.from_the_future.contains(&tracking.sql_name) {
        return None;
    }
    let mut statements = Vec::new();
    let mut triggers_change = false;
    for (object, id) in tracking.objects.iter().zip(ids) {
        let sql = object.sql.join(";\n");
        let is_added = object.name == UNLINKED && !present.recorded.contains_key(id);
        if is_added && !present.objects.contains_key(id) {
            triggers_change = true;
            statements.extend(object.sql.iter().cloned());
            statements.push(record(id, &sql));
            continue;
        }
        let (recorded, definition) = present.recorded.get(id)?;
        if present.objects.get(id) != Some(definition) {
            return None;
        }
        if *recorded == sql {
            continue;
        }
        match object.kind {
            // It fits the log, whose columns decide what it notes.
            "FUNCTION" => statements.extend(object.sql.clone()),
            // Their functions decide what they record, so the triggers can be replaced.
            _ if ["syncline_gone", WATCHED, UNLINKED].contains(&object.name.as_str()) => {
                triggers_change = true;
                statements.push(drop_object(id));
                statements.extend(object.sql.clone());
            }
            _ => return None,
        }
        statements.push(record(id, &sql));
    }
    if triggers_change {
        statements.push(mark_bypassed(tracking));
    }
    Some(statements)
}

/// Sets the mark, because it is unknown what was written before the triggers existed.
fn mark_bypassed(tracking: &Tracking) -> String {
    let table = literal(&tracking.table);
    format!(
        "UPDATE syncline.syncline_logs SET bypassed = pg_current_xact_id() \
         WHERE table_name = {table}"
    )
}

/// Makes everything of a table again that has to be: where only triggers differ, rows and log keep
/// what they know. In any case changes may have gone unnoticed, so that the table gets a new
/// incarnation and every remote receives it again.
fn retrack(tracking: &Tracking, ids: &[ObjectId], present: &Installed) -> Vec<String> {
    let restored = present.from_the_future.contains(&tracking.sql_name);
    let objects = || tracking.objects.iter().zip(ids);
    let keeps = |kind: &str| {
        !restored
            && objects()
                .filter(|(object, _)| object.kind == kind)
                .all(|(object, id)| is_as_deployed(id, &object.sql.join(";\n"), present))
    };
    let (keeps_column, keeps_log) = (keeps("COLUMN"), keeps("TABLE"));
    let renewed = |object: &Object| match object.kind {
        "COLUMN" => !keeps_column,
        "TABLE" => !keeps_log,
        _ => true,
    };
    let mut dropped: Vec<&ObjectId> = objects()
        .filter(|(object, id)| renewed(object) && present.objects.contains_key(*id))
        .map(|(_, id)| id)
        .collect();
    dropped.sort_by_key(|id| drop_order(id));
    let mut statements: Vec<String> = dropped.into_iter().map(drop_object).collect();
    for (object, id) in objects().filter(|(object, _)| renewed(object)) {
        statements.extend(object.sql.iter().cloned());
        statements.push(record(id, &object.sql.join(";\n")));
    }
    statements.push(format!(
        "INSERT INTO syncline.syncline_logs (table_name, incarnation)\n\
         VALUES ({}, (random() * 9007199254740992)::bigint)\n\
         ON CONFLICT (table_name) DO UPDATE SET incarnation = excluded.incarnation",
        literal(&tracking.table)
    ));
    statements.push(mark_bypassed(tracking));
    statements
}

/// What `undeploy` has to do.
pub(in crate::postgres) fn undeploy(
    present: &Installed,
    system_objects: &[String],
    drops_schema: bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (table, ids) in by_table(present) {
        if !table.is_empty() {
            let statements = ids.into_iter().map(drop_object).collect();
            steps.push(Step::Together(Some(table.to_owned()), statements));
        }
    }
    let mut statements: Vec<String> =
        system_objects.iter().map(|object| format!("DROP {object}")).collect();
    if drops_schema {
        statements.push("DROP SCHEMA syncline".into());
    }
    if !statements.is_empty() {
        steps.push(Step::Together(None, statements));
    }
    steps
}
