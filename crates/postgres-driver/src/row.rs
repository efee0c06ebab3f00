//! Rows of a result: borrowed where they arrived, or kept.

use crate::message::garbled;
use postgres_types::{FromSql, Type, WrongType};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_: Type,
}

/// A row in the buffer in which it arrived. Invariant: it has a value for every column.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'r> {
    columns: &'r Arc<[Column]>,
    /// For each column the length, -1 for NULL, and the bytes.
    values: &'r [u8],
}

impl<'r> RowRef<'r> {
    /// The row of a message's body.
    #[inline]
    pub(crate) fn new(columns: &'r Arc<[Column]>, body: &'r [u8]) -> io::Result<RowRef<'r>> {
        let wrong = || garbled("a row does not have the columns of its result");
        let (count, values) = body.split_first_chunk().ok_or_else(wrong)?;
        let mut rest = Values(values);
        if usize::from(u16::from_be_bytes(*count)) != columns.len()
            || columns.iter().any(|_| rest.next().is_none())
            || !rest.0.is_empty()
        {
            return Err(wrong());
        }
        Ok(RowRef { columns, values })
    }

    /// The columns, in their order.
    pub fn columns(&self) -> &'r [Column] {
        self.columns
    }

    /// The bytes of each column; none for NULL.
    #[inline]
    pub fn values(&self) -> Values<'r> {
        Values(self.values)
    }

    /// Reads the column at `at`.
    pub fn try_get<T: FromSql<'r>>(&self, at: usize) -> Result<T, Unreadable> {
        let unreadable = |cause| Unreadable { at, cause };
        let (Some(column), Some(value)) = (self.columns.get(at), self.values().nth(at)) else {
            return Err(unreadable("there is no such column".into()));
        };
        if !T::accepts(&column.type_) {
            return Err(unreadable(Box::new(WrongType::new::<T>(column.type_.clone()))));
        }
        T::from_sql_nullable(&column.type_, value).map_err(unreadable)
    }

    /// Keeps the row.
    pub fn to_row(self) -> Row {
        Row { columns: self.columns.clone(), values: self.values.into() }
    }
}

/// The bytes of a row's columns, one after the other.
#[derive(Debug, Clone)]
pub struct Values<'r>(&'r [u8]);

impl<'r> Iterator for Values<'r> {
    type Item = Option<&'r [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'r [u8]>> {
        let (len, rest) = self.0.split_first_chunk()?;
        let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
            self.0 = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(Some(value))
    }
}

/// A row that is kept.
#[derive(Debug, Clone)]
pub struct Row {
    columns: Arc<[Column]>,
    values: Box<[u8]>,
}

impl Row {
    /// The row, to be read.
    pub fn borrowed(&self) -> RowRef<'_> {
        RowRef { columns: &self.columns, values: &self.values }
    }

    /// Reads the column at `at`.
    pub fn try_get<'r, T: FromSql<'r>>(&'r self, at: usize) -> Result<T, Unreadable> {
        self.borrowed().try_get(at)
    }

    /// The columns, in their order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

/// A column does not hold what it is read as.
#[derive(Debug)]
pub struct Unreadable {
    at: usize,
    cause: Box<dyn Error + Sync + Send>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of a result cannot be read", self.at)
    }
}

impl Error for Unreadable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(count: usize) -> Arc<[Column]> {
        vec![Column { name: "c".to_owned(), type_: Type::BYTEA }; count].into()
    }

    fn body(values: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            let len = value.as_ref().map_or(-1, |value| value.len() as i32);
            body.extend_from_slice(&len.to_be_bytes());
            body.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        body
    }

    proptest! {
        #[test]
        fn rubbish_is_no_row_and_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            count in 0_usize..4,
        ) {
            let columns = columns(count);
            if let Ok(row) = RowRef::new(&columns, &bytes) {
                prop_assert_eq!(row.values().count(), count);
            }
        }

        #[test]
        fn values_come_back(
            values in proptest::collection::vec(
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        ) {
            let columns = columns(values.len());
            let bytes = body(&values);
            let row = RowRef::new(&columns, &bytes).unwrap();
            let back: Vec<Option<Vec<u8>>> =
                row.values().map(|value| value.map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(&back, &values);
            for (at, value) in values.iter().enumerate() {
                prop_assert_eq!(&row.try_get::<Option<Vec<u8>>>(at).unwrap(), value);
            }
            prop_assert!(row.try_get::<Option<Vec<u8>>>(values.len()).is_err());
        }
    }

    #[test]
    fn a_row_with_other_columns_is_refused() {
        let bytes = body(&[Some(vec![1]), None]);
        assert!(RowRef::new(&columns(1), &bytes).is_err());
        assert!(RowRef::new(&columns(3), &bytes).is_err());
        let columns = columns(2);
        assert!(RowRef::new(&columns, &[&bytes[..], &[0]].concat()).is_err());
        assert!(RowRef::new(&columns, &bytes[..bytes.len() - 1]).is_err());
        let row = RowRef::new(&columns, &bytes).unwrap();
        assert!(row.try_get::<i64>(0).is_err(), "another type");
        assert!(row.try_get::<Vec<u8>>(1).is_err(), "NULL");
    }
}
