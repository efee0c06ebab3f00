//! One connection of HTTP/1.1: one request after the other.

use super::exchange::Room;
use super::pipe::PIPE_BYTES;
use super::request::{Line, Terms, answer, ending};
use super::upgrade::Upgrades;
use super::wire::WireIo;
use crate::network::websocket::WebSocket;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use tokio::sync::watch;

/// What hyper reads ahead, and what it keeps to write. A head has at most twice as many.
const BUFFER_BYTES: usize = 64 << 10;

/// Lines of a head. Browsers and proxies send about 20.
const HEADERS_MAX: usize = 64;

/// Hyper's two buffers and the pipe, which count once the peer is known.
const ROOM: Room = Room {
    begun_bytes: 0,
    known_bytes: (2 * BUFFER_BYTES + PIPE_BYTES) as u64,
    taken_max: PIPE_BYTES,
};

/// Serves a connection until it ends or goes over to WebSocket.
pub(super) async fn serve(
    io: WireIo,
    line: Line,
    mut stopped: watch::Receiver<bool>,
) -> hyper::Result<()> {
    let upgrades = Arc::new(Upgrades::default());
    let (idle, front) = (line.idle, line.front.clone());
    let granted = upgrades.clone();
    let service = service_fn(move |request| {
        let (line, upgrades) = (line.clone(), granted.clone());
        async move {
            let terms = Terms { room: ROOM, upgrades: Some(&upgrades), torn: None };
            answer(request, &line, terms).await
        }
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
    if let Some((stream, ahead, peer)) = upgrades.taken().await {
        let memory = front.shared.spills.memory().hold();
        let stream = WebSocket::new(stream, ahead, memory);
        // A server that stops closes it.
        let _ = front.exchanges.send((Box::new(stream), peer)).await;
    }
    ended
}
