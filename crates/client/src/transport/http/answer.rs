//! What it means that somebody answered who is not Syncline.

use super::head::Head;
use super::url;
use model::{Code, Failure, ServerUrl};

/// The failure for a response without a body of ours.
pub(super) fn failure(head: &Head, url: &ServerUrl) -> Failure {
    let by = match &head.server {
        Some(server) => format!(" by {server}"),
        None => String::new(),
    };
    let status = head.status;
    let (code, message) = match status {
        413 => (Code::ProxyTakesLess, "a proxy takes no upload of this size"),
        401 | 403 | 407 => (Code::RefusedOnTheWay, "a proxy refuses the request"),
        429 => (Code::SlowedOnTheWay, "a proxy has enough of requests"),
        502..=504 => (Code::GatewayFailed, "a proxy has no answer from the server"),
        _ => (Code::HttpNotSyncline, "no server of Syncline is there"),
    };
    let failure = Failure::new(code, format!("{message}: status {status}{by} at {url}"));
    match head.retry_after_s {
        Some(seconds) => failure.retry_after_s(seconds),
        None => failure,
    }
}

/// Where on the same server the request belongs that is answered like this; none where the answer
/// does not move it.
pub(super) fn moved(head: &Head, url: &ServerUrl) -> Result<Option<String>, Failure> {
    let (301 | 302 | 307 | 308, Some(location)) = (head.status, &head.location) else {
        return Ok(None);
    };
    match url::redirected(url, location) {
        Some(path) => Ok(Some(path)),
        None => {
            let message = format!("{url} leads to {}", model::cut(location, 200));
            Err(Failure::new(Code::HttpRedirected, message))
        }
    }
}

/// The failure of a request that is moved again and again.
pub(super) fn circles() -> Failure {
    Failure::new(Code::HttpRedirected, "the server redirects in circles")
}
