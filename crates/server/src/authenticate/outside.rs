//! A service of the company that knows its users, in place of passwords in the database.
//!
//! It is asked once for each password, and says yes or no. A service that does not answer says
//! neither: the password is not wrong, and the same attempt may be repeated.

mod answer;
mod directory;
mod hook;
mod https;

pub(super) use answer::refused;
pub(crate) use answer::{Accepted, Question, WRONG};
pub(super) use https::fetch;

use super::granted::Granted;
use crate::config::Config;
use directory::Directory;
use hook::Hook;
use model::{Clock, Code, Failure};
use std::sync::Arc;

/// Asks one service.
pub(crate) struct Service {
    who: Who,
    register: bool,
}

/// Who is asked.
enum Who {
    Hook(Hook),
    Directory(Box<Directory>),
}

impl Service {
    /// Reads what is needed to ask. None where the configuration names no service.
    pub(crate) fn start(
        config: &Config,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Service>, Failure> {
        let hook = Hook::start(&config.service)?;
        let directory = Directory::start(&config.directory, clock)?;
        match (hook, directory) {
            (None, None) => Ok(None),
            (Some(hook), None) => {
                Ok(Some(Service { who: Who::Hook(hook), register: config.service.register }))
            }
            (None, Some(directory)) => {
                let (who, register) =
                    (Who::Directory(Box::new(directory)), config.directory.register);
                Ok(Some(Service { who, register }))
            }
            (Some(_), Some(_)) => {
                let message = "authenticate_user_url and ldap_url both say who knows the users";
                Err(Failure::new(Code::ConfigInvalid, message).hint("remove one of them"))
            }
        }
    }

    /// Whether the database gets users that it does not know.
    pub(crate) fn registers(&self) -> bool {
        self.register
    }

    /// Whether a yes that said `granted` would be one today.
    pub(crate) fn stands(&self, granted: &Granted) -> bool {
        granted.decides(match &self.who {
            Who::Hook(hook) => hook.claim_names(),
            Who::Directory(directory) => directory.claim_names(),
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, question: &Question) -> Result<Accepted, Failure> {
        // Some services take an empty password for no password, and let everybody in.
        if question.password.is_empty() {
            return Err(Failure::new(Code::AuthenticationFailed, "the password is empty"));
        }
        match (&self.who, &question.new_password) {
            (Who::Hook(hook), None) => hook.ask(question),
            (Who::Hook(hook), Some(_)) => hook.ask_to_change(question),
            (Who::Directory(directory), None) => directory.ask(question),
            (Who::Directory(_), Some(_)) => {
                let message = "the passwords of this server's users are in a directory";
                Err(Failure::new(Code::PasswordNotChanged, message))
            }
        }
    }
}
