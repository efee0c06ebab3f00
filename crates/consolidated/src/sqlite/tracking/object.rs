//! A database object of Syncline.

/// A database object of Syncline.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sqlite) struct Object {
    /// `TABLE` or `TRIGGER`.
    pub(in crate::sqlite) kind: &'static str,
    pub(in crate::sqlite) name: String,
    /// The user table it watches.
    pub(in crate::sqlite) table: String,
    /// As SQLite stores it.
    pub(in crate::sqlite) sql: String,
}
