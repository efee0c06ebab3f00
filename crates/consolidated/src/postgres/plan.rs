//! The plan of a set of models: tracking, scripts, publications. Nothing is changed here.

use super::orphans::Guard;
use super::spelling::Doubt;
use super::table_plan::{TablePlan, TablePlanner};
use super::tables::{self, UserTable};
use super::tracking::{self, Tracking, Wanted};
use crate::admin::no_table;
use crate::selection::{self, Rows, Selection, Shape};
use crate::shape::Narrow;
use crate::sync_model::{SyncModel, TableModel};
use model::{Code, Failure, PublicationName, ScriptVersion};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that `deploy` has to make true.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// One per table whose changes count, however many versions need it.
    pub(super) tracked: Vec<Tracking>,
    pub(super) versions: Vec<VersionPlan>,
    /// Statements about the shapes that remotes may hold.
    pub(super) shapes: Vec<String>,
    pub(super) notices: Vec<String>,
    /// Keys that remotes cannot use.
    pub(super) doubts: Vec<Doubt>,
}

#[derive(Debug)]
pub(super) struct VersionPlan {
    pub(super) script_version: ScriptVersion,
    pub(super) publications: Vec<(PublicationName, Vec<String>)>,
    /// Parents first.
    pub(super) tables: Vec<TablePlan>,
}

/// What is tracked and why, by published name.
pub(super) type Tracked = BTreeMap<String, Wanted>;

/// Plans `models` for a database with these `user_tables`.
pub(super) fn plan(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
) -> Result<Plan, Failure> {
    let mut versions: Vec<Version<'_>> = Vec::new();
    for model in models {
        if versions.iter().any(|version| version.model.script_version == model.script_version) {
            let message = format!("script version {} occurs twice", model.script_version);
            return Err(mismatch(model, message));
        }
        versions.push(Version::resolve(user_tables, model)?);
    }
    // Scripts depend on what any version wants to know of a table.
    let mut tracked = Tracked::new();
    versions.iter().for_each(|version| version.track(&mut tracked));
    let mut plan = Plan::default();
    for version in &versions {
        plan.versions.push(version.plan(&tracked, &mut plan.notices)?);
    }
    let tables = plan.versions.iter().flat_map(|version| &version.tables);
    plan.doubts = tables.filter_map(|table| table.doubt.clone()).collect();
    plan.doubts.dedup();
    let tracking = tracked.iter().map(|(name, wanted)| tracking::of(&user_tables[name], wanted));
    plan.tracked = tracking.collect();
    let mut seen = BTreeSet::new();
    plan.notices.retain(|notice| seen.insert(notice.clone()));
    Ok(plan)
}

/// Plans a table of a script version with some of its columns, for uploads under an older shape.
pub(super) fn narrow(
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
    version: &str,
    name: &str,
    columns: &[String],
) -> Result<Narrow, Failure> {
    let versions = models.iter().map(|model| Version::resolve(user_tables, model));
    let versions = versions.collect::<Result<Vec<_>, Failure>>()?;
    let mut tracked = Tracked::new();
    versions.iter().for_each(|version| version.track(&mut tracked));
    let lacking = || Failure::new(Code::Bug, format!("no model publishes {name}"));
    let own = versions.iter().find(|own| own.model.script_version.as_str() == version);
    let own = own.ok_or_else(lacking)?;
    let table_model = own.chosen.get(name).ok_or_else(lacking)?.narrowed(columns);
    let planner = TablePlanner::part(own, name, &tracked, &table_model);
    let plan = planner.plan(&mut Vec::new())?;
    Ok(Narrow {
        published: plan.published,
        conflict_rule: plan.conflict_rule,
        details: serde_json::json!(plan.details).to_string(),
        scripts: plan.scripts.into_iter().filter(|(event, _)| event.is_upload()).collect(),
    })
}

/// A model with its names resolved.
pub(super) struct Version<'a> {
    pub(super) model: &'a SyncModel,
    pub(super) user_tables: &'a BTreeMap<String, UserTable>,
    /// By their published names.
    pub(super) chosen: BTreeMap<String, &'a TableModel>,
    pub(super) selections: BTreeMap<String, Selection>,
    pub(super) publications: Vec<(PublicationName, Vec<String>)>,
}

impl<'a> Version<'a> {
    fn resolve(
        user_tables: &'a BTreeMap<String, UserTable>,
        model: &'a SyncModel,
    ) -> Result<Version<'a>, Failure> {
        let (mut chosen, mut selections) = (BTreeMap::new(), BTreeMap::new());
        for (name, table_model) in &model.tables {
            let (published, table) =
                tables::find(user_tables, name).ok_or_else(|| no_table(model, name))?;
            if let Some(failure) = tables::unsupported(table) {
                return Err(failure);
            }
            let selection = selection::resolve(model, name, &|name| shape(user_tables, name))?;
            for deciding in selection.logs() {
                if let Some(failure) = tables::unsupported(&user_tables[&deciding.name]) {
                    return Err(failure);
                }
            }
            if chosen.insert(published.clone(), table_model).is_some() {
                return Err(mismatch(model, format!("table {published} occurs twice")));
            }
            selections.insert(published.clone(), selection);
        }
        if let Some(name) = tables::same_but_for_case(chosen.keys().map(String::as_str)) {
            let message =
                format!("the names of table {name} and another table differ only in letter case");
            return Err(mismatch(model, message).table(name));
        }
        let publications = publications(user_tables, model, &chosen)?;
        Ok(Version { model, user_tables, chosen, selections, publications })
    }

    /// Adds what this version wants to know of tables.
    fn track(&self, tracked: &mut Tracked) {
        for (name, selection) in &self.selections {
            if !self.chosen[name].direction.downloads() {
                continue;
            }
            let place: Vec<String> = selection.place().into_iter().map(str::to_owned).collect();
            let found = !place.is_empty() && self.user_tables[name].finds_by(&place);
            tracked.entry(name.clone()).or_default().indexed |= !found && !selection.is_custom();
            for (table, column) in selection.lookups() {
                let wanted = tracked.entry(table.name.clone()).or_default();
                wanted.lookups.insert(column.map(str::to_owned));
            }
            if !selection.departs() {
                continue;
            }
            for (deciding, columns) in selection.places() {
                let wanted = tracked.entry(deciding.name.clone()).or_default();
                for column in columns {
                    if !wanted.places.iter().any(|known| known == column) {
                        wanted.places.push(column.to_owned());
                    }
                }
                wanted.places.sort();
            }
            self.track_arrivals(selection, tracked);
        }
    }

    /// Where no foreign key keeps a row from coming before its parent, the parent's coming counts.
    fn track_arrivals(&self, selection: &Selection, tracked: &mut Tracked) {
        let mut child = selection;
        while let Rows::Parent { parent, .. } = &child.rows {
            let guarded = self.guard(child).is_some();
            let wanted = tracked.entry(parent.table.name.clone()).or_default();
            wanted.arrivals |= !guarded;
            wanted.guarded |= guarded;
            tracked.entry(child.table.name.clone()).or_default().guarded |= guarded;
            child = parent;
        }
    }

    /// The foreign key that keeps a row from coming before the parent that decides about it.
    fn guard(&self, child: &Selection) -> Option<Guard> {
        let Rows::Parent { link, parent } = &child.rows else { return None };
        let tables = self.user_tables;
        let (child, parent) = (&tables[&child.table.name], &tables[&parent.table.name]);
        let is_it = |key: &&tables::ForeignKey| {
            key.parent == parent.published_name()
                && key.columns.len() == link.len()
                && link.iter().all(|pair| key.columns.contains(pair))
        };
        child.foreign_keys.iter().find(is_it)?;
        Some(Guard::of(child, parent, link))
    }

    /// Those of a table and of all above it that decide about it.
    pub(super) fn guards(&self, selection: &Selection) -> Vec<Guard> {
        let mut guards = Vec::new();
        let mut child = selection;
        while let Rows::Parent { parent, .. } = &child.rows {
            guards.extend(self.guard(child));
            child = parent;
        }
        guards
    }

    fn plan(&self, tracked: &Tracked, notices: &mut Vec<String>) -> Result<VersionPlan, Failure> {
        let names = self.chosen.keys().cloned().collect();
        let ordered = tables::parents_first(self.user_tables, &names);
        let ordered = selection::deciding_first(ordered, &self.selections);
        let mut tables = Vec::new();
        for name in ordered.iter().filter(|name| self.chosen.contains_key(*name)) {
            tables.push(TablePlanner::new(self, name, tracked).plan(notices)?);
        }
        let (script_version, publications) =
            (self.model.script_version.clone(), self.publications.clone());
        Ok(VersionPlan { script_version, publications, tables })
    }
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
                    format!("publication {publication} names {name}, which is not in the model");
                mismatch(model, message)
            })?;
            published.push(table.clone());
        }
        publications.push((publication.clone(), published));
    }
    Ok(publications)
}

/// What a selection needs to know about the table `name`.
fn shape(user_tables: &BTreeMap<String, UserTable>, name: &str) -> Option<Shape> {
    let (published, table) = tables::find(user_tables, name)?;
    let keys = table.foreign_keys.iter().map(|key| (key.parent.clone(), key.columns.clone()));
    Some(Shape {
        table: selection::Table { name: published.clone(), key: table.key.clone() },
        columns: table.columns.iter().map(|column| column.name.clone()).collect(),
        foreign_keys: keys.collect(),
    })
}

pub(super) fn mismatch(model: &SyncModel, message: String) -> Failure {
    Failure::new(Code::ModelMismatch, format!("{}: {message}", model.file_name))
}
