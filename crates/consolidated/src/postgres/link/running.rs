//! The flight that a link waits for, which another thread may cancel.

use crate::postgres::errors::FaultKind;
use crate::serving::cancellation::Cancel;
use postgres_driver::{Key, Options, cancel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long each step of asking may take.
const STEP_MAX: Duration = Duration::from_secs(1);

/// The flight that a link waits for.
#[derive(Debug)]
pub(in crate::postgres) struct Running {
    options: Options,
    /// None: nothing runs.
    key: Mutex<Option<Arc<Key>>>,
}

impl Running {
    pub(in crate::postgres) fn new(options: &Options) -> Running {
        let mut options = options.clone();
        options.connect_timeout = options.connect_timeout.min(STEP_MAX);
        Running { options, key: Mutex::new(None) }
    }

    /// Notes of which session a flight begins, or that it has ended.
    pub(in crate::postgres) fn set(&self, key: Option<Arc<Key>>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }
}

impl Cancel for Running {
    fn cancel(&self) {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(key) = key else { return };
        if let Err(error) = cancel(&key, &self.options) {
            let fault = FaultKind::from(error);
            let failure = fault.failure("cannot cancel a statement of PostgreSQL".to_owned());
            tracing::warn!(error = %failure.full_message(), "a statement may still run");
        }
    }
}
