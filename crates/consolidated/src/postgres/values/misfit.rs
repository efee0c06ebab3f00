//! Why a value cannot be stored.

/// Why a value cannot be stored: the end of a sentence that begins with column and value.
pub(in crate::postgres) type Misfit = &'static str;
