//! Compares the claims of users with those that deployed scripts use.

use consolidated::{MisfitClaim, StoredScript};
use model::UserName;
use std::collections::{BTreeMap, BTreeSet};

/// Users that a message names.
const USERS_NAMED_MAX: usize = 3;

/// The claims that the scripts use as parameters.
pub(crate) fn used(scripts: &[StoredScript]) -> BTreeSet<String> {
    scripts.iter().flat_map(StoredScript::claims).collect()
}

/// A sentence for each claim of the user that no script uses. Most likely it is misspelled.
pub(crate) fn unused(
    used: &BTreeSet<String>,
    name: &UserName,
    claims: &BTreeMap<String, String>,
) -> Vec<String> {
    let unused = claims.keys().filter(|claim| !used.contains(*claim));
    unused
        .map(|claim| format!("user {name} has the claim {claim}, which no deployed model uses"))
        .collect()
}

/// The claims that scripts use and the user does not have.
pub(crate) fn missing<'u>(
    used: &'u BTreeSet<String>,
    claims: &BTreeMap<String, String>,
) -> impl Iterator<Item = &'u String> {
    used.iter().filter(|claim| !claims.contains_key(*claim))
}

/// A sentence about a claim that is no value of the column with which it is compared.
pub(crate) fn misfit(
    name: &UserName,
    misfit: &MisfitClaim,
    claims: &BTreeMap<String, String>,
) -> String {
    let MisfitClaim { claim, table, column, column_type } = misfit;
    let value = claims.get(claim).map_or("", String::as_str);
    format!(
        "user {name} has the claim {claim}={value}, which is no value of {table}.{column} of type \
         {column_type} in its partition"
    )
}

/// A sentence about the users who do not have a claim that scripts use.
pub(crate) fn missing_at(claim: &str, users: &[&UserName]) -> String {
    let mut names: Vec<String> =
        users.iter().take(USERS_NAMED_MAX).map(ToString::to_string).collect();
    if let more @ 1.. = users.len().saturating_sub(USERS_NAMED_MAX) {
        names.push(format!("{more} more"));
    }
    let (user, have, them) = match users.len() {
        1 => ("user", "has", "this user"),
        _ => ("users", "have", "them"),
    };
    format!(
        "{user} {} {have} no claim {claim}: tables whose partition uses it send {them} no rows",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use consolidated::Event;
    use model::ScriptVersion;

    #[test]
    fn claims_are_found_in_scripts_of_any_age() {
        let script = |text: &str| StoredScript {
            script_version: ScriptVersion::new("v1").unwrap(),
            table: "t".into(),
            event: Event::DownloadCursor,
            script: text.into(),
            own: false,
        };
        let scripts = ["a = {u.rep} AND b IN ({ml u.regions})", "{s.username}, {inserts}"];
        assert!(used(&scripts.map(script)).into_iter().eq(["regions", "rep"]));
    }

    #[test]
    fn messages_name_three_users_at_most() {
        let names: Vec<UserName> =
            ["ann", "ben", "cleo", "dora", "eve"].map(|name| UserName::new(name).unwrap()).into();
        let users: Vec<&UserName> = names.iter().collect();
        let end = "no claim rep: tables whose partition uses it send";
        assert_eq!(missing_at("rep", &users[..1]), format!("user ann has {end} this user no rows"));
        let many = missing_at("rep", &users);
        assert_eq!(many, format!("users ann, ben, cleo, 2 more have {end} them no rows"));
    }
}
