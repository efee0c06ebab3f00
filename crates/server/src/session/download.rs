//! The download: from the database into the spill, from there to the network.

use super::acknowledgement::Awaited;
use super::exchange::Exchange;
use super::{Committed, Sending};
use crate::fail_point::fail_point;
use crate::phases::Phase;
use crate::worker::{Fetch, Withhold, hear};
use consolidated::{Echo, LastDownload};
use model::{Counter, Failure, Spill, SpillPosition, Watermark, hex};
use std::borrow::Cow;

/// Most frames of a download in one write.
const FRAMES_PER_WRITE: usize = 16;

/// Bytes of a download from which on no further frame is added to a write.
const BYTES_PER_WRITE: usize = 256 << 10;

/// The same where memory is short.
const BYTES_PER_WRITE_MIN: usize = 16 << 10;

/// What is sent with one write: what little there is, or one large frame, or a part of it where it
/// lies on disk.
fn next_pieces<'a>(
    frames: &'a Spill,
    position: &mut SpillPosition,
    bytes_max: usize,
) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
    let mut together = Vec::new();
    let mut bytes = 0;
    while together.len() < frames_per_write() && bytes < bytes_max {
        let Some(piece) = frames.read_piece_at(position, bytes_max - bytes)? else { break };
        bytes += piece.len();
        together.push(piece);
    }
    Ok(together)
}

fn frames_per_write() -> usize {
    // One by one, so that there is a moment at which half of them was sent.
    fail_point!("server-download-half-sent", 1);
    FRAMES_PER_WRITE
}

impl<'a> Committed<'a> {
    /// Fetches the download into the spill.
    pub(super) async fn fetch(self) -> Result<Sending<'a>, Failure> {
        let Committed { mut exchange, mut applied, mut ending, awaited: fetched } = self;
        let counter = applied.counter;
        let awaited = exchange.acknowledges().then(|| Awaited::of(&exchange, &applied));
        let fetched = match fetched {
            Some(fetched) => exchange.at_database(Phase::Fetching, hear(fetched)).await?,
            None => {
                let mut fetch = exchange.fetch()?;
                fetch.go_on(&exchange.session, &mut applied);
                let fetching = exchange.shared.worker.fetch(fetch);
                exchange.at_database(Phase::Fetching, fetching).await?
            }
        };
        ending.knows(&fetched.session);
        if let Some((withheld, released)) = fetched.withheld {
            exchange.summary.rejected += withheld.len() as u64;
            let (session, epoch) = (exchange.session.clone(), applied.epoch);
            let withhold = Withhold { session, epoch, counter, withheld, released };
            let withholding = exchange.shared.worker.withhold(withhold);
            exchange.at_database(Phase::Fetching, withholding).await?;
        }
        ending.run(&mut exchange, Phase::Fetching).await?;
        exchange.summary.compression_out = fetched.compression;
        exchange.summary.downloaded = fetched.rows;
        exchange.summary.filtered = fetched.filtered;
        exchange.summary.resumed = fetched.continued;
        exchange.summary.last_download = Some(exchange.held_afterwards(&fetched.watermarks));
        Ok(Sending { exchange, begin: Some(fetched.begin), frames: fetched.frames, awaited })
    }
}

impl Exchange<'_> {
    /// What the remote holds when it has applied the download.
    fn held_afterwards(&self, watermarks: &[Option<Watermark>]) -> LastDownload {
        let tables = self.session.schema.tables.iter().zip(watermarks);
        let held = tables.filter_map(|(table, watermark)| {
            Some((table.fingerprint.clone(), hex(watermark.as_ref()?.as_bytes())))
        });
        LastDownload {
            claims: self.session.claims.clone(),
            publications: self.hello.publications.clone(),
            tables: held.collect(),
        }
    }

    /// The download, but for what only the upload before it tells.
    pub(super) fn fetch(&self) -> Result<Fetch, Failure> {
        Ok(Fetch {
            session: self.session.clone(),
            counter: Counter::default(),
            marks: self.marks.clone(),
            held_marks: self.held_marks.clone(),
            compression: self.compression(),
            echo: Echo::default(),
            time_us: None,
            wanted: self.wanted_rows()?,
            receipt: None,
            acknowledge: self.acknowledges(),
            resume: self.resume(),
            spilled: self.summary.spilled.clone(),
        })
    }
}

impl Sending<'_> {
    /// Sends the download at the remote's pace. Returns what is awaited of it then.
    pub(super) async fn send(self) -> Result<Option<Awaited>, Failure> {
        let Sending { exchange, mut begin, frames, awaited } = self;
        let mut position = SpillPosition::default();
        // Rows from disk are in memory until the remote has received them.
        let mut memory = exchange.shared.spills.memory().hold();
        let ample = frames.disk_bytes() == 0 || memory.try_grow(BYTES_PER_WRITE as u64);
        let bytes_max = if ample { BYTES_PER_WRITE } else { BYTES_PER_WRITE_MIN };
        loop {
            let mut pieces = next_pieces(&frames, &mut position, bytes_max)?;
            if pieces.is_empty() {
                return Ok(awaited);
            }
            // There is always something behind it, and both are one write.
            pieces.splice(..0, begin.take().map(Cow::Owned));
            let pieces: Vec<&[u8]> = pieces.iter().map(Cow::as_ref).collect();
            exchange.connection.send_pieces(&pieces, position.is_between_chunks()).await?;
            exchange.lease.progress();
            // DownloadBegin was sent too.
            if position.chunks() + 1 > frames.len().div_ceil(2) {
                fail_point!("server-download-half-sent");
            }
        }
    }
}
