//! Whether a value is stored as it was sent, without reading it back.
//!
//! The affinity of a column may convert text to a number or a number to text. Remotes have the same
//! affinities, so their values are usually converted already. The answer is *yes* only if this is
//! certain. Then a row need not be read again (trap 8).

use crate::sqlite::deploy::tables::UserColumn;
use model::ValueRef;
use serde::{Deserialize, Serialize};

/// What a column prefers, by the rules of the SQLite manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::sqlite) enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

impl Affinity {
    /// In the manual's order. `ANY` of a strict table counts as numeric, which is stricter.
    pub(in crate::sqlite) fn of(column: &UserColumn) -> Affinity {
        let declared = column.declared_type.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if declared.is_empty() || has("BLOB") {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// Certainly stored as it is.
    pub(in crate::sqlite) fn keeps(self, value: ValueRef<'_>) -> bool {
        match (value, self) {
            (ValueRef::Null | ValueRef::Blob(_), _) => true,
            (ValueRef::Integer(_), Affinity::Integer | Affinity::Numeric | Affinity::Blob) => true,
            // NaN becomes NULL, and a zero may lose its sign.
            (ValueRef::Real(real), _) if real.is_nan() || real == 0.0 => false,
            (ValueRef::Real(_), Affinity::Real | Affinity::Blob) => true,
            (ValueRef::Real(real), Affinity::Integer | Affinity::Numeric) => real.fract() != 0.0,
            (ValueRef::Text(_), Affinity::Text | Affinity::Blob) => true,
            (ValueRef::Text(text), _) => is_no_number(text),
            (ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Absent, _) => false,
        }
    }
}

/// Certainly nothing that SQLite would read as a number: it has a byte that numbers lack, or a
/// sign within, as dates have. A NUL may hide what follows it.
fn is_no_number(text: &[u8]) -> bool {
    if text.contains(&0) {
        return false;
    }
    let mut before = b' ';
    for &byte in text {
        match byte {
            b'0'..=b'9' | b'.' | b'e' | b'E' | b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' => {}
            b'+' | b'-' if before.is_ascii_digit() => return true,
            b'+' | b'-' => {}
            _ => return true,
        }
        before = byte;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use rusqlite::types::ValueRef as Stored;

    const AFFINITIES: [(&str, Affinity); 7] = [
        ("BIGINT", Affinity::Integer),
        ("VARCHAR(10)", Affinity::Text),
        ("BLOB", Affinity::Blob),
        ("", Affinity::Blob),
        ("DOUBLE", Affinity::Real),
        ("NUMERIC(30,6)", Affinity::Numeric),
        ("TIMESTAMP", Affinity::Numeric),
    ];

    /// Values of every kind, and text that is nearly a number.
    fn values() -> Vec<ValueRef<'static>> {
        let texts = [
            "",
            " ",
            "1",
            "-1",
            "+1",
            "1.",
            ".5",
            "1e3",
            "1E+3",
            "1e-3",
            "0x10",
            "1 2",
            " 12 ",
            "007",
            "1-2",
            "2026-01-02",
            "2026-01-02 03:04:05",
            "12:30",
            "e",
            "-",
            "abc",
            "1a",
            "9223372036854775808",
            "1e400",
            "inf",
            "nan",
            "1\0",
            "\u{a0}1",
            "1_000",
        ];
        let reals = [
            0.0,
            -0.0,
            1.0,
            1.5,
            -2.25,
            1e15,
            1e16,
            9.3e18,
            1e300,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            123_456_789.12,
        ];
        let mut values = vec![ValueRef::Null, ValueRef::Blob(b"12"), ValueRef::Text(b"\xff")];
        values.extend([0, 1, -1, i64::MAX, i64::MIN].map(ValueRef::Integer));
        values.extend(reals.map(ValueRef::Real));
        values.extend(texts.map(|text| ValueRef::Text(text.as_bytes())));
        values
    }

    /// Trap 8: whatever is called kept comes back from SQLite as the same value.
    #[test]
    fn what_is_called_kept_is_kept() {
        let values = values();
        let connection = Connection::open_in_memory().unwrap();
        let mut kept = 0;
        for (declared, affinity) in AFFINITIES {
            let sql = format!("CREATE TABLE t (c {declared})");
            connection.execute_batch(&format!("DROP TABLE IF EXISTS t; {sql}")).unwrap();
            for value in &values {
                if !affinity.keeps(*value) {
                    continue;
                }
                kept += 1;
                let same = |row: &rusqlite::Row<'_>| {
                    Ok(match (row.get_ref(0)?, *value) {
                        (Stored::Null, ValueRef::Null) => true,
                        (Stored::Integer(a), ValueRef::Integer(b)) => a == b,
                        (Stored::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
                        (Stored::Text(a), ValueRef::Text(b)) => a == b,
                        (Stored::Blob(a), ValueRef::Blob(b)) => a == b,
                        _ => false,
                    })
                };
                connection.execute("DELETE FROM t", []).unwrap();
                let bound = crate::sqlite::values::Bind(*value);
                connection.execute("INSERT INTO t VALUES (?1)", [bound]).unwrap();
                let same = connection.query_row("SELECT c FROM t", [], same).unwrap();
                assert!(same, "{value:?} in {declared}");
            }
        }
        assert!(kept > 150, "{kept}");
        // What a center sees all day must be among it.
        assert!(Affinity::Numeric.keeps(ValueRef::Text(b"2026-01-02")));
        assert!(Affinity::Numeric.keeps(ValueRef::Real(123_456_789.12)));
    }

    #[test]
    fn affinities_follow_the_declared_type() {
        let column = |declared: &str| UserColumn {
            name: "c".into(),
            declared_type: declared.into(),
            not_null: false,
            default: None,
            collation: "BINARY".into(),
            generated: false,
        };
        for (declared, affinity) in AFFINITIES {
            assert_eq!(Affinity::of(&column(declared)), affinity, "{declared}");
        }
    }
}
