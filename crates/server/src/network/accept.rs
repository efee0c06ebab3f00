//! Accepts connections and serves each in a task of its own.
//!
//! In: connections of one listener. Out: one line of log per synchronization. Bound: the places in
//! `connections`; when they are taken, the kernel's backlog holds newcomers back. A panic in one
//! synchronization ends that synchronization.

use super::{Connection, Listener};
use crate::session::{self, Shared, Summary};
use model::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

/// Numbers connections, for the log.
static NEXT_SYNC_ID: AtomicU64 = AtomicU64::new(1);

/// What the accepting of one listener needs.
pub(crate) struct Accept {
    pub(crate) listener: Listener,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Starts to accept, until `stopped` changes.
pub(crate) fn start(runtime: &Runtime, accept: Accept) {
    runtime.spawn(run(accept));
}

async fn run(accept: Accept) {
    let Accept { listener, shared, connections, clock, mut stopped } = accept;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: a pause lets some end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Beyond the limit the kernel's backlog holds them back.
        let Ok(place) = connections.clone().acquire_owned().await else { return };
        let (shared, clock) = (shared.clone(), clock.clone());
        let sync_id = NEXT_SYNC_ID.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let _place = place;
            serve(stream, &shared, clock.as_ref(), sync_id, &peer.to_string()).await;
        });
    }
}

async fn serve(stream: TcpStream, shared: &Shared, clock: &dyn Clock, sync_id: u64, peer: &str) {
    let started_ms = clock.monotonic_ms();
    let idle_timeout = Duration::from_secs(shared.config.idle_timeout_s);
    let limit = shared.config.unauthenticated_bytes_max;
    let mut connection = Connection::new(stream, limit, idle_timeout);
    let mut summary = Summary::default();
    let result = session::serve(&mut connection, shared, &mut summary).await;
    let duration_ms = clock.monotonic_ms() - started_ms;
    let Summary {
        remote,
        user,
        script_version,
        uploaded,
        conflicts,
        rejected,
        reached,
        downloaded,
        filtered,
        cost,
    } = summary;
    let (bytes_in, bytes_out) = (connection.bytes_in, connection.bytes_out);
    match result {
        Ok(None) => {}
        Ok(Some(())) => tracing::info!(
            sync_id,
            peer,
            remote,
            user,
            script_version,
            uploaded,
            conflicts,
            rejected,
            reached,
            downloaded,
            filtered,
            bytes_in,
            bytes_out,
            round_trips = cost.round_trips,
            commits = cost.commits,
            duration_ms,
            "synchronized"
        ),
        Err(failure) => {
            tracing::warn!(
                sync_id, peer, remote, user, script_version, uploaded, bytes_in, bytes_out,
                duration_ms, code = %failure.code(), error = %failure.full_message(),
                "synchronization failed"
            );
            connection.refuse(&failure).await;
        }
    }
}
