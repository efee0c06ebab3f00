//! HTTP/1.1 on the connections of another acceptor, and WebSocket.
//!
//! Each POST to `PREFIX/sync` is a connection to the session, which sees bytes and nothing of HTTP.
//! So is each connection that goes over to WebSocket there.
//!
//! Bound: as many connections as the server has, and [`EXCHANGES_MAX`] requests that nobody has
//! accepted yet. A connection has one request at a time. One that is idle ends after the time that
//! a peer has for its first message.

mod answer;
mod exchange;
mod forwarded;
mod pipe;
mod status;
mod upgrade;
mod wire;

use super::surroundings::Surroundings;
use super::websocket::WebSocket;
use super::{Acceptor, Stream};
use crate::session::Shared;
use crate::stage::Execution;
use answer::{Answered, Asked, Sender};
use exchange::Exchange;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use model::ServerUrl;
use pipe::Pipe;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use upgrade::Upgrades;
use wire::Wire;

/// Requests that were not accepted yet.
const EXCHANGES_MAX: usize = 64;

/// What hyper reads ahead, and what it keeps to write. A head has at most twice as many.
const BUFFER_BYTES: usize = 64 << 10;

/// Lines of a head. Browsers and proxies send about 20.
const HEADERS_MAX: usize = 64;

/// When to come back to a server that has no place or stops, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// What somebody reads for whom there is no connection left.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";

/// Requests, as they come.
type Accepted = (Box<dyn Stream>, SocketAddr);

/// An acceptor of requests.
pub(crate) struct Http {
    inner: Box<dyn Acceptor>,
    url: String,
    connections: Arc<Semaphore>,
    execution: Execution,
    stopped: watch::Receiver<bool>,
    front: Arc<Front>,
    exchanges: mpsc::Receiver<Accepted>,
}

/// What all connections of one acceptor share.
struct Front {
    shared: Arc<Shared>,
    /// What the paths begin with: empty, or `/PREFIX`.
    prefix: String,
    exchanges: mpsc::Sender<Accepted>,
}

impl Http {
    /// Serves the connections of `inner` under the paths that `url` names.
    pub(crate) fn new(
        inner: Box<dyn Acceptor>,
        url: &ServerUrl,
        surroundings: Surroundings,
    ) -> Http {
        let (scheme, prefix) = (url.scheme().name(), url.path());
        let Surroundings { shared, execution, stopped, connections_max } = surroundings;
        let authority = inner.url().split_once("://").map_or(inner.url(), |(_, rest)| rest);
        let url = format!("{scheme}://{authority}{prefix}");
        let (sender, exchanges) = mpsc::channel(EXCHANGES_MAX);
        let front = Front { shared, prefix: prefix.to_owned(), exchanges: sender };
        Http {
            inner,
            url,
            connections: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            execution,
            stopped,
            front: Arc::new(front),
            exchanges,
        }
    }

    fn serve(&self, mut stream: Box<dyn Stream>, peer: SocketAddr) {
        let Ok(place) = self.connections.clone().try_acquire_owned() else {
            // It need not learn why: where the network does not take it at once, it is closed.
            let _ = stream.try_write(FULL);
            return;
        };
        let (front, stopped) = (self.front.clone(), self.stopped.clone());
        self.execution.start(serve(stream, peer, front, stopped, place));
    }
}

impl Acceptor for Http {
    fn url(&self) -> &str {
        &self.url
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        loop {
            if let Poll::Ready(Some(accepted)) = self.exchanges.poll_recv(context) {
                return Poll::Ready(Ok(accepted));
            }
            match self.inner.poll_accept(context) {
                Poll::Ready(Ok((stream, peer))) => self.serve(stream, peer),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Serves one connection, until the peer, its silence or the end of the server ends it.
async fn serve(
    stream: Box<dyn Stream>,
    peer: SocketAddr,
    front: Arc<Front>,
    mut stopped: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    let (io, wire) = Wire::around(stream);
    let idle = Duration::from_secs(front.shared.config.now().hello_timeout_s.max(1));
    let upgrades = Arc::new(Upgrades::default());
    let (of_service, granted) = (front.clone(), upgrades.clone());
    let service = service_fn(move |request| {
        let (front, wire, upgrades) = (of_service.clone(), wire.clone(), granted.clone());
        async move { answer(request, peer, &front, wire, &upgrades).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => Some(ended),
        () = ending(&mut stopped) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Whom it concerns has seen it: a session fails where its stream does.
        tracing::debug!(%peer, %error, "a connection of HTTP ended early");
    }
    if let Some((stream, ahead, peer)) = upgrades.taken().await {
        let memory = front.shared.spills.memory().hold();
        let stream = WebSocket::new(stream, ahead, memory);
        // A server that stops closes it.
        let _ = front.exchanges.send((Box::new(stream), peer)).await;
    }
}

/// Waits until the server stops.
async fn ending(stopped: &mut watch::Receiver<bool>) {
    // A server that is gone has stopped, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    front: &Front,
    wire: Arc<Wire>,
    upgrades: &Upgrades,
) -> Answered {
    let config = front.shared.config.now();
    let (path, headers) = (request.uri().path(), request.headers());
    let asked = Asked::of(&front.prefix, path, request.method(), headers);
    let sender = Sender::of(headers, &config.allowed_origins);
    let foreign = sender == Sender::Foreign;
    let peer = forwarded::sender(wire.peer().unwrap_or(peer), headers, &config.proxies);
    let mut response = match asked {
        Asked::Health => answer::text(StatusCode::OK, "alive\n"),
        Asked::Readiness if is_ready(front) => answer::text(StatusCode::OK, "ready\n"),
        Asked::Readiness => answer::unavailable("not ready\n", RETRY_AFTER_S),
        Asked::Nothing => answer::text(StatusCode::NOT_FOUND, "no path of Syncline\n"),
        Asked::WrongMethod(allowed) => answer::wrong_method(allowed),
        Asked::Permission | Asked::Synchronize | Asked::WrongType | Asked::WebSocket if foreign => {
            let text = "pages of this origin are not among `allowed_origins`\n";
            answer::text(StatusCode::FORBIDDEN, text)
        }
        Asked::Permission => answer::permission(),
        Asked::WrongType => {
            let text = "the body is not of the type application/vnd.syncline\n";
            answer::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
        }
        Asked::Synchronize => synchronize(request, peer, front, wire).await,
        Asked::WebSocket => upgrades.grant(request, peer),
    };
    sender.permit(&mut response);
    Ok(response)
}

/// Hands the request to a session, and answers once that has judged its Hello.
async fn synchronize(
    request: Request<Incoming>,
    peer: SocketAddr,
    front: &Front,
    wire: Arc<Wire>,
) -> hyper::Response<answer::Answer> {
    let certificate = wire.certificate();
    let (writer, reader) = Pipe::ends(wire);
    let (verdict, judged) = oneshot::channel();
    let memory = front.shared.spills.memory().hold();
    let exchange = Exchange::new(request.into_body(), writer, verdict, certificate, memory);
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

fn is_ready(front: &Front) -> bool {
    !front.shared.stopping.load(Ordering::Relaxed) && !front.exchanges.is_closed()
}
