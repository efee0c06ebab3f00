//! Receipts: signed states of the database, one for each synchronization (trap 30).
//!
//! With a receipt a remote can prove that the database was in a later state.
//!
//! A receipt is one version byte, the incarnation, the timeline and the epoch, little-endian, and a
//! signature of these with a key of the database, for one remote and one file. The epoch of a
//! remote grows with each of its synchronizations, and a receipt leaves after the commit. So a
//! receipt of the same incarnation that is ahead of the database proves that the database was set
//! back. A receipt of another incarnation comes from a copy of the database, or from the time
//! before a restore.

use crate::synchronization::Session;
use hmac::{Hmac, Mac};
use model::{Code, Failure, Receipt};
use sha2::Sha256;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 21;

/// One life of the database: from one restore, or copy, to the next.
#[derive(Clone, Default)]
pub(crate) struct Incarnation {
    pub(crate) number: i64,
    /// That of the server's transaction log, where it has one.
    pub(crate) timeline: u32,
    /// What receipts are signed with; the first signs, all are good.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incarnation").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What a receipt proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proven {
    /// It was given by exactly this incarnation.
    pub(crate) here: bool,
    /// The synchronization for which it was given.
    pub(crate) epoch: i64,
}

impl Incarnation {
    /// Signs that the remote synchronized.
    pub(crate) fn sign(
        &self,
        session: &Session,
        secret: Option<u128>,
        epoch: i64,
    ) -> Result<Receipt, Failure> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.timeline.to_le_bytes());
        bytes.extend_from_slice(&epoch.to_le_bytes());
        let key = self.keys.first().ok_or_else(no_key)?;
        let signature = signature(key, &bytes, session, secret)?.finalize().into_bytes();
        bytes.extend_from_slice(&signature);
        Receipt::new(bytes)
    }

    /// What the receipt proves: nothing if it was signed elsewhere, or for another remote.
    pub(crate) fn verify(
        &self,
        receipt: &Receipt,
        session: &Session,
        secret: Option<u128>,
    ) -> Result<Option<Proven>, Failure> {
        let Some((head, signed)) = receipt.as_bytes().split_at_checked(HEAD_BYTES) else {
            return Ok(None);
        };
        let mut good = false;
        for key in &self.keys {
            // Compares in constant time.
            good |= signature(key, head, session, secret)?.verify_slice(signed).is_ok();
        }
        if !good || head[0] != VERSION {
            return Ok(None);
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            i64::from_le_bytes(bytes)
        };
        let here = number(1) == self.number && head[9..13] == self.timeline.to_le_bytes();
        Ok(Some(Proven { here, epoch: number(13) }))
    }
}

fn no_key() -> Failure {
    Failure::new(Code::NotDeployed, "there is no key of receipts")
}

fn signature(
    key: &[u8],
    head: &[u8],
    session: &Session,
    secret: Option<u128>,
) -> Result<Hmac<Sha256>, Failure> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| Failure::new(Code::Bug, "the key of receipts is unusable"))?;
    mac.update(b"syncline receipt");
    mac.update(head);
    mac.update(&secret.unwrap_or_default().to_le_bytes());
    mac.update(session.remote_id.as_str().as_bytes());
    Ok(mac)
}
