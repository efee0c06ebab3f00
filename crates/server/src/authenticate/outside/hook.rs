//! The event `authenticate_user` as a request over HTTP: one POST with who it is, one answer.

use super::answer::{Accepted, Question, no_answer, refused, unavailable};
use super::https::Endpoint;
use crate::authenticate::granted::Granted;
use crate::authenticate::secret_file;
use crate::config::ServiceOptions;
use model::{Code, Failure, cut};
use protocol::{Authentication, NewPassword};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The largest answer. Its claims travel in session tokens.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// What a remote is shown of the words of the service.
const MESSAGE_BYTES_MAX: usize = 300;

/// Asks at one URL.
pub(super) struct Hook {
    endpoint: Endpoint,
    secret: Option<String>,
    /// The claims that it decides.
    claims: Vec<String>,
}

/// What is asked. It has the password, so it has no other use than to be sent.
#[derive(Serialize)]
struct Asked<'a> {
    user: &'a str,
    password: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_password: Option<&'a str>,
    remote_id: &'a str,
    address: String,
    script_version: Option<&'a str>,
    publications: Vec<&'a str>,
    parameters: &'a [String],
}

#[derive(Deserialize)]
struct Answer {
    accept: bool,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    claims: Map<String, Value>,
    #[serde(default)]
    expires_in_s: Option<u64>,
    #[serde(default)]
    password_changed: bool,
}

impl Hook {
    /// None where no URL is configured.
    pub(super) fn start(options: &ServiceOptions) -> Result<Option<Hook>, Failure> {
        let Some(url) = &options.url else { return Ok(None) };
        let timeout = Duration::from_secs(options.timeout_s);
        let ca_file = options.ca_file.as_deref();
        let endpoint = Endpoint::new("authenticate_user_url", url, ca_file, timeout)?;
        let secret = options.secret_file.as_deref().map(secret_file::read_line).transpose()?;
        Ok(Some(Hook { endpoint, secret, claims: options.claims.clone() }))
    }

    /// The claims that it decides.
    pub(super) fn claim_names(&self) -> &[String] {
        &self.claims
    }

    pub(super) fn ask(&self, question: &Question) -> Result<Accepted, Failure> {
        self.put(question, &question.password, None)
    }

    /// Asks with a new password. Where the answer to an earlier question was lost, that one is the
    /// password already.
    pub(super) fn ask_to_change(&self, question: &Question) -> Result<Accepted, Failure> {
        let new = question.new_password.as_ref().map(NewPassword::as_str).unwrap_or_default();
        match self.put(question, &question.password, Some(new)) {
            Err(failure) if failure.code() == Code::AuthenticationFailed => {
                let accepted = self.put(question, new, None)?;
                let authentication = Some(changed(accepted.authentication.clone()));
                Ok(Accepted { authentication, ..accepted })
            }
            Ok(Accepted { authentication: Some(it), .. }) if !it.password_changed => {
                Err(unchanged())
            }
            Ok(Accepted { authentication: None, .. }) => Err(unchanged()),
            other => other,
        }
    }

    fn put(
        &self,
        question: &Question,
        password: &str,
        new_password: Option<&str>,
    ) -> Result<Accepted, Failure> {
        let asked = Asked {
            user: question.user.as_str(),
            password,
            new_password,
            remote_id: question.remote_id.as_str(),
            address: question.address.to_canonical().to_string(),
            script_version: question.script_version.as_ref().map(|it| it.as_str()),
            publications: question.publications.iter().map(|it| it.as_str()).collect(),
            parameters: question.parameters.values(),
        };
        let body = serde_json::to_vec(&asked)
            .map_err(|error| Failure::new(Code::Bug, "a question does not encode").source(error))?;
        let answer = self.endpoint.post(self.secret.as_deref(), &body, ANSWER_BYTES_MAX);
        let answer = answer.map_err(|why| unavailable(&why))?;
        understood(&answer, &self.claims)
    }
}

/// What an answer means.
fn understood(answer: &[u8], names: &[String]) -> Result<Accepted, Failure> {
    // What the decoder would say of it may quote the answer, and that may quote the question.
    let Ok(answer) = serde_json::from_slice::<Answer>(answer) else {
        return Err(no_answer("it is not JSON with the member accept, true or false"));
    };
    if answer.status.is_some_and(|status| answer.accept != (status < Authentication::EXPIRED)) {
        return Err(no_answer("its status and accept contradict each other"));
    }
    if !answer.accept {
        return Err(refusal(&answer));
    }
    let granted =
        Granted::read(&answer.claims, names).map_err(|why| no_answer(&format!("it {why}")))?;
    Ok(Accepted {
        granted: Arc::new(granted),
        expires_in_s: answer.expires_in_s,
        authentication: authentication(&answer),
    })
}

/// What the user learns of an accepted password; none where there is nothing to say.
fn authentication(answer: &Answer) -> Option<Authentication> {
    let says = answer.status.is_some() || answer.message.is_some() || answer.password_changed;
    says.then(|| Authentication {
        status: answer.status.unwrap_or(Authentication::GOOD),
        message: answer.message.as_deref().map(words),
        expires_in_s: None,
        password_changed: answer.password_changed,
    })
}

fn changed(authentication: Option<Authentication>) -> Authentication {
    let (status, message) =
        authentication.map_or((Authentication::GOOD, None), |it| (it.status, it.message));
    Authentication { status, message, expires_in_s: None, password_changed: true }
}

fn unchanged() -> Failure {
    let message = "the service that knows the users did not confirm that it changed the password";
    Failure::new(Code::PasswordNotChanged, message)
}

/// What a remote is shown of the words of the service.
fn words(text: &str) -> String {
    let words: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    cut(&words, MESSAGE_BYTES_MAX).into_owned()
}

fn refusal(answer: &Answer) -> Failure {
    refused(answer.status, answer.message.as_deref().map(words).as_deref())
}
