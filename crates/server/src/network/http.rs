//! HTTP/1.1 and HTTP/2 on the connections of another acceptor, and WebSocket.
//!
//! Each POST to `PREFIX/sync` is a connection to the session, which sees bytes and nothing of HTTP.
//! So is each connection that goes over to WebSocket there.
//!
//! Bound: as many connections as the server has, as many requests and [`EXCHANGES_MAX`] more, which
//! is how many nobody has accepted yet. A connection has one request at a time, or over HTTP/2 as
//! many as `version_2.rs` allows. One that is idle ends after the time that a peer has for its
//! first message.

mod answer;
mod exchange;
mod forwarded;
mod passage;
mod pipe;
mod request;
mod status;
mod upgrade;
mod version;
mod version_1;
mod version_2;
mod wire;

use super::surroundings::Surroundings;
use super::{Acceptor, Stream};
use crate::stage::Execution;
use model::{Code, Failure, ServerUrl};
use request::{Accepted, Front, Line, ending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use version::Version;
use wire::Wire;

/// Requests that were not accepted yet.
const EXCHANGES_MAX: usize = 64;

/// What somebody reads for whom there is no connection left.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";

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
        let requests_max = connections_max.saturating_add(EXCHANGES_MAX);
        let front = Front {
            shared,
            prefix: prefix.to_owned(),
            exchanges: sender,
            requests: Arc::new(Semaphore::new(requests_max.min(Semaphore::MAX_PERMITS))),
        };
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
    let (mut io, wire) = Wire::around(stream);
    let idle = Duration::from_secs(front.shared.config.now().hello_timeout_s.max(1));
    let version = tokio::select! {
        biased;
        version = timeout(idle, io.version()) => version,
        () = ending(&mut stopped) => return,
    };
    if let Ok(Err(error)) = &version
        && is_clear_text(error)
    {
        // The session refuses it in clear text, in a frame that every remote understands.
        if let Some(stream) = io.into_stream() {
            let _ = front.exchanges.send((stream, peer)).await;
        }
        return;
    }
    let line = Line { peer, wire, front, idle };
    let ended = match version {
        Ok(Ok(Version::One)) => version_1::serve(io, line, stopped).await,
        Ok(Ok(Version::Two)) => version_2::serve(io, line, stopped).await,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection of HTTP did not begin");
            return;
        }
        // It said nothing.
        Err(_) => return,
    };
    if let Err(error) = ended {
        // Whom it concerns has seen it: a session fails where its stream does.
        tracing::debug!(%peer, %error, "a connection of HTTP ended early");
    }
}

/// The peer speaks clear text where TLS is spoken.
fn is_clear_text(error: &io::Error) -> bool {
    let failure = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>());
    failure.is_some_and(|failure| failure.code() == Code::EncryptionMismatch)
}
