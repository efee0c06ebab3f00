//! A claim that is no value of the column with which a model compares it.

/// A claim that meets no row, because its column has another type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisfitClaim {
    /// The name of the claim.
    pub claim: String,
    /// The table, as written in the model.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its type.
    pub column_type: String,
}
