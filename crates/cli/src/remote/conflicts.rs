//! `syncline remote conflicts`: the changes of this remote that lost conflicts.

use super::selection::{Decided, Entry, decide, selected};
use crate::args::{Again, RemoteConflicts, RemoteConflictsAction, RemoteFile, Selected};
use crate::readable::{self, parsed};
use client::{Remote, StoredConflict};
use model::{Code, Failure};
use serde_json::{Value, json};
use terminal::output;

type Open = fn(&RemoteFile) -> Result<Remote, Failure>;

/// Does what was asked with lost conflicts of a file.
pub(super) fn run(options: &RemoteConflicts, open: Open) -> Result<(), Failure> {
    match (&options.action, &options.file) {
        (Some(RemoteConflictsAction::List(remote)), _) => list(remote, open),
        (Some(RemoteConflictsAction::Show(Selected { remote, selection })), _) => {
            let mut conflicts = open(remote)?.conflicts()?;
            let ids = selected(&conflicts, selection)?;
            conflicts.retain(|conflict| ids.contains(&conflict.id));
            show(&conflicts, remote.json)
        }
        (Some(RemoteConflictsAction::Retry(Again { these, force })), _) => {
            let Selected { remote, selection } = these;
            let mut file = open(remote)?;
            let conflicts = file.conflicts()?;
            decide(remote, &conflicts, selection, Decided::Retried, &mut |ids| {
                file.retry_conflicts(ids, *force)
            })
        }
        (Some(RemoteConflictsAction::Dismiss(Selected { remote, selection })), _) => {
            let mut file = open(remote)?;
            let conflicts = file.conflicts()?;
            decide(remote, &conflicts, selection, Decided::Dismissed, &mut |ids| {
                file.dismiss_conflicts(ids)
            })
        }
        (None, Some(file)) => list(&RemoteFile { file: file.clone(), json: options.json }, open),
        (None, None) => Err(Failure::new(Code::Bug, "a file was required and not given")),
    }
}

impl Entry for StoredConflict {
    const NOUN: &'static str = "conflict";

    fn id(&self) -> i64 {
        self.id
    }

    fn of(&self) -> (&str, &str) {
        (&self.table, &self.key)
    }
}

fn list(file: &RemoteFile, open: Open) -> Result<(), Failure> {
    let conflicts = open(file)?.conflicts()?;
    if file.json {
        return output::json(&conflicts.iter().map(as_json).collect());
    }
    if conflicts.is_empty() {
        return output::line("no change of this remote has lost a conflict that is still listed");
    }
    let rows: Vec<Vec<String>> = conflicts
        .into_iter()
        .map(|it| {
            let wanted = if it.lost.is_some() { "change" } else { "delete" }.to_owned();
            vec![it.id.to_string(), it.at, it.table, readable::key(&it.key), wanted, it.rule]
        })
        .collect();
    output::table(&["id", "at", "table", "key", "lost", "rule"], &rows)
}

fn as_json(conflict: &StoredConflict) -> Value {
    let row = |text: &Option<String>| text.as_deref().map(parsed);
    json!({
        "id": conflict.id,
        "at": conflict.at,
        "table": conflict.table,
        "key": parsed(&conflict.key),
        "rule": conflict.rule,
        "lost": row(&conflict.lost),
        "base": row(&conflict.base),
        "stayed": row(&conflict.stayed),
    })
}

fn show(conflicts: &[StoredConflict], json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&conflicts.iter().map(as_json).collect());
    }
    for (n, conflict) in conflicts.iter().enumerate() {
        if n > 0 {
            output::line("")?;
        }
        let facts = [
            ("id", conflict.id.to_string()),
            ("at", conflict.at.clone()),
            ("table", conflict.table.clone()),
            ("key", readable::key(&conflict.key)),
            ("rule", conflict.rule.clone()),
        ];
        output::record(&facts.map(|(name, value)| (name.to_owned(), value)))?;
        readable::row("the row that lost", conflict.lost.as_deref())?;
        let stayed = conflict.stayed.as_deref().filter(|row| *row != "null");
        readable::row("the row that stayed", stayed)?;
    }
    Ok(())
}
