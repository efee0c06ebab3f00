//! What is counted of a download.

/// How much of a table was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// To insert or update.
    pub rows: u64,
    /// To delete.
    pub deleted: u64,
    /// Left out, because the remote has just uploaded them.
    pub filtered: u64,
    /// Of all of them, before they are compressed.
    pub bytes: u64,
}

impl std::ops::Add for Sent {
    type Output = Sent;

    fn add(self, more: Sent) -> Sent {
        Sent {
            rows: self.rows + more.rows,
            deleted: self.deleted + more.deleted,
            filtered: self.filtered + more.filtered,
            bytes: self.bytes + more.bytes,
        }
    }
}
