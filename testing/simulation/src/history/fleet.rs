//! Who takes part in a history.

use std::collections::BTreeMap;

/// Users, with the claim `rep` that each has first.
pub const USERS: [(&str, i64); 2] = [("ann", 1), ("ben", 2)];
/// The user of each of the first remotes.
pub const REMOTES: [usize; 3] = [0, 0, 1];
/// Remotes of one history, copies with them.
pub const REMOTES_MAX: usize = 5;
/// The author of what is written at the center.
pub const CENTER: usize = REMOTES_MAX;

/// The places of the claim `places`, from the claim `rep`.
pub fn places(rep: i64) -> [i64; 2] {
    [rep, rep % 3 + 1]
}

/// The claims of a user with this `rep`.
pub fn claims(rep: i64) -> BTreeMap<String, String> {
    let places = places(rep).map(|place| place.to_string()).join(",");
    BTreeMap::from([("rep".to_owned(), rep.to_string()), ("places".to_owned(), places)])
}
