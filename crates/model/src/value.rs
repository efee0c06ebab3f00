//! One column of one row, in SQLite's five storage classes.

/// A value that borrows its text and bytes.
///
/// Text is bytes and not `str`: SQLite stores whatever it is given, and a row with invalid UTF-8
/// must travel unchanged between SQLite databases (trap 15). Backends that cannot represent such
/// a text reject the row, they never alter it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// An IEEE 754 double, NaN and infinities included.
    Real(f64),
    /// Text, nearly always UTF-8, possibly with NUL characters.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
    /// Not a value: this column was not captured because it did not change.
    ///
    /// Occurs in old images only, and is never compared.
    Absent,
}

/// A value that owns its text and bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// An IEEE 754 double.
    Real(f64),
    /// Text, see [`ValueRef::Text`].
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
    /// See [`ValueRef::Absent`].
    Absent,
}

impl Value {
    /// This value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Integer(i) => ValueRef::Integer(*i),
            Value::Real(r) => ValueRef::Real(*r),
            Value::Text(t) => ValueRef::Text(t),
            Value::Blob(b) => ValueRef::Blob(b),
            Value::Absent => ValueRef::Absent,
        }
    }
}

impl ValueRef<'_> {
    /// A copy that owns its text and bytes.
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(i) => Value::Integer(i),
            ValueRef::Real(r) => Value::Real(r),
            ValueRef::Text(t) => Value::Text(t.to_vec()),
            ValueRef::Blob(b) => Value::Blob(b.to_vec()),
            ValueRef::Absent => Value::Absent,
        }
    }

    /// True when both are stored identically: same class, same bits. NaN equals itself.
    pub fn identical(self, other: ValueRef<'_>) -> bool {
        match (self, other) {
            (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        }
    }

    /// The value as a person reads it in a message: text quoted, blobs as their length.
    pub fn display(self) -> String {
        match self {
            ValueRef::Null => "NULL".into(),
            ValueRef::Integer(i) => i.to_string(),
            ValueRef::Real(r) => r.to_string(),
            ValueRef::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
            ValueRef::Blob(b) => format!("<{} bytes>", b.len()),
            ValueRef::Absent => "<unchanged>".into(),
        }
    }
}
