//! How much of one response has reached the peer.
//!
//! The connection below counts the bytes that it took and that the peer has acknowledged, of all
//! its responses together. A byte of a response counts as arrived when the connection has carried
//! at least as many bytes to the peer as it would have if this byte had been the next. Over HTTP/2
//! others may have been before it. Then the peer has read those, so it is alive; and a response
//! for which it opens no window is not taken any further.

use std::collections::VecDeque;

/// Pieces that are told apart. The last one grows where there are more.
const PIECES_MAX: usize = 64;

/// What was taken of a response, and where the connection was then.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// Those that have not arrived, in order.
    pieces: VecDeque<Piece>,
}

#[derive(Debug)]
struct Piece {
    bytes: u64,
    /// What the connection has carried when the last byte arrives, at the least.
    ends_at: u64,
}

impl Passage {
    /// So many bytes were taken, when the connection had taken so many of all responses.
    pub(super) fn take(&mut self, bytes: u64, written: u64) {
        let full = self.pieces.len() >= PIECES_MAX;
        match self.pieces.back_mut() {
            Some(last) if full || last.ends_at >= written => {
                last.bytes += bytes;
                last.ends_at = last.ends_at.max(written) + bytes;
            }
            _ => self.pieces.push_back(Piece { bytes, ends_at: written + bytes }),
        }
    }

    /// Bytes on their way, where the connection has carried so many of all responses to the peer.
    pub(super) fn on_the_way(&mut self, acknowledged: u64) -> u64 {
        while let Some(first) = self.pieces.front()
            && first.ends_at <= acknowledged
        {
            self.pieces.pop_front();
        }
        let missing = |piece: &Piece| piece.bytes.min(piece.ends_at.saturating_sub(acknowledged));
        self.pieces.iter().map(missing).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_one_by_one_when_the_connection_has_carried_them() {
        let mut passage = Passage::default();
        passage.take(100, 1000);
        assert_eq!(passage.on_the_way(1000), 100);
        assert_eq!(passage.on_the_way(1030), 70);
        // The first piece has not left yet, so the second comes behind it.
        passage.take(50, 1040);
        assert_eq!(passage.on_the_way(1040), 110);
        assert_eq!(passage.on_the_way(1149), 1);
        assert_eq!(passage.on_the_way(1150), 0);
    }

    // S9: what others read is no progress of one for which nothing is taken.
    #[test]
    fn what_the_connection_carries_for_others_counts_once_at_most() {
        let mut passage = Passage::default();
        passage.take(100, 0);
        passage.take(100, 5000);
        assert_eq!(passage.on_the_way(5000), 100, "the first has arrived, the second not");
        assert_eq!(passage.on_the_way(1 << 40), 0);
    }

    // S9
    #[test]
    fn pieces_that_are_many_are_counted_together() {
        let mut passage = Passage::default();
        for piece in 0..10_000 {
            passage.take(10, piece * 1000);
        }
        assert_eq!(passage.pieces.len(), PIECES_MAX);
        assert_eq!(passage.on_the_way(0), 100_000);
        assert_eq!(passage.on_the_way(9_999_000 + 10), 0);
    }
}
