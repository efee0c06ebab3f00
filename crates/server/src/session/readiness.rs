//! Whether the consolidated database answers, for balancers that ask for `/ready`.

use crate::stage;
use consolidated::{Disk, Url, administer_on};
use model::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A database that has not answered by then is away.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// The way to the database.
pub(crate) struct Readiness {
    url: Url,
    disk: Arc<dyn Disk>,
    /// One asks at a time, so that whoever asks the server cannot flood the database.
    turns: Arc<Semaphore>,
}

impl Readiness {
    pub(crate) fn new(url: Url, disk: Arc<dyn Disk>) -> Readiness {
        Readiness { url, disk, turns: Arc::new(Semaphore::new(1)) }
    }

    /// Whether it takes a new connection and answers on it, within a second.
    pub(crate) async fn answers(&self) -> bool {
        timeout(ANSWER_LIMIT, self.ask()).await.is_ok_and(|answered| answered)
    }

    async fn ask(&self) -> bool {
        let Ok(turn) = self.turns.clone().acquire_owned().await else { return false };
        let (url, disk) = (self.url.clone(), self.disk.clone());
        let look = move || -> Result<(), Failure> {
            // Until the database has answered, also when nobody waits for that any more.
            let _turn = turn;
            administer_on(&url, disk)?.answers()
        };
        let looked = stage::aside_until_done("readiness", look).await;
        match looked.and_then(|looked| looked) {
            Ok(()) => true,
            Err(failure) => {
                tracing::debug!(code = %failure.code(), "not ready: {}", failure.full_message());
                false
            }
        }
    }
}
