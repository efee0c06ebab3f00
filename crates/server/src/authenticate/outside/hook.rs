//! The event `authenticate_user` as a request over HTTP: one POST with who it is, one answer.

use super::answer::{Accepted, Question, no_answer, unavailable};
use super::https::Endpoint;
use crate::authenticate::granted::Granted;
use crate::authenticate::secret_file;
use crate::config::ServiceOptions;
use model::{Code, Failure, cut};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest answer. Its claims travel in session tokens.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// What a remote is shown of the words of the service.
const MESSAGE_BYTES_MAX: usize = 300;

/// The status of a password that is right and has expired. Below are the good ones, and above the
/// bad ones.
const EXPIRED: RangeInclusive<u16> = 3000..=3999;

/// Asks at one URL.
pub(super) struct Hook {
    endpoint: Endpoint,
    secret: Option<String>,
}

/// What is asked. It has the password, so it has no other use than to be sent.
#[derive(Serialize)]
struct Asked<'a> {
    user: &'a str,
    password: &'a str,
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
}

impl Hook {
    /// None where no URL is configured.
    pub(super) fn start(options: &ServiceOptions) -> Result<Option<Hook>, Failure> {
        let Some(url) = &options.url else { return Ok(None) };
        let timeout = Duration::from_secs(options.timeout_s);
        let ca_file = options.ca_file.as_deref();
        let endpoint = Endpoint::new("authenticate_user_url", url, ca_file, timeout)?;
        let secret = options.secret_file.as_deref().map(secret_file::read_line).transpose()?;
        Ok(Some(Hook { endpoint, secret }))
    }

    pub(super) fn ask(&self, question: &Question, claims: &[String]) -> Result<Accepted, Failure> {
        let asked = Asked {
            user: question.user.as_str(),
            password: &question.password,
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
        understood(&answer, claims)
    }
}

/// What an answer means.
fn understood(answer: &[u8], names: &[String]) -> Result<Accepted, Failure> {
    // What the decoder would say of it may quote the answer, and that may quote the question.
    let Ok(answer) = serde_json::from_slice::<Answer>(answer) else {
        return Err(no_answer("it is not JSON with the member accept, true or false"));
    };
    if answer.status.is_some_and(|status| answer.accept != (status < *EXPIRED.start())) {
        return Err(no_answer("its status and accept contradict each other"));
    }
    if !answer.accept {
        return Err(refusal(&answer));
    }
    let granted =
        Granted::read(&answer.claims, names).map_err(|why| no_answer(&format!("it {why}")))?;
    Ok(Accepted { granted, expires_in_s: answer.expires_in_s })
}

fn refusal(answer: &Answer) -> Failure {
    let expired = answer.status.is_some_and(|status| EXPIRED.contains(&status));
    let (code, mut message) = match expired {
        true => (Code::PasswordExpired, "the password has expired".to_owned()),
        false => (Code::AuthenticationFailed, "unknown user or wrong password".to_owned()),
    };
    if let Some(status) = answer.status {
        message.push_str(&format!(" (status {status})"));
    }
    if let Some(words) = answer.message.as_deref().filter(|words| !words.is_empty()) {
        let words: String =
            words.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
        message.push_str(": ");
        message.push_str(&cut(&words, MESSAGE_BYTES_MAX));
    }
    Failure::new(code, message)
}
