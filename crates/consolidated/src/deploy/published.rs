//! The plan of one table of a model.
//!
//! It has the columns and foreign keys that remotes have, the scripts, and what people should know.

use super::own::TableScript;
use super::schema::{Schema, TablePlanner, too_wide};
use super::table::{ColumnFacts, ForeignKey, TableFacts};
use crate::catalog::reference::Reference;
use crate::script::{Detection, Event, Script};
use crate::sync_model::ConflictRule;
use model::{Failure, PublishedTable};
use std::collections::BTreeMap;

/// A published table.
pub(crate) struct TablePlan<S: Schema> {
    /// Under the names of the database.
    pub(crate) published: PublishedTable,
    /// As remotes know it.
    pub(crate) outward: PublishedTable,
    pub(crate) conflict_rule: String,
    pub(crate) details: S::Details,
    pub(crate) scripts: Vec<TableScript>,
    /// How conflicts are found that scripts of the user's resolve.
    pub(crate) detection: Option<Detection>,
    /// The texts that the model makes, whether the user wrote others or not.
    pub(crate) generated: Vec<(Event, String)>,
}

impl<S: Schema> TablePlanner<'_, S> {
    pub(super) fn plan(
        &self,
        notices: &mut Vec<String>,
        mistakes: &mut Vec<String>,
    ) -> Result<TablePlan<S>, Failure> {
        let columns = self.published_columns(notices)?;
        too_wide(self.name, columns.len()).map_or(Ok(()), Err)?;
        self.check_rule(&columns)?;
        self.losers(&columns)?;
        self.check_places(&columns)?;
        let values = S::values(self, &columns)?;
        self.notice(notices);
        let foreign_keys = self.foreign_keys(&columns, notices);
        if let Some(why) = self.table_model.wrong_names(&columns) {
            return Err(self.wrong(&why));
        }
        let outward: Vec<String> = columns.iter().map(|c| self.table_model.outward(c)).collect();
        let (create, left_out) = self.create(&columns, &outward, &values, &foreign_keys);
        notices.extend(left_out);
        let known_by = S::known_by(self.table, &columns, &values);
        let (known_create, _) = self.create(&columns, &outward, &known_by, &foreign_keys);
        let mut published = PublishedTable { create, ..self.draft(columns) };
        let mut outward = PublishedTable { columns: outward, ..published.clone() };
        let known = PublishedTable { create: known_create, ..outward.clone() };
        outward.fingerprint = S::fingerprint(&known, &known_by);
        published.fingerprint = outward.fingerprint.clone();
        // A remote keeps its rows when this changes.
        for table in [&mut published, &mut outward] {
            (table.compress, table.fires) = (self.table_model.compress, self.table_model.fires);
        }
        let generated = S::scripts(self, &published, &values);
        let parsed =
            generated.iter().map(|(event, text)| Ok((*event, Script::parse(text, &published)?)));
        let parsed = parsed.collect::<Result<BTreeMap<Event, Script>, Failure>>()?;
        let renamed = outward.columns != published.columns;
        let local = if renamed { published.columns.clone() } else { Vec::new() };
        let mut details = S::details(self, &published, values, &parsed, local);
        let scripts = self.scripts(&published, &generated, mistakes);
        let ignores_rows = |it: &&TableScript| it.is_ignored() && !it.event.is_around();
        let ignored = scripts.iter().filter(ignores_rows);
        notices.extend(ignored.map(|script| {
            let (name, event) = (self.name, script.event);
            format!("{name}: {event} is ignored: rows may differ between remotes and center")
        }));
        notices.extend(self.idle_fetch());
        if scripts.iter().any(TableScript::is_own) || self.version.writes_around_rows() {
            S::writes_as_it_likes(&mut details);
        }
        self.idle_files(mistakes);
        let conflict_rule = self.table_model.conflict.to_string();
        let detection = self.detection();
        Ok(TablePlan { published, outward, conflict_rule, details, scripts, detection, generated })
    }

    /// What the model generates.
    pub(super) fn generated(&self) -> Result<Vec<(Event, String)>, Failure> {
        let columns = self.published_columns(&mut Vec::new())?;
        let values = S::values(self, &columns)?;
        Ok(S::scripts(self, &self.draft(columns), &values))
    }

    /// The table with these columns, without what makes it at remotes.
    fn draft(&self, columns: Vec<String>) -> PublishedTable {
        let key = self.table.key().iter();
        let key = key.filter_map(|key| columns.iter().position(|column| column == key));
        PublishedTable {
            compress: true,
            fires: false,
            name: self.name.to_owned(),
            key: key.map(|position| position as u16).collect(),
            direction: self.table_model.direction,
            create: Vec::new(),
            fingerprint: String::new(),
            columns,
        }
    }

    /// The statements that make the table at remotes, and what is left out of them.
    fn create(
        &self,
        columns: &[String],
        outward: &[String],
        values: &S::Values,
        foreign_keys: &[usize],
    ) -> (Vec<String>, Vec<String>) {
        if outward == columns {
            return S::create(self.table, columns, values, foreign_keys);
        }
        let own = |column: &str| self.table_model.outward(column);
        let of_parent = |parent: &str, column: &str| {
            let model = self.version.chosen.get(parent);
            model.map_or(column.to_owned(), |model| model.outward(column))
        };
        S::create(&self.table.renamed(&own, &of_parent), outward, values, foreign_keys)
    }

    /// The published columns in the table's order; the key is always among them.
    fn published_columns(&self, notices: &mut Vec<String>) -> Result<Vec<String>, Failure> {
        let (table, table_model) = (self.table, self.table_model);
        let stored = table.stored_columns();
        let generated = stored.len() < table.columns().len();
        if table_model.columns.is_none() && generated && !S::GENERATED_COLUMNS_CROSS {
            notices.push(format!("{}: generated columns are left out at remotes", self.name));
        }
        for wanted in table_model.columns.iter().flatten() {
            if !stored.contains(wanted) {
                return Err(self.wrong(&format!("it has no column {wanted} to publish")));
            }
        }
        let is_published = |column: &String| match &table_model.columns {
            Some(wanted) => wanted.contains(column) || table.key().contains(column),
            None => true,
        };
        let columns: Vec<String> = stored.into_iter().filter(is_published).collect();
        let is_missing = |column: &&<S::Table as TableFacts>::Column| {
            column.must_be_given() && !columns.iter().any(|known| known == column.name())
        };
        let given = self.own_file(Event::UploadInsert).is_some()
            || self.detection() == Some(Detection::Forced);
        let inserts = table_model.direction.uploads() && !self.part && !given;
        if let Some(column) = table.columns().iter().find(is_missing).filter(|_| inserts) {
            return Err(self.wrong(&format!(
                "column {} is not published, but remotes insert rows, and it neither accepts NULL \
                 nor has a default",
                column.name()
            )));
        }
        Ok(columns)
    }

    /// The foreign keys by which an uploaded row refers to one that a remote may have inserted.
    pub(crate) fn references(&self, columns: &[String]) -> Vec<Reference> {
        let inserts = |name: &str| {
            let model = self.version.chosen.get(name);
            model.is_some_and(|model| model.direction.uploads())
        };
        let is_whole =
            |key: &&ForeignKey| key.columns.iter().all(|(from, _)| columns.contains(from));
        let keys = self.table.foreign_keys().iter();
        let keys = keys.filter(|key| inserts(&key.parent)).filter(is_whole);
        let told = |key: &ForeignKey| {
            let (parent, columns) = (key.parent.clone(), key.columns.clone());
            Reference { parent, columns }
        };
        match inserts(self.name) {
            true => keys.map(told).collect(),
            false => Vec::new(),
        }
    }

    /// That the columns of the conflict rule are there, and of types that it can do something with.
    fn check_rule(&self, columns: &[String]) -> Result<(), Failure> {
        if let ConflictRule::Compare { column, wins } = &self.table_model.conflict {
            let decides = self.column_of(wins.word(), column, columns)?;
            if !S::can_decide(decides, wins) {
                let (word, wants) = (wins.word(), wins.wants());
                return Err(self.wrong(&format!("{word} names {column}, which is not {wants}")));
            }
        }
        for column in self.table_model.conflict.added() {
            let added = self.column_of("add", column, columns)?;
            if self.table.key().contains(column) {
                return Err(self.wrong(&format!("add names {column}, which is part of the key")));
            }
            if !S::is_number(added) {
                return Err(self.wrong(&format!("add names {column}, which is not a number")));
            }
        }
        Ok(())
    }

    /// The published column that the conflict rule `word` names.
    fn column_of(
        &self,
        word: &str,
        name: &str,
        columns: &[String],
    ) -> Result<&<S::Table as TableFacts>::Column, Failure> {
        let Some(column) = self.table.column(name) else {
            return Err(self.wrong(&format!("{word} names {name}, but there is no such column")));
        };
        match columns.iter().any(|column| column == name) {
            true => Ok(column),
            false => Err(self.wrong(&format!("{word} names {name}, which is not published"))),
        }
    }

    /// Positions of the columns in which both changes count.
    pub(crate) fn added(&self, columns: &[String]) -> Vec<u16> {
        let added = self.table_model.conflict.added();
        let positions = columns.iter().zip(0..).filter(|(column, _)| added.contains(column));
        positions.map(|(_, position)| position).collect()
    }

    /// A fence that looks at the row that a remote sends needs its place in it.
    fn check_places(&self, columns: &[String]) -> Result<(), Failure> {
        if S::FENCES_SEE_STORED_ROWS || !self.table_model.direction.uploads() || self.part {
            return Ok(());
        }
        let place = self.selection.place();
        match place.iter().find(|place| !columns.iter().any(|column| column == **place)) {
            Some(column) => Err(self.wrong(&format!(
                "{column} decides who receives a row; if remotes upload rows, it must be published"
            ))),
            None => Ok(()),
        }
    }

    fn notice(&self, notices: &mut Vec<String>) {
        let name = self.name;
        notices.extend(S::notices(name, self.table));
        if !self.table_model.direction.downloads() {
            return;
        }
        if self.selection.is_custom() {
            notices.push(format!(
                "{name}: its condition is custom, so all its rows are sent in every synchronization"
            ));
        }
        let place = self.selection.place();
        if !place.is_empty() && !self.table.finds_by(&place) {
            notices.push(format!(
                "{name}: no index begins with {}, which decides who receives a row: every download \
                 reads the whole table",
                place.join(", ")
            ));
        }
    }

    /// Positions of the foreign keys that hold at every remote.
    fn foreign_keys(&self, columns: &[String], notices: &mut Vec<String>) -> Vec<usize> {
        let mut kept = Vec::new();
        for (position, key) in self.table.foreign_keys().iter().enumerate() {
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
        let whole = S::GENERATED_COLUMNS_CROSS && self.table_model.columns.is_none();
        let referring = whole || key.columns.iter().all(|(from, _)| columns.contains(from));
        if !referring || !self.are_referred_published(key) {
            return Some("its columns are not published".into());
        }
        if !self.is_spelled_alike(key) {
            return Some("its values may be equal and spelled differently".into());
        }
        let has_own = |table: &str| self.has_own(table, Event::DownloadCursor);
        let closed = match (has_own(self.name), has_own(parent)) {
            // Their author knows which rows come together. Until a parent comes, its row waits.
            (true, true) => true,
            (false, true) => false,
            (_, false) => {
                version.selections[parent].is_all()
                    || self.table_model.direction.downloads()
                        && self.selection.follows(parent, &key.columns)
            }
        };
        (!closed).then(|| format!("a remote may lack the row of {parent}"))
    }

    /// Whether values that refer to each other at the center are the same at remotes.
    fn is_spelled_alike(&self, key: &ForeignKey) -> bool {
        let parent = self.version.user_tables.get(&key.parent);
        key.columns.iter().all(|(from, to)| {
            let child = self.table.column(from);
            let parent = parent.and_then(|parent| parent.referred(to));
            child
                .zip(parent)
                .is_some_and(|(child, parent)| !child.is_ambiguous() && !parent.is_ambiguous())
        })
    }

    /// Whether remotes have all columns that a foreign key refers to.
    fn are_referred_published(&self, key: &ForeignKey) -> bool {
        let parent = key.parent.as_str();
        let Some(table) = self.version.user_tables.get(parent) else { return false };
        let wanted = self.version.chosen.get(parent).and_then(|model| model.columns.as_ref());
        let is_published = |column: &<S::Table as TableFacts>::Column| {
            let is_it = |name: &String| name == column.name();
            match wanted {
                Some(wanted) => wanted.iter().any(is_it) || table.key().iter().any(is_it),
                None => S::GENERATED_COLUMNS_CROSS || !column.is_generated(),
            }
        };
        key.columns.iter().all(|(_, to)| table.referred(to).is_some_and(is_published))
    }
}
