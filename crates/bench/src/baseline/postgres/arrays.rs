//! Columns of rows as arrays for PostgreSQL, stored encoded so that sending them is a copy.

use bytes::{BufMut, BytesMut};
use std::error::Error;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

/// Values of one column without gaps, each after its length and all of the same size.
pub(super) struct Column {
    bytes: Vec<u8>,
    stride: usize,
}

impl Column {
    /// `append` writes a value, which takes as many bytes as every other.
    pub(super) fn new<T>(
        rows: &[T],
        kind: &Type,
        append: impl Fn(&T, &Type, &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>>,
    ) -> Result<Column, Box<dyn Error + Sync + Send>> {
        let (mut bytes, mut value) = (Vec::new(), BytesMut::new());
        for row in rows {
            value.clear();
            append(row, kind, &mut value)?;
            bytes.put_i32(value.len().try_into()?);
            bytes.extend_from_slice(&value);
        }
        let stride = bytes.len() / rows.len().max(1);
        Ok(Column { bytes, stride })
    }
}

/// What is sent of a column.
enum Values<'a> {
    /// The first values of those that are encoded.
    Encoded(&'a Column),
    /// The same value again and again.
    Same(i32),
    /// Numbers from this one on.
    Counted(i32),
    /// So many numbers, each that many more than the one before; then the next so many, which
    /// begin where these began and that far on.
    Leaping { first: i32, run: u32, step: i32, leap: i32 },
}

/// An array of so many values.
pub(super) struct Array<'a> {
    values: Values<'a>,
    len: u32,
}

impl<'a> Array<'a> {
    pub(super) fn encoded(column: &'a Column, len: u32) -> Array<'a> {
        Array { values: Values::Encoded(column), len }
    }

    pub(super) fn same(value: i32, len: u32) -> Array<'a> {
        Array { values: Values::Same(value), len }
    }

    pub(super) fn counted(first: i32, len: u32) -> Array<'a> {
        Array { values: Values::Counted(first), len }
    }

    /// Runs of so many numbers, the first of each run `leap` behind the one before.
    pub(super) fn leaping(first: i32, (run, step): (u32, i32), leap: i32, len: u32) -> Array<'a> {
        Array { values: Values::Leaping { first, run, step, leap }, len }
    }
}

impl std::fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values", self.len)
    }
}

impl ToSql for Array<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(element) = kind.kind() else {
            return Err("an array is sent where none is wanted".into());
        };
        // Dimensions, whether any value is NULL, type of the values; length, first index.
        out.put_i32(1);
        out.put_i32(0);
        out.put_u32(element.oid());
        out.put_u32(self.len);
        out.put_i32(1);
        match &self.values {
            Values::Encoded(column) => {
                let end = self.len as usize * column.stride;
                out.put_slice(column.bytes.get(..end).ok_or("a column is too short")?);
            }
            Values::Same(value) => numbers(out, self.len, std::iter::repeat(*value)),
            Values::Counted(first) => numbers(out, self.len, *first..),
            Values::Leaping { first, run, step, leap } => {
                let number = |at: u32| first + (at / run) as i32 * leap + (at % run) as i32 * step;
                numbers(out, self.len, (0..self.len).map(number));
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(kind.kind(), Kind::Array(_))
    }

    to_sql_checked!();
}

/// The first of these numbers, four bytes each behind their length.
fn numbers(out: &mut BytesMut, len: u32, numbers: impl Iterator<Item = i32>) {
    out.reserve(len as usize * 8);
    for number in numbers.take(len as usize) {
        out.put_u64((4 << 32) | u64::from(number as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_spelled_as_others_spell_them() {
        let check = |array: Array<'_>, wanted: &dyn ToSql, kind: &Type| {
            let (mut ours, mut theirs) = (BytesMut::new(), BytesMut::new());
            array.to_sql_checked(kind, &mut ours).unwrap();
            wanted.to_sql_checked(kind, &mut theirs).unwrap();
            assert_eq!(ours, theirs);
        };
        check(Array::same(-7, 3), &vec![-7, -7, -7], &Type::INT4_ARRAY);
        check(Array::counted(5, 4), &vec![5, 6, 7, 8], &Type::INT4_ARRAY);
        let leaping = Array::leaping(5, (2, 1), 10, 5);
        check(leaping, &vec![5, 6, 15, 16, 25], &Type::INT4_ARRAY);
        check(Array::leaping(5, (2, 0), 10, 3), &vec![5, 5, 15], &Type::INT4_ARRAY);
        let texts = ["one", "two", "six"];
        let append = |text: &&str, kind: &Type, out: &mut BytesMut| text.to_sql(kind, out);
        let column = Column::new(&texts, &Type::TEXT, append).unwrap();
        check(Array::encoded(&column, 2), &vec!["one", "two"], &Type::TEXT_ARRAY);
        let array = Array::encoded(&column, 4);
        assert!(array.to_sql_checked(&Type::TEXT_ARRAY, &mut BytesMut::new()).is_err());
        assert!(Array::same(1, 1).to_sql_checked(&Type::INT4, &mut BytesMut::new()).is_err());
    }
}
