//! Records about single rows for people: rejects and conflicts.

/// A row of a remote that was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectNote {
    /// Names it.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// Whose row it was.
    pub remote_id: String,
    /// Who synchronized.
    pub user: String,
    /// The table.
    pub table: String,
    /// What the remote wanted: `insert`, `update`, `delete`; `download` of a row that the remote
    /// cannot be sent.
    pub operation: String,
    /// The key, a JSON object by column name.
    pub key: String,
    /// The row, in the same form.
    pub row: Option<String>,
    /// Why, as the number of an error code.
    pub code: u16,
    /// The same in words.
    pub message: String,
    /// The remote knows of it.
    pub learned: bool,
}

/// Two changes of one row that met.
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictNote {
    /// Names it.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// Whose change met another one.
    pub remote_id: String,
    /// Who synchronized.
    pub user: String,
    /// The table.
    pub table: String,
    /// What the remote wanted: `insert`, `update`, `delete`.
    pub operation: String,
    /// What decided.
    pub rule: String,
    /// The row as the remote knew it before: JSON, an object by column name. Records of programs
    /// before are arrays.
    pub old: Option<String>,
    /// The row that the remote wanted.
    pub new: Option<String>,
    /// The row that was there.
    pub consolidated: Option<String>,
    /// The resulting row; none if it was deleted, and in records of older programs.
    pub result: Option<String>,
}

/// Which notes to read.
#[derive(Debug, Clone, Copy)]
pub enum Notes {
    /// The newest of them, at most so many.
    Newest(u32),
    /// One.
    Of(i64),
}

impl Notes {
    /// The id wanted, and how many.
    pub(crate) fn bounds(self) -> (Option<i64>, i64) {
        match self {
            Notes::Newest(count) => (None, i64::from(count)),
            Notes::Of(id) => (Some(id), 1),
        }
    }
}
