//! What tracks a table, piece by piece.

/// A database object of Syncline.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::postgres) struct Object {
    /// `COLUMN`, `TABLE`, `INDEX`, `FUNCTION` or `TRIGGER`.
    pub(in crate::postgres) kind: &'static str,
    pub(in crate::postgres) name: String,
    /// Makes it, one statement each.
    pub(in crate::postgres) sql: Vec<String>,
}
