//! Pending changes that no message takes, for people and for programs.

use client::LeftBehind;
use model::{Code, Failure};
use serde_json::{Value, json};
use terminal::output::{self, counted};

/// Warns of every row, or of the first hundred.
pub(crate) fn warn(left: &LeftBehind) {
    for row in &left.rows {
        let message = format!(
            "a changed row of {} ({}) has {} bytes of at most {}; it stays pending",
            row.table, row.key, row.bytes, row.bytes_max
        );
        told(message);
    }
    if left.unnamed > 0 {
        told(format!("{} more are too large and stay pending", counted(left.unnamed, "row")));
    }
    if left.others > 0 {
        told(format!("with them wait {} that refer to them", counted(left.others, "row")));
    }
}

fn told(message: String) {
    let failure = Failure::new(Code::RowTooLarge, message);
    let (code, hint) = (failure.code(), failure.hint_text());
    output::warning(&format!("{code}: {}; {hint}", failure.message()));
}

/// The same; nothing where there are none.
pub(crate) fn json(left: &LeftBehind) -> Option<Value> {
    let code = Code::RowTooLarge;
    let rows = left.rows.iter().map(|row| {
        json!({
            "table": row.table, "key": row.key, "bytes": row.bytes, "bytes_max": row.bytes_max,
        })
    });
    (!left.is_empty()).then(|| {
        json!({
            "code": code.to_string(),
            "hint": Failure::new(code, "").hint_text(),
            "rows": rows.collect::<Vec<_>>(),
            "unnamed": left.unnamed,
            "waiting_rows": left.others,
        })
    })
}
