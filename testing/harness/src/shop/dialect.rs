//! For which database a script is written.

/// For which database a script is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `[InvoiceLine]`, `NVARCHAR(40)`, foreign keys within the tables.
    Sqlite,
    /// `invoice_line`, `VARCHAR(40)`, foreign keys afterwards.
    Postgres,
}
