//! `syncline fleet`, `declare-restored` and `rotate-keys`: the remotes that the center knows.

use crate::args::{
    Consent, DeclareRestoredOptions, Dir, FleetAction, FleetOptions, RotateKeysOptions,
};
use crate::config::Config;
use consolidated::{Administration, KnownRemote, RemoteBinding};
use model::{Code, Failure, RemoteId, UserName};
use serde_json::{Value, json};
use terminal::confirm::confirmed;
use terminal::output::{self, counted};

/// Does what was asked with remotes.
pub(crate) fn run(options: FleetOptions) -> Result<(), Failure> {
    match options.action {
        FleetAction::List { dir, json } => list(&open(&dir)?.remotes(None)?, json),
        FleetAction::Show { id, dir, json } => {
            let remote = open(&dir)?.remotes(Some(&id))?.pop();
            let remote = remote.ok_or_else(|| missing(&id))?;
            if json { output::json(&remote_json(&remote)) } else { show(&remote) }
        }
        FleetAction::Bind { id, users, any, dir, json } => bind(&id, users, any, &dir, json),
        FleetAction::Forget { id, dir, consent, json } => forget(&id, &dir, &consent, json),
    }
}

/// Takes the operator's word that the database was restored.
pub(crate) fn declare_restored(options: &DeclareRestoredOptions) -> Result<(), Failure> {
    let mut admin = open(&options.dir)?;
    let remotes = counted(admin.remotes(None)?.len() as u64, "remote");
    let will = format!(
        "declare-restored declares that the consolidated database was restored: {remotes} will \
         download all tables at the next synchronization, and compare them"
    );
    if !is_wanted(&options.consent, &will, options.json)? {
        return Ok(());
    }
    admin.declare_restored()?;
    if options.json {
        return output::json(&json!({ "declared_restored": true }));
    }
    output::line("every remote is compared at its next synchronization")
}

/// Draws new keys for tokens and receipts.
pub(crate) fn rotate_keys(options: &RotateKeysOptions) -> Result<(), Failure> {
    let mut admin = open(&options.dir)?;
    let remotes = counted(admin.remotes(None)?.len() as u64, "remote");
    let will = format!(
        "rotate-keys makes every session token void: who synchronizes with a token, of {remotes}, \
         needs a password again"
    );
    if !is_wanted(&options.consent, &will, false)? {
        return Ok(());
    }
    admin.rotate_keys()?;
    output::line(
        "every session token is void; send the servers SIGHUP, so that they use the new key",
    )
}

fn open(dir: &Dir) -> Result<Box<dyn Administration>, Failure> {
    consolidated::administer(&Config::read(&dir.dir)?.consolidated)
}

/// Whether to do what `will` says. A dry run only says it.
fn is_wanted(consent: &Consent, will: &str, json: bool) -> Result<bool, Failure> {
    if !consent.dry_run {
        return confirmed(consent.yes, will);
    }
    match json {
        true => output::json(&json!({ "dry_run": will }))?,
        false => output::line(&output::one_line(will))?,
    }
    Ok(false)
}

fn forget(id: &RemoteId, dir: &Dir, consent: &Consent, json: bool) -> Result<(), Failure> {
    let mut admin = open(dir)?;
    let remote = admin.remotes(Some(id))?.pop().ok_or_else(|| missing(id))?;
    let will = format!(
        "fleet forget removes remote {id} of {}: its last download was {}, and {} that it is owed \
         are forgotten with it",
        owners(&remote.binding),
        or_never(remote.last_download_at.as_deref()),
        counted(remote.owed.unsigned_abs(), "row"),
    );
    if !is_wanted(consent, &will, json)? {
        return Ok(());
    }
    admin.forget_remote(id)?;
    if json {
        return output::json(&json!({ "forgotten": id }));
    }
    output::line(&output::one_line(&format!("forgot remote {id}")))
}

fn missing(id: &RemoteId) -> Failure {
    Failure::new(Code::NoSuchRemote, format!("there is no remote {id}"))
}

fn bind(
    id: &RemoteId,
    users: Vec<UserName>,
    any: bool,
    dir: &Dir,
    json: bool,
) -> Result<(), Failure> {
    let mut admin = open(dir)?;
    for user in &users {
        // A name without a user would give the remote to a user who is added later.
        admin.claims(user)?;
    }
    let binding = if any { RemoteBinding::Any } else { RemoteBinding::users(users)? };
    admin.bind_remote(id, &binding)?;
    if json {
        return output::json(&json!({ "remote_id": id, "users": users_json(&binding) }));
    }
    let owners = owners(&binding);
    output::line(&output::one_line(&format!("remote {id} belongs to {owners}")))
}

/// Names; `null` if all users may use the remote.
fn users_json(binding: &RemoteBinding) -> Value {
    match binding {
        RemoteBinding::Users(users) => json!(users),
        RemoteBinding::Open => json!([]),
        RemoteBinding::Any => Value::Null,
    }
}

fn owners(binding: &RemoteBinding) -> String {
    match binding {
        RemoteBinding::Any => "everybody".to_owned(),
        RemoteBinding::Users(users) if !users.is_empty() => {
            let names: Vec<&str> = users.iter().map(UserName::as_str).collect();
            names.join(", ")
        }
        RemoteBinding::Users(_) | RemoteBinding::Open => "nobody".to_owned(),
    }
}

fn list(remotes: &[KnownRemote], json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&remotes.iter().map(remote_json).collect());
    }
    if remotes.is_empty() {
        return output::line("no remote has synchronized yet");
    }
    let rows: Vec<Vec<String>> = remotes
        .iter()
        .map(|remote| {
            vec![
                remote.remote_id.clone(),
                owners(&remote.binding),
                remote.script_version.clone(),
                or_never(remote.last_download_at.as_deref()),
                acknowledged(remote),
                behind(remote),
                counted(remote.owed.unsigned_abs(), "row"),
            ]
        })
        .collect();
    let heads =
        ["remote", "belongs to", "version", "last download", "acknowledged", "behind", "owed"];
    output::table(&heads, &rows)
}

fn show(remote: &KnownRemote) -> Result<(), Failure> {
    let facts = [
        ("remote ID", remote.remote_id.clone()),
        ("belongs to", owners(&remote.binding)),
        ("last user", remote.user.clone()),
        ("script version", remote.script_version.clone()),
        ("last upload", or_never(remote.last_upload_at.as_deref())),
        ("last download", or_never(remote.last_download_at.as_deref())),
        ("acknowledged", acknowledged(remote)),
        ("behind", behind(remote)),
        ("owed", counted(remote.owed.unsigned_abs(), "row")),
        ("downloads", remote.counter.to_string()),
        ("file known", if remote.has_secret { "yes" } else { "not yet" }.to_owned()),
        ("next download", if remote.compared_next { "compared" } else { "changes" }.to_owned()),
    ];
    for (name, value) in facts {
        output::line(&output::one_line(&format!("{name:15} {value}")))?;
    }
    Ok(())
}

fn remote_json(remote: &KnownRemote) -> Value {
    json!({
        "remote_id": remote.remote_id,
        "users": users_json(&remote.binding),
        "user": remote.user,
        "script_version": remote.script_version,
        "last_upload_at": remote.last_upload_at,
        "last_download_at": remote.last_download_at,
        "behind_s": remote.behind_s,
        "owed": remote.owed,
        "counter": remote.counter,
        "acknowledged": remote.acknowledged,
        "acknowledged_at": remote.acknowledged_at,
        "progress": remote.progress,
        "has_secret": remote.has_secret,
        "compared_next": remote.compared_next,
    })
}

/// What it is known to have applied: the last download, or so many fewer.
fn acknowledged(remote: &KnownRemote) -> String {
    let Some(at) = &remote.acknowledged_at else { return "nothing".to_owned() };
    match remote.counter.saturating_sub(remote.acknowledged) {
        0 => format!("all, {at}"),
        behind => format!("all but {behind}, {at}"),
    }
}

fn or_never(at: Option<&str>) -> String {
    at.unwrap_or("never").to_owned()
}

/// In the largest unit that is full.
fn behind(remote: &KnownRemote) -> String {
    let Some(seconds) = remote.behind_s else { return "everything".to_owned() };
    let seconds = seconds.max(0).unsigned_abs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
