//! `syncline rejects` and `syncline conflicts`: the center's records about single rows.

use crate::args::{
    ConflictsAction, ConflictsOptions, Dir, ListNotes, PurgeNotes, RejectsAction, RejectsOptions,
    ResolveConflict, ShowNote,
};
use crate::config::Config;
use crate::readable::{self, parsed};
use consolidated::{Administration, ConflictNote, Notes, RejectNote, Resolution};
use model::{Code, Failure};
use serde_json::{Value, json};
use terminal::output::{self, counted};

/// Does what was asked with rejects.
pub(crate) fn rejects(options: &RejectsOptions) -> Result<(), Failure> {
    match &options.action {
        RejectsAction::List(list) => {
            let notes = newest(list, None, |wanted| open(&list.dir)?.rejects(&wanted))?;
            if list.json {
                return output::json(&notes.iter().map(reject_json).collect());
            }
            if notes.is_empty() {
                return output::line(&none(list, "reject"));
            }
            let rows: Vec<Vec<String>> = notes.iter().map(reject_row).collect();
            let headings = ["id", "at", "remote", "user", "table", "key", "code", "message"];
            output::table(&headings, &rows)
        }
        RejectsAction::Show(ShowNote { id, dir, json }) => {
            let note = open(dir)?.rejects(&Notes::of(*id))?.pop();
            let note = note.ok_or_else(|| missing("reject", *id))?;
            if *json { output::json(&reject_json(&note)) } else { show_reject(&note) }
        }
        RejectsAction::Purge(PurgeNotes { dir, older_than, json }) => {
            let purged = open(dir)?.purge_rejects(older_than.unwrap_or(0))?;
            report_purged(purged, "reject", *json)
        }
    }
}

/// Does what was asked with conflicts.
pub(crate) fn conflicts(options: &ConflictsOptions) -> Result<(), Failure> {
    match &options.action {
        ConflictsAction::List { list, rule } => {
            // As models spell it, or as `list` does.
            let rule = rule.as_ref().map(|rule| rule.replace('_', " "));
            let notes = newest(list, rule, |wanted| open(&list.dir)?.conflicts(&wanted))?;
            if list.json {
                return output::json(&notes.iter().map(conflict_json).collect());
            }
            if notes.is_empty() {
                return output::line(&none(list, "conflict"));
            }
            let rows: Vec<Vec<String>> = notes.iter().map(conflict_row).collect();
            let headings = ["id", "at", "remote", "user", "table", "key", "operation", "rule"];
            output::table(&headings, &rows)
        }
        ConflictsAction::Show(ShowNote { id, dir, json }) => {
            let note = open(dir)?.conflicts(&Notes::of(*id))?.pop();
            let note = note.ok_or_else(|| missing("conflict", *id))?;
            if *json { output::json(&conflict_json(&note)) } else { show_conflict(&note) }
        }
        ConflictsAction::Resolve(options) => resolve(options),
        ConflictsAction::Purge(PurgeNotes { dir, older_than, json }) => {
            let purged = open(dir)?.purge_conflicts(older_than.unwrap_or(0))?;
            report_purged(purged, "conflict", *json)
        }
    }
}

fn resolve(options: &ResolveConflict) -> Result<(), Failure> {
    let ResolveConflict { id, dir, take, set, null, force, json } = options;
    let resolution = match take {
        Some(_) => Resolution::Loser,
        None => {
            let set = set.iter().map(|(column, value)| (column.clone(), Some(value.clone())));
            let null = null.iter().map(|column| (column.clone(), None));
            Resolution::Values(set.chain(null).collect())
        }
    };
    open(dir)?.resolve_conflict(*id, &resolution, *force)?;
    if *json {
        return output::json(&json!({ "resolved": id }));
    }
    output::line(&format!("resolved conflict {id}; every remote receives the row as it is now"))
}

/// What is said where nothing is listed. Notes are removed, so it is not said that there were none.
fn none(list: &ListNotes, noun: &str) -> String {
    let ListNotes { user, remote, table, newer_than, .. } = list;
    let filtered = user.is_some() || remote.is_some() || table.is_some() || newer_than.is_some();
    let which = if filtered { " of this kind" } else { "" };
    format!("no {noun}{which} is listed; `purge` and `log_rows_max` remove older ones")
}

fn open(dir: &Dir) -> Result<Box<dyn Administration>, Failure> {
    consolidated::administer(&Config::read(&dir.dir)?.consolidated)
}

/// The newest of those that are wanted, and a message if there are more.
fn newest<T>(
    list: &ListNotes,
    rule: Option<String>,
    read: impl FnOnce(Notes) -> Result<Vec<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let ListNotes { user, remote, table, newer_than, limit, .. } = list;
    let mut notes = read(Notes {
        limit: limit.saturating_add(1),
        id: None,
        user: user.clone(),
        remote_id: remote.clone(),
        table: table.clone(),
        seconds: *newer_than,
        rule,
    })?;
    if notes.len() > *limit as usize {
        notes.remove(0);
        output::notice(&format!("only the newest {limit} are shown; --limit shows more"));
    }
    Ok(notes)
}

fn missing(noun: &str, id: i64) -> Failure {
    Failure::new(Code::NoSuchNote, format!("there is no {noun} {id}"))
        .hint(format!("`syncline {noun}s list` shows what there is"))
}

fn report_purged(purged: u64, noun: &str, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&json!({ "purged": purged }));
    }
    output::line(&format!("purged {}", counted(purged, noun)))
}

fn reject_row(note: &RejectNote) -> Vec<String> {
    let RejectNote { at, remote_id, user, table, message, .. } = note.clone();
    let (id, key, code) =
        (note.id.to_string(), readable::key(&note.key), format!("E{}", note.code));
    vec![id, at, remote_id, user, table, key, code, message]
}

fn reject_json(note: &RejectNote) -> Value {
    json!({
        "id": note.id,
        "at": note.at,
        "remote_id": note.remote_id,
        "user": note.user,
        "table": note.table,
        "operation": note.operation,
        "key": parsed(&note.key),
        "row": note.row.as_deref().map(parsed),
        "code": format!("E{}", note.code),
        "message": note.message,
        "learned": note.learned,
        "settled": note.settled,
    })
}

fn show_reject(note: &RejectNote) -> Result<(), Failure> {
    let learned = match (&note.settled, note.learned) {
        (Some(outcome), _) => format!("yes, and {outcome} there"),
        (None, true) => "yes".to_owned(),
        (None, false) => "not yet".to_owned(),
    };
    let facts = [
        ("id", note.id.to_string()),
        ("at", note.at.clone()),
        ("remote", note.remote_id.clone()),
        ("user", note.user.clone()),
        ("table", note.table.clone()),
        ("operation", note.operation.clone()),
        ("key", readable::key(&note.key)),
        ("code", format!("E{}", note.code)),
        ("message", note.message.clone()),
        ("received by the remote", learned),
    ];
    output::record(&facts.map(|(name, value)| (name.to_owned(), value)))?;
    readable::row("row", note.row.as_deref())
}

fn conflict_row(note: &ConflictNote) -> Vec<String> {
    let ConflictNote { at, remote_id, user, table, operation, rule, .. } = note.clone();
    let key = note.key.as_deref().map(readable::key).unwrap_or_default();
    vec![note.id.to_string(), at, remote_id, user, table, key, operation, rule]
}

fn conflict_json(note: &ConflictNote) -> Value {
    let row = |text: &Option<String>| text.as_deref().map(parsed);
    json!({
        "id": note.id,
        "at": note.at,
        "remote_id": note.remote_id,
        "user": note.user,
        "table": note.table,
        "key": note.key.as_deref().map(parsed),
        "operation": note.operation,
        "rule": note.rule,
        "old": row(&note.old),
        "new": row(&note.new),
        "consolidated": row(&note.consolidated),
        "result": row(&note.result),
    })
}

fn show_conflict(note: &ConflictNote) -> Result<(), Failure> {
    let facts = [
        ("id", note.id.to_string()),
        ("at", note.at.clone()),
        ("remote", note.remote_id.clone()),
        ("user", note.user.clone()),
        ("table", note.table.clone()),
        ("key", note.key.as_deref().map(readable::key).unwrap_or_default()),
        ("operation", note.operation.clone()),
        ("rule", note.rule.clone()),
    ];
    output::record(&facts.map(|(name, value)| (name.to_owned(), value)))?;
    readable::row("old image", note.old.as_deref())?;
    readable::row("new image", note.new.as_deref())?;
    readable::row("at the center", note.consolidated.as_deref())?;
    readable::row("result", note.result.as_deref())
}
