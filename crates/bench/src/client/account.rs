//! The account of each client: its user, which has one remote, its password and its claim.

use model::{Failure, UserName};

/// The password of every user of a run, which lasts as long as the run.
pub(crate) const PASSWORD: &str = "benchmark";

/// Its hash, at the least cost there is: the first synchronizations of thousands of clients are not
/// measured, so they should be short.
pub(crate) const PASSWORD_HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c3luY2xpbmUgYmVuY2guLg$dT0GfK9eFyvAfIafg7p7efAY0ChzpcQ2opA3qZeGB3M";

/// The claim by which rows are divided among the users.
pub(crate) const CLAIM: &str = "employee";

/// The user of a client, who has this one remote.
pub(crate) fn user_of(client: u32) -> Result<UserName, Failure> {
    UserName::new(name_of(client))
}

/// The name of a client's user and of its remote.
pub(crate) fn name_of(client: u32) -> String {
    format!("bench-{client:06}")
}
