//! The end of a synchronization whose download is acknowledged.
//!
//! Everything was said by then, and nothing depends on it: the remote has no lease any more, an
//! acknowledgement that does not come is none, and the next Hello tells the same.
//!
//! Bound: `idle_timeout_s` without a byte from the remote, and until the server stops.

use super::exchange::Exchange;
use super::surroundings::Shared;
use crate::interruption::Interruption;
use crate::network::Connection;
use crate::turns::Origin;
use crate::worker::Cost;
use consolidated::{Acknowledgement, Applied};
use model::{Code, Failure};
use protocol::Message;

/// What the remote has yet to say.
pub(super) struct Awaited {
    expected: Acknowledgement,
    origin: Origin,
}

impl Awaited {
    /// Of the download that follows.
    pub(super) fn of(exchange: &Exchange<'_>, applied: &Applied) -> Awaited {
        let expected = Acknowledgement {
            remote_id: exchange.session.remote_id.clone(),
            epoch: applied.epoch,
            counter: applied.counter,
            nonce: exchange.identity.nonce_attempt,
            incarnation: applied.incarnation,
        };
        Awaited { expected, origin: exchange.origin.clone() }
    }

    /// Waits for it, and notes it. Whoever needs the place ends the wait, and nothing else.
    pub(super) async fn hear(
        self,
        connection: &mut Connection,
        shared: &Shared,
        interruption: &Interruption,
    ) -> Result<Option<Cost>, Failure> {
        let mut stopped = shared.stopped.clone();
        let message = tokio::select! {
            biased;
            _ = interruption.ended() => return Ok(None),
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(None),
            message = connection.receive() => message,
        };
        match message {
            Ok(Message::Acknowledgement(said)) if said.counter == self.expected.counter => {
                self.note(shared).await
            }
            Ok(Message::Acknowledgement(said)) => {
                let message = format!(
                    "download {} is acknowledged, {} was sent",
                    said.counter.0, self.expected.counter.0
                );
                Err(Failure::new(Code::UnexpectedMessage, message))
            }
            Ok(other) => Err(other.unexpected("Acknowledgement")),
            // It has left, or cannot say it.
            Err(failure) if is_silence(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn note(self, shared: &Shared) -> Result<Option<Cost>, Failure> {
        let Awaited { expected, origin } = self;
        let remote = expected.remote_id.clone();
        let noted = async {
            let _turn = shared.sessions.take(&origin.user, &origin.address).await?;
            shared.worker.acknowledge(expected).await
        };
        match noted.await {
            Ok(done) => Ok(Some(done.cost)),
            Err(failure) => {
                tracing::warn!(%remote, error = %failure.full_message(),
                    "cannot note that a download was applied; the next synchronization tells it");
                Ok(None)
            }
        }
    }
}

fn is_silence(failure: &Failure) -> bool {
    matches!(failure.code(), Code::ConnectionLost | Code::PeerSilent | Code::PeerTooSlow)
}
