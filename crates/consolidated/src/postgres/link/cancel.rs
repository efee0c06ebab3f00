//! Asks a server to end the statement of a session, over a separate connection.

use super::startup;
use crate::cancellation::Cancel;
use crate::postgres::connect::Options;
use crate::postgres::errors::FaultKind;
use crate::url::Host;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long each step of asking may take.
const STEP_MAX: Duration = Duration::from_secs(1);

/// What a server wants to hear from the client that cancels a statement of a session.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct Key {
    pub(super) host: Host,
    pub(super) process_id: i32,
    pub(super) secret: i32,
}

/// The flight that a link waits for.
#[derive(Debug)]
pub(super) struct Running {
    options: Options,
    /// None: nothing runs.
    key: Mutex<Option<Arc<Key>>>,
}

impl Running {
    pub(super) fn new(options: &Options) -> Running {
        let mut options = options.clone();
        options.connect_timeout = options.connect_timeout.min(STEP_MAX);
        Running { options, key: Mutex::new(None) }
    }

    /// Notes of which session a flight begins, or that it has ended.
    pub(super) fn set(&self, key: Option<Arc<Key>>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    fn ask(&self, key: &Key) -> Result<(), FaultKind> {
        let mut request = BytesMut::new();
        frontend::cancel_request(key.process_id, key.secret, &mut request);
        let mut socket = startup::reach(&key.host, &self.options)?;
        socket.write(&request)?;
        socket.flush()?;
        // The server closes the connection when it has done it.
        match socket.read(&mut [0]) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Cancel for Running {
    fn cancel(&self) {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(key) = key else { return };
        if let Err(fault) = self.ask(&key) {
            let failure = fault.failure("cannot cancel a statement of PostgreSQL".to_owned());
            tracing::warn!(error = %failure.full_message(), "a statement may still run");
        }
    }
}
