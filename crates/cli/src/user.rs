//! `syncline user`: the users who may synchronize, with their claims.

use crate::args::{Consent, Expires, UserAction, UserOptions, date, moment};
use crate::claims;
use crate::config::Config;
use consolidated::{Administration, Expiry, KnownRemote, RemoteBinding};
use model::{Code, Failure, UserName};
use serde_json::{Value, json};
use server::password::Costs;
use std::collections::BTreeMap;
use std::path::Path;
use terminal::{output, secret};

/// Does what was asked with users.
pub(crate) fn run(options: UserOptions) -> Result<(), Failure> {
    match options.action {
        UserAction::Add { name, dir, password_file, weak, claims, json } => {
            let mut admin = open(&dir.dir)?;
            // Checked before the password is asked for.
            if admin.users()?.iter().any(|user| user.name == name) {
                return Err(Failure::new(Code::UserExists, format!("user {name} exists")));
            }
            let hash = password_hash(&name, password_file.as_deref(), weak)?;
            let claims = changed(BTreeMap::new(), claims);
            admin.add_user(&name, &hash, &claims)?;
            warn_of_claims(admin.as_mut(), &dir.dir, &name, &claims)?;
            if json {
                return output::json(&json!({ "user": name.as_str(), "claims": claims }));
            }
            output::line(&output::one_line(&format!("added user {name}")))
        }
        UserAction::Set { name, dir, claims, password_expires } => {
            let mut admin = open(&dir.dir)?;
            if let Some(expires) = password_expires {
                admin.set_expiry(&name, expiry(expires))?;
                let when = until(expiry(expires));
                let text = format!("the password of user {name} expires {when}");
                output::line(&output::one_line(&text))?;
            }
            if claims.is_empty() {
                return Ok(());
            }
            let claims = changed(admin.claims(&name)?, claims);
            admin.set_claims(&name, &claims)?;
            warn_of_claims(admin.as_mut(), &dir.dir, &name, &claims)?;
            output::line(&output::one_line(&format!(
                "user {name} has {}",
                output::counted(claims.len() as u64, "claim")
            )))
        }
        UserAction::Password { name, dir, password_file, weak } => {
            let mut admin = open(&dir.dir)?;
            admin.claims(&name)?;
            let hash = password_hash(&name, password_file.as_deref(), weak)?;
            admin.set_password(&name, &hash)?;
            output::line(&output::one_line(&format!("changed the password of user {name}")))
        }
        UserAction::Lock { name, dir } => {
            open(&dir.dir)?.set_locked(&name, true)?;
            output::line(&output::one_line(&format!("locked user {name}")))
        }
        UserAction::Unlock { name, dir } => {
            open(&dir.dir)?.set_locked(&name, false)?;
            output::line(&output::one_line(&format!("unlocked user {name}")))
        }
        UserAction::Remove { name, dir, consent, json } => remove(&name, &dir.dir, &consent, json),
        UserAction::List { dir, json } => list(open(&dir.dir)?.as_mut(), json),
    }
}

fn remove(name: &UserName, dir: &Path, consent: &Consent, json: bool) -> Result<(), Failure> {
    let mut admin = open(dir)?;
    let claims = admin.claims(name)?.len() as u64;
    let of_user = |remote: &KnownRemote| match &remote.binding {
        RemoteBinding::Users(users) => users.contains(name),
        RemoteBinding::Open | RemoteBinding::Any => false,
    };
    let remotes = admin.remotes(None)?.into_iter().filter(of_user).count() as u64;
    let will = format!(
        "user remove removes {name} with the password and {}; {} will not belong to this user any \
         more, and their pending changes are not uploaded",
        output::counted(claims, "claim"),
        output::counted(remotes, "remote"),
    );
    if !consent.is_given(&will, json)? {
        return Ok(());
    }
    admin.remove_user(name)?;
    if json {
        return output::json(&json!({ "removed": name }));
    }
    output::line(&output::one_line(&format!("removed user {name}")))
}

/// The claims with these changes. An empty value removes a claim.
fn changed(
    mut claims: BTreeMap<String, String>,
    changes: Vec<(String, String)>,
) -> BTreeMap<String, String> {
    for (key, value) in changes {
        if value.is_empty() {
            claims.remove(&key);
        } else {
            claims.insert(key, value);
        }
    }
    claims
}

fn warn_of_claims(
    admin: &mut dyn Administration,
    dir: &Path,
    name: &UserName,
    claims: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let used = claims::used(&admin.scripts()?);
    claims::unused(&used, name, claims).iter().for_each(|warning| output::warning(warning));
    for claim in claims::missing(&used, claims) {
        output::warning(&format!(
            "user {name} has no claim {claim}: tables whose partition uses it send this user no \
             rows"
        ));
    }
    // A model that cannot be read is told by the commands that need it.
    let models = Config::read(dir)?.read_models().unwrap_or_default();
    for misfit in admin.misfit_claims(&models, claims)? {
        output::warning(&output::one_line(&claims::misfit(name, &misfit, claims)));
    }
    Ok(())
}

fn expiry(expires: Expires) -> Expiry {
    match expires {
        // Whenever a server looks, it is over.
        Expires::Now => Expiry::At(0),
        Expires::Never => Expiry::Never,
        Expires::ByAge => Expiry::ByAge,
        Expires::On(unix_s) => Expiry::At(unix_s),
    }
}

/// When a password expires, for people.
fn until(expiry: Expiry) -> String {
    match expiry {
        Expiry::ByAge => "by its age".to_owned(),
        Expiry::At(0) => "now".to_owned(),
        Expiry::At(unix_s) => format!("on {}", date(unix_s)),
        Expiry::Never => "never".to_owned(),
    }
}

fn open(dir: &Path) -> Result<Box<dyn Administration>, Failure> {
    consolidated::administer(&Config::read(dir)?.consolidated)
}

fn password_hash(
    name: &UserName,
    password_file: Option<&Path>,
    weak: bool,
) -> Result<String, Failure> {
    let password = match password_file {
        Some(path) => secret::read_file(path, "password")?,
        None => secret::ask_twice(&format!("new password of {name}"))?,
    };
    if !weak && server::password::is_short(&password) {
        let message =
            format!("the password has fewer than {} characters", server::password::CHARACTERS_MIN);
        return Err(Failure::new(Code::PasswordTooShort, message));
    }
    server::password::hash(&password, costs())
}

/// What each verification of this password costs. Most tests have users, few are about passwords.
fn costs() -> Costs {
    #[cfg(feature = "fail-points")]
    fail::fail_point!("user-cheap-password", |_| Costs::LEAST);
    Costs::default()
}

fn list(admin: &mut dyn Administration, json: bool) -> Result<(), Failure> {
    let users = admin.users()?;
    if json {
        let users: Vec<Value> = users
            .iter()
            .map(|user| {
                let (expires, expiry) = match user.password_expires {
                    Expiry::ByAge => (None, "by-age"),
                    Expiry::At(unix_s) => (Some(moment(unix_s)), "at"),
                    Expiry::Never => (None, "never"),
                };
                json!({
                    "name": user.name.as_str(), "claims": user.claims, "locked": user.locked,
                    "password_expires": expires, "password_expiry": expiry,
                })
            })
            .collect();
        return output::json(&Value::from(users));
    }
    let rows: Vec<Vec<String>> = users
        .iter()
        .map(|user| {
            let claims: Vec<String> =
                user.claims.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let mut name = user.name.to_string();
            name.push_str(if user.locked { " (locked)" } else { "" });
            if user.password_expires != Expiry::ByAge {
                name.push_str(&format!(" (expires {})", until(user.password_expires)));
            }
            vec![name, claims.join(" ")]
        })
        .collect();
    output::table(&["user", "claims"], &rows)
}
