//! A snapshot of PostgreSQL: which transactions it shows.
//!
//! It shows all transactions below `xmin`, and all below `xmax` that were not open. An open
//! transaction may commit later, so only the whole list is exact (trap 1).

use bytes::{BufMut, BytesMut};
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use std::error::Error;

/// What `pg_current_snapshot()` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Snapshot {
    pub(in crate::postgres) xmin: u64,
    pub(in crate::postgres) xmax: u64,
    /// In order, from `xmin`, below `xmax`.
    in_flight: Vec<u64>,
}

impl Snapshot {
    /// Reads the text form: `xmin:xmax:x,y,z`.
    pub(in crate::postgres) fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let list = parts.next().filter(|list| !list.is_empty());
        let in_flight = list.into_iter().flat_map(|list| list.split(','));
        let in_flight = in_flight.map(|number| number.parse().ok()).collect::<Option<_>>()?;
        Some(Snapshot { xmin, xmax, in_flight })
    }

    /// Shows less than `self`, and needs no list: nothing from `xmin` on.
    pub(in crate::postgres) fn coarse(&self) -> Snapshot {
        Snapshot { xmin: self.xmin, xmax: self.xmin, in_flight: Vec::new() }
    }

    /// Shows what `self` shows of the transactions below `end`.
    pub(in crate::postgres) fn below(&self, end: u64) -> Snapshot {
        let xmax = self.xmax.min(end);
        let in_flight = self.in_flight.iter().copied().filter(|t| *t < xmax).collect();
        Snapshot { xmin: self.xmin.min(xmax), xmax, in_flight }
    }

    /// Whether everything that `self` shows, `other` shows too.
    pub(in crate::postgres) fn is_within(&self, other: &Snapshot) -> bool {
        let hidden = other.in_flight.iter().take_while(|transaction| **transaction < self.xmax);
        self.xmax <= other.xmax
            && hidden.into_iter().all(|t| self.in_flight.binary_search(t).is_ok())
    }

    /// Appends a short form: each number as its distance from the one before.
    pub(in crate::postgres) fn write(&self, out: &mut Vec<u8>) {
        write_number(out, self.xmin);
        write_number(out, self.xmax - self.xmin);
        write_number(out, self.in_flight.len() as u64);
        let mut before = self.xmin;
        for transaction in &self.in_flight {
            write_number(out, transaction - before);
            before = *transaction;
        }
    }

    /// Reads what [`Snapshot::write`] wrote, up to the end of `bytes`.
    pub(in crate::postgres) fn read(mut bytes: &[u8]) -> Option<Snapshot> {
        let xmin = read_number(&mut bytes)?;
        let xmax = xmin.checked_add(read_number(&mut bytes)?)?;
        let count = read_number(&mut bytes)?;
        let (mut in_flight, mut before) = (Vec::new(), xmin);
        for _ in 0..count {
            before = before.checked_add(read_number(&mut bytes)?)?;
            in_flight.push(before);
        }
        let ordered = in_flight.windows(2).all(|pair| pair[0] < pair[1]);
        let below = in_flight.last().is_none_or(|last| *last < xmax);
        (bytes.is_empty() && ordered && below).then_some(Snapshot { xmin, xmax, in_flight })
    }
}

impl ToSql for Snapshot {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(i32::try_from(self.in_flight.len())?);
        for number in [&self.xmin, &self.xmax].into_iter().chain(&self.in_flight) {
            out.put_u64(*number);
        }
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::PG_SNAPSHOT
    }

    to_sql_checked!();
}

/// The number of a transaction as a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) struct Xid8(pub(in crate::postgres) u64);

impl ToSql for Xid8 {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u64(self.0);
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::XID8
    }

    to_sql_checked!();
}

/// Seven bits a byte, the highest bit where more follow.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 127);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 128 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text).unwrap()
    }

    fn any_snapshot() -> impl Strategy<Value = Snapshot> {
        (1..1_u64 << 40, proptest::collection::btree_set(0..5000_u64, 0..300)).prop_map(
            |(xmin, set)| {
                let in_flight: Vec<u64> = set.into_iter().map(|offset| xmin + offset).collect();
                let xmax = in_flight.last().map_or(xmin, |last| last + 1);
                Snapshot { xmin, xmax, in_flight }
            },
        )
    }

    proptest! {
        #[test]
        fn a_snapshot_comes_back(snapshot in any_snapshot()) {
            let mut bytes = Vec::new();
            snapshot.write(&mut bytes);
            prop_assert_eq!(Snapshot::read(&bytes), Some(snapshot.clone()));
            let list: Vec<String> = snapshot.in_flight.iter().map(u64::to_string).collect();
            let text = format!("{}:{}:{}", snapshot.xmin, snapshot.xmax, list.join(","));
            prop_assert_eq!(Snapshot::parse(&text), Some(snapshot));
        }

        #[test]
        fn rubbish_is_none_and_never_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60)
        ) {
            if let Some(snapshot) = Snapshot::read(&bytes) {
                prop_assert!(snapshot.xmin <= snapshot.xmax);
            }
        }
    }

    // Trap 2
    #[test]
    fn a_snapshot_is_within_one_that_shows_all_of_it() {
        for (one, other, within) in [
            ("10:20:10,15", "10:20:10,15", true),
            ("10:20:10,15", "10:25:15,22", true),
            ("10:20:10,15", "20:20:", true),
            ("10:20:", "10:25:12", false),
            ("10:20:12", "10:19:", false),
            ("10:10:", "10:30:10,11,12", true),
        ] {
            assert_eq!(snapshot(one).is_within(&snapshot(other)), within, "{one} in {other}");
        }
        assert_eq!(snapshot("10:20:10,15").below(14), snapshot("10:14:10"));
        assert_eq!(snapshot("10:20:10,15").below(7), snapshot("7:7:"));
        assert!(snapshot("10:20:12").coarse().is_within(&snapshot("10:20:12")));
    }
}
