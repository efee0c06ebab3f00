//! Conflicts that scripts of the user's resolve.
//!
//! Which scripts a user wrote for a table says how its conflicts are found. Resolving one is then
//! one script for a row: what `upload_old_row_insert`, `upload_new_row_insert` and
//! `resolve_conflict` say, one after the other.

use super::event::FETCHING;
use super::{Event, Own, Parameter, Script};
use crate::synchronization::change::Change;
use std::collections::BTreeMap;

/// The scripts that resolve a conflict, in the order in which they run.
const RESOLVING: [Event; 3] =
    [Event::UploadOldRowInsert, Event::UploadNewRowInsert, Event::ResolveConflict];

/// The scripts that apply rows.
const APPLYING: [Event; 3] = [Event::UploadInsert, Event::UploadUpdate, Event::UploadDelete];

/// How the conflicts are found that scripts of the user's resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// `upload_update` changes no row.
    Count,
    /// `upload_fetch` returns another row than the remote saw, or none.
    Fetch,
    /// `upload_fetch_column_conflict` returns a row in which a column is not as the remote saw it,
    /// and the remote has changed it too; or none.
    Column,
    /// No script applies rows: each of them is a conflict.
    Forced,
}

impl Detection {
    /// By the events for which the user wrote a script. None where no script resolves a conflict:
    /// then the rule of the model does.
    pub(crate) fn of(wrote: impl Fn(Event) -> bool) -> Option<Detection> {
        let any = |events: &[Event]| events.iter().any(|event| wrote(*event));
        if !any(&RESOLVING) {
            return None;
        }
        Some(match FETCHING.map(&wrote) {
            _ if !any(&APPLYING) => Detection::Forced,
            [true, _] => Detection::Fetch,
            [false, true] => Detection::Column,
            [false, false] => Detection::Count,
        })
    }

    /// The same of stored scripts. A generated one that applies rows is there as well.
    pub(super) fn of_stored(scripts: &BTreeMap<Event, Script>) -> Option<Detection> {
        let own = |event| scripts.get(&event).is_some_and(Script::is_own);
        Detection::of(|event| {
            own(event) || APPLYING.contains(&event) && scripts.contains_key(&event)
        })
    }

    /// One word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Detection::Count => "count",
            Detection::Fetch => "fetch",
            Detection::Column => "column",
            Detection::Forced => "forced",
        }
    }

    /// What is a conflict, for people.
    pub fn told(self) -> &'static str {
        match self {
            Detection::Count => "an update that upload_update does not apply",
            Detection::Fetch => "an update of a row that upload_fetch returns otherwise",
            Detection::Column => {
                "an update of a column that upload_fetch_column_conflict returns otherwise"
            }
            Detection::Forced => "every row",
        }
    }

    /// The script that reads the row to compare.
    pub(crate) fn fetching(self) -> Option<Event> {
        match self {
            Detection::Fetch => Some(Event::UploadFetch),
            Detection::Column => Some(Event::UploadFetchColumnConflict),
            Detection::Count | Detection::Forced => None,
        }
    }
}

/// The events of the scripts that resolve conflicts, as far as the user wrote some.
pub(crate) fn resolving(scripts: &BTreeMap<Event, Script>) -> Vec<Event> {
    let runs = |event: &Event| scripts.get(event).is_some_and(|it| it.is_own() && !it.is_ignored());
    RESOLVING.into_iter().filter(runs).collect()
}

/// Adds to the scripts of a table those that resolve its conflicts, if the user wrote any, and says
/// how these are found.
pub(crate) fn compose(scripts: &mut BTreeMap<Event, Script>) -> Option<Detection> {
    let detection = Detection::of_stored(scripts)?;
    let changes = match detection {
        Detection::Forced => &[Change::Insert, Change::Update, Change::Delete][..],
        _ => &[Change::Update],
    };
    let composed = changes.iter().map(|change| (settling(detection, *change), *change));
    let composed: Vec<_> =
        composed.map(|(event, change)| (event, composed_of(scripts, change))).collect();
    scripts.extend(composed);
    Some(detection)
}

/// The event under which a table has the script for a conflict of a row with this change.
pub(crate) fn settling(detection: Detection, change: Change) -> Event {
    match (detection, change) {
        (Detection::Forced, Change::Insert) => Event::UploadInsert,
        (Detection::Forced, Change::Update) => Event::UploadUpdate,
        (Detection::Forced, Change::Delete) => Event::UploadDelete,
        (_, _) => Event::ResolveConflict,
    }
}

/// What the scripts of the user's do about a conflict of a row with this change: a new row has no
/// old image, and a deleted one no new one.
fn composed_of(scripts: &BTreeMap<Event, Script>, change: Change) -> Script {
    let runs = |event: &Event| match event {
        Event::UploadOldRowInsert => change != Change::Insert,
        Event::UploadNewRowInsert => change != Change::Delete,
        _ => true,
    };
    let mut statements = Vec::new();
    for event in RESOLVING.iter().filter(|event| runs(event)) {
        let Some(script) = scripts.get(event).filter(|script| script.is_own()) else { continue };
        for one in script.statements() {
            let mut one = one.clone();
            if let Some(own) = &mut one.own {
                own.then.clear();
            }
            if *event == Event::UploadOldRowInsert {
                one.name_old();
            }
            statements.push(one);
        }
    }
    let mut statements = statements.into_iter();
    let nothing =
        Script { own: Some(Own { ignored: true, ..Own::default() }), ..Script::default() };
    let mut first = statements.next().unwrap_or(nothing);
    if let Some(own) = &mut first.own {
        (own.then, own.counts) = (statements.collect(), false);
    }
    first
}

impl Script {
    /// Takes the old image where it names values of the row.
    fn name_old(&mut self) {
        for parameter in &mut self.parameters {
            if let Parameter::New(at) = parameter {
                *parameter = Parameter::Old(*at);
            }
        }
    }
}
