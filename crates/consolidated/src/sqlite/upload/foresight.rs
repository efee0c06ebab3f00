//! Foresees conflicts, where the rows before had one.
//!
//! A row with a conflict takes two statements: the one that applies it and finds nothing, and the
//! one that looks the row up. Conflicts come in numbers, so after some of them a row is looked up
//! first. If it is certain that the other statement would find nothing, that one does not run.

use super::input::Turn;
use crate::quote::ident;
use crate::script::{Parameter, Script};
use crate::synchronization::change::Change;
use model::{Failure, RowReader, ValueRef};

/// After so many conflicts, one directly after the other, the next row may have one too.
pub(super) const ENOUGH: u32 = 2;

/// A table and a change, and the positions of the columns that its script compares.
pub(super) type Compared = (usize, Change, Vec<usize>);

/// Whether the script of a row certainly finds nothing, because the row is so `now`. What it
/// compares is `known` from the row before.
pub(super) fn is_certain(
    known: &mut Option<Compared>,
    script: &Script,
    turn: Turn<'_>,
    now: &[u8],
) -> Result<bool, Failure> {
    let (position, change) = (turn.position, turn.row.change);
    let same = known.take_if(|(of, kind, _)| (*of, *kind) == (position, change));
    let columns = || compared(script, &turn.table.published.columns);
    let (.., columns) = known.insert(same.unwrap_or_else(|| (position, change, columns())));
    differs_surely(columns, &turn.row.old, now)
}

/// The columns that a generated script compares with the row that the remote saw. It names each in
/// a condition of its own, and all of them must hold.
fn compared(script: &Script, columns: &[String]) -> Vec<usize> {
    let is_compared = |at: &usize| {
        let index = script.parameters.iter().position(|it| *it == Parameter::Old(*at));
        index.is_some_and(|index| {
            let condition =
                format!("\n  AND {} COLLATE BINARY IS ?{}", ident(&columns[*at]), index + 1);
            let behind = script.sql.split_once(&condition).map(|(_, behind)| behind);
            behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    (0..columns.len()).filter(is_compared).collect()
}

/// Whether SQLite would call one of `columns` different. What it may convert before it compares is
/// not certain: numbers of two kinds, text with a number, and text that a database of UTF-16 cannot
/// keep as it is.
fn differs_surely(columns: &[usize], old: &[ValueRef<'_>], now: &[u8]) -> Result<bool, Failure> {
    let (mut reader, mut columns) = (RowReader::new(now), columns.iter().peekable());
    for (at, old) in old.iter().enumerate() {
        let now = reader.value()?;
        if columns.next_if_eq(&&at).is_none() {
            continue;
        }
        let differs = match (*old, now) {
            (ValueRef::Null, ValueRef::Null) => false,
            (ValueRef::Null, _) | (_, ValueRef::Null) => true,
            (ValueRef::Integer(a), ValueRef::Integer(b)) => a != b,
            (ValueRef::Blob(a), ValueRef::Blob(b)) => a != b,
            (ValueRef::Text(a), ValueRef::Text(b)) => a != b && is_kept(a) && is_kept(b),
            // SQLite makes NULL of a NaN.
            (ValueRef::Real(a), ValueRef::Real(b)) => a != b && !a.is_nan() && !b.is_nan(),
            _ => false,
        };
        if differs {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a text is the same after SQLite has made UTF-16 of it. It replaces what is no character.
fn is_kept(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Direction, PublishedTable, write_value};

    fn differ(old: ValueRef<'_>, now: ValueRef<'_>) -> bool {
        let mut image = Vec::new();
        [ValueRef::Integer(1), now].iter().for_each(|value| write_value(&mut image, *value));
        differs_surely(&[1], &[ValueRef::Integer(2), old], &image).unwrap()
    }

    // S5: a value that SQLite calls equal is no conflict, however it is written.
    #[test]
    fn what_may_be_equal_does_not_differ_surely() {
        use ValueRef::{Blob, Integer, Null, Real, Text};
        for (old, now) in [
            (Integer(1), Real(1.0)),
            (Text(b"1"), Integer(1)),
            (Text(b"1"), Blob(b"1")),
            (Real(0.0), Real(-0.0)),
            (Real(f64::NAN), Real(1.0)),
            (Null, Null),
            (Text(b"a\xff"), Text("a\u{fffd}".as_bytes())),
        ] {
            assert!(!differ(old, now) && !differ(now, old), "{old:?} {now:?}");
        }
        for (old, now) in [
            (Integer(1), Integer(2)),
            (Text(b"a"), Text(b"A")),
            (Text(b"a"), Text(b"a ")),
            (Text("ä".as_bytes()), Text("ö".as_bytes())),
            (Blob(b"a"), Blob(b"b")),
            (Real(1.0), Real(1.5)),
            (Null, Text(b"")),
        ] {
            assert!(differ(old, now) && differ(now, old), "{old:?} {now:?}");
        }
    }

    #[test]
    fn only_what_a_script_compares_counts() {
        let columns: Vec<String> = (0..12).map(|at| format!("c{at}")).collect();
        let table = PublishedTable {
            compress: true,
            fires: false,
            name: "t".into(),
            columns: columns.clone(),
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        };
        let of = |conditions: &str| {
            let text = format!("DELETE FROM t\nWHERE c0 = {{o.c0}}{conditions}");
            compared(&Script::parse(&text, &table).unwrap(), &columns)
        };
        assert_eq!(of(""), [0; 0]);
        assert_eq!(of("\n  AND \"c2\" COLLATE BINARY IS {o.c2}\n  AND c3 = {o.c3}"), [2]);
        assert_eq!(of("\n  AND (\"c2\" COLLATE BINARY IS {o.c2} OR 1)"), [0; 0]);
        // The value of another column.
        let others: String = (3..12).map(|at| format!("\n  AND c{at} IS {{o.c{at}}}")).collect();
        assert_eq!(of(&format!("{others}\n  AND \"c1\" COLLATE BINARY IS {{o.c11}}")), [0; 0]);
    }
}
