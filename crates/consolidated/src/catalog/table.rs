//! One table of a script version, ready to run.

use crate::script::conflicts::settling;
use crate::script::{Detection, Event, Script};
use crate::synchronization::change::Change;
use crate::upload::changed_columns::{ChangedColumns, Variants};
use crate::upload::rebase::{Rebased, image, values};
use crate::upload::uploaded_row::{UploadedRow, event_of, resolution_of};
use model::{Code, Direction, Failure, PublishedTable, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One table of a script version, ready to run.
#[derive(Debug)]
pub(crate) struct CatalogTable<D> {
    /// The table under the names of the database, which scripts use too.
    pub(crate) published: PublishedTable,
    /// The same as remotes know it.
    pub(super) outward: PublishedTable,
    pub(crate) conflict_rule: String,
    /// What the backend noted when it deployed the table.
    pub(crate) details: D,
    pub(super) scripts: BTreeMap<Event, Script>,
    /// Scripts of the user's resolve conflicts that are found so.
    pub(super) detection: Option<Detection>,
    /// The events of these scripts.
    pub(super) resolving: Vec<Event>,
    /// The whole table, where this is what an older shape knows of it, and a user wrote scripts.
    pub(crate) whole: Option<Whole<D>>,
    /// Its update, by the columns that it assigns.
    pub(super) updates: Variants<Script>,
}

/// A table of today with scripts that a user wrote for all its columns, as a part of it sees it.
#[derive(Debug)]
pub(crate) struct Whole<D> {
    pub(crate) table: Arc<CatalogTable<D>>,
    /// Per column its position in the part; none where that lacks it.
    places: Vec<Option<usize>>,
}

impl<D> Whole<D> {
    pub(super) fn of(table: &Arc<CatalogTable<D>>, part: &PublishedTable) -> Whole<D> {
        let place = |name: &String| part.columns.iter().position(|known| known == name);
        let places = table.published.columns.iter().map(place).collect();
        Whole { table: table.clone(), places }
    }

    /// Whether a row with this change needs what the center has of it.
    pub(crate) fn asks(&self, change: Change) -> bool {
        change != Change::Insert && self.places.contains(&None)
    }

    /// Reads a row that was widened.
    pub(crate) fn read<'r>(&self, wide: &'r Rebased) -> Result<UploadedRow<'r>, Failure> {
        wide.row(self.table.published.width())
    }

    /// A row of the part for the scripts of the whole. What it lacks is in both images as the
    /// center has it `now`, so a script neither changes that nor finds a conflict in it; and NULL
    /// where the center has no such row.
    pub(crate) fn widen(
        &self,
        row: &UploadedRow<'_>,
        now: Option<&[u8]>,
    ) -> Result<Rebased, Failure> {
        let now = now.map(values).transpose()?.unwrap_or_default();
        let (old, new) = (self.image(&row.old, &now), self.image(&row.new, &now));
        Ok(Rebased::of(row.change, &old, &new))
    }

    /// What the part knows of a row of the whole, encoded.
    pub(crate) fn narrow(&self, row: &[u8]) -> Result<Vec<u8>, Failure> {
        let row = values(row)?;
        let mut known: Vec<_> = self.places.iter().zip(row).collect();
        known.retain(|(place, _)| place.is_some());
        known.sort_by_key(|(place, _)| **place);
        Ok(image(&known.into_iter().map(|(_, value)| value).collect::<Vec<_>>()))
    }

    fn image<'v>(&self, known: &[ValueRef<'v>], now: &[ValueRef<'v>]) -> Vec<ValueRef<'v>> {
        let value = |(at, place): (usize, &Option<usize>)| match place {
            Some(place) => known.get(*place).copied(),
            None => now.get(at).copied(),
        };
        let values = self.places.iter().enumerate().map(value);
        values.map(|value| value.unwrap_or(ValueRef::Null)).collect()
    }
}

impl<D> CatalogTable<D> {
    pub(crate) fn scripts(&self) -> &BTreeMap<Event, Script> {
        &self.scripts
    }

    pub(crate) fn script(&self, event: Event) -> Option<&Script> {
        self.scripts.get(&event)
    }

    /// The script of an event that every table of this direction has.
    pub(crate) fn required(&self, event: Event) -> Result<&Script, Failure> {
        self.script(event).ok_or_else(|| {
            let name = &self.published.name;
            Failure::new(Code::ScriptFailed, format!("table {name} has no script {event}"))
                .table(name.as_str())
        })
    }
}

impl<D> CatalogTable<D> {
    /// The update that assigns the `changed` columns.
    pub(crate) fn update(&self, changed: &ChangedColumns) -> Result<Arc<Script>, Failure> {
        let script = self.required(Event::UploadUpdate)?;
        self.updates.of(changed, || script.assigning(changed, &self.published))
    }

    /// Whether rows with this change have a statement that assigns only what they change.
    pub(crate) fn assigns_changes(&self, change: Change) -> bool {
        let may = || self.script(Event::UploadUpdate).is_some_and(Script::may_assign_less);
        change == Change::Update && !self.is_own(change) && may()
    }

    /// The script that a user wrote for an event. It is one of the whole table.
    pub(crate) fn own(&self, event: Event) -> Option<&Script> {
        let table = self.whole.as_ref().map_or(self, |whole| &whole.table);
        table.script(event).filter(|script| script.is_own())
    }

    /// Whether rows with this change go through scripts that a user wrote.
    pub(crate) fn is_own(&self, change: Change) -> bool {
        self.own(event_of(change)).is_some() || self.detection(change).is_some()
    }

    /// How conflicts of rows with this change are found, where scripts of the user's resolve them.
    pub(crate) fn detection(&self, change: Change) -> Option<Detection> {
        let table = self.whole.as_ref().map_or(self, |whole| &whole.table);
        let concerns = |it: &Detection| *it == Detection::Forced || change == Change::Update;
        table.detection.filter(concerns)
    }

    /// What decides conflicts of rows with this change, for people.
    pub(crate) fn decides(&self, change: Change) -> &str {
        if self.detection(change).is_some() { "scripts" } else { &self.conflict_rule }
    }

    /// The event at which conflicts of rows with this change are resolved.
    pub(crate) fn settling(&self, change: Change) -> Event {
        match self.detection(change) {
            Some(detection) => settling(detection, change),
            None => resolution_of(change),
        }
    }

    /// The events of the scripts that resolve its conflicts.
    pub(crate) fn resolving(&self) -> impl Iterator<Item = Event> {
        let table = self.whole.as_ref().map_or(self, |whole| &whole.table);
        table.resolving.iter().copied()
    }

    /// Whether nothing is done for rows with this change.
    pub(crate) fn ignores(&self, change: Change) -> bool {
        self.own(event_of(change)).is_some_and(Script::is_ignored)
    }

    /// Whether a user wrote some of its upload scripts.
    pub(crate) fn has_own_uploads(&self) -> bool {
        Event::own_of_tables().any(|event| event.is_upload() && self.own(event).is_some())
    }
}

/// Stands for a table that waits: no row of it is taken, nor is anything of it tracked or sent.
/// What the database has by its name is not it.
pub(super) fn at_rest<D: Default>(table: &PublishedTable) -> Arc<CatalogTable<D>> {
    let direction = Direction::UploadOnly;
    let (columns, key) = (Vec::new(), Vec::new());
    let published = PublishedTable { direction, columns, key, ..table.clone() };
    Arc::new(CatalogTable {
        outward: published.clone(),
        published,
        conflict_rule: String::new(),
        details: D::default(),
        scripts: BTreeMap::new(),
        detection: None,
        resolving: Vec::new(),
        whole: None,
        updates: Variants::default(),
    })
}
