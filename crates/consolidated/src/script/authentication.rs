//! Scripts that decide whether a user may synchronize: T1.
//!
//! Each of the two that decide is given 4000, and the largest status that comes out counts. So a
//! script that says nothing refuses. What the remote has sent in proof is in no message: databases
//! quote in their errors what they were given.

use super::around::Calls;
use super::called::Called;
use super::event::Event;
use super::secrets::Secrets;
use super::told::{Told, ToldValues};
use super::{Mistake, Script, trace};
use crate::administration::readable;
use crate::catalog::VersionScripts;
use crate::synchronization::Session;
use model::{Code, Failure, UserName};
use std::collections::BTreeMap;
use std::ops::Range;

/// The statuses of a user who may synchronize.
const VALID: Range<u16> = 1000..3000;

/// The statuses that mean something.
const KNOWN: Range<u16> = 1000..6000;

/// The status of a user who is unknown, or has given a wrong password.
const INVALID: u16 = 4000;

/// Whether a user may synchronize.
pub struct Question<'a> {
    /// Who wants to synchronize what.
    pub session: &'a Session,
    /// The password; none where something else has proven the user.
    pub password: Option<&'a str>,
    /// The password from now on.
    pub new_password: Option<&'a str>,
}

/// What scripts have decided.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    /// 1000 to 1999: the user may synchronize. To 2999: the password expires soon. To 3999: it has
    /// expired. To 4999: it is wrong. To 5999: the user is synchronizing already.
    pub status: u16,
    /// For the user.
    pub message: Option<String>,
    /// The user, as later scripts know it.
    pub user: UserName,
    /// What they have set of `{u.…}`, which are claims from now on.
    pub user_values: BTreeMap<String, Option<String>>,
}

/// Runs the scripts, inside of a transaction that is to be committed whatever they decide.
pub(crate) fn answer(
    calls: &mut dyn Calls,
    scripts: &VersionScripts,
    question: &Question<'_>,
) -> Result<Answered, Failure> {
    require_changing(scripts, question)?;
    let mut asking = Asking { calls, scripts, question, session: question.session.clone() };
    let given =
        || ToldValues::default().with(Told::AuthenticationStatus, Some(INVALID.to_string()));
    let password = given()
        .with(Told::Password, question.password.map(str::to_owned))
        .with(Told::NewPassword, question.new_password.map(str::to_owned));
    let of_user = asking.ask(Event::AuthenticateUser, password)?;
    let of_parameters = asking.ask(Event::AuthenticateParameters, given())?;
    let statuses = [&of_user, &of_parameters].into_iter().flatten().map(Said::status);
    let status = statuses.max().unwrap_or(VALID.start);
    let message = of_parameters.as_ref().and_then(|said| said.of(Told::AuthenticationMessage));
    let mut message = message.map(|words| readable::message(words.to_owned()));
    let mut user = question.session.user.clone();
    if VALID.contains(&status) {
        let told = ToldValues::default().with(Told::Username, Some(user.to_string()));
        let said = asking.ask(Event::ModifyUser, told)?;
        if let Some(name) = said.as_ref().and_then(|said| said.of(Told::Username)) {
            user = asking.named(name)?;
        }
    } else {
        // A refusal is in the log.
        message = message.map(|words| question.hide_in(&words));
    }
    Ok(Answered { status, message, user, user_values: asking.session.by_scripts.user_values })
}

/// Refuses a new password of which the script would learn nothing.
fn require_changing(scripts: &VersionScripts, question: &Question<'_>) -> Result<(), Failure> {
    let Some(script) = scripts.script(Event::AuthenticateUser) else { return Ok(()) };
    if question.new_password.is_none() || script.names(Told::NewPassword) {
        return Ok(());
    }
    let message = "the script that checks the passwords of this server's users changes none";
    Err(Failure::new(Code::PasswordNotChanged, message))
}

impl Question<'_> {
    /// What the remote has sent in proof.
    fn proofs(&self) -> impl Iterator<Item = &str> {
        let passed = self.session.passed.values().iter().map(String::as_str);
        [self.password, self.new_password].into_iter().flatten().chain(passed)
    }

    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::of(self.proofs())
    }

    /// `text` without what the remote has sent in proof.
    fn hide_in(&self, text: &str) -> String {
        let mut secrets: Vec<&str> = self.proofs().filter(|secret| !secret.is_empty()).collect();
        // One may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// Asks the scripts one after the other.
struct Asking<'a> {
    calls: &'a mut dyn Calls,
    scripts: &'a VersionScripts,
    question: &'a Question<'a>,
    /// Knows what the scripts before have set.
    session: Session,
}

/// What one script has returned.
struct Said<'a> {
    script: &'a Script,
    called: Called,
}

impl Said<'_> {
    fn of(&self, told: Told) -> Option<&str> {
        self.called.out(self.script, told)
    }

    /// What is no status refuses.
    fn status(&self) -> u16 {
        let said = self.of(Told::AuthenticationStatus).and_then(|said| said.trim().parse().ok());
        said.filter(|status| KNOWN.contains(status)).unwrap_or(INVALID)
    }
}

impl<'a> Asking<'a> {
    /// Runs the script of an event, if there is one, and keeps what it sets.
    fn ask(&mut self, event: Event, told: ToldValues) -> Result<Option<Said<'a>>, Failure> {
        let Some(script) = self.scripts.script(event) else { return Ok(None) };
        let began = trace::begin(&self.session);
        let called = self.calls.call(script, &self.session, &told)?;
        let called = called.map_err(|mistake| self.failed(event, mistake))?;
        trace::ran(&self.session, event, None, None, began);
        for (name, value) in called.user_values(script) {
            self.session.set(name, value);
        }
        Ok(Some(Said { script, called }))
    }

    fn named(&self, name: &str) -> Result<UserName, Failure> {
        let invalid = "it returns a username that is none".to_owned();
        UserName::new(name.to_owned())
            .map_err(|_| self.failed(Event::ModifyUser, Mistake { at: 0, message: invalid }))
    }

    fn failed(&self, event: Event, mistake: Mistake) -> Failure {
        let message = self.question.secrets().told(&mistake.message, None);
        let mistake = Mistake { message, ..mistake };
        let told = self.scripts.told(self.question.session, (event, None), &mistake);
        Failure::new(Code::ScriptFailed, told)
    }
}
