//! The plan of one table of a model: its definition at remotes, its scripts, its details.

use super::claims::TypedClaim;
use super::details::TableDetails;
use super::dialect::Postgres;
use super::kept::{self, Probe};
use super::plan::{Tracked, Version, mismatch};
use super::remote_ddl;
use super::scripts::{self, Generator};
use super::shortfall;
use super::spelling::{Doubt, KeySpelling};
use super::tables::{self, ForeignKey, UserColumn, UserTable};
use super::taken_along;
use super::values::{ColumnType, NumericAs};
use super::verbatim::Verbatim;
use crate::digest::digest;
use crate::script::{Event, Script};
use crate::selection::{Rows, Selection};
use crate::sync_model::{ClaimTest, ConflictRule, StoredAs, TableModel};
use model::{Code, Failure, PublishedTable};
use std::collections::{BTreeSet, HashMap};

#[derive(Debug)]
pub(super) struct TablePlan {
    /// Under the names of the database.
    pub(super) published: PublishedTable,
    /// As remotes know it.
    pub(super) outward: PublishedTable,
    pub(super) conflict_rule: String,
    pub(super) details: TableDetails,
    pub(super) scripts: Vec<(Event, String)>,
    /// Why remotes cannot use its key.
    pub(super) doubt: Option<Doubt>,
}

/// Digits that SQLite's NUMERIC affinity keeps.
const NUMERIC_DIGITS_MAX: i32 = 15;

/// Plans one table.
pub(super) struct TablePlanner<'a> {
    version: &'a Version<'a>,
    name: &'a str,
    table: &'a UserTable,
    table_model: &'a TableModel,
    selection: &'a Selection,
    tracked: &'a Tracked,
    /// Only what an older shape knows of it: the other columns fill themselves, or refuse a row.
    part: bool,
}

impl<'a> TablePlanner<'a> {
    pub(super) fn new(
        version: &'a Version<'a>,
        name: &'a str,
        tracked: &'a Tracked,
    ) -> TablePlanner<'a> {
        TablePlanner {
            version,
            name,
            table: &version.user_tables[name],
            table_model: version.chosen[name],
            selection: &version.selections[name],
            tracked,
            part: false,
        }
    }

    /// Plans the part of a table that `table_model` says.
    pub(super) fn part(
        version: &'a Version<'a>,
        name: &'a str,
        tracked: &'a Tracked,
        table_model: &'a TableModel,
    ) -> TablePlanner<'a> {
        TablePlanner { table_model, part: true, ..TablePlanner::new(version, name, tracked) }
    }

    pub(super) fn plan(&self, notices: &mut Vec<String>) -> Result<TablePlan, Failure> {
        let (table, name) = (self.table, self.name);
        let columns = self.published_columns(notices)?;
        self.check_latest(&columns)?;
        self.check_places(&columns)?;
        let types = self.column_types(&columns)?;
        self.notice(notices);
        let foreign_keys = self.foreign_keys(&columns, notices);
        if let Some(why) = self.table_model.wrong_names(&columns) {
            return Err(self.wrong(&why));
        }
        let outward: Vec<String> = columns.iter().map(|c| self.table_model.outward(c)).collect();
        let (create, left_out) = self.create(&columns, &outward, &types, &foreign_keys);
        notices.extend(left_out);
        let key =
            table.key.iter().filter_map(|k| columns.iter().position(|c| c == k)).map(|p| p as u16);
        let mut published = PublishedTable {
            name: name.to_owned(),
            key: key.collect(),
            direction: self.table_model.direction,
            create,
            fingerprint: String::new(),
            columns,
        };
        // Values that travel in another form are other values to a remote.
        let mut outward = PublishedTable { columns: outward, ..published.clone() };
        let identity = (&outward, &types);
        outward.fingerprint = digest(&[&serde_json::json!(identity).to_string()]);
        published.fingerprint = outward.fingerprint.clone();
        let generator = Generator {
            table,
            columns: &published.columns,
            types: &types,
            direction: published.direction,
            rule: &self.table_model.conflict,
            selection: self.selection,
            may_leave: self.table_model.may_leave,
            unseen: self.unseen(&published.columns),
            dialect: Postgres { user_tables: self.version.user_tables, tracked: self.tracked },
        };
        let (scripts, departures) = (generator.scripts(), generator.departures());
        let places = generator.places();
        let parsed =
            scripts.iter().map(|(event, text)| Ok((*event, Script::parse(text, &published)?)));
        let parsed = parsed.collect::<Result<HashMap<_, _>, Failure>>()?;
        let verbatim = self.verbatim(&published, &types, &parsed);
        let conflict_rule = self.table_model.conflict.to_string();
        let kept = kept::scripts(table, self.selection, &parsed);
        let stamping = self.stamping(&parsed);
        let departed = parsed.get(&Event::DownloadDeleteCursor);
        let departed = departed.and_then(|script| Some(Probe::new(departures?, script)));
        let doubt = Doubt::of(table, &published.columns, &types);
        let spelling = KeySpelling::of(table, &published.columns, &types);
        let renamed = outward.columns != published.columns;
        let local = if renamed { published.columns.clone() } else { Vec::new() };
        let details = TableDetails { kept, stamping, ..self.details(types, verbatim) };
        let details = TableDetails { departed, spelling, local, places, ..details };
        Ok(TablePlan { published, outward, conflict_rule, details, scripts, doubt })
    }

    /// The statements that make the table at remotes, and what is left out of them.
    fn create(
        &self,
        columns: &[String],
        outward: &[String],
        types: &[ColumnType],
        foreign_keys: &[usize],
    ) -> (Vec<String>, Vec<String>) {
        if outward == columns {
            return remote_ddl::create(self.table, columns, types, foreign_keys);
        }
        let own = |column: &str| self.table_model.outward(column);
        let of_parent = |parent: &str, column: &str| {
            let model = self.version.chosen.get(parent);
            model.map_or(column.to_owned(), |model| model.outward(column))
        };
        let renamed = self.table.renamed(&own, &of_parent);
        remote_ddl::create(&renamed, outward, types, foreign_keys)
    }

    /// `latest` stores a future time as now, and it is unknown which functions a custom condition
    /// calls.
    fn verbatim(
        &self,
        published: &PublishedTable,
        types: &[ColumnType],
        scripts: &HashMap<Event, Script>,
    ) -> Option<Verbatim> {
        let clamps = matches!(self.table_model.conflict, ConflictRule::Latest(_));
        if clamps || self.selection.is_custom() || !published.direction.uploads() {
            return None;
        }
        let kinds = types.iter().map(|column| column.kind);
        let columns: Vec<_> = published.columns.iter().map(String::as_str).zip(kinds).collect();
        Verbatim::of(self.table, &columns, scripts, self.tracked.contains_key(self.name))
    }

    /// Only rows that are tracked carry a version.
    fn stamping(&self, scripts: &HashMap<Event, Script>) -> Option<String> {
        self.tracked.contains_key(self.name).then(|| shortfall::digest(scripts))
    }

    fn details(&self, columns: Vec<ColumnType>, verbatim: Option<Verbatim>) -> TableDetails {
        let selection = self.selection;
        let logs = if selection.departs() { selection.logs() } else { vec![&selection.table] };
        let watched = logs
            .iter()
            .filter(|_| self.table_model.direction.downloads())
            .map(|table| (table.name.clone(), self.version.user_tables[&table.name].sql_name()));
        let watched = watched.collect();
        TableDetails {
            watched,
            schema: self.table.schema.clone(),
            name: self.table.name.clone(),
            columns,
            verbatim,
            depends_on: logs.into_iter().map(|table| table.name.clone()).collect(),
            claims: self.typed_claims(),
            parameters: selection.claims().iter().map(ToString::to_string).collect(),
            selection: if selection.is_all() { String::new() } else { selection.to_string() },
            afresh: selection.is_custom(),
            may_leave: self.table_model.may_leave,
            guards: self.version.guards(selection),
            remade: !self.table.triggers.is_empty()
                || matches!(self.table_model.conflict, ConflictRule::Latest(_)),
            heeds: self.heeds(),
            takers: taken_along::takers(self.version.user_tables, self.table),
            ..TableDetails::default()
        }
    }

    /// The tables whose changed keys concern what is uploaded to this one.
    fn heeds(&self) -> Vec<String> {
        let parents = self.table.foreign_keys.iter().map(|key| key.parent.as_str());
        let all: BTreeSet<&str> = parents.chain([self.name]).collect();
        let logged = all.into_iter().filter(|name| self.tracked.contains_key(*name));
        logged.map(str::to_owned).collect()
    }

    /// The claims that must be values of a type, here and above.
    fn typed_claims(&self) -> Vec<TypedClaim> {
        let mut claims = Vec::new();
        let mut deciding = Some(self.selection);
        while let Some(selection) = deciding {
            deciding = None;
            let (table, column, test) = match &selection.rows {
                Rows::Column { column, test } => (&selection.table, column, test),
                Rows::Mapping { mapping, matched, test, .. } => (mapping, matched, test),
                Rows::Parent { parent, .. } => {
                    deciding = Some(parent);
                    continue;
                }
                Rows::All | Rows::Custom(_) => continue,
            };
            let column = self.version.user_tables[&table.name].column(column);
            let Some(cast) = column.map(|column| column.cast.clone()) else { continue };
            if !matches!(cast.as_str(), "text" | "character varying" | "bpchar") {
                let list = matches!(test, ClaimTest::IsIn(_));
                claims.push(TypedClaim { claim: test.claim().clone(), cast, list });
            }
        }
        claims
    }

    fn notice(&self, notices: &mut Vec<String>) {
        let name = self.name;
        if self.table.row_security {
            notices.push(format!(
                "{name} has row security: rows that the server's database user does not see are \
                 not synchronized"
            ));
        }
        notices.extend(self.fixed_keys());
        if !self.table_model.direction.downloads() {
            return;
        }
        if self.selection.is_custom() {
            notices.push(format!(
                "{name}: its condition is custom, so all its rows are sent in every synchronization"
            ));
        }
        let place: Vec<String> = self.selection.place().into_iter().map(str::to_owned).collect();
        if !place.is_empty() && !self.table.finds_by(&place) {
            notices.push(format!(
                "{name}: no index begins with {}, which decides who receives a row: every download \
                 reads the whole table",
                place.join(", ")
            ));
        }
    }

    /// Where a remote cannot change a key, because foreign keys forbid it.
    fn fixed_keys(&self) -> Option<String> {
        if !self.table_model.direction.uploads() {
            return None;
        }
        let to_the_key = |key: &&ForeignKey| {
            let referred = key.columns.iter().any(|(_, to)| self.table.key.contains(to));
            key.parent == self.name && referred && key.forbids_updates()
        };
        let tables = self.version.user_tables.iter();
        let children: Vec<&str> = tables
            .filter(|(_, child)| child.foreign_keys.iter().any(|key| to_the_key(&key)))
            .map(|(name, _)| name.as_str())
            .collect();
        (!children.is_empty()).then(|| {
            format!(
                "{}: remotes cannot change a key that rows of {} refer to (E{}), because the \
                 foreign keys do not say ON UPDATE CASCADE",
                self.name,
                children.join(", "),
                Code::RowReferences.number()
            )
        })
    }

    fn wrong(&self, why: &str) -> Failure {
        let message = format!("table {}: {why}", self.name);
        mismatch(self.version.model, message).table(self.name)
    }

    /// A fence looks at the row that a remote sends.
    fn check_places(&self, columns: &[String]) -> Result<(), Failure> {
        let place = self.selection.place();
        let missing = place.iter().find(|place| !columns.iter().any(|column| column == **place));
        match missing.filter(|_| self.table_model.direction.uploads() && !self.part) {
            Some(column) => Err(self.wrong(&format!(
                "{column} decides who receives a row; if remotes upload rows, it must be published"
            ))),
            None => Ok(()),
        }
    }

    /// Columns that decide who receives a row and that an older shape does not have. What a
    /// condition of one's own looks at is not known, so these are all.
    fn unseen(&self, columns: &[String]) -> Vec<&'a UserColumn> {
        let place = self.selection.place();
        let decides = |name: &str| self.selection.is_custom() || place.contains(&name);
        let lacks = |column: &&UserColumn| {
            self.part && decides(&column.name) && !columns.contains(&column.name)
        };
        self.table.columns.iter().filter(lacks).collect()
    }

    /// The published columns in the table's order; the key is always among them.
    fn published_columns(&self, notices: &mut Vec<String>) -> Result<Vec<String>, Failure> {
        let (table, table_model) = (self.table, self.table_model);
        let (name, stored) = (self.name, table.stored_columns());
        if table_model.columns.is_none() && stored.len() < table.columns.len() {
            notices.push(format!("{name}: generated columns are left out at remotes"));
        }
        for wanted in table_model.columns.iter().flatten() {
            if !stored.contains(wanted) {
                return Err(self.wrong(&format!("it has no column {wanted} to publish")));
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
        let inserts = table_model.direction.uploads() && !self.part;
        if let Some(column) = column.filter(|_| inserts) {
            return Err(self.wrong(&format!(
                "column {} is not published, but remotes insert rows, and it neither accepts NULL \
                 nor has a default",
                column.name
            )));
        }
        Ok(columns)
    }

    fn check_latest(&self, columns: &[String]) -> Result<(), Failure> {
        let ConflictRule::Latest(latest) = &self.table_model.conflict else { return Ok(()) };
        if self.table.column(latest).is_none() {
            return Err(self.wrong(&format!("latest names {latest}, but there is no such column")));
        }
        if !columns.contains(latest) {
            return Err(self.wrong(&format!("latest names {latest}, which is not published")));
        }
        let column = self.table.column(latest);
        match column.is_some_and(|column| scripts::can_be_latest(&column.cast)) {
            true => Ok(()),
            false => Err(self.wrong(&format!(
                "latest names {latest}, which is not a date, time, number or text"
            ))),
        }
    }

    fn column_types(&self, columns: &[String]) -> Result<Vec<ColumnType>, Failure> {
        let (table, table_model) = (self.table, self.table_model);
        for wanted in table_model.stored_as.keys() {
            let numeric = table.column(wanted).is_some_and(|c| c.is_numeric() && !c.domain);
            if !(numeric && columns.contains(wanted)) {
                return Err(self.wrong(&format!(
                    "`as` names {wanted}, which is not a published column of type numeric"
                )));
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

    /// Positions of the foreign keys that hold at every remote.
    fn foreign_keys(&self, columns: &[String], notices: &mut Vec<String>) -> Vec<usize> {
        let mut kept = Vec::new();
        for (position, key) in self.table.foreign_keys.iter().enumerate() {
            match self.left_out(key, columns) {
                None => kept.push(position),
                Some(why) => notices.push(format!(
                    "the foreign key of {} to {} is left out at remotes: {why}",
                    self.name, key.parent
                )),
            }
        }
        kept
    }

    /// Why a foreign key cannot be kept at remotes, if it cannot.
    fn left_out(&self, key: &ForeignKey, columns: &[String]) -> Option<String> {
        let (version, parent) = (self.version, &key.parent);
        let downloads = version.chosen.get(parent).is_some_and(|p| p.direction.downloads());
        let holds = |names: &Vec<String>| {
            !names.iter().any(|name| name == self.name) || names.contains(parent)
        };
        if !downloads || !version.publications.iter().all(|(_, names)| holds(names)) {
            return Some(format!("{parent} is not published with it"));
        }
        let (from, to): (Vec<_>, Vec<_>) = key.columns.iter().cloned().unzip();
        let published = from.iter().all(|column| columns.contains(column));
        if !published || !self.is_unique_at_remotes(parent, &to) {
            return Some("its columns are not published".into());
        }
        if !self.is_spelled_alike(key) {
            return Some("its values may be equal and spelled differently".into());
        }
        let closed = version.selections[parent].is_all()
            || self.table_model.direction.downloads()
                && self.selection.follows(parent, &key.columns);
        (!closed).then(|| format!("a remote may lack the row of {parent}"))
    }

    /// Whether values that refer to each other at the centre are the same at remotes.
    fn is_spelled_alike(&self, key: &ForeignKey) -> bool {
        let parent = self.version.user_tables.get(&key.parent);
        key.columns.iter().all(|(from, to)| {
            let child = self.table.column(from);
            let parent = parent.and_then(|parent| parent.column(to));
            child.zip(parent).is_some_and(|(child, parent)| {
                child.ambiguous.is_none() && parent.ambiguous.is_none()
            })
        })
    }

    /// Whether a foreign key may refer to these columns of a published table.
    fn is_unique_at_remotes(&self, parent: &str, columns: &[String]) -> bool {
        let Some(table) = self.version.user_tables.get(parent) else { return false };
        let published = |column: &&String| {
            let model = self.version.chosen.get(parent).and_then(|model| model.columns.as_ref());
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
