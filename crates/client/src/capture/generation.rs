//! The open generation.

pub(super) const GENERATION: &str = "(SELECT \"current\" FROM \"syncline_generation\")";
