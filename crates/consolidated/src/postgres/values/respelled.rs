//! Equal values in other notations than the center's own (trap 8).
//!
//! Two notations of one moment, number, UUID or interval are one value to the database. An uploaded
//! row is taken in the notation in which the center would send it. So every comparison that follows
//! is of values, although it is of bytes: what is a change, a conflict, an echo. A value that the
//! column would round or cut stays as it is, and is another one.

use crate::postgres::values::{ColumnType, Kind, NumericAs, datetime, interval};
use model::{Failure, RowReader, ValueRef, write_value};

/// Digits of a second that the database keeps.
const SECOND_DIGITS: usize = 6;

/// Uploaded rows with `columns`, in the notation of the center; none if they are in it already.
/// `images`: how many of each row there are. Keys at the positions `key` stay: in another notation
/// they are refused.
pub(in crate::postgres) fn respelled(
    columns: &[ColumnType],
    key: &[u16],
    rows: &[u8],
    (count, images): (u32, usize),
) -> Result<Option<Vec<u8>>, Failure> {
    let is_key = |at: usize| key.iter().any(|key| usize::from(*key) == at);
    if !columns.iter().enumerate().any(|(at, column)| column.has_notations() && !is_key(at)) {
        return Ok(None);
    }
    let (mut reader, mut out) = (RowReader::new(rows), None::<Vec<u8>>);
    let (mut element, mut value) = (Vec::new(), Vec::new());
    for _ in 0..count as usize * images {
        for (at, column) in columns.iter().enumerate() {
            let from = rows.len() - reader.rest().len();
            let sent = reader.value()?;
            let bytes = &rows[from..rows.len() - reader.rest().len()];
            value.clear();
            let differs = !is_key(at)
                && column.respell(sent, &mut element, &mut value)
                && value.as_slice() != bytes;
            match (&mut out, differs) {
                (Some(out), false) => out.extend_from_slice(bytes),
                (Some(out), true) => out.extend_from_slice(&value),
                (None, false) => {}
                (none, true) => {
                    let mut begun = Vec::with_capacity(rows.len() + rows.len() / 8);
                    begun.extend_from_slice(&rows[..from]);
                    begun.extend_from_slice(&value);
                    *none = Some(begun);
                }
            }
        }
    }
    Ok(out)
}

impl ColumnType {
    /// Whether one value of the column may have several notations.
    fn has_notations(&self) -> bool {
        !matches!(self.kind, Kind::Text | Kind::Bytea | Kind::Other)
    }

    /// Writes `value` as the center would send it. False if it is to stay as it is. `element` is
    /// memory for the way.
    fn respell(&self, value: ValueRef<'_>, element: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
        match (self.kind, value) {
            (_, ValueRef::Null | ValueRef::Absent) => return false,
            (Kind::Text | Kind::Bytea | Kind::Other, _) => return false,
            (Kind::Bool | Kind::Int2 | Kind::Int4 | Kind::Int8, ValueRef::Integer(_)) => {
                return false;
            }
            (Kind::Numeric(NumericAs::Integer | NumericAs::Numeric), ValueRef::Integer(_)) => {
                return false;
            }
            // A single would be rounded, and be another value.
            (Kind::Float4 | Kind::Float8, ValueRef::Integer(i)) => {
                let real = i as f64;
                let is_kept = self.kind == Kind::Float8 || f64::from(real as f32) == real;
                let is_exact = is_kept && real as i128 == i128::from(i);
                write_value(out, ValueRef::Real(real));
                return is_exact;
            }
            (Kind::Float4 | Kind::Float8, _) => return false,
            (Kind::Interval, ValueRef::Text(text)) => {
                return interval::write(text, out);
            }
            (Kind::Time | Kind::Timestamp | Kind::Timestamptz, ValueRef::Text(text))
                if datetime::second_digits(text) > SECOND_DIGITS =>
            {
                return false;
            }
            _ => {}
        }
        element.clear();
        if self.write_element(value, element).is_err() {
            return false;
        }
        let raw = &mut element[4..];
        if let (Some(scale), Kind::Numeric(NumericAs::Text)) = (self.scale, self.kind) {
            set_scale(raw, scale);
        }
        self.reading().write(Some(raw), out).is_ok()
    }
}

/// Gives a binary numeric the decimals of its column, where it has fewer.
fn set_scale(raw: &mut [u8], scale: u16) {
    let word = |at: usize| Some(u16::from_be_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
    let is_finite = word(4).is_some_and(|sign| sign == 0 || sign == 0x4000);
    if is_finite && word(6).is_some_and(|sent| sent < scale) {
        raw[6..8].copy_from_slice(&scale.to_be_bytes());
    }
}
