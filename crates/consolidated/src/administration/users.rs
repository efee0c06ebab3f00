//! The users, in their system table.

use super::{User, claims_from, claims_text, no_such_user};
use crate::sql::{Sql, TextRow, Words, number, text};
use crate::synchronization::PasswordChange;
use crate::synchronization::expiry::Expiry;
use model::{Code, Failure, UserName};
use std::collections::BTreeMap;

/// What a new password does to its dates: the one that an operator named was for the old one.
const AGAIN: &str = "password_set_at = {unix_s}, password_expires_at =
    CASE WHEN password_expires_at = 253402300799 THEN password_expires_at END";

/// Every user, by name. The expression says when a password expires.
pub(super) fn list<Q: Sql>(sql: &mut Q) -> Result<Vec<User>, Failure> {
    let query = "SELECT user_name, claims, CASE WHEN password_hash LIKE '!%' THEN '!' END,
             CAST(password_expires_at AS text)
         FROM {}syncline_user";
    let mut rows = sql.bookkeep("read the users", query, &[])?;
    rows.sort();
    let user = |row: &TextRow| {
        let (name, claims) = (UserName::new(text(row, 0))?, claims_from(&text(row, 1))?);
        let expires = row[3].as_ref().map(|_| number(row, 3)).transpose()?;
        let password_expires = Expiry::stored(expires);
        Ok(User { name, claims, locked: text(row, 2) == "!", password_expires })
    };
    rows.iter().map(user).collect()
}

pub(super) fn add<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    password_hash: &str,
    claims: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let insert = "INSERT INTO {}syncline_user
                      (user_name, password_hash, password_version, claims, password_set_at)
                  VALUES (?1, ?2, {random}, ?3, {unix_s}) ON CONFLICT DO NOTHING";
    let values = [name.as_str(), password_hash, &claims_text(claims)];
    match sql.change("add the user", insert, &values)? {
        1 => Ok(()),
        _ => Err(Failure::new(Code::UserExists, format!("user {name} exists"))),
    }
}

pub(super) fn claims<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
) -> Result<BTreeMap<String, String>, Failure> {
    let query = "SELECT claims FROM {}syncline_user WHERE user_name = ?1";
    let rows = sql.bookkeep("read the user", query, &[name.as_str()])?;
    claims_from(&text(rows.first().ok_or_else(|| no_such_user(name))?, 0))
}

pub(super) fn set_claims<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    claims: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    change(sql, name, "claims = ?2", &[name.as_str(), &claims_text(claims)])
}

/// Changes the password of a user, which stays locked if it was.
pub(super) fn set_password<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    password_hash: &str,
) -> Result<(), Failure> {
    let set = format!(
        "password_hash = CASE WHEN password_hash LIKE '!%' THEN '!' ELSE '' END || ?2,
         password_version = {{random}}, {AGAIN}"
    );
    change(sql, name, &set, &[name.as_str(), password_hash])
}

/// Says when the password of a user expires, whatever its age is.
pub(super) fn set_expiry<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    expiry: Expiry,
) -> Result<(), Failure> {
    let at = expiry.to_stored().map_or("NULL".to_owned(), |unix_s| unix_s.to_string());
    change(sql, name, &format!("password_expires_at = {at}"), &[name.as_str()])
}

/// The statement of a user who changes the password: of the name `?1` to the hash `?2`. It changes
/// no row where somebody else was faster.
pub(crate) fn password_change(change: &PasswordChange) -> String {
    let PasswordChange { former_version, version, .. } = change;
    format!(
        "UPDATE {{}}syncline_user
         SET password_hash = ?2, password_version = {version}, {AGAIN}
         WHERE user_name = ?1 AND password_version = {former_version}"
    )
}

/// What [`password_change`] fails with where it changes no row.
pub(crate) fn changed_meanwhile() -> Failure {
    let message = "the password of the user was changed by somebody else at the same time";
    Failure::new(Code::PasswordChangedMeanwhile, message)
}

pub(super) fn set_locked<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    locked: bool,
) -> Result<(), Failure> {
    let set = match locked {
        true => "password_hash = '!' || ltrim(password_hash, '!'), password_version = {random}",
        false => "password_hash = ltrim(password_hash, '!')",
    };
    change(sql, name, set, &[name.as_str()])
}

/// Removes a user from the list and from every remote, so that a namesake inherits none.
pub(super) fn remove<Q: Sql>(sql: &mut Q, name: &UserName) -> Result<(), Failure> {
    let named = &[name.as_str()][..];
    let remove = "DELETE FROM {}syncline_user WHERE user_name = ?1";
    match sql.change_all("remove the user", &[(remove, named), (Q::Words::UNBIND, named)])?[0] {
        1 => Ok(()),
        _ => Err(no_such_user(name)),
    }
}

fn change<Q: Sql>(sql: &mut Q, name: &UserName, set: &str, values: &[&str]) -> Result<(), Failure> {
    let update = format!("UPDATE {{}}syncline_user SET {set} WHERE user_name = ?1");
    match sql.change("change the user", &update, values)? {
        1 => Ok(()),
        _ => Err(no_such_user(name)),
    }
}
