//! `syncline remote`: shows and manages a remote database. Only `verify` may need a server.

pub(crate) mod left_behind;
mod verify;

use crate::args::{
    RemoteAction, RemoteFile, RemoteOptions, RemoteRejects, RemoteRejectsAction, Selection,
};
use crate::readable::{self, parsed};
use client::transport::Trust;
use client::{Components, Kept, Remote, Status, StoredReject, TableStatus};
use model::{Code, Direction, Failure};
use serde_json::{Value, json};
use terminal::output::{self, counted};

/// Does what was asked with a remote database.
pub(crate) fn run(options: &RemoteOptions) -> Result<(), Failure> {
    match &options.action {
        RemoteAction::Status(file) => status(file),
        RemoteAction::Pending(file) => pending(file),
        RemoteAction::Rejects(options) => rejects_or_decide(options),
        RemoteAction::Verify(options) => verify::run(options),
        RemoteAction::Reset { remote, discard_pending } => reset(remote, *discard_pending),
        RemoteAction::Detach(file) => detach(file),
    }
}

fn open(file: &RemoteFile) -> Result<Remote, Failure> {
    Remote::open(&file.file, Components::system(&std::env::temp_dir())?)
}

fn status(file: &RemoteFile) -> Result<(), Failure> {
    let remote = open(file)?;
    let (status, too_large) = (remote.status()?, remote.too_large()?);
    left_behind::warn(&too_large);
    if file.json {
        let mut status = status_json(&status);
        if let Some(too_large) = left_behind::json(&too_large) {
            status["too_large"] = too_large;
        }
        return output::json(&status);
    }
    for (name, value) in facts(&status) {
        output::line(&output::one_line(&format!("{name:15} {value}")))?;
    }
    let Kept { rows, bytes } = status.partial;
    if rows > 0 {
        let kept = format!("{} ({bytes} bytes), not to be downloaded again", counted(rows, "row"));
        output::line(&output::one_line(&format!("{:15} {kept}", "cut download")))?;
    }
    if status.tables.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = status.tables.iter().map(table_row).collect();
    output::line("")?;
    output::table(&["table", "direction", "pending", "received"], &rows)
}

fn facts(status: &Status) -> Vec<(&'static str, String)> {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "not known yet".to_owned());
    let publications: Vec<&str> = status.publications.iter().map(|name| name.as_str()).collect();
    let own = status.trust.own.as_ref();
    vec![
        ("remote ID", or_unknown(status.remote_id.as_ref().map(ToString::to_string))),
        ("server", or_unknown(status.server.clone())),
        ("user", or_unknown(status.user.as_ref().map(ToString::to_string))),
        (
            "script version",
            status
                .script_version
                .as_ref()
                .map_or("the server's default".to_owned(), |version| version.to_string()),
        ),
        (
            "publications",
            if publications.is_empty() { "all".to_owned() } else { publications.join(", ") },
        ),
        ("believes", believes(&status.trust)),
        ("certificate", own.map_or("none".to_owned(), |(chain, _)| chain.display().to_string())),
        ("clear text", if status.trust.require_tls { "refused" } else { "allowed" }.to_owned()),
        ("database", or_unknown(status.database_id.as_ref().map(ToString::to_string))),
        ("counter", status.counter.0.to_string()),
        (
            "last upload",
            if status.outcome_unknown {
                format!("{}, and one whose answer never arrived", status.progress.0)
            } else {
                status.progress.0.to_string()
            },
        ),
        ("pending", counted(status.pending(), "change")),
        ("rejected", counted(status.rejects, "row")),
        ("without parent", counted(status.orphans, "row")),
        ("kept back", counted(status.kept_back, "row")),
    ]
}

/// Whom a remote believes.
fn believes(trust: &Trust) -> String {
    match (&trust.ca_file, &trust.pin) {
        (None, None) => "the authorities of the system".to_owned(),
        (Some(path), None) => format!("the authorities in {}", path.display()),
        (None, Some(pin)) => format!("the key {pin}"),
        (Some(path), Some(pin)) => {
            format!("the key {pin}, and the authorities in {}", path.display())
        }
    }
}

fn table_row(table: &TableStatus) -> Vec<String> {
    let received = if table.received { "yes" } else { "not yet" };
    vec![
        table.name.clone(),
        direction(table.direction).to_owned(),
        table.pending.to_string(),
        received.to_owned(),
    ]
}

fn status_json(status: &Status) -> Value {
    let tables: Vec<Value> = status
        .tables
        .iter()
        .map(|table| {
            json!({
                "name": table.name,
                "direction": direction(table.direction),
                "pending": table.pending,
                "received": table.received,
            })
        })
        .collect();
    let own = status.trust.own.as_ref();
    json!({
        "remote_id": status.remote_id,
        "server": status.server,
        "user": status.user,
        "script_version": status.script_version,
        "publications": status.publications,
        "ca_file": status.trust.ca_file,
        "pin": status.trust.pin.map(|pin| pin.to_string()),
        "client_certificate": own.map(|(chain, _)| chain),
        "client_key": own.map(|(_, key)| key),
        "require_tls": status.trust.require_tls,
        "database_id": status.database_id,
        "counter": status.counter.0,
        "progress": status.progress.0,
        "outcome_unknown": status.outcome_unknown,
        "pending": status.pending(),
        "rejected": status.rejects,
        "orphans": status.orphans,
        "kept_back": status.kept_back,
        "partial_download": { "rows": status.partial.rows, "bytes": status.partial.bytes },
        "tables": tables,
    })
}

// As the sync model spells it.
fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Both => "both",
        Direction::DownloadOnly => "download_only",
        Direction::UploadOnly => "upload_only",
    }
}

fn pending(file: &RemoteFile) -> Result<(), Failure> {
    let changes = open(file)?.pending()?;
    if file.json {
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| {
                json!({
                    "table": change.table,
                    "operation": change.operation.as_str(),
                    "key": change.key,
                    "columns": change.columns,
                })
            })
            .collect();
        return output::json(&Value::from(changes));
    }
    if changes.is_empty() {
        return output::line("nothing is pending");
    }
    let rows: Vec<Vec<String>> = changes
        .into_iter()
        .map(|change| {
            let operation = change.operation.as_str().to_owned();
            vec![change.table, operation, change.key, change.columns.join(", ")]
        })
        .collect();
    output::table(&["table", "operation", "key", "columns"], &rows)
}

fn rejects_or_decide(options: &RemoteRejects) -> Result<(), Failure> {
    match (&options.action, &options.file) {
        (Some(RemoteRejectsAction::Retry { remote, selection, force }), _) => {
            decide(remote, selection, "retried", |file, ids| {
                let vetoed = vetoed(&file.rejects()?, ids);
                file.retry_rejects(ids, *force)?;
                vetoed.iter().for_each(|warning| output::warning(warning));
                Ok(())
            })
        }
        (Some(RemoteRejectsAction::Dismiss { remote, selection }), _) => {
            decide(remote, selection, "dismissed", |file, ids| file.dismiss_rejects(ids))
        }
        (None, Some(file)) => rejects(&RemoteFile { file: file.clone(), json: options.json }),
        (None, None) => Err(Failure::new(Code::Bug, "a file was required and not given")),
    }
}

/// Does something with the selected rejects, and says with how many.
fn decide(
    file: &RemoteFile,
    selection: &Selection,
    done: &str,
    act: impl FnOnce(&mut Remote, &[i64]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut remote = open(file)?;
    let ids = selected(&remote.rejects()?, selection)?;
    act(&mut remote, &ids)?;
    if file.json {
        return output::json(&json!({ done: ids }));
    }
    output::line(&format!("{done} {}", counted(ids.len() as u64, "reject")))
}

/// A warning for each of the rejects that a trigger of the center has caused.
fn vetoed(rejects: &[StoredReject], ids: &[i64]) -> Vec<String> {
    let code = Code::RowVetoed.number();
    let vetoed = rejects.iter().filter(|reject| reject.code == code && ids.contains(&reject.id));
    let warning = |reject: &StoredReject| {
        format!(
            "table {}, {}: if a trigger of the center did something else instead of this change, \
             that has stayed there, and happens a second time with the next synchronization",
            reject.table,
            readable::key(&reject.key)
        )
    };
    vetoed.map(warning).collect()
}

fn selected(rejects: &[StoredReject], selection: &Selection) -> Result<Vec<i64>, Failure> {
    if !selection.ids.is_empty() {
        return Ok(selection.ids.clone());
    }
    let is_meant = |reject: &&StoredReject| {
        let table = selection.table.as_ref();
        let key = selection.key.as_ref();
        table.is_none_or(|name| name.eq_ignore_ascii_case(&reject.table))
            && key.is_none_or(|key| *key == readable::key(&reject.key) || *key == reject.key)
    };
    let ids: Vec<i64> = rejects.iter().filter(is_meant).map(|reject| reject.id).collect();
    match ids.is_empty() && !selection.all {
        true => Err(Failure::new(Code::NoSuchReject, "there is no reject with this table and key")),
        false => Ok(ids),
    }
}

fn rejects(file: &RemoteFile) -> Result<(), Failure> {
    let rejects = open(file)?.rejects()?;
    if file.json {
        let rejects: Vec<Value> = rejects
            .iter()
            .map(|reject| {
                json!({
                    "id": reject.id,
                    "at": reject.at,
                    "table": reject.table,
                    "key": parsed(&reject.key),
                    "code": format!("E{}", reject.code),
                    "message": reject.message,
                    "row": reject.row.as_deref().map(parsed),
                })
            })
            .collect();
        return output::json(&Value::from(rejects));
    }
    if rejects.is_empty() {
        return output::line("nothing was rejected");
    }
    for (n, reject) in rejects.into_iter().enumerate() {
        if n > 0 {
            output::line("")?;
        }
        show(&reject)?;
    }
    Ok(())
}

/// One reject, a line a fact and a line a column: rows may be wide.
fn show(reject: &StoredReject) -> Result<(), Failure> {
    let facts = [
        ("id", reject.id.to_string()),
        ("at", reject.at.clone()),
        ("table", reject.table.clone()),
        ("key", readable::key(&reject.key)),
        ("code", format!("E{}", reject.code)),
        ("message", reject.message.clone()),
    ];
    output::record(&facts.map(|(name, value)| (name.to_owned(), value)))?;
    readable::row("row", reject.row.as_deref())
}

fn reset(file: &RemoteFile, discard_pending: bool) -> Result<(), Failure> {
    open(file)?.reset(discard_pending)?;
    if file.json {
        return output::json(&json!({ "reset": true }));
    }
    output::line(&output::one_line(&format!(
        "reset {}; the next synchronization starts over and downloads everything",
        file.file.display()
    )))
}

fn detach(file: &RemoteFile) -> Result<(), Failure> {
    let mut remote = open(file)?;
    let pending = remote.pending()?.len() as u64;
    remote.detach()?;
    if pending > 0 {
        let pending = output::counted(pending, "pending change");
        output::warning(&format!("{pending} will not be uploaded; the rows keep their values"));
    }
    if file.json {
        return output::json(&json!({ "detached": true }));
    }
    output::line(&output::one_line(&format!(
        "detached {}; it is an ordinary SQLite file with all its rows",
        file.file.display()
    )))
}
