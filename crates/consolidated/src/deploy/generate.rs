//! Which scripts a table gets, whatever their texts.

use crate::script::Event;
use crate::selection::Selection;
use crate::sync_model::{ConflictRule, Wins};
use model::Direction;

/// Of a column by which the later row wins: numbers above are milliseconds since 1970, others
/// seconds.
pub(crate) const SECONDS_MAX: &str = "100000000000";

/// What decides a conflict of two changes where the center does not simply keep its row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Resolution<'m> {
    /// The row becomes what the remote made of it.
    Remote,
    /// The row whose value in this column wins.
    Compared(&'m str, &'m Wins),
    /// Column by column. In some both changes count.
    Merged(&'m [String]),
}

/// The texts of the scripts of one table.
pub(crate) trait Texts {
    fn insert(&self) -> String;

    /// None if no column can be set.
    fn update(&self) -> Option<String>;

    fn delete(&self) -> String;

    fn fetch(&self) -> String;

    /// None without a fence.
    fn fence(&self) -> Option<String>;

    /// None if no column can be set.
    fn resolve(&self, resolution: Resolution<'_>) -> Option<String>;

    /// Deletes a row although it is no longer what the remote saw.
    fn delete_anyway(&self) -> String;

    fn download(&self) -> String;

    fn download_deletes(&self) -> String;
}

/// All scripts of a table, in the order of their events.
pub(crate) fn scripts(
    texts: &impl Texts,
    direction: Direction,
    rule: &ConflictRule,
    selection: &Selection,
) -> Vec<(Event, String)> {
    let (uploads, downloads) = (direction.uploads(), direction.downloads());
    let mut scripts = Vec::new();
    let mut add = |event, text: Option<String>| scripts.extend(text.map(|text| (event, text)));
    if uploads {
        add(Event::UploadInsert, Some(texts.insert()));
        add(Event::UploadUpdate, texts.update());
        add(Event::UploadDelete, Some(texts.delete()));
    }
    add(Event::UploadLook, Some(texts.fetch()));
    add(Event::UploadFence, texts.fence());
    if uploads {
        let resolution = match rule {
            ConflictRule::ConsolidatedWins => None,
            ConflictRule::RemoteWins => Some(Resolution::Remote),
            ConflictRule::Compare { column, wins } => Some(Resolution::Compared(column, wins)),
            ConflictRule::Merge { added } => Some(Resolution::Merged(added)),
        };
        add(Event::ConflictRule, resolution.and_then(|how| texts.resolve(how)));
        let anyway = *rule == ConflictRule::RemoteWins;
        add(Event::DeleteConflictRule, anyway.then(|| texts.delete_anyway()));
    }
    if downloads {
        add(Event::DownloadCursor, Some(texts.download()));
        let departs = !selection.is_custom();
        add(Event::DownloadDeleteCursor, departs.then(|| texts.download_deletes()));
    }
    scripts
}

/// Whether the `new` value is beyond the one that is there `now`, in the direction of `sign`. A
/// value wins over none, and nothing wins by having none.
pub(crate) fn is_beyond(new: &str, sign: &str, now: &str) -> String {
    format!("{new} IS NOT NULL AND ({now} IS NULL OR {new} {sign} {now})")
}

/// Whether the `new` value stands before the one that is there `now` in a list of literals.
pub(crate) fn is_before(new: &str, now: &str, listed: &[String]) -> String {
    let places = listed.iter().enumerate();
    let places: String =
        places.map(|(place, value)| format!("\n        WHEN {value} THEN {place}")).collect();
    let behind = listed.len();
    let place = |value: &str| format!("CASE {value}{places}\n        ELSE {behind} END");
    format!("{}\n    < {}", place(new), place(now))
}
