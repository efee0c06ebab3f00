//! What a service is asked, and what it may answer.

use crate::authenticate::granted::Granted;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use protocol::{Authentication, NewPassword, Parameters};
use std::net::IpAddr;
use std::sync::Arc;

/// Who wants to synchronize what, and with which password.
pub(crate) struct Question {
    pub(crate) user: UserName,
    pub(crate) password: String,
    /// The password from now on.
    pub(crate) new_password: Option<NewPassword>,
    pub(crate) remote_id: RemoteId,
    pub(crate) address: IpAddr,
    pub(crate) script_version: Option<ScriptVersion>,
    pub(crate) publications: Vec<PublicationName>,
    pub(crate) parameters: Parameters,
}

/// A yes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The claims that the service decides.
    pub(crate) granted: Arc<Granted>,
    /// For how long it need not be asked again; none: it is asked each time.
    pub(crate) expires_in_s: Option<u64>,
    /// What there is to say of the password.
    pub(crate) authentication: Option<Authentication>,
}

/// Says nothing of which of the two it is.
pub(crate) const WRONG: &str = "unknown user or wrong password";

/// How soon a remote comes back that met a service which did not answer.
pub(super) const RETRY_AFTER_S: u32 = 10;

/// The service has said neither yes nor no. Why is for the log alone: it names machines of the
/// company.
pub(super) fn unavailable(why: &str) -> Failure {
    let message = "the service that knows the users does not answer";
    tracing::warn!(code = %Code::LoginServiceSilent, why, "{message}");
    Failure::new(Code::LoginServiceSilent, message).retry_after_s(RETRY_AFTER_S)
}

/// The service has said what is no answer.
pub(super) fn no_answer(why: &str) -> Failure {
    let message = "the service that knows the users gives an answer that cannot be used";
    tracing::warn!(code = %Code::LoginAnswerUnusable, why, "{message}");
    Failure::new(Code::LoginAnswerUnusable, message).retry_after_s(RETRY_AFTER_S)
}

/// No, with a status and words for the user, where there are some.
pub(in crate::authenticate) fn refused(status: Option<u16>, words: Option<&str>) -> Failure {
    let (code, words_of_ours) = match status.unwrap_or(Authentication::WRONG) {
        Authentication::EXPIRED..Authentication::WRONG => {
            (Code::PasswordExpired, "the password has expired")
        }
        Authentication::IN_USE..Authentication::BEYOND => {
            (Code::UserSynchronizing, "the user is synchronizing already")
        }
        _ => (Code::AuthenticationFailed, WRONG),
    };
    let mut message = words_of_ours.to_owned();
    if let Some(status) = status {
        message.push_str(&format!(" (status {status})"));
    }
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        message.push_str(&format!(": {words}"));
    }
    let failure = Failure::new(code, message);
    match code {
        Code::UserSynchronizing => failure.retry_after_s(RETRY_AFTER_S),
        _ => failure,
    }
}
