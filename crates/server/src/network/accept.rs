//! Accepts connections and serves each in its own task.
//!
//! In: connections of one acceptor. Out: one line of log per synchronization. Bound: the places in
//! `connections`. When they are taken, new connections are refused and closed, `REFUSALS_MAX` at a
//! time. A panic in one synchronization ends that synchronization.

use super::{Acceptor, Connection, Limits, Stream};
use crate::phases::Phase;
use crate::session::{self, Shared, Summary};
use crate::stage::Execution;
use consolidated::{EndedSynchronization, SettledReject};
use model::{Clock, Code, Failure};
use protocol::{Compression, Settlement};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

/// When those should come back whom a lock of somebody else's kept from the database, in seconds.
/// How fast other synchronizations end says nothing of when that lock goes, so nothing measured
/// would be nearer. Remotes that try again on their own wait twice as long each time.
const BUSY_RETRY_AFTER_S: u32 = 2;

/// Numbers connections, for the log.
static NEXT_SYNC_ID: AtomicU64 = AtomicU64::new(1);

/// Newcomers beyond the limit that hear so at once; one takes a second at most.
const REFUSALS_MAX: usize = 64;

/// What the accepting of one acceptor's connections needs.
pub(crate) struct Accept {
    pub(crate) acceptor: Box<dyn Acceptor>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stopped: watch::Receiver<bool>,
    pub(crate) execution: Execution,
}

/// Accepts until `stopped` changes.
pub(crate) async fn accept(accept: Accept) {
    let Accept { mut acceptor, shared, connections, clock, mut stopped, execution } = accept;
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    loop {
        let accepted = tokio::select! {
            // However many come: the end first.
            biased;
            _ = stopped.changed() => return,
            accepted = poll_fn(|context| acceptor.poll_accept(context)) => accepted,
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
        let place = match connections.clone().try_acquire_owned() {
            Ok(place) => {
                if connections.available_permits() == 0 {
                    shared.connections_pace.filled();
                }
                place
            }
            Err(TryAcquireError::Closed) => return,
            Err(TryAcquireError::NoPermits) => {
                let place = tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    place = refusals.clone().acquire_owned() => place,
                };
                let Ok(place) = place else { return };
                execution.start(refuse(stream, place, shared.clone(), clock.clone()));
                continue;
            }
        };
        let (shared, clock) = (shared.clone(), clock.clone());
        let sync_id = NEXT_SYNC_ID.fetch_add(1, Ordering::Relaxed);
        let connections = connections.clone();
        execution.start(async move {
            let _place = place;
            serve(stream, &shared, &clock, sync_id, peer).await;
            if connections.available_permits() == 0 {
                shared.connections_pace.moved();
            }
        });
    }
}

/// Says that there is no place, in place of a silence that would last until there is one.
async fn refuse(
    stream: Box<dyn Stream>,
    _place: OwnedSemaphorePermit,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
) {
    let failure =
        Failure::new(Code::ServerFull, "the server has the maximum number of connections");
    let failure = failure.retry_after_s(shared.connections_pace.retry_after_s(0));
    let patience = Limits::of_newcomers(&shared.config.now());
    let mut connection = Connection::new(stream, 0, shared.spills.memory(), clock, patience);
    connection.refuse(&spread(failure, &shared)).await;
}

/// With a time to come back that is not the same for all who are refused at once.
fn spread(failure: Failure, shared: &Shared) -> Failure {
    let busy = (failure.code() == Code::DatabaseBusy).then_some(BUSY_RETRY_AFTER_S);
    match failure.retry_after().or(busy) {
        Some(seconds) => failure.retry_after_s(shared.jitter.spread_s(seconds)),
        None => failure,
    }
}

async fn serve(
    stream: Box<dyn Stream>,
    shared: &Shared,
    clock: &Arc<dyn Clock>,
    sync_id: u64,
    peer: SocketAddr,
) {
    let started_ms = clock.monotonic_ms();
    let config = shared.config.now();
    let (limit, patience) = (config.unauthenticated_bytes_max, Limits::of_newcomers(&config));
    let memory = shared.spills.memory();
    let mut connection = Connection::new(stream, limit, memory, clock.clone(), patience);
    let mut summary = Summary::new(clock.clone());
    let result = session::serve(&mut connection, peer.ip(), shared, &mut summary).await;
    let duration_ms = clock.monotonic_ms() - started_ms;
    if let Ok(None) = result {
        return;
    }
    let spilled_bytes = summary.spilled.get();
    if spilled_bytes > 0 {
        tracing::warn!(
            sync_id,
            remote = summary.remote,
            spilled_bytes,
            "rows went to disk, because stream_memory_bytes_max is used up"
        );
    }
    note(shared, &mut summary, result.as_ref().err(), connection.bytes(), duration_ms);
    let peer = spelled(connection.peer().unwrap_or(peer));
    log(&connection, &summary, &result, sync_id, &peer, duration_ms);
    match result {
        Ok(_) => connection.finish().await,
        Err(failure) => connection.refuse(&spread(failure, shared)).await,
    }
}

/// Takes note of it for those who look at the fleet.
fn note(
    shared: &Shared,
    summary: &mut Summary,
    failure: Option<&Failure>,
    (bytes_in, bytes_out): (u64, u64),
    duration_ms: u64,
) {
    if !summary.synchronizes || failure.is_none() && !summary.committed {
        return;
    }
    shared.chronicle.note(EndedSynchronization {
        age_s: 0,
        remote_id: summary.remote.clone(),
        user: summary.user.clone(),
        // It is settled when the user is proven.
        proven: !summary.script_version.is_empty(),
        script_version: summary.script_version.clone(),
        client: summary.client.clone(),
        code: failure.map(|failure| failure.code().number()),
        message: failure.map(|failure| failure.message().to_owned()),
        uploaded: summary.uploaded,
        downloaded: summary.downloaded,
        rejected: summary.rejected,
        conflicts: summary.conflicts,
        bytes_in,
        bytes_out,
        duration_ms,
        phases: summary.phases.to_json(),
        last_download: summary.last_download.take().filter(|_| failure.is_none()),
        settled_rejects: summary.settled_rejects.drain(..).map(settled).collect(),
    });
}

fn settled(reject: protocol::SettledReject) -> SettledReject {
    let protocol::SettledReject { table, key, counter, outcome } = reject;
    let outcome = match outcome {
        Settlement::Dismissed => "dismissed",
        Settlement::Retried => "retried",
    };
    SettledReject { table, key, counter, outcome }
}

/// The port is not always known of a peer behind a proxy.
fn spelled(peer: SocketAddr) -> String {
    match peer.port() {
        0 => peer.ip().to_string(),
        _ => peer.to_string(),
    }
}

/// The one line of a synchronization: what it did, and where its time went.
fn log(
    connection: &Connection,
    summary: &Summary,
    result: &Result<Option<()>, Failure>,
    sync_id: u64,
    peer: &str,
    duration_ms: u64,
) {
    let (bytes_in, bytes_out) = connection.bytes();
    let ms = |phase| summary.phases.ms(phase);
    let (packed_in, packed_out) = (connection.compression(), summary.compression_out);
    // A macro, for levels are constants of the place that logs.
    macro_rules! line {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                sync_id,
                peer,
                remote = summary.remote,
                user = summary.user,
                script_version = summary.script_version,
                $($field = $value,)*
                uploaded = summary.uploaded,
                conflicts = summary.conflicts,
                rejected = summary.rejected,
                ignored = summary.ignored,
                downloaded = summary.downloaded,
                filtered = summary.filtered,
                resumed = summary.resumed,
                bytes_in,
                bytes_out,
                compression_in = Compression::name_of(packed_in),
                compression_out = Compression::name_of(packed_out),
                spilled_bytes = summary.spilled.get(),
                round_trips = summary.cost.round_trips,
                commits = summary.cost.commits,
                waiting_ms = ms(Phase::Waiting),
                admission_ms = ms(Phase::Admission),
                receiving_ms = ms(Phase::Receiving),
                applying_ms = ms(Phase::Applying),
                fetching_ms = ms(Phase::Fetching),
                sending_ms = ms(Phase::Sending),
                acknowledging_ms = ms(Phase::Acknowledging),
                duration_ms,
                $message
            )
        };
    }
    match result {
        Ok(_) => line!(info, "synchronized"),
        Err(failure) => line!(
            warn,
            "synchronization failed",
            code = failure.code().to_string(),
            error = failure.full_message()
        ),
    }
}
