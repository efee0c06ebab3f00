//! Proves that a download would read the rows of an upload exactly as they were sent (trap 8).
//!
//! Then the rows of this upload need not be read again. The proof has three parts. If one is
//! missing, the rows are compared by their digests:
//!
//! V1. A generated script applied every row as it was sent: no conflict, no reject, no update that
//!     may have moved a row out of the partition (`upload.rs`).
//! V2. Every value is read back byte by byte ([`Fidelity`]).
//! V3. Nothing else was written in the same transaction: no table of the upload has a trigger, rule
//!     or foreign key action that is not Syncline's, or a default or check that calls a function
//!     ([`LOOK`]).
//!
//! V3 is checked in the transaction itself, after its last write. To change a trigger, a foreign
//! key, a column or a default, a session needs a lock on the table, which conflicts with the writes
//! until the commit. So the result is exact.

use crate::deploy::TableFacts;
use crate::digest::digest;
use crate::postgres::deploy::tables::{UserColumn, UserTable};
use crate::postgres::link::Answer;
use crate::postgres::statement::Value;
use crate::postgres::tracking::departure_log;
use crate::postgres::values::{Kind, NumericAs, widened};
use crate::script::{Event, Script};
use model::{PublishedTable, ValueRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Uploads of fewer rows are compared by digests: it costs less than the look.
pub(in crate::postgres) const ROWS_MIN: u64 = 200;

/// Parameters: the table, its published columns, their layout, and our tables that are written with
/// it. One row: whether only the upload's own statements have written, for this table, and the
/// number of the transaction.
///
/// The functions are those of foreign keys that refuse or postpone and never write; a table that
/// others refer to with ON DELETE CASCADE and the like has other ones.
pub(in crate::postgres) const LOOK: &str =
    "SELECT NOT (c.relhasrules OR c.relhassubclass OR c.relrowsecurity)
    AND getdatabaseencoding() = 'UTF8'
    AND NOT EXISTS (
        SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND t.tgenabled <> 'D'
            AND p.pronamespace <> 'syncline'::regnamespace
            AND t.tgfoid NOT IN (1250, 1644, 1645, 1648, 1649, 1654, 1655))
    AND $3::text = (
        SELECT string_agg(a.attname || ' ' || a.atttypid || ' ' || a.atttypmod
            || a.attidentity::text || a.attgenerated::text, ', ' ORDER BY a.attnum)
        FROM pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attname = ANY ($2::text[]))
    AND NOT EXISTS (
        SELECT FROM pg_attrdef AS f
        JOIN pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
        JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
        WHERE f.adrelid = c.oid AND a.attname <> ALL ($2::text[])
            AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
    AND NOT EXISTS (
        SELECT FROM pg_constraint AS k
        JOIN pg_depend AS d ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
        WHERE k.conrelid = c.oid
            AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
    AND NOT EXISTS (
        SELECT FROM pg_class AS s
        WHERE s.oid = ANY (ARRAY(SELECT n::regclass::oid FROM unnest($4::text[]) AS n))
            AND (s.relhastriggers OR s.relhasrules)),
    pg_current_xact_id()::text
FROM pg_class AS c WHERE c.oid = $1::text::regclass";

/// What is noted of a table when it is deployed; only of one whose rows the model lets be stored
/// as they are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::postgres) struct RoundTripProof {
    /// Digest of the scripts that this is true of.
    scripts: String,
    /// Deletes are logged.
    logged: bool,
    /// As [`LOOK`] describes the published columns.
    layout: String,
    /// Of the published columns, in their order.
    columns: Vec<Fidelity>,
}

/// Which values of a column come back letter by letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::postgres) enum Fidelity {
    /// Only NULL: the database has its own spelling, or none is known.
    Null,
    /// Integers; booleans are some.
    Integer,
    Single,
    Double,
    /// With the decimals that the column keeps, where it is limited.
    Numeric {
        held: NumericAs,
        scale: Option<u16>,
    },
    /// Of at most this many characters: blanks beyond are cut.
    Text {
        most: Option<u32>,
    },
    /// Blanks at the end have no meaning.
    Char,
    Bytea,
    Uuid,
    Date,
    /// With this many digits of a second.
    Time {
        digits: u8,
    },
    Timestamp {
        digits: u8,
    },
    Timestamptz {
        digits: u8,
    },
}

impl RoundTripProof {
    /// Of `table` with these published columns of these kinds, and the deployed scripts.
    pub(in crate::postgres) fn of(
        table: &UserTable,
        columns: &[(&str, Kind)],
        scripts: &BTreeMap<Event, Script>,
        logged: bool,
    ) -> Option<RoundTripProof> {
        let (mut layout, mut fidelities) = (Vec::new(), Vec::new());
        for (name, kind) in columns {
            let column = table.column(name)?;
            // The checks of a domain may call functions; a column that insists on its own values
            // takes those of inserts alone.
            let is_key = table.key.iter().any(|key| key == name);
            if column.domain || column.always_identity() && !is_key {
                return None;
            }
            let (oid, typmod) = (column.oid, column.typmod);
            layout.push(format!("{name} {oid} {typmod}{}", column.identity));
            let fidelity = Fidelity::of(*kind, column);
            // A key stays as it is stored, which may be an equal one in other letters.
            let ambiguous = match fidelity {
                Fidelity::Single | Fidelity::Double => true,
                Fidelity::Numeric { scale, .. } => scale.is_none(),
                _ => false,
            };
            fidelities.push(match column.is_loose() || is_key && ambiguous {
                true => Fidelity::Null,
                false => fidelity,
            });
        }
        let (scripts, layout) = (upload_scripts(scripts), layout.join(", "));
        Some(RoundTripProof { scripts, logged, layout, columns: fidelities })
    }

    /// Whether it is true of `scripts`, and downloads with them leave out what they shall.
    pub(in crate::postgres) fn is_about(&self, scripts: &BTreeMap<Event, Script>) -> bool {
        let leaves_out = |event: Event| {
            let parameters = scripts.get(&event).map(|script| script.parameters.as_slice());
            parameters.is_none_or(|all| all.contains(&crate::script::Parameter::LastUpload))
        };
        self.scripts == upload_scripts(scripts)
            && leaves_out(Event::DownloadCursor)
            && leaves_out(Event::DownloadDeleteCursor)
    }

    /// Whether `value`, which the column takes as `element`, comes back letter by letter.
    pub(in crate::postgres) fn keeps(
        &self,
        column: usize,
        value: ValueRef<'_>,
        element: &[u8],
    ) -> bool {
        self.columns.get(column).is_some_and(|fidelity| fidelity.keeps(value, element))
    }

    /// Whether the column may have the same number with other decimals, which a remote tells apart.
    pub(in crate::postgres) fn has_equals(&self, column: usize) -> bool {
        let free = Fidelity::Numeric { held: NumericAs::Text, scale: None };
        self.columns.get(column) == Some(&free)
    }

    /// The parameters of [`LOOK`].
    pub(in crate::postgres) fn look<'a>(
        &'a self,
        published: &'a PublishedTable,
        table: String,
    ) -> Vec<Value<'a>> {
        let ours = ["remote", "owed", "conflict", "reject"]
            .map(|name| format!("syncline.syncline_{name}"));
        let log = self.logged.then(|| departure_log::log(&published.name));
        let ours: Vec<String> = ours.into_iter().chain(log).collect();
        vec![Box::new(table), Box::new(&published.columns), Box::new(&self.layout), Box::new(ours)]
    }
}

/// The transaction, if every check says that nothing else has written in it.
pub(in crate::postgres) fn proven(answers: &[Answer]) -> Option<u64> {
    let mut number = None;
    for answer in answers {
        let row = answer.rows.first()?;
        if !row.try_get::<Option<bool>>(0).ok()?? {
            return None;
        }
        number = Some(row.try_get::<&str>(1).ok()?.parse().ok()?);
    }
    number
}

/// Digest of the scripts that apply rows.
pub(in crate::postgres) fn upload_scripts(scripts: &BTreeMap<Event, Script>) -> String {
    let uploads = [Event::UploadInsert, Event::UploadUpdate, Event::UploadDelete];
    let texts = uploads.map(|event| scripts.get(&event).map_or("", |script| script.sql.as_str()));
    digest(&texts)
}

impl Fidelity {
    fn of(kind: Kind, column: &UserColumn) -> Fidelity {
        let digits = column.second_digits().unwrap_or(6);
        match kind {
            Kind::Bool | Kind::Int2 | Kind::Int4 | Kind::Int8 => Fidelity::Integer,
            Kind::Float4 => Fidelity::Single,
            Kind::Float8 => Fidelity::Double,
            Kind::Numeric(held) => match column.scale() {
                // Digits before the point are rounded away.
                Some(scale) if scale < 0 => Fidelity::Null,
                scale => Fidelity::Numeric { held, scale: scale.map(|scale| scale as u16) },
            },
            Kind::Text => Fidelity::Text { most: column.limit().map(|most| most as u32) },
            Kind::Char => Fidelity::Char,
            Kind::Bytea => Fidelity::Bytea,
            Kind::Uuid => Fidelity::Uuid,
            Kind::Date => Fidelity::Date,
            Kind::Time => Fidelity::Time { digits },
            Kind::Timestamp => Fidelity::Timestamp { digits },
            Kind::Timestamptz => Fidelity::Timestamptz { digits },
            Kind::Interval | Kind::Other => Fidelity::Null,
        }
    }

    /// Whether `value`, which the column takes as `element` with its length in front, comes back
    /// letter by letter. May answer no if the exact answer costs too much time.
    fn keeps(self, value: ValueRef<'_>, element: &[u8]) -> bool {
        match (self, value) {
            (_, ValueRef::Null) => true,
            (Fidelity::Integer, ValueRef::Integer(_)) => true,
            (Fidelity::Single, ValueRef::Real(r)) => same(widened(r as f32), r),
            (Fidelity::Double, ValueRef::Real(r)) => !r.is_nan(),
            (Fidelity::Numeric { held, scale }, value) => keeps_number(held, scale, value, element),
            (Fidelity::Text { most: None }, ValueRef::Text(_)) => true,
            (Fidelity::Text { most: Some(most) }, ValueRef::Text(text)) => {
                text.len() <= most as usize || characters(text) <= most as usize
            }
            (Fidelity::Char, ValueRef::Text(text)) => text.last() != Some(&b' '),
            (Fidelity::Bytea, ValueRef::Blob(_)) => true,
            (Fidelity::Uuid, ValueRef::Text(text)) => is_uuid(text),
            (Fidelity::Date, ValueRef::Text(text)) => text.len() == "2000-01-01".len(),
            (Fidelity::Time { digits }, ValueRef::Text(text)) => is_time(text, digits),
            (
                Fidelity::Timestamp { digits } | Fidelity::Timestamptz { digits },
                ValueRef::Text(text),
            ) => is_moment(text, digits),
            _ => false,
        }
    }
}

fn same(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits()
}

/// Of valid UTF-8, which a text that the column takes is.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// `element` is the length, then digits, weight, sign and scale of two bytes each, then groups of
/// four decimal digits; groups of zeros at either end are left out.
fn keeps_number(held: NumericAs, scale: Option<u16>, value: ValueRef<'_>, element: &[u8]) -> bool {
    let word = |at: usize| Some(u16::from_be_bytes([*element.get(at)?, *element.get(at + 1)?]));
    let Some(sent) = word(10) else { return false };
    if scale.is_some_and(|scale| sent > scale) {
        return false;
    }
    let groups = element.get(12..).unwrap_or_default();
    match (held, value) {
        (NumericAs::Integer | NumericAs::Numeric, ValueRef::Integer(_)) => true,
        (NumericAs::Real, ValueRef::Real(r)) => r.is_finite() && !same(r, -0.0),
        (NumericAs::Integer | NumericAs::Numeric, ValueRef::Real(r)) => {
            // Twelve digits are within those that a double keeps.
            r.is_finite() && r.fract() != 0.0 && groups.len() <= 6
        }
        (NumericAs::Text, ValueRef::Text(text)) => {
            scale.is_none_or(|scale| sent == scale) && is_decimal(text, usize::from(sent))
        }
        _ => false,
    }
}

/// Whether a text that is a number is spelled as PostgreSQL spells it with this many decimals.
fn is_decimal(text: &[u8], decimals: usize) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    // What is only zeros has no sign.
    if unsigned.len() < text.len() && !unsigned.iter().any(|byte| (b'1'..=b'9').contains(byte)) {
        return false;
    }
    let behind = if decimals == 0 { 0 } else { decimals + 1 };
    let Some((whole, fraction)) = unsigned.split_at_checked(unsigned.len().wrapping_sub(behind))
    else {
        return false;
    };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let point = fraction.split_first().is_none_or(|(point, rest)| *point == b'.' && digits(rest));
    point && digits(whole) && (whole.len() == 1 || !whole.is_empty() && whole[0] != b'0')
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && [8, 13, 18, 23].iter().all(|at| text[*at] == b'-')
        && !text.iter().any(u8::is_ascii_uppercase)
}

fn is_time(text: &[u8], digits: u8) -> bool {
    let Some((clock, fraction)) = text.split_at_checked("00:00:00".len()) else { return false };
    let written = match fraction {
        [] => 0,
        [b'.', fraction @ ..] if fraction.last() != Some(&b'0') => fraction.len(),
        _ => return false,
    };
    clock[5] == b':' && written <= usize::from(digits)
}

/// `2000-01-01 00:00:00` with these digits of a second at most, of a text in the notation of its
/// column (`respelled.rs`).
fn is_moment(text: &[u8], digits: u8) -> bool {
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    let Some((second, fraction)) = text.split_at_checked("2000-01-01 00:00:00".len()) else {
        return false;
    };
    let written = fraction.strip_prefix(b".").unwrap_or(fraction);
    let (kept, cut) = written.split_at(written.len().min(usize::from(digits)));
    matches!(second[10], b' ' | b'T')
        && second[16] == b':'
        && written.len() <= 6
        && kept.iter().all(u8::is_ascii_digit)
        && cut.iter().all(|digit| *digit == b'0')
}
