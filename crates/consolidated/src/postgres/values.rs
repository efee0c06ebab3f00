//! Values between the row format and PostgreSQL, in its binary format.
//!
//! | PostgreSQL | at the remote |
//! |---|---|
//! | smallint, integer, bigint | INTEGER |
//! | boolean | INTEGER 0, 1 |
//! | real, double precision | REAL; NaN, which SQLite would turn into NULL, as TEXT |
//! | numeric | TEXT, REAL or INTEGER, as the model says ([`NumericAs`]) |
//! | text, varchar | TEXT |
//! | char | TEXT without the blanks at its end |
//! | bytea | BLOB |
//! | uuid | TEXT in lower case |
//! | date, time, timestamp, timestamptz | TEXT, see `datetime.rs` |
//! | interval | TEXT, ISO 8601 |
//! | json, jsonb, enums, arrays, domains and whatever else | TEXT, as PostgreSQL shows it |
//!
//! A value is never bent to fit: what a column cannot hold is a [`Misfit`], which rejects its row
//! and nothing else (trap 15). Infinity survives everywhere.

use crate::postgres::encoding::Encoding;
use crate::postgres::values::datetime::Times;
use crate::postgres::values::misfit::Misfit;
use crate::postgres::values::numeric::{Class, Short};
use model::{Value, ValueRef, write_value};
use postgres_types::{Kind as TypeKind, Type};
use serde::{Deserialize, Serialize};

/// A published column, as far as its values are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ColumnType {
    /// The SQL type without length or scale. A cast with them would cut the value; it must raise an
    /// error instead.
    pub(super) cast: String,
    pub(super) kind: Kind,
    /// Of the texts in which values reach the database.
    #[serde(default, skip_serializing_if = "Encoding::is_unicode")]
    pub(super) encoding: Encoding,
    /// The decimals of a number that is text at remotes, where they are limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<u16>,
    /// The notation of timestamps.
    #[serde(default, skip_serializing_if = "Times::is_full")]
    pub(super) times: Times,
}

/// How values of a type travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric(NumericAs),
    Text,
    /// Blanks at the end have no meaning, so it must be compared by its own rules.
    Char,
    Bytea,
    Uuid,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    /// As text that PostgreSQL itself reads and shows.
    Other,
}

impl Kind {
    /// Of the values of a type; none where only PostgreSQL itself makes them text.
    fn of(type_: &Type, numeric: NumericAs) -> Option<Kind> {
        Some(match *type_ {
            Type::BOOL => Kind::Bool,
            Type::INT2 => Kind::Int2,
            Type::INT4 => Kind::Int4,
            Type::INT8 => Kind::Int8,
            Type::FLOAT4 => Kind::Float4,
            Type::FLOAT8 => Kind::Float8,
            Type::NUMERIC => Kind::Numeric(numeric),
            Type::TEXT | Type::VARCHAR => Kind::Text,
            Type::BPCHAR => Kind::Char,
            Type::BYTEA => Kind::Bytea,
            Type::UUID => Kind::Uuid,
            Type::DATE => Kind::Date,
            Type::TIME => Kind::Time,
            Type::TIMESTAMP => Kind::Timestamp,
            Type::TIMESTAMPTZ => Kind::Timestamptz,
            _ => return None,
        })
    }
}

/// What a numeric column is at the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NumericAs {
    /// Canonical text: exact, but compared as text.
    Text,
    /// A double.
    Real,
    /// INTEGER where it is whole, else as `Numeric`.
    Integer,
    /// What SQLite's NUMERIC affinity makes of it: INTEGER, REAL up to 15 digits, else TEXT.
    Numeric,
}

/// Digits that a double keeps for certain.
const DOUBLE_DIGITS: usize = 15;

/// Doubles that are spelled without an exponent, here as by the database.
const PLAIN_REALS: std::ops::Range<f64> = 1e-4..1e15;

impl ColumnType {
    /// The type named `name` by `format_type(oid, -1)`, for a domain that of its base type.
    pub(super) fn of(name: &str, oid: u32, is_domain: bool, numeric: NumericAs) -> ColumnType {
        let known = Type::from_oid(oid);
        let kind = match known.as_ref().and_then(|known| Kind::of(known, numeric)) {
            Some(text @ (Kind::Text | Kind::Char)) => text,
            // Domains are text at the remote, whatever they are made of.
            _ if is_domain => Kind::Other,
            Some(kind) => kind,
            None if known == Some(Type::INTERVAL) => Kind::Interval,
            None => Kind::Other,
        };
        let is_moment = matches!(kind, Kind::Timestamp | Kind::Timestamptz);
        let times = if is_moment { Times::Sqlite } else { Times::Full };
        let encoding = Encoding::Unicode;
        ColumnType { cast: name.to_owned(), kind, encoding, scale: None, times }
    }

    /// The type in which values reach the database.
    pub(super) fn wire(&self) -> Type {
        match self.kind {
            Kind::Bool => Type::BOOL,
            Kind::Int2 => Type::INT2,
            Kind::Int4 => Type::INT4,
            Kind::Int8 => Type::INT8,
            Kind::Float4 => Type::FLOAT4,
            Kind::Float8 => Type::FLOAT8,
            Kind::Numeric(_) => Type::NUMERIC,
            Kind::Text | Kind::Char | Kind::Interval | Kind::Other => Type::TEXT,
            Kind::Bytea => Type::BYTEA,
            Kind::Uuid => Type::UUID,
            Kind::Date => Type::DATE,
            Kind::Time => Type::TIME,
            Kind::Timestamp => Type::TIMESTAMP,
            Kind::Timestamptz => Type::TIMESTAMPTZ,
        }
    }

    /// The cast that makes of a value on the wire one of the column, where one is needed.
    pub(super) fn cast_from_wire(&self) -> Option<&str> {
        matches!(self.kind, Kind::Char | Kind::Interval | Kind::Other).then_some(&self.cast)
    }

    /// Whether scripts must select the column with `::text`.
    pub(super) fn read_as_text(&self) -> bool {
        matches!(self.kind, Kind::Interval | Kind::Other)
    }

    /// Appends `value` as an element of an array: its length, then its binary form. After a
    /// misfit `out` may have a part of it.
    pub(super) fn write_element(
        &self,
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        match (self.kind, value) {
            (_, ValueRef::Null | ValueRef::Absent) => {
                out.extend_from_slice(&(-1_i32).to_be_bytes())
            }
            (Kind::Bool, value) => match whole(value)? {
                0 | 1 => element(out, &[u8::from(value != ValueRef::Integer(0))]),
                _ => return Err("is neither 0 nor 1"),
            },
            (Kind::Int2, value) => element(out, &in_range::<i16>(value)?.to_be_bytes()),
            (Kind::Int4, value) => element(out, &in_range::<i32>(value)?.to_be_bytes()),
            (Kind::Int8, value) => element(out, &whole(value)?.to_be_bytes()),
            (Kind::Float4, value) => element(out, &single(value)?.to_be_bytes()),
            (Kind::Float8, value) => element(out, &double(value)?.to_be_bytes()),
            (Kind::Numeric(_), value) => return write_numeric(value, out),
            (Kind::Text | Kind::Char | Kind::Interval | Kind::Other, value) => {
                let text = text(value)?;
                if self.encoding.lacks(text) {
                    return Err("has a character that the encoding of the database lacks");
                }
                element(out, text);
            }
            (Kind::Bytea, ValueRef::Blob(bytes)) => element(out, bytes),
            (Kind::Bytea, _) => return Err("is no BLOB"),
            (Kind::Uuid, value) => element(out, &read_uuid(text(value)?)?),
            (Kind::Date, value) => {
                element(out, &datetime::read_date(text(value)?)?.to_be_bytes());
            }
            (Kind::Time, value) => {
                element(out, &datetime::read_time(text(value)?)?.to_be_bytes());
            }
            (Kind::Timestamp | Kind::Timestamptz, value) => {
                let with_zone = self.kind == Kind::Timestamptz;
                let micros = datetime::read_timestamp(text(value)?, with_zone)?;
                element(out, &micros.to_be_bytes());
            }
        }
        Ok(())
    }
}

impl ColumnType {
    /// The same value in the storage class of this type, for a column that had another type when
    /// the value was captured. None where it fits as it is, or not at all, and its row is rejected.
    pub(super) fn converted(&self, value: ValueRef<'_>) -> Option<Value> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok().map(str::to_owned);
        match (self.wire(), value) {
            (Type::TEXT, ValueRef::Integer(i)) => Some(Value::Text(i.to_string().into_bytes())),
            (Type::TEXT, ValueRef::Real(r)) if PLAIN_REALS.contains(&r.abs()) || r == 0.0 => {
                Some(Value::Text(r.to_string().into_bytes()))
            }
            (Type::INT2 | Type::INT4 | Type::INT8, ValueRef::Text(text)) => {
                number(text)?.trim().parse().ok().map(Value::Integer)
            }
            (Type::FLOAT4 | Type::FLOAT8, ValueRef::Text(text)) => {
                number(text)?.trim().parse().ok().filter(|r: &f64| r.is_finite()).map(Value::Real)
            }
            _ => None,
        }
    }

    /// Whether a key with this value, which fits, comes back in the same letters. If not, the
    /// remote would hold two rows where the center has one.
    pub(super) fn keeps_spelling(&self, value: ValueRef<'_>) -> bool {
        let respells = matches!(
            self.kind,
            Kind::Char
                | Kind::Uuid
                | Kind::Date
                | Kind::Time
                | Kind::Timestamp
                | Kind::Timestamptz
                | Kind::Numeric(_)
        );
        if !respells {
            return true;
        }
        let (mut element, mut back, mut row) = (Vec::new(), Vec::new(), Vec::new());
        write_value(&mut row, value);
        if value == ValueRef::Null || self.write_element(value, &mut element).is_err() {
            return true;
        }
        self.reading().write(element.get(4..), &mut back).is_ok() && back == row
    }

    /// Whether it is a timestamp, of which there are several notations.
    pub(super) fn is_moment(&self) -> bool {
        matches!(self.kind, Kind::Timestamp | Kind::Timestamptz)
    }

    /// How values of the type itself are read.
    fn reading(&self) -> Reading {
        Reading::As(self.kind, self.times)
    }
}

fn element(out: &mut Vec<u8>, bytes: &[u8]) {
    // Rows are far below 2 GiB: a frame bounds them.
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn whole(value: ValueRef<'_>) -> Result<i64, Misfit> {
    /// 2 to the power of 63, the first double beyond the integers.
    const END: f64 = (1_u64 << 63) as f64;
    match value {
        ValueRef::Integer(i) => Ok(i),
        ValueRef::Real(r) if r.fract() == 0.0 && (-END..END).contains(&r) => Ok(r as i64),
        _ => Err("is not an integer"),
    }
}

fn in_range<T: TryFrom<i64>>(value: ValueRef<'_>) -> Result<T, Misfit> {
    T::try_from(whole(value)?).map_err(|_| "is out of the column's range")
}

fn double(value: ValueRef<'_>) -> Result<f64, Misfit> {
    match value {
        ValueRef::Real(r) => Ok(r),
        ValueRef::Integer(i) if (i as f64) as i128 == i128::from(i) => Ok(i as f64),
        ValueRef::Integer(_) => Err("has too many digits"),
        ValueRef::Text(b"NaN") => Ok(f64::NAN),
        ValueRef::Text(b"Infinity") => Ok(f64::INFINITY),
        ValueRef::Text(b"-Infinity") => Ok(f64::NEG_INFINITY),
        _ => Err("is not a number"),
    }
}

fn single(value: ValueRef<'_>) -> Result<f32, Misfit> {
    let double = double(value)?;
    let single = double as f32;
    let vanished = single == 0.0 && double != 0.0 || single.is_infinite() && double.is_finite();
    if vanished { Err("is out of the column's range") } else { Ok(single) }
}

fn text(value: ValueRef<'_>) -> Result<&[u8], Misfit> {
    let ValueRef::Text(bytes) = value else { return Err("is not a text") };
    if bytes.contains(&0) {
        return Err("has a NUL character, which PostgreSQL cannot store");
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err("is not valid UTF-8"),
    }
}

fn write_numeric(value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match value {
        ValueRef::Text(digits) => numeric::write_binary(digits, out)?,
        ValueRef::Integer(i) => numeric::write_whole(i < 0, i.unsigned_abs(), 0, out),
        // The shortest decimal that is this double: 0.1 and not its 55 digits.
        ValueRef::Real(r) => numeric::write_binary(r.to_string().as_bytes(), out)?,
        _ => return Err("is not a number"),
    }
    let len = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// 32 hexadecimal digits, with hyphens and braces where people put them.
fn read_uuid(text: &[u8]) -> Result<[u8; 16], Misfit> {
    let inner = text.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}"));
    let mut bytes = [0; 16];
    let mut digits = 0;
    for byte in inner.unwrap_or(text) {
        let digit = match byte {
            b'-' if digits > 0 && digits % 4 == 0 => continue,
            byte => (*byte as char).to_digit(16).ok_or("is no UUID")? as u8,
        };
        let place: &mut u8 = bytes.get_mut(digits / 2).ok_or("is no UUID")?;
        *place = *place << 4 | digit;
        digits += 1;
    }
    if digits == 32 { Ok(bytes) } else { Err("is no UUID") }
}

/// How a column of a result is read; follows from what the statement returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As what it is in binary form. Of a char without the blanks at its end, which have no meaning
    /// and would be part of a key.
    /// A timestamp is read in a notation.
    As(Kind, Times),
    /// Text after a version byte.
    Jsonb,
    /// Of text where something else belongs. It has no type where a script says NULL, which is all
    /// that it may be.
    Null,
}

/// The bytes of a result are not what its type promises.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

impl Reading {
    /// For a result of type `result` that goes into `column`. `None`: select it with `::text`.
    pub(super) fn of(result: &Type, column: &ColumnType) -> Option<Reading> {
        let read = |kind| Reading::As(kind, column.times);
        let numeric = match column.kind {
            Kind::Numeric(numeric) => numeric,
            _ => NumericAs::Text,
        };
        match *result {
            Type::TEXT if !column.kind.is_text() => Some(Reading::Null),
            Type::NAME | Type::JSON | Type::XML => Some(read(Kind::Text)),
            Type::JSONB => Some(Reading::Jsonb),
            _ if matches!(result.kind(), TypeKind::Enum(_)) => Some(read(Kind::Text)),
            _ => Kind::of(result, numeric).map(read),
        }
    }

    /// Appends the value whose binary form is `raw` to a compact row.
    pub(super) fn write(self, raw: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), Garbled> {
        let value = match (raw, self) {
            (None, _) => ValueRef::Null,
            (Some(_), Reading::Null) => return Err(Garbled),
            (Some(raw), Reading::Jsonb) => ValueRef::Text(raw.strip_prefix(&[1]).ok_or(Garbled)?),
            (Some(raw), Reading::As(kind, times)) => return kind.write(times, raw, out),
        };
        write_value(out, value);
        Ok(())
    }
}

impl ColumnType {
    /// Whether a result of type `result` can be what remotes have in the column.
    pub(super) fn takes(&self, result: &Type) -> bool {
        match Reading::of(result, self) {
            None => false,
            Some(Reading::Null) => true,
            Some(Reading::Jsonb) => self.kind.is_text(),
            Some(Reading::As(kind, _)) => kind.is_like(self.kind),
        }
    }
}

impl Kind {
    fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::Char | Kind::Interval | Kind::Other)
    }

    /// Whether values of the two look alike at remotes.
    fn is_like(self, other: Kind) -> bool {
        let is_integer = |kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
        let is_real = |kind| matches!(kind, Kind::Float4 | Kind::Float8);
        self == other
            || self.is_text() && other.is_text()
            || is_integer(self) && is_integer(other)
            || is_real(self) && is_real(other)
    }

    fn write(self, times: Times, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
        let value = match self {
            Kind::Bool => ValueRef::Integer(i64::from(array::<1>(raw)?[0] != 0)),
            Kind::Int2 => ValueRef::Integer(i16::from_be_bytes(array(raw)?).into()),
            Kind::Int4 => ValueRef::Integer(i32::from_be_bytes(array(raw)?).into()),
            Kind::Int8 => ValueRef::Integer(i64::from_be_bytes(array(raw)?)),
            Kind::Float4 => real(widened(f32::from_be_bytes(array(raw)?))),
            Kind::Float8 => real(f64::from_be_bytes(array(raw)?)),
            Kind::Numeric(numeric) => return read_numeric(raw, numeric, out),
            Kind::Text | Kind::Interval | Kind::Other => ValueRef::Text(raw),
            Kind::Char => {
                let end = raw.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
                ValueRef::Text(&raw[..end])
            }
            Kind::Bytea => ValueRef::Blob(raw),
            Kind::Uuid | Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz => {
                return self.write_text(times, raw, out);
            }
        };
        write_value(out, value);
        Ok(())
    }

    fn write_text(self, times: Times, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
        let mut write = |text: &[u8]| write_value(out, ValueRef::Text(text));
        match self {
            Kind::Uuid => write(&uuid_text(&array(raw)?)),
            Kind::Time => {
                let (text, len) = datetime::time(i64::from_be_bytes(array(raw)?));
                write(&text[..len]);
            }
            Kind::Date => {
                let days = i32::from_be_bytes(array(raw)?);
                match datetime::usual_date(days) {
                    Some(text) => write(&text),
                    None => write(datetime::date(days).as_bytes()),
                }
            }
            _ => {
                let (micros, utc) = (i64::from_be_bytes(array(raw)?), self == Kind::Timestamptz);
                match datetime::usual_timestamp(micros) {
                    Some(mut text) => {
                        let len = datetime::notate(&mut text, utc, times);
                        write(&text[..len]);
                    }
                    None => write(datetime::timestamp(micros, utc, times).as_bytes()),
                }
            }
        }
        Ok(())
    }
}

fn array<const N: usize>(raw: &[u8]) -> Result<[u8; N], Garbled> {
    raw.try_into().map_err(|_| Garbled)
}

fn real(double: f64) -> ValueRef<'static> {
    // SQLite stores NaN as NULL.
    if double.is_nan() { ValueRef::Text(b"NaN") } else { ValueRef::Real(double) }
}

/// The double that a person means by the single: 0.1 and not 0.10000000149.
pub(super) fn widened(single: f32) -> f64 {
    if !single.is_finite() || single == single.trunc() {
        return f64::from(single);
    }
    single.to_string().parse().unwrap_or_else(|_| f64::from(single))
}

fn uuid_text(bytes: &[u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let places = (0..text.len()).filter(|at| !matches!(at, 8 | 13 | 18 | 23));
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (at, digit) in places.zip(digits) {
        text[at] = b"0123456789abcdef"[usize::from(digit)];
    }
    text
}

fn read_numeric(raw: &[u8], as_: NumericAs, out: &mut Vec<u8>) -> Result<(), Garbled> {
    match Short::read(raw) {
        Some(short) if write_short(short, as_, out) => Ok(()),
        _ => read_long(raw, as_, out),
    }
}

/// False: it takes the longer way.
fn write_short(short: Short, as_: NumericAs, out: &mut Vec<u8>) -> bool {
    /// What a double keeps for certain.
    const DOUBLE_END: u64 = 10_u64.pow(DOUBLE_DIGITS as u32);
    let value = match as_ {
        NumericAs::Text => None,
        NumericAs::Real => match short.trimmed().real() {
            Some(real) => Some(ValueRef::Real(real)),
            None => return false,
        },
        NumericAs::Integer | NumericAs::Numeric => {
            let trimmed = short.trimmed();
            let real = || trimmed.real().filter(|_| trimmed.digits < DOUBLE_END);
            trimmed.integer().map(ValueRef::Integer).or_else(|| real().map(ValueRef::Real))
        }
    };
    let mut text = [0; 32];
    write_value(out, value.unwrap_or_else(|| ValueRef::Text(short.write(&mut text))));
    true
}

fn read_long(raw: &[u8], as_: NumericAs, out: &mut Vec<u8>) -> Result<(), Garbled> {
    let (text, class) = numeric::text(raw).ok_or(Garbled)?;
    let digits = str::from_utf8(&text).map_err(|_| Garbled)?;
    let parsed = || digits.parse::<f64>().ok();
    let value = match (as_, class) {
        (NumericAs::Text, _) | (_, Class::NotANumber) => None,
        (NumericAs::Real, _) => parsed().map(ValueRef::Real),
        (_, Class::Infinite) => None,
        (NumericAs::Integer | NumericAs::Numeric, Class::Finite) => whole_part(digits)
            .and_then(|whole| whole.parse().ok())
            .map(ValueRef::Integer)
            .or_else(|| match significant(digits) <= DOUBLE_DIGITS {
                true => parsed().map(ValueRef::Real),
                false => None,
            }),
    };
    write_value(out, value.unwrap_or(ValueRef::Text(&text)));
    Ok(())
}

/// The digits before the point, if there are only zeros behind it.
fn whole_part(digits: &str) -> Option<&str> {
    match digits.split_once('.') {
        None => Some(digits),
        Some((whole, fraction)) => fraction.bytes().all(|digit| digit == b'0').then_some(whole),
    }
}

fn significant(digits: &str) -> usize {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let trimmed = digits.trim_start_matches(['-', '0', '.']);
    let trimmed = if digits.contains('.') { trimmed.trim_end_matches('0') } else { trimmed };
    trimmed.as_bytes().iter().filter(|byte| digit(byte)).count()
}

pub(super) mod datetime;
mod interval;
mod misfit;
pub(super) mod numeric;
pub(super) mod respelled;
pub(super) mod row_decoder;
#[cfg(test)]
mod tests;
