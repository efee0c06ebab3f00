//! A service of the company that knows its users, in place of passwords in the database.
//!
//! It is asked once for each password, and says yes or no. A service that does not answer says
//! neither: the password is not wrong, and the same attempt may be repeated.

mod answer;
mod hook;
mod https;

pub(crate) use answer::{Accepted, Question};
pub(super) use https::fetch;

use super::granted::Granted;
use crate::config::ServiceOptions;
use hook::Hook;
use model::{Code, Failure};

/// Asks one service.
pub(crate) struct Service {
    hook: Hook,
    options: ServiceOptions,
}

impl Service {
    /// Reads what is needed to ask. None where the configuration names no service.
    pub(crate) fn start(options: &ServiceOptions) -> Result<Option<Service>, Failure> {
        let Some(hook) = Hook::start(options)? else { return Ok(None) };
        Ok(Some(Service { hook, options: options.clone() }))
    }

    /// Whether the database gets users that it does not know.
    pub(crate) fn registers(&self) -> bool {
        self.options.register
    }

    /// Whether a yes that said `granted` would be one today.
    pub(crate) fn stands(&self, granted: &Granted) -> bool {
        granted.decides(&self.options.claims)
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, question: &Question) -> Result<Accepted, Failure> {
        // Some services take an empty password for no password, and let everybody in.
        if question.password.is_empty() {
            return Err(Failure::new(Code::AuthenticationFailed, "the password is empty"));
        }
        self.hook.ask(question, &self.options.claims)
    }
}
