//! What tracks a table, piece by piece.

/// A database object of Syncline.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::postgres) struct Object {
    /// `COLUMN`, `TABLE`, `INDEX`, `FUNCTION` or `TRIGGER`.
    pub(in crate::postgres) kind: &'static str,
    pub(in crate::postgres) name: String,
    /// Makes it, one statement each.
    pub(in crate::postgres) sql: Vec<String>,
    /// What it was before, where all that it knows can be kept.
    pub(in crate::postgres) older: Option<Older>,
}

/// An object as programs before made it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::postgres) struct Older {
    /// What made it, in one text.
    pub(in crate::postgres) sql: String,
    /// Make of it what it is now. They hide nothing from a reader with an older snapshot.
    pub(in crate::postgres) statements: Vec<String>,
}
