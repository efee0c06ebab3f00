//! The table of the published measurements, and rows for it that anybody can work out.
//!
//! A row follows from its client and its number alone, so that clients, consolidated database and
//! the final comparison need not tell each other what they wrote.

use super::tally::Tally;
use crate::args::Operation;
use model::{Code, Failure, ValueRef, write_value};
use std::fmt::Write as _;

/// The columns, in order.
pub(super) const COLUMNS: [&str; 6] =
    ["emp_id", "purch_id", "cust_id", "cost", "order_date", "notes"];

/// What stands between the parentheses of CREATE TABLE.
pub(super) const DEFINITION: &str = "
    emp_id INT NOT NULL,
    purch_id INT NOT NULL,
    cust_id INT NOT NULL,
    cost NUMERIC(30,6) NOT NULL,
    order_date TIMESTAMP NOT NULL,
    notes VARCHAR(64),
    PRIMARY KEY (emp_id, purch_id)";

/// Integers begin here, large enough not to shrink on the wire.
const EMPLOYEE_FIRST: i64 = 100_000_000;
const PURCHASE_FIRST: i64 = 200_000_000;
const CUSTOMER_FIRST: i64 = 300_000_000;

/// Where rows begin that only the measurement of the bare database uses.
pub(super) const CEILING_CLIENT_FIRST: u32 = 500_000_000;

/// How large a table and its parts are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) operation: Operation,
    pub(super) rows: u32,
    pub(super) sets: u32,
}

impl Layout {
    /// The rows of a client that set number `set` is about.
    pub(super) fn set(&self, client: u32, set: u32) -> impl Iterator<Item = Purchase> + use<> {
        // Number 0 is a row that nobody ever touches, so that there is always one to compare.
        let first = 1 + u64::from(set) * u64::from(self.rows);
        let rows = u64::from(self.rows);
        (first..first + rows).map(move |number| Purchase { client, number, changed: false })
    }

    /// The rows of a client that are at the consolidated database before anything is timed.
    pub(super) fn initial(&self, client: u32) -> impl Iterator<Item = Purchase> + use<> {
        let sets = match self.operation {
            Operation::Download | Operation::UploadInsert => 0,
            Operation::UploadUpdate | Operation::UploadDelete => self.sets,
        };
        let rows = 1 + u64::from(sets) * u64::from(self.rows);
        (0..rows).map(move |number| Purchase { client, number, changed: false })
    }

    /// The rows of a client that both ends must have when everything was done.
    pub(super) fn last(&self, client: u32) -> impl Iterator<Item = Purchase> + use<> {
        let sets = match self.operation {
            Operation::UploadDelete => 0,
            _ => self.sets,
        };
        let changed = self.operation == Operation::UploadUpdate;
        let rows = 1 + u64::from(sets) * u64::from(self.rows);
        (0..rows).map(move |number| Purchase { client, number, changed: changed && number > 0 })
    }

    /// What [`Layout::last`] comes to.
    pub(super) fn last_tally(&self, client: u32) -> Tally {
        self.last(client).map(|purchase| Tally::of(purchase.digest())).sum()
    }
}

/// The value of `emp_id` of a client, by which the model divides the table.
pub(super) fn employee(client: u32) -> i64 {
    EMPLOYEE_FIRST + i64::from(client)
}

/// Which client has this `emp_id`.
pub(super) fn client_of(employee: i64) -> Option<u32> {
    u32::try_from(employee.checked_sub(EMPLOYEE_FIRST)?).ok()
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purchase {
    client: u32,
    number: u64,
    changed: bool,
}

impl Purchase {
    /// The row as an update leaves it: one more on the cost.
    pub(super) fn after_update(self) -> Purchase {
        Purchase { changed: true, ..self }
    }

    pub(super) fn employee(&self) -> i64 {
        employee(self.client)
    }

    pub(super) fn id(&self) -> i64 {
        PURCHASE_FIRST + self.number as i64
    }

    pub(super) fn customer(&self) -> i64 {
        CUSTOMER_FIRST + (self.draw(0) % 1_000_000) as i64
    }

    /// The cost as a database with decimal numbers spells it.
    pub(super) fn cost(&self) -> &'static str {
        if self.changed { "123456790.120000" } else { "123456789.120000" }
    }

    /// The cost as a database without decimal numbers has it.
    pub(super) fn cost_real(&self) -> f64 {
        if self.changed { 123_456_790.12 } else { 123_456_789.12 }
    }

    /// A moment whose last digit is not zero, so that nobody shortens it.
    pub(super) fn order_date(&self) -> String {
        let (day, hour, minute, micros) = self.moment();
        format!("2026-01-{:02} {hour:02}:{minute:02}:30.{micros:06}", day + 1)
    }

    /// The same moment in microseconds since the year 2000.
    pub(super) fn order_date_us(&self) -> i64 {
        const DAYS_TO_2026: u64 = 9497;
        let (day, hour, minute, micros) = self.moment();
        let minutes = ((DAYS_TO_2026 + day) * 24 + hour) * 60 + minute;
        ((minutes * 60 + 30) * 1_000_000 + micros) as i64
    }

    /// Day of the month from 0, hour, minute, microseconds.
    fn moment(&self) -> (u64, u64, u64, u64) {
        let draw = self.draw(1);
        (draw % 28, draw / 28 % 24, draw / 672 % 60, draw / 40_320 % 99_999 * 10 + 1)
    }

    /// Exactly 64 characters that do not compress.
    pub(super) fn notes(&self) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut notes = String::with_capacity(64);
        for word in 0..8 {
            let bits = self.draw(2 + word);
            notes.extend((0..8).map(|at| char::from(LETTERS[(bits >> (8 * at)) as usize % 64])));
        }
        notes
    }

    /// Bits that follow from the row and `which`.
    fn draw(&self, which: u64) -> u64 {
        let seed = (u64::from(self.client) << 40) ^ (self.number << 8) ^ which;
        mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15))
    }

    /// The row as `(…)` of an SQL statement. The cost is text, or it would lose its zeros in a
    /// column of text.
    pub(super) fn write_sql(&self, sql: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(
            sql,
            "({}, {}, {}, '{}', '{}', '{}')",
            self.employee(),
            self.id(),
            self.customer(),
            self.cost(),
            self.order_date(),
            self.notes()
        );
    }

    /// Appends the row in the format of the wire.
    pub(super) fn write_row(&self, out: &mut Vec<u8>, cost_as_text: bool) {
        for id in [self.employee(), self.id(), self.customer()] {
            write_value(out, ValueRef::Integer(id));
        }
        write_value(
            out,
            match cost_as_text {
                true => ValueRef::Text(self.cost().as_bytes()),
                false => ValueRef::Real(self.cost_real()),
            },
        );
        write_value(out, ValueRef::Text(self.order_date().as_bytes()));
        write_value(out, ValueRef::Text(self.notes().as_bytes()));
    }

    pub(super) fn digest(&self) -> u64 {
        digest(
            [self.employee(), self.id(), self.customer()],
            self.cost(),
            &self.order_date(),
            &self.notes(),
        )
    }
}

/// A number for the content of a row, the same wherever the row lies.
pub(super) fn digest(ids: [i64; 3], cost: &str, order_date: &str, notes: &str) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    };
    for id in ids {
        add(&id.to_le_bytes());
    }
    for text in [cost, order_date, notes] {
        add(text.as_bytes());
        add(&[0]);
    }
    mix(hash)
}

/// The digest of a row as SQLite or the wire has it.
pub(super) fn digest_of_values(values: &[ValueRef<'_>]) -> Result<u64, Failure> {
    let strange = || Failure::new(Code::BenchmarkWrong, "a row has values of other types");
    let &[
        ValueRef::Integer(employee),
        ValueRef::Integer(id),
        ValueRef::Integer(customer),
        ref rest @ ..,
    ] = values
    else {
        return Err(strange());
    };
    let &[cost, ValueRef::Text(order_date), ValueRef::Text(notes)] = rest else {
        return Err(strange());
    };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| strange());
    let formatted;
    let cost = match cost {
        ValueRef::Real(real) => {
            formatted = format!("{real:.6}");
            &formatted
        }
        ValueRef::Text(bytes) => text(bytes)?,
        _ => return Err(strange()),
    };
    Ok(digest([employee, id, customer], cost, text(order_date)?, text(notes)?))
}

/// Spreads every bit of its argument over all of the result.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{RowReader, ValueRef};

    const LAYOUT: Layout = Layout { operation: Operation::UploadUpdate, rows: 10, sets: 3 };

    #[test]
    fn a_row_has_the_published_size_and_the_same_digest_everywhere() {
        for (purchase, cost_as_text) in LAYOUT.initial(7).flat_map(|p| [(p, true), (p, false)]) {
            let mut row = Vec::new();
            purchase.write_row(&mut row, cost_as_text);
            assert!(row.len() >= 92, "{}", row.len());
            let mut reader = RowReader::new(&row);
            let values: Vec<ValueRef<'_>> = (0..6).map(|_| reader.value().unwrap()).collect();
            assert_eq!(digest_of_values(&values).unwrap(), purchase.digest());
            assert_eq!(purchase.notes().len(), 64);
        }
    }

    #[test]
    fn sets_are_disjoint_and_make_up_the_table() {
        let keys = |rows: &mut dyn Iterator<Item = Purchase>| -> Vec<i64> {
            rows.map(|purchase| purchase.id()).collect()
        };
        let mut all: Vec<i64> = (0..3).flat_map(|set| keys(&mut LAYOUT.set(1, set))).collect();
        all.push(PURCHASE_FIRST);
        all.sort_unstable();
        assert_eq!(all, keys(&mut LAYOUT.initial(1)));
        assert_eq!(all, keys(&mut LAYOUT.last(1)));
        let inserts = Layout { operation: Operation::UploadInsert, ..LAYOUT };
        assert_eq!((inserts.initial(1).count(), inserts.last(1).count()), (1, 31));
        let deletes = Layout { operation: Operation::UploadDelete, ..LAYOUT };
        assert_eq!((deletes.initial(1).count(), deletes.last(1).count()), (31, 1));
    }

    #[test]
    fn a_changed_row_is_noticed() {
        let purchase = LAYOUT.initial(1).last().unwrap();
        assert_ne!(purchase.digest(), purchase.after_update().digest());
    }
}
