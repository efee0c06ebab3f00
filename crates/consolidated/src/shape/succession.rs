//! Decides what a deployment does with older shapes.
//!
//! It decides which shapes are kept, and how an upload of each is applied to the current tables.

use super::identity::{Columns, Evolution, Evolved, Gone};
use super::store::{self, COLUMN, DECLARED, HELD, NEXT, NOW, Past, Row, SHAPE, SYSTEM};
use super::{Identities, SHAPES_MAX, Shape};
use crate::digest::digest;
use crate::script::Event;
use crate::sync_model::SyncModel;
use model::{Code, Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};

/// A table of a script version as it is about to be published.
#[derive(Debug, Clone)]
struct Current {
    script_version: String,
    /// The table's name in the database.
    name: String,
    /// The published columns under the names that the database gives them.
    local: Vec<String>,
    published: PublishedTable,
}

/// A table of a plan, which gets its final fingerprint.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) script_version: String,
    /// Under the names of the database.
    pub(crate) published: &'a mut PublishedTable,
    /// As remotes know it.
    pub(crate) outward: &'a mut PublishedTable,
}

/// A table with some of its columns: what an upload under an older shape is applied to.
#[derive(Debug)]
pub(crate) struct Narrow {
    pub(crate) published: PublishedTable,
    pub(crate) conflict_rule: String,
    pub(crate) details: String,
    pub(crate) scripts: Vec<(Event, String)>,
}

/// Plans a table, of a script version, with these of its columns.
pub(crate) type NarrowPlanner<'a> = &'a dyn Fn(&str, &str, &[String]) -> Result<Narrow, Failure>;

/// What a backend is asked while a deployment is planned.
pub(crate) struct Succession<'a> {
    pub(crate) models: &'a [SyncModel],
    /// All tables of the database with their columns.
    pub(crate) database: &'a Columns,
    /// The name in the database of what a model calls so.
    pub(crate) find: &'a dyn Fn(&str) -> Option<String>,
    /// Plans a table of a script version with these of its columns, without what downloads need.
    pub(crate) narrow: NarrowPlanner<'a>,
    /// In front of our tables.
    pub(crate) prefix: &'a str,
}

/// What is to be done.
#[derive(Debug, Default)]
struct Succeeded {
    /// The fingerprints of the current tables, in their order.
    fingerprints: Vec<String>,
    statements: Vec<String>,
    notices: Vec<String>,
}

/// Plans the changes of the shapes, or refuses undeclared ones. Returns the statements.
pub(crate) fn succeed(
    past: &Past,
    planned: Vec<Planned<'_>>,
    notices: &mut Vec<String>,
    succession: &Succession<'_>,
) -> Result<Vec<String>, Failure> {
    let current = planned.iter().map(|table| Current {
        script_version: table.script_version.clone(),
        name: table.published.name.clone(),
        local: table.published.columns.clone(),
        published: table.outward.clone(),
    });
    let current: Vec<Current> = current.collect();
    let succeeded = plan(past, &current, succession)?;
    for (table, fingerprint) in planned.into_iter().zip(succeeded.fingerprints) {
        table.outward.fingerprint.clone_from(&fingerprint);
        table.published.fingerprint = fingerprint;
    }
    notices.extend(succeeded.notices);
    Ok(succeeded.statements)
}

fn plan(
    past: &Past,
    current: &[Current],
    succession: &Succession<'_>,
) -> Result<Succeeded, Failure> {
    let mut published = Columns::new();
    for table in current {
        published.entry(table.name.clone()).or_default().extend(table.local.iter().cloned());
    }
    let evolution = Evolution {
        models: succession.models,
        applied: &past.applied,
        database: succession.database,
        published: &published,
        find: succession.find,
    };
    let evolved = evolution.evolve(&past.identities);
    let mut notices = Vec::new();
    let judged = evolved.gone.iter().filter_map(|gone| judge(past, gone, &mut notices).err());
    Failure::all(judged.collect())?;
    // Shapes that no remote holds any more go with the next change, and make none by themselves.
    let mut done = write(past, current, &evolved, succession, false);
    if !done.statements.is_empty() {
        done = write(past, current, &evolved, succession, true);
    }
    notices.append(&mut done.notices);
    notices.extend(current.iter().filter_map(|table| newly_published(past, table, &evolved)));
    Ok(Succeeded { notices, ..done })
}

/// What of a table that is deployed already goes to remotes for the first time. A model without
/// a list of columns publishes each new column, which its owner may not want.
fn newly_published(past: &Past, table: &Current, evolved: &Evolved) -> Option<String> {
    let identity = evolved.identities.tables.get(&table.name)?;
    let deployed = past.deployed.iter().filter(|(version, _)| *version == table.script_version);
    let mut shapes = deployed.filter_map(|(_, deployed)| {
        past.shapes.iter().find(|shape| shape.published.fingerprint == deployed.fingerprint)
    });
    let before = shapes.find(|shape| shape.table == identity.id)?;
    let is_new = |name: &&str| {
        identity.columns.get(*name).is_some_and(|number| !before.columns.contains(number))
    };
    let new: Vec<&str> = table.local.iter().map(String::as_str).filter(is_new).collect();
    let columns = match new.as_slice() {
        [] => return None,
        [one] => format!("column {one} is"),
        _ => format!("columns {} are", new.join(", ")),
    };
    Some(format!("{}: {columns} published from now on", table.name))
}

/// The statements that store what has become of numbers and shapes; with `trim`, only the shapes
/// that a remote holds.
fn write(
    past: &Past,
    current: &[Current],
    evolved: &Evolved,
    succession: &Succession<'_>,
    trim: bool,
) -> Succeeded {
    let mut done = Succeeded::default();
    let shapes = shapes(past, current, &evolved.identities, &mut done, trim);
    let own = done.fingerprints.clone();
    let current: Vec<(&Current, String)> = current.iter().zip(own).collect();
    let held = held(&current, &evolved.identities, &shapes, succession, &mut done.notices);
    let system = BTreeSet::from([
        vec![Some(NEXT.to_owned()), Some(evolved.identities.next.to_string())],
        vec![Some(DECLARED.to_owned()), Some(serde_json::json!(evolved.declared).to_string())],
    ]);
    let columns = store::column_rows(&evolved.identities);
    let shapes = shapes.iter().map(store::shape_row).collect();
    let wanted = [(&COLUMN, columns), (&SHAPE, shapes), (&HELD, held), (&SYSTEM, system)];
    for (table, rows) in wanted {
        done.statements.extend(past.replace(succession.prefix, table, &rows));
    }
    done
}

/// Refuses what went without a word while remotes may hold changes of it, and says what the rest
/// means for them.
fn judge(past: &Past, gone: &Gone, notices: &mut Vec<String>) -> Result<(), Failure> {
    let publishes: BTreeSet<&str> = past
        .deployed
        .iter()
        .filter(|(_, table)| table.name == gone.table)
        .map(|(version, _)| version.as_str())
        .collect();
    let remotes = past.remotes.iter().filter(|r| publishes.contains(r.script_version.as_str()));
    let remotes = match remotes.count() {
        0 => return Ok(()),
        1 => "1 remote".to_owned(),
        many => format!("{many} remotes"),
    };
    let table = &gone.table;
    let what = match &gone.column {
        Some(column) => format!("column {column} of table {table}"),
        None => format!("table {table}"),
    };
    if gone.declared {
        notices.push(format!(
            "{what} is gone: changes of it that {remotes} may still upload become rejects there"
        ));
        return Ok(());
    }
    let one = gone.candidates.first().filter(|_| gone.candidates.len() == 1);
    let new = one.map_or("NEW", String::as_str);
    let hint = match &gone.column {
        Some(column) => format!(
            "in [table.{table}] write `renamed = {{ {new} = \"{column}\" }}` to keep pending \
             changes under the new name, or `dropped = [\"{column}\"]` to make them rejects"
        ),
        None => format!(
            "write `renamed_from = \"{table}\"` in the section of its new name to keep pending \
             changes, or `dropped_tables = [\"{table}\"]` above all sections to make them rejects"
        ),
    };
    let message = format!("{what} is gone, and {remotes} may hold changes of it");
    Err(Failure::new(Code::UndeclaredChange, message).table(table.as_str()).hint(hint))
}

/// The shapes to keep, those of today among them.
fn shapes(
    past: &Past,
    current: &[Current],
    identities: &Identities,
    done: &mut Succeeded,
    trim: bool,
) -> Vec<Shape> {
    let mut known: BTreeMap<String, Shape> = past
        .shapes
        .iter()
        .map(|shape| (shape.published.fingerprint.clone(), shape.clone()))
        .collect();
    let mut today = BTreeSet::new();
    for table in current {
        let Some(identity) = identities.tables.get(&table.name) else {
            done.fingerprints.push(table.published.fingerprint.clone());
            continue;
        };
        let columns: Vec<i64> =
            table.local.iter().filter_map(|name| identity.columns.get(name).copied()).collect();
        let mut published = table.published.clone();
        // A name that was used again makes the same text and another table: remotes must get it
        // again, and what they hold must not be taken for it.
        while let Some(same) = known.get(&published.fingerprint)
            && (same.table, &same.columns) != (identity.id, &columns)
        {
            let ids = serde_json::json!((identity.id, &columns)).to_string();
            published.fingerprint = digest(&[&published.fingerprint, &ids]);
        }
        let fingerprint = published.fingerprint.clone();
        let shape = known.entry(fingerprint.clone()).or_insert_with(|| Shape {
            published,
            table: identity.id,
            columns,
            deployed_at: NOW.to_owned(),
            deployment: past.deployment + 1,
            superseded_at: None,
            superseded: None,
        });
        (shape.superseded, shape.superseded_at) = (None, None);
        today.insert(fingerprint.clone());
        done.fingerprints.push(fingerprint);
    }
    let mut kept = Vec::new();
    let mut older: BTreeMap<i64, Vec<Shape>> = BTreeMap::new();
    for (fingerprint, mut shape) in known {
        if today.contains(&fingerprint) {
            kept.push(shape);
            continue;
        }
        let superseded = *shape.superseded.get_or_insert(past.deployment + 1);
        shape.superseded_at.get_or_insert_with(|| NOW.to_owned());
        let held = |remote: &store::KnownRemote| remote.held.is_none_or(|held| held < superseded);
        if !trim || past.remotes.iter().any(held) {
            older.entry(shape.table).or_default().push(shape);
        }
    }
    for (_, shapes) in older {
        kept.extend(newest(shapes, &mut done.notices));
    }
    kept
}

/// The shapes of a table that are kept for remotes that are away (S9).
fn newest(mut shapes: Vec<Shape>, notices: &mut Vec<String>) -> Vec<Shape> {
    shapes.sort_by_key(|shape| std::cmp::Reverse((shape.superseded, shape.deployment)));
    if shapes.len() > SHAPES_MAX {
        let name = &shapes[0].published.name;
        notices.push(format!(
            "{name}: more than {SHAPES_MAX} older definitions; changes that remotes upload with \
             even older ones become rejects there"
        ));
        shapes.truncate(SHAPES_MAX);
    }
    shapes
}

/// How uploads under every other shape are applied to the tables of today.
fn held(
    current: &[(&Current, String)],
    identities: &Identities,
    shapes: &[Shape],
    succession: &Succession<'_>,
    notices: &mut Vec<String>,
) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for (table, own) in current {
        let Some(identity) = identities.tables.get(&table.name) else { continue };
        let id_of = |name: &String| identity.columns.get(name).copied();
        let others = shapes.iter().filter(|shape| {
            shape.table == identity.id
                && shape.published.fingerprint != *own
                && shape.published.direction.uploads()
        });
        for shape in others {
            let known = |name: &&String| id_of(name).is_some_and(|id| shape.columns.contains(&id));
            let columns: Vec<String> = table.local.iter().filter(known).cloned().collect();
            match plan_held(table, shape, &columns, &id_of, succession) {
                Ok(row) => drop(rows.insert(row)),
                Err(why) => notices.push(format!(
                    "{}: changes that remotes upload with its definition of {} become rejects \
                     there: {why}",
                    table.name, shape.deployed_at
                )),
            }
        }
    }
    rows
}

fn plan_held(
    table: &Current,
    shape: &Shape,
    columns: &[String],
    id_of: &dyn Fn(&String) -> Option<i64>,
    succession: &Succession<'_>,
) -> Result<Row, String> {
    if !table.published.direction.uploads() {
        return Err("remotes no longer upload its rows".into());
    }
    let key = table.published.key.iter().filter_map(|at| table.local.get(usize::from(*at)));
    for name in key {
        if !columns.contains(name) {
            return Err(format!("it lacks {name}, which is in the key"));
        }
    }
    let narrow = (succession.narrow)(&table.script_version, &table.name, columns);
    let mut narrow = narrow.map_err(|failure| failure.message().to_owned())?;
    narrow.published.fingerprint = shape.published.fingerprint.clone();
    let position = |id: &i64| {
        let mut columns = narrow.published.columns.iter();
        columns.position(|name| id_of(name) == Some(*id))
    };
    let projection: Vec<Option<usize>> = shape.columns.iter().map(position).collect();
    let scripts: BTreeMap<&str, &str> =
        narrow.scripts.iter().map(|(event, text)| (event.name(), text.as_str())).collect();
    Ok(vec![
        Some(table.script_version.clone()),
        Some(shape.published.fingerprint.clone()),
        Some(serde_json::json!(narrow.published).to_string()),
        Some(narrow.conflict_rule),
        Some(narrow.details),
        Some(serde_json::json!(projection).to_string()),
        Some(serde_json::json!(scripts).to_string()),
    ])
}
