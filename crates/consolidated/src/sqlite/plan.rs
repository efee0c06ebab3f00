//! The plan of a set of models: objects, scripts, publications. Nothing is changed here.

use super::affinity::Affinity;
use super::catalog::TableDetails;
use super::remote_ddl;
use super::scripts::Generator;
use super::tables::{self, ForeignKey, UserTable};
use super::tracking::{self, Kept, Object};
use crate::admin::no_table;
use crate::digest::digest;
use crate::script::{Event, Script};
use crate::selection::{self, Selection, Shape};
use crate::shape::Narrow;
use crate::sync_model::{ConflictRule, SyncModel, TableModel};
use model::{Code, Failure, PublicationName, PublishedTable, ScriptVersion};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that `deploy` has to make true.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Logs and triggers, each once however many versions need it.
    pub(super) objects: Vec<Object>,
    pub(super) versions: Vec<VersionPlan>,
    /// Statements about the shapes that remotes may hold.
    pub(super) shapes: Vec<String>,
    pub(super) notices: Vec<String>,
}

impl Plan {
    /// Every published table, in whichever version.
    pub(super) fn published(&self) -> BTreeSet<String> {
        let tables = self.versions.iter().flat_map(|version| &version.tables);
        tables.map(|table| table.published.name.clone()).collect()
    }
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
    /// Under the names of the database.
    pub(super) published: PublishedTable,
    /// As remotes know it.
    pub(super) outward: PublishedTable,
    pub(super) conflict_rule: String,
    pub(super) details: TableDetails,
    pub(super) scripts: Vec<(Event, String)>,
    /// The tables that decide about its rows, and the columns whose old values their logs need.
    pub(super) places: Vec<(String, Vec<String>)>,
    /// The column by whose value its own log is searched.
    pub(super) sought: Option<String>,
}

/// Plans `models` for a database with these `user_tables`.
pub(super) fn plan(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    // Whose changes are noted, and which columns' old values where departures count.
    let mut tracked: BTreeMap<String, Option<Kept>> = BTreeMap::new();
    for model in models {
        if plan.versions.iter().any(|version| version.script_version == model.script_version) {
            return Err(mismatch(
                model,
                format!("script version {} occurs twice", model.script_version),
            ));
        }
        let version = plan_version(user_tables, model, &mut plan.notices)?;
        for table in version.tables.iter().filter(|t| t.published.direction.downloads()) {
            tracked.entry(table.published.name.clone()).or_default();
            for (deciding, place) in &table.places {
                let kept = tracked.entry(deciding.clone()).or_default().get_or_insert_default();
                kept.place.extend(place.iter().cloned());
            }
            if let Some(column) = &table.sought {
                let kept = tracked.entry(table.published.name.clone()).or_default();
                kept.get_or_insert_default().sought.insert(column.clone());
            }
        }
        plan.versions.push(version);
    }
    for (name, kept) in tracked {
        plan.objects.extend(tracking::objects(&user_tables[&name], kept.as_ref()));
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
    let mut selections: BTreeMap<String, Selection> = BTreeMap::new();
    for (name, table_model) in &model.tables {
        let table = tables::find(user_tables, name).ok_or_else(|| no_table(model, name))?;
        if let Some(failure) = tables::unsupported(table) {
            return Err(failure);
        }
        chosen.insert(table.name.clone(), table_model);
        let selection = selection::resolve(model, name, &|name| shape(user_tables, name))?;
        for deciding in selection.logs() {
            if let Some(failure) = tables::unsupported(&user_tables[&deciding.name]) {
                return Err(failure);
            }
        }
        selections.insert(table.name.clone(), selection);
    }
    let mut publications: Vec<(PublicationName, Vec<String>)> = Vec::new();
    for (publication, names) in &model.publications {
        let mut published = Vec::new();
        for name in names {
            let table = tables::find(user_tables, name).filter(|t| chosen.contains_key(&t.name));
            let table = table.ok_or_else(|| {
                mismatch(
                    model,
                    format!("publication {publication} names {name}, which is not in the model"),
                )
            })?;
            published.push(table.name.clone());
        }
        publications.push((publication.clone(), published));
    }
    let ordered = tables::parents_first(user_tables, &chosen.keys().cloned().collect());
    let ordered = selection::deciding_first(ordered, &selections);
    let mut planned = Vec::new();
    for name in ordered {
        let (table, table_model) = (&user_tables[&name], chosen[&name]);
        let selection = &selections[&name];
        let left_out = |key: &ForeignKey| {
            let parent = &key.parent;
            let downloads = chosen.get(parent).is_some_and(|parent| parent.direction.downloads());
            let together = publications
                .iter()
                .all(|(_, names)| !names.contains(&name) || names.contains(parent));
            if !downloads || !together {
                return Some(format!("{parent} is not published with it"));
            }
            let closed = selections[parent].is_all()
                || table_model.direction.downloads() && selection.follows(parent, &key.columns);
            (!closed).then(|| format!("a remote may lack the row of {parent}"))
        };
        let plan = TablePlanner { table, table_model, model, selection, part: false };
        planned.push(plan.plan(&left_out, notices)?);
        if table_model.direction.uploads() {
            let published = |name: &str| chosen.contains_key(name);
            notices.extend(fixed_keys(user_tables, table, &published));
        }
    }
    Ok(VersionPlan { script_version: model.script_version.clone(), publications, tables: planned })
}

/// Plans one table.
struct TablePlanner<'a> {
    table: &'a UserTable,
    table_model: &'a TableModel,
    model: &'a SyncModel,
    selection: &'a Selection,
    /// Only what an older shape knows of it: the other columns fill themselves, or refuse a row.
    part: bool,
}

/// Plans a table of a script version with some of its columns, for uploads under an older shape.
pub(super) fn narrow(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
    version: &str,
    name: &str,
    columns: &[String],
) -> Result<Narrow, Failure> {
    let lacking = || Failure::new(Code::Bug, format!("no model publishes {name}"));
    let model = models.iter().find(|model| model.script_version.as_str() == version);
    let model = model.ok_or_else(lacking)?;
    let is_it = |written: &str| tables::find(user_tables, written).is_some_and(|t| t.name == name);
    let (written, table_model) =
        model.tables.iter().find(|(written, _)| is_it(written)).ok_or_else(lacking)?;
    let table_model = table_model.narrowed(columns);
    let selection = selection::resolve(model, written, &|name| shape(user_tables, name))?;
    let (table, table_model, selection) = (&user_tables[name], &table_model, &selection);
    let planner = TablePlanner { table, table_model, model, selection, part: true };
    let plan = planner.plan(&|_| None, &mut Vec::new())?;
    Ok(Narrow {
        published: plan.published,
        conflict_rule: plan.conflict_rule,
        details: serde_json::json!(plan.details).to_string(),
        scripts: plan.scripts.into_iter().filter(|(event, _)| event.is_upload()).collect(),
    })
}

impl TablePlanner<'_> {
    fn plan(
        &self,
        left_out: &dyn Fn(&ForeignKey) -> Option<String>,
        notices: &mut Vec<String>,
    ) -> Result<TablePlan, Failure> {
        let table = self.table;
        if let Some(column) = self.table_model.stored_as.keys().next() {
            let message = format!(
                "table {}: `as` names {column}; SQLite keeps values as they are at both ends",
                table.name
            );
            return Err(mismatch(self.model, message).table(table.name.as_str()));
        }
        let columns = published_columns(table, self.table_model, self.model, self.part)?;
        let rule = &self.table_model.conflict;
        if let ConflictRule::Latest(latest) = rule
            && !columns.contains(latest)
        {
            let fault = match table.columns.iter().any(|column| column.name == *latest) {
                true => "which is not published",
                false => "but there is no such column",
            };
            let message = format!("table {}: latest names {latest}, {fault}", table.name);
            return Err(mismatch(self.model, message).table(table.name.as_str()));
        }
        self.notice(notices);
        let (outward, create) = self.create(&columns, left_out, notices)?;
        let key =
            table.key.iter().filter_map(|k| columns.iter().position(|c| c == k)).map(|p| p as u16);
        let mut published = PublishedTable {
            name: table.name.clone(),
            key: key.collect(),
            direction: self.table_model.direction,
            create,
            fingerprint: String::new(),
            columns,
        };
        let mut outward = PublishedTable { columns: outward, ..published.clone() };
        outward.fingerprint = digest(&[&serde_json::json!(outward).to_string()]);
        published.fingerprint = outward.fingerprint.clone();
        let generator = Generator {
            table,
            columns: &published.columns,
            direction: published.direction,
            rule,
            selection: self.selection,
        };
        let scripts = generator.scripts();
        for (_, script) in &scripts {
            Script::parse(script, &published)?;
        }
        let conflict_rule = rule.to_string();
        let mut details = self.details(&published);
        if outward.columns != published.columns {
            details.local = published.columns.clone();
        }
        let places = if self.selection.departs() { self.selection.places() } else { Vec::new() };
        let owned = |columns: Vec<&str>| columns.into_iter().map(str::to_owned).collect();
        Ok(TablePlan {
            published,
            outward,
            conflict_rule,
            details,
            scripts,
            places: places.into_iter().map(|(t, place)| (t.name.clone(), owned(place))).collect(),
            sought: self.selection.sought().map(|(column, _)| column.to_owned()),
        })
    }

    /// What remotes call the columns, and the statements that make the table there.
    fn create(
        &self,
        columns: &[String],
        left_out: &dyn Fn(&ForeignKey) -> Option<String>,
        notices: &mut Vec<String>,
    ) -> Result<(Vec<String>, Vec<String>), Failure> {
        let table = self.table;
        if let Some(why) = self.table_model.wrong_names(columns) {
            let message = format!("table {}: {why}", table.name);
            return Err(mismatch(self.model, message).table(table.name.as_str()));
        }
        let outward: Vec<String> = columns.iter().map(|c| self.table_model.outward(c)).collect();
        let (create, left_out) = match outward == columns {
            true => remote_ddl::create(table, columns, left_out),
            false => self.create_outward(&outward, left_out),
        };
        notices.extend(left_out);
        Ok((outward, create))
    }

    /// The statements that make the table under the names that remotes know.
    fn create_outward(
        &self,
        outward: &[String],
        left_out: &dyn Fn(&ForeignKey) -> Option<String>,
    ) -> (Vec<String>, Vec<String>) {
        let mut notices = Vec::new();
        let mut kept = Vec::new();
        for key in &self.table.foreign_keys {
            match left_out(key) {
                None => kept.push(key.clone()),
                Some(reason) => notices.push(format!(
                    "the foreign key of {} to {} is left out at remotes: {reason}",
                    self.table.name, key.parent
                )),
            }
        }
        let whole = UserTable { foreign_keys: kept, ..self.table.clone() };
        let is = |written: &str, name: &str| written.eq_ignore_ascii_case(name);
        let of_parent = |parent: &str, column: &str| {
            let models = self.model.tables.iter();
            let mut models = models.filter(|(written, _)| is(written, parent));
            models.next().map_or(column.to_owned(), |(_, model)| model.outward(column))
        };
        let own = |column: &str| self.table_model.outward(column);
        let renamed = whole.renamed(&own, &of_parent);
        let (statements, more) = remote_ddl::create(&renamed, outward, &|_| None);
        notices.extend(more);
        (statements, notices)
    }

    fn details(&self, published: &PublishedTable) -> TableDetails {
        let selection = self.selection;
        let mut details = TableDetails::default();
        let parents = self.table.foreign_keys.iter().map(|key| key.parent.as_str());
        let parents: BTreeSet<&str> = parents.filter(|name| *name != self.table.name).collect();
        details.parents = parents.into_iter().map(str::to_owned).collect();
        // Of a table with triggers, or where a time is clamped, only the row itself tells what
        // became of it.
        let plain = !self.table.has_triggers && self.table.utf8;
        if plain && !matches!(self.table_model.conflict, ConflictRule::Latest(_)) {
            let columns = published.columns.iter().filter_map(|name| self.table.column(name));
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
            sent_afresh: selection.is_custom(),
            may_leave: self.table_model.may_leave,
            ..details
        }
    }

    fn notice(&self, notices: &mut Vec<String>) {
        let name = &self.table.name;
        for column in self.table.nullable_key() {
            notices.push(format!(
                "{name}: the key column {column} may be NULL; rows where it is are not synchronized"
            ));
        }
        if self.table.uniques.iter().any(|unique| unique.columns.contains(&None)) {
            notices.push(format!(
                "{name}: a UNIQUE index on an expression is not watched for INSERT OR REPLACE"
            ));
        }
        if self.selection.is_custom() && self.table_model.direction.downloads() {
            notices.push(format!(
                "{name}: its condition is custom, so all its rows are sent in every synchronization"
            ));
        }
        let place = self.selection.place();
        if !place.is_empty() && !self.table.has_index(&place) {
            let columns = place.join(", ");
            notices.push(format!(
                "{name}: no index begins with {columns}, which decides who receives a row: every \
                 download reads the whole table"
            ));
        }
    }
}

/// Foreign keys that keep remotes from changing keys of `table`. Under `NO ACTION` an upload may
/// change the referring rows as well, where they are published.
fn fixed_keys(
    user_tables: &BTreeMap<String, UserTable>,
    table: &UserTable,
    published: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut notices = Vec::new();
    for child in user_tables.values() {
        for key in child.foreign_keys.iter().filter(|key| key.parent == table.name) {
            let by_key = key.columns.iter().any(|(_, to)| table.key.contains(to));
            let fixed = match key.on_update.as_str() {
                "RESTRICT" => true,
                "NO ACTION" => !published(&child.name),
                _ => false,
            };
            if by_key && fixed {
                notices.push(format!(
                    "{}: a key that {} refers to cannot be changed by a remote: the foreign key \
                     says ON UPDATE {}",
                    table.name, child.name, key.on_update
                ));
            }
        }
    }
    notices
}

/// What a selection needs to know about the table `name`.
fn shape(user_tables: &BTreeMap<String, UserTable>, name: &str) -> Option<Shape> {
    let table = tables::find(user_tables, name)?;
    let keys = table.foreign_keys.iter().map(|key| (key.parent.clone(), key.columns.clone()));
    Some(Shape {
        table: selection::Table { name: table.name.clone(), key: table.key.clone() },
        columns: table.columns.iter().map(|column| column.name.clone()).collect(),
        foreign_keys: keys.collect(),
    })
}

/// The published columns in the table's order; the key is always among them.
fn published_columns(
    table: &UserTable,
    table_model: &TableModel,
    model: &SyncModel,
    part: bool,
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
    if table_model.direction.uploads() && !part {
        let missing = table.columns.iter().find(|column| {
            !columns.contains(&column.name)
                && column.not_null
                && column.default.is_none()
                && !column.generated
        });
        if let Some(column) = missing {
            let message = format!(
                "table {}: column {} is not published, but remotes insert rows, and it neither \
                 accepts NULL nor has a default",
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
