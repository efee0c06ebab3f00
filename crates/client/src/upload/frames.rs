//! The frames of an upload, taken one after the other by the one who sends them.

use super::Upload;
use model::{Failure, Spill, SpillDrain};
use protocol::{Message, RowsFrame, UploadEnd};
use std::borrow::Cow;

/// Frames are handed over together while they have fewer bytes, because every call of the network
/// costs as much as copying so many.
const SEND_BYTES: usize = 256 * 1024;

/// Frames that were not taken yet.
///
/// Bound: beside the spill of the upload, what is taken next, which has at most [`SEND_BYTES`] or
/// is one frame.
#[derive(Debug)]
pub(crate) struct UploadFrames {
    /// Small frames that will be taken together.
    gathered: Vec<u8>,
    /// A frame that did not fit with them.
    ahead: Option<Vec<u8>>,
    parts: Parts,
    /// Bytes of the upload that were not taken.
    bytes_left: u64,
    /// Rows in the frames that were taken.
    rows_done: u64,
    rows_total: u64,
    is_ended: bool,
}

impl UploadFrames {
    /// The frames of `upload`, behind the bytes that are sent before it.
    pub(crate) fn new(upload: Upload, before: Vec<u8>) -> Result<UploadFrames, Failure> {
        let mut gathered = before;
        gathered.reserve_exact(upload.bytes.min(SEND_BYTES as u64) as usize);
        Message::UploadBegin(upload.begin).encode(&mut gathered)?;
        Ok(UploadFrames {
            gathered,
            ahead: None,
            parts: Parts { emptied: None, next: upload.parts.into_iter() },
            bytes_left: upload.bytes,
            rows_done: 0,
            rows_total: upload.rows,
            is_ended: false,
        })
    }

    /// Rows in the frames that were taken.
    pub(crate) fn rows_done(&self) -> u64 {
        self.rows_done
    }

    /// Rows of the whole upload.
    pub(crate) fn rows_total(&self) -> u64 {
        self.rows_total
    }

    /// Everything was taken.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whole frames that are to be sent next; `None` after the last.
    pub(crate) fn take(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.is_ended {
            return Ok(None);
        }
        loop {
            let frame = match self.ahead.take() {
                Some(frame) => Some(Cow::Owned(frame)),
                None => self.parts.next_frame()?,
            };
            let Some(frame) = frame else { break };
            if !self.gathered.is_empty() && self.gathered.len() + frame.len() > SEND_BYTES {
                self.ahead = Some(frame.into_owned());
                return Ok(Some(self.take_gathered()));
            }
            // The last of the five bytes of a frame's header is its type.
            if frame.get(4).is_some_and(|it| *it < Message::OPTIONAL_TYPES) {
                let (_, _, count) = RowsFrame::split(frame.get(5..).unwrap_or_default())?;
                self.rows_done += u64::from(count);
            }
            if frame.len() > SEND_BYTES {
                self.bytes_left = self.bytes_left.saturating_sub(frame.len() as u64);
                return Ok(Some(frame.into_owned()));
            }
            if self.gathered.is_empty() {
                let bytes = self.bytes_left.min(SEND_BYTES as u64) as usize;
                self.gathered.reserve_exact(bytes);
            }
            self.gathered.extend_from_slice(&frame);
        }
        self.is_ended = true;
        Message::UploadEnd(UploadEnd { rows: self.rows_total }).encode(&mut self.gathered)?;
        Ok(Some(self.take_gathered()))
    }

    fn take_gathered(&mut self) -> Vec<u8> {
        let gathered = std::mem::take(&mut self.gathered);
        self.bytes_left = self.bytes_left.saturating_sub(gathered.len() as u64);
        gathered
    }
}

/// The spills of an upload.
#[derive(Debug)]
struct Parts {
    /// The one that frames are taken from.
    emptied: Option<SpillDrain>,
    next: std::vec::IntoIter<Spill>,
}

impl Parts {
    fn next_frame(&mut self) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        while self.emptied.as_ref().is_none_or(SpillDrain::is_at_end) {
            let Some(part) = self.next.next() else { return Ok(None) };
            self.emptied = Some(part.drain());
        }
        self.emptied.as_mut().map_or(Ok(None), SpillDrain::next_chunk)
    }
}
