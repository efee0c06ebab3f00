//! `syncline remote`: shows and manages a remote database. Only `verify` may need a server.

mod conflicts;
pub(crate) mod left_behind;
mod selection;
mod verify;

use crate::args::{
    Again, RemoteAction, RemoteFile, RemoteOptions, RemoteRejects, RemoteRejectsAction, Selected,
    Selection,
};
use crate::readable::{self, parsed};
use client::transport::Trust;
use client::{Components, Kept, Remote, Status, StoredReject, TableStatus};
use model::{Code, Direction, Failure};
use selection::{Decided, Entry, decide, selected};
use serde_json::{Value, json};
use terminal::output::{self, counted};

/// Does what was asked with a remote database.
pub(crate) fn run(options: &RemoteOptions) -> Result<(), Failure> {
    match &options.action {
        RemoteAction::Status(file) => status(file),
        RemoteAction::Pending(file) => pending(file),
        RemoteAction::Rejects(options) => rejects_or_decide(options),
        RemoteAction::Conflicts(options) => conflicts::run(options, open),
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
    if !status.no_longer_published.is_empty() {
        let tables = status.no_longer_published.join(", ");
        let told = format!("{tables}; what is written into them is not uploaded");
        output::line(&output::one_line(&format!("{:15} {told}", "not published")))?;
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
        ("lost", counted(status.conflicts_lost, "conflict")),
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
        "conflicts_lost": status.conflicts_lost,
        "orphans": status.orphans,
        "kept_back": status.kept_back,
        "partial_download": { "rows": status.partial.rows, "bytes": status.partial.bytes },
        "tables": tables,
        "no_longer_published": status.no_longer_published,
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
        (Some(RemoteRejectsAction::List(remote)), _) => rejects(remote, None),
        (Some(RemoteRejectsAction::Show(Selected { remote, selection })), _) => {
            rejects(remote, Some(selection))
        }
        (Some(RemoteRejectsAction::Retry(Again { these, force })), _) => {
            let Selected { remote, selection } = these;
            let mut file = open(remote)?;
            let rejects = file.rejects()?;
            decide(remote, &rejects, selection, Decided::Retried, &mut |ids| {
                file.retry_rejects(ids, *force)?;
                vetoed(&rejects, ids).iter().for_each(|warning| output::warning(warning));
                Ok(())
            })
        }
        (Some(RemoteRejectsAction::Dismiss(Selected { remote, selection })), _) => {
            let mut file = open(remote)?;
            let rejects = file.rejects()?;
            decide(remote, &rejects, selection, Decided::Dismissed, &mut |ids| {
                file.dismiss_rejects(ids)
            })
        }
        (None, Some(file)) => rejects(&RemoteFile { file: file.clone(), json: options.json }, None),
        (None, None) => Err(Failure::new(Code::Bug, "a file was required and not given")),
    }
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

impl Entry for StoredReject {
    const NOUN: &'static str = "reject";

    fn id(&self) -> i64 {
        self.id
    }

    fn of(&self) -> (&str, &str) {
        (&self.table, &self.key)
    }
}

/// Prints all rejects, or those of the selection.
fn rejects(file: &RemoteFile, only: Option<&Selection>) -> Result<(), Failure> {
    let mut remote = open(file)?;
    let mut rejects = remote.rejects()?;
    if let Some(only) = only {
        let ids = selected(&rejects, only)?;
        rejects.retain(|reject| ids.contains(&reject.id));
    }
    let never: Vec<Option<String>> =
        rejects.iter().map(|reject| remote.never_retried(reject)).collect::<Result<_, _>>()?;
    if file.json {
        let rejects: Vec<Value> = rejects
            .iter()
            .zip(&never)
            .map(|(reject, never)| {
                json!({
                    "id": reject.id,
                    "at": reject.at,
                    "table": reject.table,
                    "key": parsed(&reject.key),
                    "code": format!("E{}", reject.code),
                    "message": reject.message,
                    "row": reject.row.as_deref().map(parsed),
                    "never_retried": never,
                })
            })
            .collect();
        return output::json(&Value::from(rejects));
    }
    if rejects.is_empty() {
        return output::line("nothing was rejected");
    }
    for (n, (reject, never)) in rejects.into_iter().zip(never).enumerate() {
        if n > 0 {
            output::line("")?;
        }
        show(&reject, never)?;
    }
    Ok(())
}

/// One reject, a line a fact and a line a column: rows may be wide.
fn show(reject: &StoredReject, never_retried: Option<String>) -> Result<(), Failure> {
    let mut facts = vec![
        ("id", reject.id.to_string()),
        ("at", reject.at.clone()),
        ("table", reject.table.clone()),
        ("key", readable::key(&reject.key)),
        ("code", format!("E{}", reject.code)),
        ("message", reject.message.clone()),
    ];
    facts.extend(never_retried.map(|why| ("retry", format!("not possible: {why}"))));
    let facts: Vec<_> = facts.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
    output::record(&facts)?;
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
