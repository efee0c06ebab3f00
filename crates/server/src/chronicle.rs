//! What is remembered of synchronizations that have ended, until the database has it.
//!
//! In: one note per synchronization that has ended. Out: a request to the writers, at most once a
//! second, which becomes durable with the uploads of that moment. No synchronization waits for it.
//! Of what a remote does within that second, the last that succeeded and the last that failed are
//! noted. Bound: `NOTED_LEN_MAX` notes, half of them for those whose user was proven; what comes
//! while there are so many is not remembered.

use crate::worker::Worker;
use consolidated::EndedSynchronization;
use model::Clock;
use protocol::SETTLED_REJECTS_MAX;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Notes that wait for the database.
const NOTED_LEN_MAX: usize = 10_000;

/// Notes that become durable together.
const TOGETHER_LEN_MAX: usize = 200;

/// How long what has ended waits for others.
const TOGETHER: Duration = Duration::from_secs(1);

/// Notes of synchronizations.
pub(crate) struct Chronicle {
    clock: Arc<dyn Clock>,
    noted: Mutex<Noted>,
    any: Notify,
}

/// By remote, whether the user was proven, and whether it failed: each with when it ended, in
/// milliseconds of the clock.
#[derive(Default)]
struct Noted {
    last: BTreeMap<(String, bool, bool), (u64, EndedSynchronization)>,
    /// How many were too many.
    dropped: u64,
}

impl Chronicle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Chronicle {
        Chronicle { clock, noted: Mutex::default(), any: Notify::new() }
    }

    /// Takes note of one that ends now.
    pub(crate) fn note(&self, mut ended: EndedSynchronization) {
        let now_ms = self.clock.monotonic_ms();
        let mut noted = self.noted();
        let len_max = if ended.proven { NOTED_LEN_MAX } else { NOTED_LEN_MAX / 2 };
        let is_full = noted.last.len() >= len_max;
        match noted.last.entry((ended.remote_id.clone(), ended.proven, ended.code.is_some())) {
            Entry::Occupied(mut last) => {
                let earlier = &mut last.get_mut().1;
                let mut settled_rejects = mem::take(&mut earlier.settled_rejects);
                settled_rejects.append(&mut ended.settled_rejects);
                settled_rejects.truncate(SETTLED_REJECTS_MAX);
                // An upload alone changes nothing of what the remote holds.
                let last_download = ended.last_download.or(earlier.last_download.take());
                let ended = EndedSynchronization { settled_rejects, last_download, ..ended };
                last.insert((now_ms, ended));
            }
            Entry::Vacant(place) if !is_full => drop(place.insert((now_ms, ended))),
            Entry::Vacant(_) => noted.dropped += 1,
        }
        drop(noted);
        self.any.notify_one();
    }

    /// Waits until there is something, and a little for others.
    pub(crate) async fn has_some(&self) {
        self.any.notified().await;
        tokio::time::sleep(TOGETHER).await;
    }

    /// Brings to the database what is noted.
    pub(crate) async fn flush(&self, worker: &Worker) {
        let mut ended = self.take();
        while !ended.is_empty() {
            // Uploads do not wait for all of them.
            let later = ended.split_off(ended.len().min(TOGETHER_LEN_MAX));
            let len = ended.len();
            if let Err(failure) = worker.note_ended(ended).await {
                tracing::warn!(error = %failure.full_message(), synchronizations = len,
                    "synchronizations are not remembered");
            }
            ended = later;
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted since, oldest first.
    fn take(&self) -> Vec<EndedSynchronization> {
        let Noted { last, dropped } = mem::take(&mut *self.noted());
        if dropped > 0 {
            tracing::warn!(dropped, "synchronizations are not remembered: too many wait");
        }
        let now_ms = self.clock.monotonic_ms();
        let mut taken: Vec<_> = last.into_values().collect();
        taken.sort_by_key(|(ended_ms, _)| *ended_ms);
        let aged = |(ended_ms, ended)| EndedSynchronization {
            age_s: now_ms.saturating_sub(ended_ms).div_euclid(1000).cast_signed(),
            ..ended
        };
        taken.into_iter().map(aged).collect()
    }
}
