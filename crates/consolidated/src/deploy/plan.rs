//! The plan of a set of models: tracking, scripts, publications. Nothing is changed here.

use super::cascades;
use super::own::{self, TableScript};
use super::published::TablePlan;
use super::schema::{Schema, TablePlanner, Version, mismatch};
use super::table::{ColumnFacts, TableFacts, parents_first, same_but_for_case};
use super::wanted::Tracked;
use crate::administration::no_table;
use crate::script::{Event, Phase};
use crate::selection;
use crate::selection::Selection;
use crate::selection::resolve::{self, Shape};
use crate::shape::Narrow;
use crate::sync_model::{SyncModel, TableModel};
use model::{Code, Failure, PublicationName, ScriptVersion};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that `deploy` has to make true.
pub(crate) struct Plan<S: Schema> {
    /// One per table whose changes count, however many versions need it.
    pub(crate) tracking: Vec<S::Tracking>,
    pub(crate) versions: Vec<VersionPlan<S>>,
    /// Statements about the shapes that remotes may hold.
    pub(crate) shapes: Vec<String>,
    pub(crate) notices: Vec<String>,
    /// What is wrong with scripts that users wrote, each with its file. Nothing is deployed then.
    pub(crate) mistakes: Vec<String>,
}

/// A script version and all that it publishes.
pub(crate) struct VersionPlan<S: Schema> {
    pub(crate) script_version: ScriptVersion,
    /// Whether downloads are to be acknowledged at once.
    pub(crate) acknowledge: bool,
    pub(crate) publications: Vec<(PublicationName, Vec<String>)>,
    /// Whether a row that the database refuses cancels the upload, if no script decides.
    pub(crate) cancels: bool,
    /// Whether the model wants one connection for a whole synchronization.
    pub(crate) session: bool,
    /// Parents first.
    pub(crate) tables: Vec<TablePlan<S>>,
    /// Scripts of events that belong to no table.
    pub(crate) scripts: Vec<TableScript>,
}

impl<S: Schema> Plan<S> {
    /// Every published table of every version.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TablePlan<S>> {
        self.versions.iter().flat_map(|version| &version.tables)
    }
}

/// Plans `models` for a database with these `user_tables`.
pub(crate) fn plan<S: Schema>(
    user_tables: &BTreeMap<String, S::Table>,
    models: &[SyncModel],
) -> Result<Plan<S>, Failure> {
    let (versions, tracked) = resolve::<S>(user_tables, models)?;
    let (mut notices, mut mistakes) = (Vec::new(), Vec::new());
    let (mut planned, mut failures) = (Vec::new(), Vec::new());
    for version in &versions {
        match version.plan(&tracked, &mut notices, &mut mistakes) {
            Ok(version) => planned.push(version),
            Err(failure) => failures.push(failure),
        }
        mistakes.extend(version.stray_files());
        if version.model.time_zone.is_some() && !S::HAS_TIME_ZONES {
            mistakes.push("time_zone: on SQLite all times are in UTC; leave it out".to_owned());
        }
    }
    Failure::all(failures)?;
    let tracking =
        tracked.iter().filter_map(|(name, wanted)| S::tracking(&user_tables[name], wanted));
    let tracking = tracking.collect();
    let published = versions.iter().flat_map(|version| &version.chosen);
    let published = published.map(|(name, model)| (name.as_str(), *model));
    notices.extend(cascades::notices(user_tables, &published.collect::<Vec<_>>()));
    let mut seen = BTreeSet::new();
    notices.retain(|notice| seen.insert(notice.clone()));
    Ok(Plan { tracking, versions: planned, shapes: Vec::new(), notices, mistakes })
}

/// Plans a table of a script version with some of its columns, for uploads under an older shape.
pub(crate) fn narrow<S: Schema>(
    user_tables: &BTreeMap<String, S::Table>,
    models: &[SyncModel],
    version: &str,
    name: &str,
    columns: &[String],
) -> Result<Narrow, Failure> {
    let (versions, tracked) = resolve::<S>(user_tables, models)?;
    let lacking = || Failure::new(Code::Bug, format!("no model publishes {name}"));
    let own = versions.iter().find(|own| own.model.script_version.as_str() == version);
    let own = own.ok_or_else(lacking)?;
    let table_model = own.chosen.get(name).ok_or_else(lacking)?.narrowed(columns);
    let planner = TablePlanner::part(own, name, &tracked, &table_model);
    let mut plan = planner.plan(&mut Vec::new(), &mut Vec::new())?;
    // Rows go through scripts of a user, which are for the whole table.
    let whole = TablePlanner::new(own, name, &tracked);
    let has_own = || Event::own_of_tables().any(|event| whole.has_own(name, event));
    if own.writes_around_rows() || has_own() {
        S::writes_as_it_likes(&mut plan.details);
    }
    let uploads = plan.scripts.into_iter().filter(|script| script.event.is_upload());
    Ok(Narrow {
        published: plan.published,
        conflict_rule: plan.conflict_rule,
        details: serde_json::json!(plan.details).to_string(),
        scripts: uploads.map(|script| (script.event, script.text)).collect(),
    })
}

/// The models with their names resolved, and what any of them wants to know of a table: scripts
/// depend on it.
fn resolve<'a, S: Schema>(
    user_tables: &'a BTreeMap<String, S::Table>,
    models: &'a [SyncModel],
) -> Result<(Vec<Version<'a, S>>, Tracked), Failure> {
    let (mut versions, mut failures): (Vec<Version<'a, S>>, Vec<Failure>) = Default::default();
    for model in models {
        if versions.iter().any(|version| version.model.script_version == model.script_version) {
            let message = format!("script version {} occurs twice", model.script_version);
            return Err(mismatch(model, message));
        }
        match Version::resolve(user_tables, model) {
            Ok(version) => versions.push(version),
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)?;
    let mut tracked = Tracked::new();
    versions.iter().for_each(|version| version.track(&mut tracked));
    Ok((versions, tracked))
}

impl<'a, S: Schema> Version<'a, S> {
    fn resolve(
        user_tables: &'a BTreeMap<String, S::Table>,
        model: &'a SyncModel,
    ) -> Result<Version<'a, S>, Failure> {
        let (mut chosen, mut selections) = (BTreeMap::new(), BTreeMap::new());
        let mut failures = Vec::new();
        for (name, table_model) in &model.tables {
            match selected::<S>(user_tables, model, name) {
                Ok((published, _)) if chosen.contains_key(&published) => {
                    failures.push(mismatch(model, format!("table {published} occurs twice")));
                }
                Ok((published, selection)) => {
                    chosen.insert(published.clone(), table_model);
                    selections.insert(published, selection);
                }
                Err(failure) => failures.push(failure),
            }
        }
        Failure::all(failures)?;
        if let Some(name) = same_but_for_case(chosen.keys().map(String::as_str)) {
            let message =
                format!("the names of table {name} and another table differ only in letter case");
            return Err(mismatch(model, message).table(name));
        }
        let publications = publications::<S>(user_tables, model, &chosen)?;
        Ok(Version { model, user_tables, chosen, selections, publications })
    }

    fn plan(
        &self,
        tracked: &Tracked,
        notices: &mut Vec<String>,
        mistakes: &mut Vec<String>,
    ) -> Result<VersionPlan<S>, Failure> {
        let ordered =
            parents_first(self.user_tables, &self.chosen.keys().map(String::as_str).collect());
        let ordered = selection::deciding_first(ordered, &self.selections);
        let (mut tables, mut failures) = (Vec::new(), Vec::new());
        for name in ordered.iter().filter(|name| self.chosen.contains_key(*name)) {
            match TablePlanner::new(self, name, tracked).plan(notices, mistakes) {
                Ok(table) => tables.push(table),
                Err(failure) => failures.push(failure),
            }
        }
        Failure::all(failures)?;
        let (script_version, publications) =
            (self.model.script_version.clone(), self.publications.clone());
        let SyncModel { acknowledge, cancels, session, .. } = *self.model;
        let scripts = own::of_version(self.model, mistakes);
        if session || scripts.iter().any(|script| script.event.makes_session()) {
            notices.extend(S::notice_of_sessions(&script_version));
        }
        Ok(VersionPlan {
            script_version,
            acknowledge,
            publications,
            cancels,
            session,
            tables,
            scripts,
        })
    }
}

impl<S: Schema> Version<'_, S> {
    /// Whether scripts run in the transaction of an upload that may write to any table.
    pub(super) fn writes_around_rows(&self) -> bool {
        let writes = |event: &Event| event.is_around() && event.fact().phase == Phase::Upload;
        self.model.own_scripts.keys().any(|(_, event)| writes(event))
    }

    /// Files with scripts of tables that the version does not publish, or of no event.
    fn stray_files(&self) -> Vec<String> {
        let files = self.model.own_scripts.iter().filter(|(_, file)| !file.for_all);
        let is_stray = |table: &str| {
            if table.is_empty() {
                return false;
            }
            let found = S::find(self.user_tables, table);
            !found.is_some_and(|(name, _)| self.chosen.contains_key(name))
        };
        let strays = files.filter(|((table, _), _)| is_stray(table));
        let misplaced = self.model.misplaced_scripts.iter().cloned();
        let told = strays.map(|((table, _), file)| {
            let version = &self.model.script_version;
            format!("{}: script version {version} publishes no table {table}", file.name)
        });
        misplaced.chain(told).collect()
    }
}

/// The published name of the table that a model calls so, and which of its rows are covered.
fn selected<S: Schema>(
    user_tables: &BTreeMap<String, S::Table>,
    model: &SyncModel,
    name: &str,
) -> Result<(String, Selection), Failure> {
    let (published, table) = S::find(user_tables, name).ok_or_else(|| no_table(model, name))?;
    S::unsupported(table).map_or(Ok(()), Err)?;
    let selection = resolve::resolve(model, name, &|name| shape::<S>(user_tables, name))?;
    for deciding in selection.logs() {
        S::unsupported(&user_tables[&deciding.name]).map_or(Ok(()), Err)?;
    }
    Ok((published.clone(), selection))
}

fn publications<S: Schema>(
    user_tables: &BTreeMap<String, S::Table>,
    model: &SyncModel,
    chosen: &BTreeMap<String, &TableModel>,
) -> Result<Vec<(PublicationName, Vec<String>)>, Failure> {
    let mut publications: Vec<(PublicationName, Vec<String>)> = Vec::new();
    for (publication, names) in &model.publications {
        let mut published = Vec::new();
        for name in names {
            let table = S::find(user_tables, name).filter(|(n, _)| chosen.contains_key(*n));
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
fn shape<S: Schema>(user_tables: &BTreeMap<String, S::Table>, name: &str) -> Option<Shape> {
    let (published, table) = S::find(user_tables, name)?;
    let keys = table.foreign_keys().iter().map(|key| (key.parent.clone(), key.columns.clone()));
    Some(Shape {
        table: selection::Table { name: published.clone(), key: table.key().to_vec() },
        columns: table.columns().iter().map(|c| c.name().to_owned()).collect(),
        foreign_keys: keys.collect(),
    })
}
