//! Rejects and lost conflicts for a remote, in messages of limited size.
//!
//! A message ends before the reject that would make it too large, so a reject with a large key has
//! its own message. A reject that no message can contain stays at the center.

use model::{Failure, MESSAGE_BYTES_MAX, Spill, cut};
use protocol::{FRAME_BYTES_MAX, LostConflict, LostConflicts, Message, Reject, Rejects};

/// Most rejects in one message.
const COUNT_MAX: usize = 1000;

/// Bytes of keys and messages beyond which no further reject is added to a message.
const BYTES_MAX: usize = 1 << 20;

/// Bytes of the largest reject that a message can carry: the names of the fields need the rest.
const REJECT_BYTES_MAX: usize = FRAME_BYTES_MAX - (1 << 10);

/// Rejects and lost conflicts that are not in a message yet.
#[derive(Default)]
pub(super) struct Waiting {
    rejects: Vec<Reject>,
    conflicts: Vec<LostConflict>,
    bytes: usize,
}

impl Waiting {
    /// Adds a reject, whose message may quote a whole value, behind those that wait.
    pub(super) fn add(&mut self, mut reject: Reject, frames: &mut Spill) -> Result<(), Failure> {
        if reject.message.len() > MESSAGE_BYTES_MAX {
            reject.message = cut(&reject.message, MESSAGE_BYTES_MAX).into_owned();
        }
        let bytes = reject.key.len() + reject.message.len();
        if bytes > REJECT_BYTES_MAX {
            tracing::warn!(
                table = reject.table,
                key_bytes = reject.key.len(),
                code = reject.code,
                "the key of a rejected row is too large to be sent; the reject stays here"
            );
            return Ok(());
        }
        self.make_room(bytes, frames)?;
        self.rejects.push(reject);
        Ok(())
    }

    /// Adds a lost conflict behind those that wait. One that no message can contain is not told:
    /// its row comes as any other.
    pub(super) fn add_conflict(
        &mut self,
        conflict: LostConflict,
        frames: &mut Spill,
    ) -> Result<(), Failure> {
        let bytes = conflict.key.len() + conflict.rule.len();
        if bytes > REJECT_BYTES_MAX {
            return Ok(());
        }
        self.make_room(bytes, frames)?;
        self.conflicts.push(conflict);
        Ok(())
    }

    fn make_room(&mut self, bytes: usize, frames: &mut Spill) -> Result<(), Failure> {
        let waiting = self.rejects.len() + self.conflicts.len();
        if waiting >= COUNT_MAX || self.bytes + bytes > BYTES_MAX {
            self.send(frames)?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Puts those that wait into messages.
    pub(super) fn send(&mut self, frames: &mut Spill) -> Result<(), Failure> {
        let Waiting { rejects, conflicts, .. } = std::mem::take(self);
        if !rejects.is_empty() {
            frames.append(Message::Rejects(Rejects { rejects }).to_frame()?)?;
        }
        if !conflicts.is_empty() {
            frames.append(Message::LostConflicts(LostConflicts { conflicts }).to_frame()?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::TemporaryFiles;
    use model::{Counter, Spills};
    use protocol::FrameDecoder;
    use std::sync::Arc;

    fn reject(key_bytes: usize, message_bytes: usize) -> Reject {
        let (key, message) = (vec![7; key_bytes], "m".repeat(message_bytes));
        Reject { table: 0, key, counter: Counter(1), code: 7001, message }
    }

    /// How many rejects each message has.
    fn messages(rejects: impl Iterator<Item = Reject>) -> Vec<usize> {
        let files = Arc::new(TemporaryFiles::new(std::env::temp_dir()));
        let spills = Spills::new(files, 1 << 30, 1 << 30);
        let (mut waiting, mut frames) = (Waiting::default(), spills.open());
        for reject in rejects {
            waiting.add(reject, &mut frames).unwrap();
        }
        waiting.send(&mut frames).unwrap();
        let (mut reader, mut counts) = (frames.reader(), Vec::new());
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        while let Some(frame) = reader.next_chunk().unwrap() {
            decoder.push(&frame);
            match Message::decode(decoder.next_frame().unwrap().unwrap()).unwrap() {
                Some(Message::Rejects(told)) => counts.push(told.rejects.len()),
                other => panic!("{other:?}"),
            }
        }
        counts
    }

    // S9: two in one message were more than a frame takes, which was a panic.
    #[test]
    fn a_message_of_rejects_is_never_larger_than_a_frame() {
        let large = 40 << 20;
        let keys = [large, 3, large, REJECT_BYTES_MAX - 9, FRAME_BYTES_MAX, 5, 6];
        assert_eq!(messages(keys.into_iter().map(|key| reject(key, 9))), [1, 1, 1, 1, 2]);
        assert_eq!(messages((0..2_500).map(|_| reject(4, 9))), [1000, 1000, 500]);
        assert_eq!(messages((0..100).map(|_| reject(4, 1 << 20))), [100], "messages are cut");
    }
}
