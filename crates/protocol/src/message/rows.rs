//! Rows of one table, in both directions.

use model::{Code, Failure};

/// What is to be done with the rows of a frame, and so what a row consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Upload: the new row.
    Insert = 1,
    /// Upload: the old image, then the new row; twice the table's width.
    Update = 2,
    /// Upload: the old image. Download: the key's columns only.
    Delete = 3,
    /// Download: the row as it is now.
    Upsert = 4,
}

impl Operation {
    fn from_byte(byte: u8) -> Result<Operation, Failure> {
        match byte {
            1 => Ok(Operation::Insert),
            2 => Ok(Operation::Update),
            3 => Ok(Operation::Delete),
            4 => Ok(Operation::Upsert),
            _ => Err(Failure::new(Code::MalformedMessage, format!("unknown operation {byte}"))),
        }
    }
}

/// A batch of rows with one operation. The payload is: table (2 bytes), operation (1 byte),
/// count (4 bytes), then the rows of `model::row`; numbers are little-endian.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsFrame {
    /// Position of the table in the remote schema.
    pub table: u16,
    /// What to do with the rows.
    pub operation: Operation,
    /// How many rows.
    pub count: u32,
    /// The rows, not checked yet.
    pub bytes: Vec<u8>,
}

impl RowsFrame {
    /// Bytes before the rows.
    pub const PREFIX_BYTES: usize = 7;

    pub(super) fn payload_len(&self) -> usize {
        RowsFrame::PREFIX_BYTES + self.bytes.len()
    }

    /// Appends the payload.
    pub fn write_payload(&self, out: &mut Vec<u8>) {
        out.reserve(self.payload_len());
        out.extend_from_slice(&self.prefix());
        out.extend_from_slice(&self.bytes);
    }

    /// The payload, in the memory of the rows.
    pub fn into_payload(self) -> Vec<u8> {
        let prefix = self.prefix();
        let mut payload = self.bytes;
        payload.splice(..0, prefix);
        payload
    }

    fn prefix(&self) -> [u8; RowsFrame::PREFIX_BYTES] {
        let mut prefix = [0; RowsFrame::PREFIX_BYTES];
        prefix[..2].copy_from_slice(&self.table.to_le_bytes());
        prefix[2] = self.operation as u8;
        prefix[3..].copy_from_slice(&self.count.to_le_bytes());
        prefix
    }

    /// Reads a payload, reusing its memory.
    pub fn from_payload(mut payload: Vec<u8>) -> Result<RowsFrame, Failure> {
        let (table, operation, count) = RowsFrame::split(&payload)?;
        payload.drain(..RowsFrame::PREFIX_BYTES);
        Ok(RowsFrame { table, operation, count, bytes: payload })
    }

    /// Table, operation and count before a payload; the rows begin at
    /// [`RowsFrame::PREFIX_BYTES`].
    pub fn split(payload: &[u8]) -> Result<(u16, Operation, u32), Failure> {
        let Some(p) = payload.first_chunk::<{ RowsFrame::PREFIX_BYTES }>() else {
            return Err(Failure::new(Code::MalformedMessage, "a rows frame is too short"));
        };
        let count = u32::from_le_bytes([p[3], p[4], p[5], p[6]]);
        Ok((u16::from_le_bytes([p[0], p[1]]), Operation::from_byte(p[2])?, count))
    }
}
