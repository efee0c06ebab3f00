//! What a set of models comes to: objects, scripts, publications. Nothing is changed here.

use super::catalog::TableDetails;
use super::remote_ddl;
use super::scripts::Generator;
use super::tables::{self, UserTable};
use super::tracking::{self, Object};
use crate::digest::digest;
use crate::script::{Event, Script};
use crate::sync_model::{ConflictRule, CoveredRows, SyncModel, TableModel};
use model::{Code, Failure, PublicationName, PublishedTable, ScriptVersion};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that `deploy` has to make true.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Logs and triggers, each once however many versions need it.
    pub(super) objects: Vec<Object>,
    pub(super) versions: Vec<VersionPlan>,
    pub(super) notices: Vec<String>,
}

#[derive(Debug)]
pub(super) struct VersionPlan {
    pub(super) script_version: ScriptVersion,
    pub(super) publications: Vec<(PublicationName, Vec<String>)>,
    /// Parents first.
    pub(super) tables: Vec<TablePlan>,
}

#[derive(Debug)]
pub(super) struct TablePlan {
    pub(super) published: PublishedTable,
    pub(super) conflict_rule: String,
    pub(super) details: TableDetails,
    pub(super) scripts: Vec<(Event, String)>,
}

/// Plans `models` for a database with these `user_tables`.
pub(super) fn plan(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    let mut tracked = BTreeSet::new();
    for model in models {
        if plan.versions.iter().any(|version| version.script_version == model.script_version) {
            return Err(mismatch(
                model,
                format!("script version {} is twice", model.script_version),
            ));
        }
        let version = plan_version(user_tables, model, &mut plan.notices)?;
        for table in &version.tables {
            let published = &table.published;
            if published.direction.downloads() && tracked.insert(published.name.clone()) {
                plan.objects.extend(tracking::objects(&user_tables[&published.name]));
            }
        }
        plan.versions.push(version);
    }
    plan.notices.dedup();
    Ok(plan)
}

fn plan_version(
    user_tables: &BTreeMap<String, UserTable>,
    model: &SyncModel,
    notices: &mut Vec<String>,
) -> Result<VersionPlan, Failure> {
    // The names as the database spells them, with their models.
    let mut chosen: BTreeMap<String, &TableModel> = BTreeMap::new();
    for (name, table_model) in &model.tables {
        let table = tables::find(user_tables, name).ok_or_else(|| {
            mismatch(model, format!("there is no table {name}")).table(name.as_str())
        })?;
        if let Some(failure) = tables::unsupported(table) {
            return Err(failure);
        }
        if table_model.rows != CoveredRows::All {
            let message = format!("line {}: partitions are not served yet", table_model.line);
            return Err(mismatch(model, message).table(name.as_str()));
        }
        chosen.insert(table.name.clone(), table_model);
    }
    let mut publications: Vec<(PublicationName, Vec<String>)> = Vec::new();
    for (publication, names) in &model.publications {
        let mut published = Vec::new();
        for name in names {
            let table = tables::find(user_tables, name).filter(|t| chosen.contains_key(&t.name));
            let table = table.ok_or_else(|| {
                mismatch(
                    model,
                    format!("publication {publication} names {name}, which the model lacks"),
                )
            })?;
            published.push(table.name.clone());
        }
        publications.push((publication.clone(), published));
    }
    let ordered = tables::parents_first(user_tables, &chosen.keys().cloned().collect());
    let mut planned = Vec::new();
    for name in ordered {
        let (table, table_model) = (&user_tables[&name], chosen[&name]);
        let with_parent = |parent: &str| {
            let downloads = chosen.get(parent).is_some_and(|parent| parent.direction.downloads());
            let together = publications
                .iter()
                .all(|(_, names)| !names.contains(&name) || names.iter().any(|n| n == parent));
            downloads && together
        };
        planned.push(plan_table(table, table_model, model, &with_parent, notices)?);
    }
    Ok(VersionPlan { script_version: model.script_version.clone(), publications, tables: planned })
}

fn plan_table(
    table: &UserTable,
    table_model: &TableModel,
    model: &SyncModel,
    with_parent: &dyn Fn(&str) -> bool,
    notices: &mut Vec<String>,
) -> Result<TablePlan, Failure> {
    if let Some(column) = table_model.stored_as.keys().next() {
        let message = format!(
            "table {}: `as` names {column}; SQLite keeps values as they are at both ends",
            table.name
        );
        return Err(mismatch(model, message).table(table.name.as_str()));
    }
    let columns = published_columns(table, table_model, model)?;
    if let ConflictRule::Latest(latest) = &table_model.conflict
        && !columns.contains(latest)
    {
        let message =
            format!("table {}: latest names {latest}, which is not published", table.name);
        return Err(mismatch(model, message).table(table.name.as_str()));
    }
    for column in table.nullable_key() {
        notices.push(format!(
            "{}: the key column {column} may be NULL; rows where it is are not synchronized",
            table.name
        ));
    }
    if table.uniques.iter().any(|unique| unique.columns.contains(&None)) {
        notices.push(format!(
            "{}: a UNIQUE index on an expression is not watched for INSERT OR REPLACE",
            table.name
        ));
    }
    let (create, left_out) = remote_ddl::create(table, &columns, with_parent);
    notices.extend(left_out);
    let key =
        table.key.iter().filter_map(|k| columns.iter().position(|c| c == k)).map(|p| p as u16);
    let mut published = PublishedTable {
        name: table.name.clone(),
        key: key.collect(),
        direction: table_model.direction,
        create,
        fingerprint: String::new(),
        columns,
    };
    published.fingerprint = digest(&[&serde_json::json!(published).to_string()]);
    let generator = Generator {
        table,
        columns: &published.columns,
        direction: published.direction,
        rule: &table_model.conflict,
    };
    let scripts = generator.scripts();
    for (_, script) in &scripts {
        Script::parse(script, &published)?;
    }
    let conflict_rule = table_model.conflict.to_string();
    Ok(TablePlan { published, conflict_rule, details: TableDetails::default(), scripts })
}

/// The published columns in the table's order; the key is always among them.
fn published_columns(
    table: &UserTable,
    table_model: &TableModel,
    model: &SyncModel,
) -> Result<Vec<String>, Failure> {
    let stored = table.stored_columns();
    let Some(wanted) = &table_model.columns else { return Ok(stored) };
    for name in wanted {
        if !stored.contains(name) {
            let message =
                format!("table {} has no column {name} that can be published", table.name);
            return Err(mismatch(model, message).table(table.name.as_str()));
        }
    }
    let columns: Vec<String> = stored
        .into_iter()
        .filter(|name| wanted.contains(name) || table.key.contains(name))
        .collect();
    if table_model.direction.uploads() {
        let missing = table.columns.iter().find(|column| {
            !columns.contains(&column.name)
                && column.not_null
                && column.default.is_none()
                && !column.generated
        });
        if let Some(column) = missing {
            let message = format!(
                "table {}: column {} is not published, yet remotes insert rows and it has neither \
                 NULL nor a default",
                table.name, column.name
            );
            return Err(mismatch(model, message).table(table.name.as_str()));
        }
    }
    Ok(columns)
}

fn mismatch(model: &SyncModel, message: String) -> Failure {
    Failure::new(Code::ModelMismatch, format!("{}: {message}", model.file_name))
}
