//! What is remembered of synchronizations that have ended, until the database has it.
//!
//! In: one note per synchronization that has ended. Out: a request to the writers, at most once a
//! second, which becomes durable with the uploads of that moment. No synchronization waits for it.
//! Bound: `NOTED_LEN_MAX` notes; what comes while there are so many is not remembered. Of those
//! whose user was not proven, only the last of each remote is.

use crate::worker::Worker;
use consolidated::EndedSynchronization;
use model::Clock;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Notes that wait for the database, of each kind.
const NOTED_LEN_MAX: usize = 10_000;

/// How long what has ended waits for others.
const TOGETHER: Duration = Duration::from_secs(1);

/// Notes of synchronizations.
pub(crate) struct Chronicle {
    clock: Arc<dyn Clock>,
    noted: Mutex<Noted>,
    any: Notify,
}

/// Each with when it ended, in milliseconds of the clock.
#[derive(Default)]
struct Noted {
    proven: Vec<(u64, EndedSynchronization)>,
    /// By remote.
    unproven: BTreeMap<String, (u64, EndedSynchronization)>,
    /// How many were too many.
    dropped: u64,
}

impl Chronicle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Chronicle {
        Chronicle { clock, noted: Mutex::default(), any: Notify::new() }
    }

    /// Takes note of one that ends now.
    pub(crate) fn note(&self, ended: EndedSynchronization) {
        let now_ms = self.clock.monotonic_ms();
        let mut noted = self.noted();
        let Noted { proven, unproven, dropped } = &mut *noted;
        if ended.proven {
            match proven.len() < NOTED_LEN_MAX {
                true => proven.push((now_ms, ended)),
                false => *dropped += 1,
            }
        } else if unproven.len() < NOTED_LEN_MAX || unproven.contains_key(&ended.remote_id) {
            unproven.insert(ended.remote_id.clone(), (now_ms, ended));
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
        let ended = self.take();
        if ended.is_empty() {
            return;
        }
        let len = ended.len();
        if let Err(failure) = worker.note_ended(ended).await {
            tracing::warn!(error = %failure.full_message(), synchronizations = len,
                "synchronizations are not remembered");
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted since, oldest first.
    fn take(&self) -> Vec<EndedSynchronization> {
        let Noted { proven, unproven, dropped } = mem::take(&mut *self.noted());
        if dropped > 0 {
            tracing::warn!(dropped, "synchronizations are not remembered: too many wait");
        }
        let now_ms = self.clock.monotonic_ms();
        let mut taken: Vec<_> = proven.into_iter().chain(unproven.into_values()).collect();
        taken.sort_by_key(|(ended_ms, _)| *ended_ms);
        let aged = |(ended_ms, ended)| EndedSynchronization {
            age_s: now_ms.saturating_sub(ended_ms).div_euclid(1000).cast_signed(),
            ..ended
        };
        taken.into_iter().map(aged).collect()
    }
}
