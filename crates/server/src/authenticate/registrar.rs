//! Adds users that an identity provider knows and the database does not.

use crate::stage;
use consolidated::{Disk, Url, administer_on};
use model::{Code, Failure, UserName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// In place of the hash of a password. No password has it.
const NO_PASSWORD: &str = "-";

/// The way to the list of users. A user comes here once.
pub(crate) struct Registrar {
    url: Url,
    disk: Arc<dyn Disk>,
}

impl Registrar {
    pub(crate) fn new(url: Url, disk: Arc<dyn Disk>) -> Registrar {
        Registrar { url, disk }
    }

    /// Adds the user, without a password and without claims.
    pub(crate) async fn register(&self, user: &UserName) -> Result<(), Failure> {
        let (url, disk, name) = (self.url.clone(), self.disk.clone(), user.clone());
        let add = move || {
            let mut database = administer_on(&url, disk)?;
            match database.add_user(&name, NO_PASSWORD, &BTreeMap::new()) {
                // Another remote of the same user was faster.
                Err(failure) if failure.code() == Code::UserExists => Ok(()),
                result => result,
            }
        };
        stage::aside_until_done("register", add).await??;
        tracing::info!(%user, "registered a user who is known elsewhere");
        Ok(())
    }
}
