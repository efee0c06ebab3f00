//! What a set of models comes to: tracking, scripts, publications. Nothing is changed here.

use super::details::TableDetails;
use super::remote_ddl;
use super::scripts::{self, Generator};
use super::tables::{self, UserColumn, UserTable};
use super::tracking::{self, Tracking};
use super::values::{ColumnType, NumericAs};
use crate::digest::digest;
use crate::script::{Event, Script};
use crate::sync_model::{ConflictRule, StoredAs, SyncModel, TableModel};
use model::{Code, Failure, PublicationName, PublishedTable, ScriptVersion};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that `deploy` has to make true.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// One per downloaded table, however many versions need it.
    pub(super) tracked: Vec<Tracking>,
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

/// Digits that SQLite's NUMERIC affinity keeps.
const NUMERIC_DIGITS_MAX: i32 = 15;

/// Plans `models` for a database with these `user_tables`.
pub(super) fn plan(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    let mut tracked = BTreeSet::new();
    for model in models {
        if plan.versions.iter().any(|version| version.script_version == model.script_version) {
            let message = format!("script version {} is twice", model.script_version);
            return Err(mismatch(model, message));
        }
        let version = plan_version(user_tables, model, &mut plan.notices)?;
        for table in &version.tables {
            let published = &table.published;
            if published.direction.downloads() && tracked.insert(published.name.clone()) {
                plan.tracked.push(tracking::of(&user_tables[&published.name], &[], true));
            }
        }
        plan.versions.push(version);
    }
    let mut seen = BTreeSet::new();
    plan.notices.retain(|notice| seen.insert(notice.clone()));
    Ok(plan)
}

fn plan_version(
    user_tables: &BTreeMap<String, UserTable>,
    model: &SyncModel,
    notices: &mut Vec<String>,
) -> Result<VersionPlan, Failure> {
    // By their published names, with their models.
    let mut chosen: BTreeMap<String, &TableModel> = BTreeMap::new();
    for (name, table_model) in &model.tables {
        let (published, table) = tables::find(user_tables, name).ok_or_else(|| {
            mismatch(model, format!("there is no table {name}")).table(name.as_str())
        })?;
        if let Some(failure) = tables::unsupported(table) {
            return Err(failure);
        }
        chosen.insert(published.clone(), table_model);
    }
    if let Some(name) = tables::same_but_for_case(chosen.keys().map(String::as_str)) {
        let message = format!("table {name} and another differ in letter case only");
        return Err(mismatch(model, message).table(name));
    }
    let publications = publications(user_tables, model, &chosen)?;
    let ordered = tables::parents_first(user_tables, &chosen.keys().cloned().collect());
    let mut planned = Vec::new();
    for name in ordered {
        let version = Version { model, chosen: &chosen, publications: &publications, user_tables };
        planned.push(version.plan_table(&name, chosen[&name], notices)?);
    }
    Ok(VersionPlan { script_version: model.script_version.clone(), publications, tables: planned })
}

fn publications(
    user_tables: &BTreeMap<String, UserTable>,
    model: &SyncModel,
    chosen: &BTreeMap<String, &TableModel>,
) -> Result<Vec<(PublicationName, Vec<String>)>, Failure> {
    let mut publications: Vec<(PublicationName, Vec<String>)> = Vec::new();
    for (publication, names) in &model.publications {
        let mut published = Vec::new();
        for name in names {
            let table = tables::find(user_tables, name).filter(|(n, _)| chosen.contains_key(*n));
            let (table, _) = table.ok_or_else(|| {
                let message =
                    format!("publication {publication} names {name}, which the model lacks");
                mismatch(model, message)
            })?;
            published.push(table.clone());
        }
        publications.push((publication.clone(), published));
    }
    Ok(publications)
}

/// The surroundings of a table that is planned.
struct Version<'a> {
    model: &'a SyncModel,
    chosen: &'a BTreeMap<String, &'a TableModel>,
    publications: &'a [(PublicationName, Vec<String>)],
    user_tables: &'a BTreeMap<String, UserTable>,
}

impl Version<'_> {
    fn plan_table(
        &self,
        name: &str,
        table_model: &TableModel,
        notices: &mut Vec<String>,
    ) -> Result<TablePlan, Failure> {
        let table = &self.user_tables[name];
        let columns = self.published_columns(table, table_model, notices)?;
        self.check_latest(table, table_model, &columns)?;
        let types = self.column_types(table, table_model, &columns)?;
        let foreign_keys = self.foreign_keys(table, &columns, notices);
        let (create, left_out) = remote_ddl::create(table, &columns, &types, &foreign_keys);
        notices.extend(left_out);
        if table.row_security {
            notices.push(format!(
                "{name} has row security: rows that the server's database user does not see are \
                 not synchronized"
            ));
        }
        let key =
            table.key.iter().filter_map(|k| columns.iter().position(|c| c == k)).map(|p| p as u16);
        let mut published = PublishedTable {
            name: name.to_owned(),
            key: key.collect(),
            direction: table_model.direction,
            create,
            fingerprint: String::new(),
            columns,
        };
        let identity = (&published, &types);
        published.fingerprint = digest(&[&serde_json::json!(identity).to_string()]);
        let generator = Generator {
            table,
            columns: &published.columns,
            types: &types,
            direction: published.direction,
            rule: &table_model.conflict,
        };
        let scripts = generator.scripts();
        for (_, script) in &scripts {
            Script::parse(script, &published)?;
        }
        let details = TableDetails {
            schema: table.schema.clone(),
            name: table.name.clone(),
            quiet: is_quiet(table, &published.columns),
            columns: types,
            depends_on: vec![name.to_owned()],
            parameters: Vec::new(),
            selection: String::new(),
            afresh: false,
        };
        let conflict_rule = table_model.conflict.to_string();
        Ok(TablePlan { published, conflict_rule, details, scripts })
    }

    /// The published columns in the table's order; the key is always among them.
    fn published_columns(
        &self,
        table: &UserTable,
        table_model: &TableModel,
        notices: &mut Vec<String>,
    ) -> Result<Vec<String>, Failure> {
        let (name, stored) = (table.published_name(), table.stored_columns());
        if table_model.columns.is_none() && stored.len() < table.columns.len() {
            notices.push(format!("{name}: generated columns are left out at remotes"));
        }
        for wanted in table_model.columns.iter().flatten() {
            if !stored.contains(wanted) {
                let message = format!("table {name} has no column {wanted} that can be published");
                return Err(mismatch(self.model, message).table(name.as_str()));
            }
        }
        let is_published = |column: &String| match &table_model.columns {
            Some(wanted) => wanted.contains(column) || table.key.contains(column),
            None => true,
        };
        let columns: Vec<String> = stored.into_iter().filter(is_published).collect();
        let missing = |column: &&UserColumn| {
            column.not_null && !column.fills_itself() && !columns.contains(&column.name)
        };
        let column = table.columns.iter().find(missing);
        if let Some(column) = column.filter(|_| table_model.direction.uploads()) {
            let message = format!(
                "table {name}: column {} is not published, yet remotes insert rows and it has \
                 neither NULL nor a default",
                column.name
            );
            return Err(mismatch(self.model, message).table(name.as_str()));
        }
        Ok(columns)
    }

    fn check_latest(
        &self,
        table: &UserTable,
        table_model: &TableModel,
        columns: &[String],
    ) -> Result<(), Failure> {
        let ConflictRule::Latest(latest) = &table_model.conflict else { return Ok(()) };
        let name = table.published_name();
        let wrong = |why: &str| {
            let message = format!("table {name}: latest names {latest}, which {why}");
            Err(mismatch(self.model, message).table(name.as_str()))
        };
        if !columns.contains(latest) {
            return wrong("is not published");
        }
        match table.column(latest).is_some_and(|column| scripts::can_be_latest(&column.cast)) {
            true => Ok(()),
            false => wrong("is no date, time, number or text"),
        }
    }

    fn column_types(
        &self,
        table: &UserTable,
        table_model: &TableModel,
        columns: &[String],
    ) -> Result<Vec<ColumnType>, Failure> {
        let name = table.published_name();
        for wanted in table_model.stored_as.keys() {
            let numeric = table.column(wanted).is_some_and(|c| c.is_numeric() && !c.domain);
            if !(numeric && columns.contains(wanted)) {
                let message = format!(
                    "table {name}: `as` names {wanted}, which is no published \
                     column of type numeric"
                );
                return Err(mismatch(self.model, message).table(name.as_str()));
            }
        }
        let of = |column: &UserColumn| {
            let numeric = match table_model.stored_as.get(&column.name) {
                Some(StoredAs::Text) => NumericAs::Text,
                Some(StoredAs::Real) => NumericAs::Real,
                Some(StoredAs::Integer) => NumericAs::Integer,
                None => match column.numeric_digits() {
                    Some(digits) if digits <= NUMERIC_DIGITS_MAX => NumericAs::Numeric,
                    _ => NumericAs::Text,
                },
            };
            ColumnType::of(&column.cast, column.oid, column.domain, numeric)
        };
        Ok(columns.iter().filter_map(|name| table.column(name)).map(of).collect())
    }

    /// Positions of the foreign keys whose parents are at every remote that has the table.
    fn foreign_keys(
        &self,
        table: &UserTable,
        columns: &[String],
        notices: &mut Vec<String>,
    ) -> Vec<usize> {
        let name = table.published_name();
        let mut kept = Vec::new();
        for (position, key) in table.foreign_keys.iter().enumerate() {
            let parent = &key.parent;
            let downloads = self.chosen.get(parent).is_some_and(|p| p.direction.downloads());
            let together = self
                .publications
                .iter()
                .all(|(_, names)| !names.contains(&name) || names.contains(parent));
            let (from, to): (Vec<_>, Vec<_>) = key.columns.iter().cloned().unzip();
            if !downloads || !together {
                notices.push(format!(
                    "the foreign key of {name} to {parent} is left out at remotes: {parent} is \
                     not published with it"
                ));
            } else if from.iter().all(|column| columns.contains(column))
                && self.is_unique_at_remotes(parent, &to)
            {
                kept.push(position);
            } else {
                notices.push(format!(
                    "the foreign key of {name} to {parent} is left out at remotes: its columns \
                     are not published"
                ));
            }
        }
        kept
    }

    /// Whether a foreign key may refer to these columns of a published table.
    fn is_unique_at_remotes(&self, parent: &str, columns: &[String]) -> bool {
        let Some(table) = self.user_tables.get(parent) else { return false };
        let published = |column: &&String| {
            let model = self.chosen.get(parent).and_then(|model| model.columns.as_ref());
            model.is_none_or(|wanted| wanted.contains(column) || table.key.contains(column))
        };
        let set: BTreeSet<&String> = columns.iter().collect();
        let is_key = table.key.iter().collect::<BTreeSet<_>>() == set;
        let unique = |index: &tables::UserIndex| {
            let plain: Option<BTreeSet<&String>> =
                index.columns.iter().map(Option::as_ref).collect();
            index.unique && index.tree && !index.partial && plain.as_ref() == Some(&set)
        };
        columns.iter().all(|column| published(&column))
            && (is_key || table.indexes.iter().any(unique))
    }
}

/// Nothing but an upload decides what is in the published columns.
fn is_quiet(table: &UserTable, columns: &[String]) -> bool {
    let steady = |column: &UserColumn| {
        let insists = column.always_identity() && !table.key.contains(&column.name);
        !column.rounds() && !insists
    };
    table.triggers.is_empty() && columns.iter().filter_map(|name| table.column(name)).all(steady)
}

fn mismatch(model: &SyncModel, message: String) -> Failure {
    Failure::new(Code::ModelMismatch, format!("{}: {message}", model.file_name))
}
