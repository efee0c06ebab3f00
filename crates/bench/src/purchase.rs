//! The table of the published measurements, and its rows.
//!
//! A row follows from its client and its number alone. So clients, consolidated database and the
//! final comparison need not exchange what they wrote.

use crate::options::Notes;
use model::{Code, Failure, ValueRef, write_value};
use std::fmt::Write as _;

/// A table of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// The published one.
    Purchase,
    /// Its lines, in the model that has them; of the same width and types.
    Line,
}

impl Table {
    /// Parents before children.
    pub(crate) const ALL: [Table; 2] = [Table::Purchase, Table::Line];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Purchase => "purchase",
            Table::Line => "purchase_line",
        }
    }

    /// The columns, in order; the first two are the key.
    pub(crate) fn columns(self) -> [&'static str; WIDTH] {
        match self {
            Table::Purchase => ["emp_id", "purch_id", "cust_id", "cost", "order_date", "notes"],
            Table::Line => ["emp_id", "line_id", "purch_id", "cost", "order_date", "notes"],
        }
    }

    /// The column by which the rows of an employee are distinguished.
    pub(crate) fn id_column(self) -> &'static str {
        self.columns()[1]
    }

    /// What stands between the parentheses of CREATE TABLE; lines are of a row of `parent`.
    pub(crate) fn definition(self, parent: &str, notes_len: usize) -> String {
        let [employee, id, third, cost, date, notes] = self.columns();
        let foreign_key = match self {
            Table::Purchase => String::new(),
            Table::Line => {
                format!(",\n    FOREIGN KEY ({employee}, {third}) REFERENCES {parent}")
            }
        };
        format!(
            "
    {employee} INT NOT NULL,
    {id} INT NOT NULL,
    {third} INT NOT NULL,
    {cost} NUMERIC(30,6) NOT NULL,
    {date} TIMESTAMP NOT NULL,
    {notes} VARCHAR({notes_len}),
    PRIMARY KEY ({employee}, {id}){foreign_key}"
        )
    }
}

/// Columns of every table.
pub(crate) const WIDTH: usize = 6;

/// Integers begin here, large enough not to shrink on the wire.
const EMPLOYEE_FIRST: i64 = 100_000_000;
const PURCHASE_FIRST: i64 = 200_000_000;
const CUSTOMER_FIRST: i64 = 300_000_000;

/// Where employees begin whom only the measurement of the bare database has.
pub(crate) const BASELINE_EMPLOYEE_FIRST: u32 = 500_000_000;

/// The value of `emp_id` of an employee, by which the model divides the tables.
pub(crate) fn employee_id(employee: u32) -> i64 {
    EMPLOYEE_FIRST + i64::from(employee)
}

/// What is written in notes that are text: as many as six bits count.
const WORDS: [&str; 64] = [
    "order",
    "delivery",
    "customer",
    "please",
    "before",
    "after",
    "noon",
    "morning",
    "call",
    "the",
    "and",
    "with",
    "without",
    "two",
    "three",
    "boxes",
    "pallet",
    "gate",
    "north",
    "south",
    "urgent",
    "return",
    "invoice",
    "paid",
    "cash",
    "card",
    "gift",
    "wrapped",
    "fragile",
    "heavy",
    "spare",
    "parts",
    "repair",
    "service",
    "visit",
    "again",
    "next",
    "week",
    "monday",
    "friday",
    "ring",
    "bell",
    "leave",
    "neighbor",
    "not",
    "at",
    "home",
    "office",
    "second",
    "floor",
    "warehouse",
    "checked",
    "missing",
    "damaged",
    "replaced",
    "discount",
    "agreed",
    "by",
    "phone",
    "to",
    "be",
    "confirmed",
    "in",
    "writing",
];

/// Who changed a row last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is unchanged since it was inserted.
    First,
    /// A remote: one more on the cost.
    ByRemote,
    /// A program at the center: two more on the cost.
    ByCenter,
}

/// One row, a purchase or a line of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purchase {
    pub(crate) employee: u32,
    pub(crate) number: u64,
    pub(crate) content: Content,
    /// The number of the purchase that it is a line of.
    pub(crate) parent: Option<u64>,
    pub(crate) notes: Notes,
    pub(crate) notes_len: usize,
}

impl Purchase {
    pub(crate) fn with(self, content: Content) -> Purchase {
        Purchase { content, ..self }
    }

    pub(crate) fn table(&self) -> Table {
        match self.parent {
            None => Table::Purchase,
            Some(_) => Table::Line,
        }
    }

    pub(crate) fn employee(&self) -> i64 {
        employee_id(self.employee)
    }

    pub(crate) fn id(&self) -> i64 {
        PURCHASE_FIRST + self.number as i64
    }

    /// The customer of a purchase, the purchase of a line.
    pub(crate) fn third(&self) -> i64 {
        match self.parent {
            None => CUSTOMER_FIRST + (self.draw(0) % 1_000_000) as i64,
            Some(number) => PURCHASE_FIRST + number as i64,
        }
    }

    /// The cost as a database with decimal numbers spells it.
    pub(crate) fn cost(&self) -> &'static str {
        match self.content {
            Content::First => "123456789.120000",
            Content::ByRemote => "123456790.120000",
            Content::ByCenter => "123456791.120000",
        }
    }

    /// The cost as a database without decimal numbers has it.
    pub(crate) fn cost_real(&self) -> f64 {
        match self.content {
            Content::First => 123_456_789.12,
            Content::ByRemote => 123_456_790.12,
            Content::ByCenter => 123_456_791.12,
        }
    }

    /// A time whose last digit is not zero, so that it is not shortened.
    pub(crate) fn order_date(&self) -> String {
        let (day, hour, minute, micros) = self.moment();
        format!("2026-01-{:02} {hour:02}:{minute:02}:30.{micros:06}", day + 1)
    }

    /// The same moment in microseconds since the year 2000.
    pub(crate) fn order_date_us(&self) -> i64 {
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

    /// Exactly so many characters.
    pub(crate) fn notes(&self) -> String {
        match self.notes {
            Notes::Random => self.letters(),
            Notes::Text => self.words(),
        }
    }

    /// Words, the last one cut off where the column ends.
    fn words(&self) -> String {
        let mut text = String::with_capacity(self.notes_len + 16);
        for draw in 2.. {
            // Six bits for each word.
            let bits = self.draw(draw);
            for at in 0..10 {
                if text.len() >= self.notes_len {
                    text.truncate(self.notes_len);
                    return text;
                }
                text.push_str(WORDS[(bits >> (6 * at)) as usize % WORDS.len()]);
                text.push(' ');
            }
        }
        text
    }

    /// Letters and digits by chance.
    fn letters(&self) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut notes = String::with_capacity(self.notes_len);
        for word in 0..self.notes_len as u64 / 8 {
            let bits = self.draw(2 + word);
            notes.extend((0..8).map(|at| char::from(LETTERS[(bits >> (8 * at)) as usize % 64])));
        }
        notes
    }

    /// Bits that follow from the row and `which`.
    fn draw(&self, which: u64) -> u64 {
        let seed = (u64::from(self.employee) << 40) ^ (self.number << 8) ^ which;
        mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15))
    }

    /// The row as `(…)` of an SQL statement. The cost is text, or it would lose its zeros in a
    /// column of text.
    pub(crate) fn write_sql(&self, sql: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(
            sql,
            "({}, {}, {}, '{}', '{}', '{}')",
            self.employee(),
            self.id(),
            self.third(),
            self.cost(),
            self.order_date(),
            self.notes()
        );
    }

    /// Appends the row in the format of the wire.
    pub(crate) fn write_row(&self, out: &mut Vec<u8>, cost_as_text: bool) {
        for id in [self.employee(), self.id(), self.third()] {
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

    /// Bytes of a row on the wire. The published 92 are its values without their lengths.
    pub(crate) fn bytes_on_wire(notes_len: usize, cost_as_text: bool) -> usize {
        let row = Purchase {
            employee: 0,
            number: 0,
            content: Content::First,
            parent: None,
            notes: Notes::Random,
            notes_len,
        };
        let mut bytes = Vec::new();
        row.write_row(&mut bytes, cost_as_text);
        bytes.len()
    }

    pub(crate) fn digest(&self) -> u64 {
        digest(
            [self.employee(), self.id(), self.third()],
            self.cost(),
            &self.order_date(),
            &self.notes(),
        )
    }
}

/// A number for the content of a row, the same wherever the row lies.
pub(crate) fn digest(ids: [i64; 3], cost: &str, order_date: &str, notes: &str) -> u64 {
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
pub(crate) fn digest_of_values(values: &[ValueRef<'_>]) -> Result<u64, Failure> {
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

    const ROW: Purchase = Purchase {
        employee: 7,
        number: 3,
        content: Content::First,
        parent: None,
        notes: Notes::Random,
        notes_len: 64,
    };

    #[test]
    fn a_row_has_one_size_on_the_wire_and_the_same_digest_everywhere() {
        let contents = [Content::First, Content::ByRemote, Content::ByCenter];
        let kinds = [Notes::Random, Notes::Text];
        for (content, notes) in contents.into_iter().zip(kinds.into_iter().cycle()) {
            for (notes_len, cost_as_text, bytes) in
                [(64, true, 125), (64, false, 117), (88, true, 149), (88, false, 141)]
            {
                let purchase = Purchase { notes, notes_len, ..ROW.with(content) };
                let mut row = Vec::new();
                purchase.write_row(&mut row, cost_as_text);
                assert_eq!(row.len(), bytes, "{notes_len} characters, text: {cost_as_text}");
                assert_eq!(Purchase::bytes_on_wire(notes_len, cost_as_text), bytes);
                let mut reader = RowReader::new(&row);
                let values: Vec<ValueRef<'_>> =
                    (0..WIDTH).map(|_| reader.value().unwrap()).collect();
                assert_eq!(digest_of_values(&values).unwrap(), purchase.digest());
                assert_eq!(purchase.notes().len(), notes_len);
            }
        }
    }

    #[test]
    fn only_text_compresses() {
        let packed = |notes| {
            let rows = (0..200).map(|number| Purchase { number, notes, ..ROW }.notes());
            let rows: String = rows.collect();
            let mut frame = Vec::new();
            let (operation, bytes) = (protocol::Operation::Upsert, rows.into_bytes());
            let rows = protocol::RowsFrame { table: 0, operation, count: 200, bytes };
            protocol::Message::Rows(rows).encode(&mut frame).unwrap();
            let (whole, mut compressor) = (frame.len(), protocol::Compressor::default());
            compressor.compress(protocol::Compression::Zstd, &mut frame).unwrap();
            frame.len() * 100 / whole
        };
        assert!(packed(Notes::Text) < 50, "{} percent", packed(Notes::Text));
        assert!(packed(Notes::Random) > 70, "{} percent", packed(Notes::Random));
    }

    #[test]
    fn a_changed_row_is_noticed() {
        let digests = [Content::First, Content::ByRemote, Content::ByCenter]
            .map(|content| ROW.with(content).digest());
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    }
}
