//! `syncline fleet`, `declare-restored` and `rotate-keys`: the remotes that the center knows.

mod owners;
mod seen;

use crate::args::{
    Consent, DeclareRestoredOptions, Dir, FleetAction, FleetOptions, RotateKeysOptions,
};
use crate::config::Config;
use consolidated::{Administration, RemoteBinding, administer, open_reader};
use model::{Code, Failure, RemoteId, UserName};
use owners::{owners, users_json};
use serde_json::json;
use terminal::output::{self, counted};

/// Does what was asked with remotes.
pub(crate) fn run(options: FleetOptions) -> Result<(), Failure> {
    match options.action {
        FleetAction::List(wanted) => {
            let url = Config::read(&wanted.dir.dir)?.consolidated;
            let (mut admin, mut reader) = (administer(&url)?, open_reader(&url)?);
            seen::list(admin.as_mut(), reader.as_mut(), &wanted)
        }
        FleetAction::Show { id, dir, json } => {
            let url = Config::read(&dir.dir)?.consolidated;
            let (mut admin, mut reader) = (administer(&url)?, open_reader(&url)?);
            let remote = admin.remotes(Some(&id))?.pop().ok_or_else(|| missing(&id))?;
            let past = admin.synchronizations(&id)?;
            seen::show(admin.as_mut(), reader.as_mut(), &remote, &past, json)
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
    if !options.consent.is_given(&will, options.json)? {
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
    if !options.consent.is_given(&will, options.json)? {
        return Ok(());
    }
    admin.rotate_keys()?;
    if options.json {
        return output::json(&json!({ "rotated": true }));
    }
    output::line(
        "every session token is void; send the servers SIGHUP, so that they use the new key",
    )
}

fn open(dir: &Dir) -> Result<Box<dyn Administration>, Failure> {
    administer(&Config::read(&dir.dir)?.consolidated)
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
    if !consent.is_given(&will, json)? {
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

fn or_never(at: Option<&str>) -> String {
    at.unwrap_or("never").to_owned()
}
