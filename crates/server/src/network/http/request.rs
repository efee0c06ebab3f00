//! Answers the requests of a connection, whichever version of HTTP they come by.

use super::answer::{self, Answer, Answered, Asked, Sender};
use super::exchange::{Exchange, Room};
use super::forwarded;
use super::pipe::{Pipe, Torn};
use super::upgrade::Upgrades;
use super::wire::Wire;
use crate::network::Stream;
use crate::session::Shared;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// When to come back to a server that has no place or stops, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// Requests, as they come.
pub(super) type Accepted = (Box<dyn Stream>, SocketAddr);

/// What all connections of one acceptor share.
pub(super) struct Front {
    pub(super) shared: Arc<Shared>,
    /// What the paths begin with: empty, or `/PREFIX`.
    pub(super) prefix: String,
    pub(super) exchanges: mpsc::Sender<Accepted>,
    /// Places of synchronizations. A connection of HTTP/2 may ask for many.
    pub(super) requests: Arc<Semaphore>,
}

/// What the requests of one connection have in common.
#[derive(Clone)]
pub(super) struct Line {
    /// Who has made the connection.
    pub(super) peer: SocketAddr,
    pub(super) wire: Arc<Wire>,
    pub(super) front: Arc<Front>,
    /// How long it may be without a request.
    pub(super) idle: Duration,
}

/// What the version of HTTP has for a request.
pub(super) struct Terms<'a> {
    pub(super) room: Room,
    /// With it a request may go over to WebSocket.
    pub(super) upgrades: Option<&'a Upgrades>,
    /// Told where a session has left in the middle.
    pub(super) torn: Option<Torn>,
}

/// Answers one request.
pub(super) async fn answer(request: Request<Incoming>, line: &Line, terms: Terms<'_>) -> Answered {
    let front = &*line.front;
    let config = front.shared.config.now();
    let (path, headers) = (request.uri().path(), request.headers());
    let asked = Asked::of(&front.prefix, path, request.method(), headers);
    let sender = Sender::of(headers, request.uri(), &config.allowed_origins);
    let foreign = sender == Sender::Foreign;
    let peer = line.wire.peer().unwrap_or(line.peer);
    let peer = forwarded::sender(peer, headers, &config.proxies);
    let mut response = match (asked, terms.upgrades) {
        (Asked::Health, _) => answer::text(StatusCode::OK, "alive\n"),
        (Asked::Readiness, _) if is_ready(front).await => answer::text(StatusCode::OK, "ready\n"),
        (Asked::Readiness, _) => answer::unavailable("not ready\n", RETRY_AFTER_S),
        (Asked::Nothing, _) => answer::text(StatusCode::NOT_FOUND, "no path of Syncline\n"),
        (Asked::WrongMethod(allowed), _) => answer::wrong_method(allowed),
        (Asked::Permission | Asked::Synchronize | Asked::WrongType | Asked::WebSocket, _)
            if foreign =>
        {
            let text = "pages of this origin are not among `allowed_origins`\n";
            answer::text(StatusCode::FORBIDDEN, text)
        }
        (Asked::Permission, _) => answer::permission(),
        (Asked::WrongType, _) => {
            let text = "the body is not of the type application/vnd.syncline\n";
            answer::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
        }
        (Asked::Synchronize, _) => synchronize(request, peer, line, terms).await,
        (Asked::WebSocket, Some(upgrades)) => upgrades.grant(request, peer),
        // HTTP/2 has another handshake for it, which is not offered.
        (Asked::WebSocket, None) => answer::wrong_method("POST, OPTIONS"),
    };
    sender.permit(&mut response);
    Ok(response)
}

/// Hands the request to a session, and answers once that has judged its Hello.
async fn synchronize(
    request: Request<Incoming>,
    peer: SocketAddr,
    line: &Line,
    terms: Terms<'_>,
) -> Response<Answer> {
    let front = &*line.front;
    let Ok(place) = front.requests.clone().try_acquire_owned() else {
        return answer::unavailable("too many requests at once\n", RETRY_AFTER_S);
    };
    let certificate = line.wire.certificate();
    let Terms { room, torn, .. } = terms;
    let (writer, reader) = Pipe::ends(line.wire.clone(), room.taken_max, torn);
    let (verdict, judged) = oneshot::channel();
    let memory = front.shared.spills.memory().hold();
    let exchange =
        Exchange::new(request.into_body(), writer, verdict, certificate, room, memory, place);
    let stopping = || answer::unavailable("the server is stopping\n", RETRY_AFTER_S);
    if front.exchanges.send((Box::new(exchange), peer)).await.is_err() {
        return stopping();
    }
    match judged.await {
        Ok(verdict) => answer::of_session(verdict, reader),
        // It left without a word.
        Err(_) if front.shared.stopping.load(Ordering::Relaxed) => stopping(),
        Err(_) => answer::text(StatusCode::BAD_REQUEST, "the request has no Hello\n"),
    }
}

/// Whether a synchronization that begins now can succeed.
async fn is_ready(front: &Front) -> bool {
    let takes = !front.shared.stopping.load(Ordering::Relaxed) && !front.exchanges.is_closed();
    takes && front.shared.readiness.answers().await
}

/// Waits until the server stops.
pub(super) async fn ending(stopped: &mut watch::Receiver<bool>) {
    // A server that is gone has stopped, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
