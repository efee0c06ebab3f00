//! Rows without their parent are left out at remotes until it comes, and named by `check`.
//!
//! They exist because foreign keys were not checked when the rows were written (trap 26).

use crate::admin::{Finding, Severity};

/// What `check` says of the rows of `child` that refer to nothing in `parent`.
pub(crate) fn finding(child: &str, parent: &str, rows: u64) -> Finding {
    let message = match rows {
        1 => format!("1 row of {child} refers to a missing row of {parent}"),
        _ => format!("{rows} rows of {child} refer to missing rows of {parent}"),
    };
    Finding {
        severity: Severity::Notice,
        table: Some(child.to_owned()),
        message: format!("{message}; remotes do not receive such rows until the parent exists"),
    }
}
