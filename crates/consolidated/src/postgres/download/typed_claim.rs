//! A claim as a value of the column with which it is compared.

use crate::sync_model::Claim;
use serde::{Deserialize, Serialize};

/// A claim and the type that it must be a value of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::postgres) struct TypedClaim {
    pub(in crate::postgres) claim: Claim,
    /// The SQL type, without length or scale.
    pub(in crate::postgres) cast: String,
    /// Several values, with commas between.
    pub(in crate::postgres) list: bool,
}
