//! `syncline user`: who may synchronize, with which claims.

use crate::args::{UserAction, UserOptions};
use crate::config::Config;
use crate::{output, secret};
use consolidated::Administration;
use model::{Code, Failure, UserName};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Does what was asked with users.
pub(crate) fn run(options: UserOptions) -> Result<(), Failure> {
    match options.action {
        UserAction::Add { name, dir, password_file, claims } => {
            let mut admin = open(&dir.dir)?;
            // Looked at first, so that nobody types a password in vain.
            if admin.users()?.iter().any(|user| user.name == name) {
                return Err(Failure::new(Code::UserExists, format!("user {name} exists")));
            }
            let hash = password_hash(&name, password_file.as_deref())?;
            let claims = changed(BTreeMap::new(), claims);
            admin.add_user(&name, &hash, &claims)?;
            warn_of_unused_claims(admin.as_mut(), &name, &claims)?;
            output::line(&output::one_line(&format!("added user {name}")))
        }
        UserAction::Set { name, dir, claims } => {
            let mut admin = open(&dir.dir)?;
            let claims = changed(admin.claims(&name)?, claims);
            admin.set_claims(&name, &claims)?;
            warn_of_unused_claims(admin.as_mut(), &name, &claims)?;
            output::line(&output::one_line(&format!(
                "user {name} has {}",
                output::counted(claims.len() as u64, "claim")
            )))
        }
        UserAction::Password { name, dir, password_file } => {
            let mut admin = open(&dir.dir)?;
            admin.claims(&name)?;
            let hash = password_hash(&name, password_file.as_deref())?;
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
        UserAction::Remove { name, dir } => {
            open(&dir.dir)?.remove_user(&name)?;
            output::line(&output::one_line(&format!("removed user {name}")))
        }
        UserAction::List { dir, json } => list(open(&dir.dir)?.as_mut(), json),
    }
}

/// The claims with these changes. An empty value removes a claim: one without a value says
/// nothing.
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

/// A sentence for each claim that no deployed script asks for: it is misspelled, most likely, and
/// the user receives nothing where another one was meant.
pub(crate) fn unused_claims(
    admin: &mut dyn Administration,
    name: &UserName,
    claims: &BTreeMap<String, String>,
) -> Result<Vec<String>, Failure> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let scripts = admin.scripts()?;
    // As scripts spell them, with or without the prefix of older ones.
    let used = |claim: &str| {
        let spelled = format!("u.{claim}}}");
        scripts.iter().any(|script| script.script.contains(&spelled))
    };
    let unused = claims.keys().filter(|claim| !used(claim));
    Ok(unused
        .map(|claim| format!("user {name} has the claim {claim}, which no deployed model uses"))
        .collect())
}

fn warn_of_unused_claims(
    admin: &mut dyn Administration,
    name: &UserName,
    claims: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    unused_claims(admin, name, claims)?.iter().for_each(|warning| output::warning(warning));
    Ok(())
}

fn open(dir: &Path) -> Result<Box<dyn Administration>, Failure> {
    consolidated::administer(&Config::read(dir)?.consolidated)
}

fn password_hash(name: &UserName, password_file: Option<&Path>) -> Result<String, Failure> {
    let password = match password_file {
        Some(path) => secret::read_file(path, "password")?,
        None => secret::ask_twice(&format!("new password of {name}"))?,
    };
    server::password::hash(&password)
}

fn list(admin: &mut dyn Administration, json: bool) -> Result<(), Failure> {
    let users = admin.users()?;
    if json {
        let users: Vec<Value> = users
            .iter()
            .map(|user| {
                json!({ "name": user.name.as_str(), "claims": user.claims, "locked": user.locked })
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
            vec![name, claims.join(" ")]
        })
        .collect();
    output::table(&["user", "claims"], &rows)
}
