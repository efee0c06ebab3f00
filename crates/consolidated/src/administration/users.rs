//! The users, in their system table.

use super::{User, claims_from, claims_text, no_such_user};
use crate::sql::{Sql, Words, text};
use model::{Code, Failure, UserName};
use std::collections::BTreeMap;

/// Every user, by name.
pub(super) fn list<Q: Sql>(sql: &mut Q) -> Result<Vec<User>, Failure> {
    let query = "SELECT user_name, claims, CASE WHEN password_hash LIKE '!%' THEN '!' END
                 FROM {}syncline_user";
    let mut rows = sql.bookkeep("read the users", query, &[])?;
    rows.sort();
    let user = |row| {
        let (name, claims) = (UserName::new(text(row, 0))?, claims_from(&text(row, 1))?);
        Ok(User { name, claims, locked: text(row, 2) == "!" })
    };
    rows.iter().map(user).collect()
}

pub(super) fn add<Q: Sql>(
    sql: &mut Q,
    name: &UserName,
    password_hash: &str,
    claims: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let insert = "INSERT INTO {}syncline_user VALUES (?1, ?2, {random}, ?3)
                  ON CONFLICT DO NOTHING";
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
    let set = "password_hash = CASE WHEN password_hash LIKE '!%' THEN '!' ELSE '' END || ?2,
               password_version = {random}";
    change(sql, name, set, &[name.as_str(), password_hash])
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
