//! Which request asks for what, and the responses that need no session.

use super::pipe::PipeReader;
use super::status::SessionStatus;
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, HeaderValue, ORIGIN, RETRY_AFTER, UPGRADE, VARY,
};
use hyper::{Method, Response, StatusCode, Uri};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The type of both bodies.
pub(super) const MEDIA_TYPE: &str = "application/vnd.syncline";

/// How long a browser may remember that it may send requests here.
const PREFLIGHT_VALID_S: &str = "600";

/// Tells nginx to pass every byte on when it comes. As installed it collects them, and a heartbeat
/// in a buffer is none.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A synchronization.
    Synchronize,
    /// The same over WebSocket.
    WebSocket,
    /// Whether it may ask for one, as browsers do first.
    Permission,
    /// Whether the server lives.
    Health,
    /// Whether it takes synchronizations.
    Readiness,
    /// Nothing that is here.
    Nothing,
    /// Something that is here, in the wrong way.
    WrongMethod(&'static str),
    /// A synchronization with a body that is not ours.
    WrongType,
}

impl Asked {
    /// Reads a request to a server whose paths begin with `prefix`.
    pub(super) fn of(prefix: &str, path: &str, method: &Method, headers: &HeaderMap) -> Asked {
        let Some(path) = path.strip_prefix(prefix) else { return Asked::Nothing };
        let reads = *method == Method::GET || *method == Method::HEAD;
        match path {
            "/sync" if *method == Method::POST => {
                let ours = |value: &HeaderValue| value.as_bytes() == MEDIA_TYPE.as_bytes();
                if headers.get(CONTENT_TYPE).is_some_and(ours) {
                    Asked::Synchronize
                } else {
                    Asked::WrongType
                }
            }
            "/sync" if *method == Method::GET && asks_for_websocket(headers) => Asked::WebSocket,
            "/sync" if *method == Method::OPTIONS => Asked::Permission,
            "/sync" => Asked::WrongMethod("POST, OPTIONS"),
            "/health" if reads => Asked::Health,
            "/ready" if reads => Asked::Readiness,
            "/health" | "/ready" => Asked::WrongMethod("GET, HEAD"),
            _ => Asked::Nothing,
        }
    }
}

/// Whether a request asks for WebSocket.
fn asks_for_websocket(headers: &HeaderMap) -> bool {
    names(headers, UPGRADE, "websocket") && names(headers, CONNECTION, "upgrade")
}

fn names(headers: &HeaderMap, header: HeaderName, word: &str) -> bool {
    let lines = headers.get_all(header).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
}

/// Whose page sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sender {
    /// No page, or one of this server.
    Own,
    /// A page from elsewhere that may.
    Allowed(HeaderValue),
    /// A page that may not.
    Foreign,
}

impl Sender {
    /// Compares `Origin` with the list. `*` is everybody. Over HTTP/2 the URI names the server,
    /// otherwise `Host` does.
    pub(super) fn of(headers: &HeaderMap, uri: &Uri, allowed: &[String]) -> Sender {
        let Some(origin) = headers.get(ORIGIN) else { return Sender::Own };
        if allowed.iter().any(|it| it == "*" || it.as_bytes() == origin.as_bytes()) {
            return Sender::Allowed(origin.clone());
        }
        let own = origin.to_str().ok().and_then(|it| it.split_once("://")).map(|(_, host)| host);
        let named = || headers.get(HOST).and_then(|it| it.to_str().ok());
        let host = uri.authority().map(|it| it.as_str()).or_else(named);
        if own.is_some() && own == host { Sender::Own } else { Sender::Foreign }
    }

    /// Lets the page read the response.
    pub(super) fn permit(self, response: &mut Response<Answer>) {
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("origin"));
        if let Sender::Allowed(origin) = self {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
    }
}

/// The body of a response.
pub(super) enum Answer {
    Text(Option<Bytes>),
    Session(PipeReader),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Answer::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Answer::Session(session) => {
                session.poll_take(context).map(|taken| taken.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Text(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Answer::Text(text) => {
                http_body::SizeHint::with_exact(text.as_ref().map_or(0, |it| it.len() as u64))
            }
            Answer::Session(_) => http_body::SizeHint::default(),
        }
    }
}

/// The response that a session fills.
pub(super) fn of_session(verdict: SessionStatus, body: PipeReader) -> Response<Answer> {
    let mut response = bare(verdict.status, Answer::Session(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if let Some(seconds) = verdict.retry_after_s {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// A response for people and balancers.
pub(super) fn text(status: StatusCode, text: &'static str) -> Response<Answer> {
    let mut response = bare(status, Answer::Text(Some(Bytes::from_static(text.as_bytes()))));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// The same to come back later.
pub(super) fn unavailable(text: &'static str, retry_after_s: u32) -> Response<Answer> {
    let mut response = self::text(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
    response
}

/// Says how a path wants to be asked.
pub(super) fn wrong_method(allowed: &'static str) -> Response<Answer> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "this path takes other methods\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Says to a browser what it may send.
pub(super) fn permission() -> Response<Answer> {
    let mut response = bare(StatusCode::NO_CONTENT, Answer::Text(None));
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_VALID_S));
    response
}

pub(super) fn bare(status: StatusCode, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What hyper calls a service never fails here: every request has a response.
pub(super) type Answered = Result<Response<Answer>, Infallible>;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn paths_lie_behind_the_prefix() {
        let ours = headers(&[("content-type", MEDIA_TYPE)]);
        let check = |prefix, method, path, asked| {
            assert_eq!(Asked::of(prefix, path, &method, &ours), asked, "{path}");
        };
        check("", Method::POST, "/sync", Asked::Synchronize);
        check("/a/b", Method::POST, "/a/b/sync", Asked::Synchronize);
        check("/a", Method::POST, "/sync", Asked::Nothing);
        check("/a", Method::POST, "/absync", Asked::Nothing);
        check("/a", Method::GET, "/a/health", Asked::Health);
        check("", Method::HEAD, "/ready", Asked::Readiness);
        check("", Method::GET, "/sync", Asked::WrongMethod("POST, OPTIONS"));
        check("", Method::POST, "/health", Asked::WrongMethod("GET, HEAD"));
        let other = headers(&[("content-type", "text/plain")]);
        assert_eq!(Asked::of("", "/sync", &Method::POST, &other), Asked::WrongType);
    }

    // S7: a page of somebody else must not send what its reader did not mean.
    #[test]
    fn a_page_from_elsewhere_needs_to_be_on_the_list() {
        let list = ["https://app.example".to_owned()];
        let none = Uri::from_static("/sync");
        let of = |pairs: &[_], list: &[String]| Sender::of(&headers(pairs), &none, list);
        assert_eq!(of(&[], &list), Sender::Own);
        let foreign = [("origin", "https://evil.example"), ("host", "sync.example")];
        assert_eq!(of(&foreign, &list), Sender::Foreign);
        assert_eq!(of(&[("origin", "null")], &list), Sender::Foreign);
        let own = [("origin", "https://sync.example"), ("host", "sync.example")];
        assert_eq!(of(&own, &[]), Sender::Own);
        let named = Uri::from_static("https://sync.example/sync");
        assert_eq!(Sender::of(&headers(&own[..1]), &named, &[]), Sender::Own);
        assert_eq!(Sender::of(&headers(&foreign[..1]), &named, &list), Sender::Foreign);
        let allowed = [("origin", "https://app.example"), ("host", "sync.example")];
        let value = HeaderValue::from_static("https://app.example");
        assert_eq!(of(&allowed, &list), Sender::Allowed(value));
        assert!(matches!(of(&foreign, &["*".to_owned()]), Sender::Allowed(_)));
    }

    #[test]
    fn an_upgrade_is_asked_for_in_two_lines_of_words() {
        let asked = |upgrade, connection| {
            let upgrade = (UPGRADE, HeaderValue::from_static(upgrade));
            let connection = (CONNECTION, HeaderValue::from_static(connection));
            asks_for_websocket(&[upgrade, connection].into_iter().collect())
        };
        assert!(asked("websocket", "Upgrade"));
        assert!(asked("h2c, WebSocket", "keep-alive, upgrade"));
        assert!(!asked("h2c", "upgrade"));
        assert!(!asked("websocket", "close"));
        assert!(!asked("websockets", "upgrade"));
    }
}
