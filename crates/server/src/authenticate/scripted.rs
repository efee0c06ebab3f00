//! Users about whom scripts of a version decide, in place of the check of passwords or behind it.

use super::outside::refused;
use super::{Authenticator, Claim, Verified, guesses, said_of};
use crate::turns::{Origin, Turn};
use consolidated::{Answered, Credentials};
use model::{Code, Failure, UserName};
use protocol::{Authentication, NewPassword};
use std::net::IpAddr;

/// What scripts are told in proof of a user; nothing where something else has proven it.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) password: Option<String>,
    pub(crate) new: Option<NewPassword>,
    turn: Option<Turn<IpAddr, UserName>>,
}

impl Evidence {
    /// How many passwords are tried.
    pub(crate) fn guesses(&self) -> u32 {
        guesses(self.new.as_ref())
    }
}

impl Authenticator {
    /// What is left of a claim for scripts that check passwords. The user need not be known here.
    pub(crate) fn leave_to_scripts(
        &self,
        claim: Claim,
        origin: &Origin,
        known: Option<&Credentials>,
    ) -> Result<Evidence, Failure> {
        let evidence = match claim {
            Claim::Password { password, new, turn } => {
                Evidence { password: Some(password), new, turn: Some(turn) }
            }
            Claim::Unasked { question, .. } => Evidence {
                password: Some(question.password),
                new: question.new_password,
                turn: None,
            },
            Claim::Jwt { .. } | Claim::Certificate | Claim::Outside(_) => Evidence::default(),
            Claim::Token { .. } => {
                let message = "a script checks the passwords of this script version, and no token \
                               stands for one";
                return Err(Failure::new(Code::TokenRefused, message));
            }
        };
        if known.is_some_and(Credentials::locked) {
            let failure = refused(Some(Authentication::WRONG), None);
            self.note(origin, evidence.guesses(), Some(&failure));
            return Err(failure);
        }
        Ok(evidence)
    }

    /// The turn in which scripts may be asked. No more are asked at once than passwords are
    /// verified, or questions put to a service.
    pub(crate) async fn turn_at_scripts(
        &self,
        evidence: &mut Evidence,
        origin: &Origin,
    ) -> Result<Turn<IpAddr, UserName>, Failure> {
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        let turn = match evidence.turn.take() {
            Some(turn) => turn,
            None => self.questions.take_in_time(&origin.address, &origin.user).await?,
        };
        // Others of the same pair were perhaps refused while this one waited.
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        Ok(turn)
    }
}

/// Refuses the user whom scripts refuse.
pub(crate) fn require_accepted(answered: Answered) -> Result<Answered, Failure> {
    match answered.status < Authentication::EXPIRED {
        true => Ok(answered),
        false => Err(refused(Some(answered.status), answered.message.as_deref())),
    }
}

impl Verified {
    /// The same, with what scripts say of the password, and whether they have changed it.
    pub(crate) fn and(self, answered: &Answered, changed: bool) -> Verified {
        let own = self.authentication;
        let says = answered.status >= Authentication::EXPIRES_SOON
            || answered.message.is_some()
            || changed
            || own.is_some();
        let own = own.unwrap_or(said_of(Authentication::GOOD));
        let authentication = says.then(|| Authentication {
            status: own.status.max(answered.status),
            message: answered.message.clone().or(own.message),
            expires_in_s: own.expires_in_s,
            password_changed: own.password_changed || changed,
        });
        Verified { authentication, ..self }
    }
}
