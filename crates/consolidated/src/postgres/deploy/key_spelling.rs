//! Notations of keys that are one row to the database must be one row to remotes (trap 22).
//!
//! A remote compares keys byte by byte. The database may differ from that in two ways:
//!
//! Y1. It stores another notation than it received: without blanks beyond the length of a column, a
//!     range in its canonical form, rounded digits. There is one notation for each key, so a key in
//!     another one is refused.
//! Y2. It stores several notations that it regards as equal, in a nondeterministic collation or as
//!     numeric without a scale. `deploy` refuses such a key. A key that becomes one afterwards lost
//!     a trigger for that, so its table is not served until it is deployed again.
//!
//! This file decides what a value alone can show ([`KeySpelling::keeps`]). For the rest the
//! database is queried (`upload/isolation/misspelled.rs`) before any row is written.

use crate::administration::{Finding, Severity};
use crate::deploy::TableFacts;
use crate::postgres::deploy::tables::{UserColumn, UserTable};
use crate::postgres::values::{ColumnType, Kind, NumericAs, numeric};
use model::{Code, Failure, ValueRef};
use serde::{Deserialize, Serialize};

/// What is noted of a key when it is deployed; only where the types of its columns do not say all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::postgres) struct KeySpelling {
    pub(in crate::postgres) columns: Vec<KeyColumn>,
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::postgres) struct KeyColumn {
    /// Position among the published columns.
    pub(in crate::postgres) at: usize,
    limit: Limit,
    /// The type with its length or scale, where the database knows alone how it spells a value.
    pub(in crate::postgres) asked: Option<String>,
    /// What it takes it keeps as it is, so that there is nothing to ask until a row fails.
    #[serde(default)]
    exact: bool,
}

/// What a column keeps of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Limit {
    Nothing,
    /// So many characters: blanks beyond are cut.
    Characters(u32),
    /// So many decimals.
    Decimals(u16),
    /// So many digits of a second.
    SecondDigits(u8),
}

impl KeySpelling {
    /// Of `table`, whose published columns have these types.
    pub(in crate::postgres) fn of(
        table: &UserTable,
        columns: &[String],
        types: &[ColumnType],
    ) -> Option<KeySpelling> {
        let column = |name: &String| {
            let at = columns.iter().position(|known| known == name)?;
            let (column, kind) = (table.column(name)?, types.get(at)?.kind);
            let (limit, asked) = (Limit::of(column, kind), is_asked(column, kind));
            let asked = asked.then(|| column.base_type.clone());
            let exact = column.kind == 'e' && !column.is_array();
            Some(KeyColumn { at, limit, asked, exact })
        };
        let columns: Vec<KeyColumn> = table.key.iter().filter_map(column).collect();
        let says_something = |c: &KeyColumn| c.asked.is_some() || c.limit != Limit::Nothing;
        columns.iter().any(says_something).then_some(KeySpelling { columns })
    }

    /// Whether a column of the key keeps `value`, which fits into it, as far as the value tells.
    pub(in crate::postgres) fn keeps(
        &self,
        at: usize,
        kind: &ColumnType,
        value: ValueRef<'_>,
    ) -> bool {
        let column = self.columns.iter().find(|column| column.at == at);
        column.is_none_or(|column| column.limit.keeps(kind, value))
    }

    /// Whether the database has to be asked about keys before rows are applied.
    pub(in crate::postgres) fn is_asked(&self) -> bool {
        self.columns.iter().any(|column| column.asked.is_some() && !column.exact)
    }
}

impl Limit {
    fn of(column: &UserColumn, kind: Kind) -> Limit {
        let limit = match kind {
            Kind::Text => column.limit().map(|most| Limit::Characters(most as u32)),
            Kind::Numeric(_) => {
                column.scale().and_then(|scale| u16::try_from(scale).ok()).map(Limit::Decimals)
            }
            Kind::Time | Kind::Timestamp | Kind::Timestamptz => {
                column.second_digits().map(Limit::SecondDigits)
            }
            _ => None,
        };
        limit.unwrap_or(Limit::Nothing)
    }

    fn keeps(self, kind: &ColumnType, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Limit::Characters(most), ValueRef::Text(text)) => {
                let characters = text.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
                // More than blanks beyond the limit is an error of the database's own.
                characters <= most as usize || text.last() != Some(&b' ')
            }
            (Limit::Decimals(decimals), value) => {
                let mut element = Vec::new();
                if kind.write_element(value, &mut element).is_err() {
                    return true;
                }
                let as_text = kind.kind == Kind::Numeric(NumericAs::Text);
                match element.get(4..).and_then(numeric::decimals) {
                    Some(sent) if as_text => sent == decimals,
                    Some(sent) => sent <= decimals,
                    None => true,
                }
            }
            (Limit::SecondDigits(digits), ValueRef::Text(text)) => {
                let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
                let fraction = text[point..].iter().skip(1).take_while(|b| b.is_ascii_digit());
                fraction.skip(usize::from(digits)).all(|digit| *digit == b'0')
            }
            _ => true,
        }
    }
}

/// Whether only the database knows how it spells a value.
fn is_asked(column: &UserColumn, kind: Kind) -> bool {
    match kind {
        Kind::Other | Kind::Interval => true,
        // Digits before the point are rounded.
        Kind::Numeric(_) => column.scale().is_some_and(|scale| scale < 0),
        _ => false,
    }
}

/// Why keys in this column may be one to the center and several at a remote, or the other way
/// round.
fn ambiguity(column: &UserColumn, kind: Kind) -> Option<String> {
    if is_lossy(column, kind) {
        return Some(
            "different numbers may be equal at a remote, which stores them as REAL".into(),
        );
    }
    match kind {
        // Whole numbers are whole there, whatever zeros follow.
        Kind::Numeric(NumericAs::Integer) => None,
        _ => column.ambiguous.clone(),
    }
}

fn is_lossy(column: &UserColumn, kind: Kind) -> bool {
    /// Digits that a double keeps for certain.
    const DOUBLE_DIGITS: i32 = 15;
    kind == Kind::Numeric(NumericAs::Real)
        && column.numeric_digits().is_none_or(|digits| digits > DOUBLE_DIGITS)
}

/// A key that `deploy` refuses.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::postgres) struct Doubt {
    table: String,
    message: String,
}

impl Doubt {
    /// About the key of `table`, whose published columns have these types.
    pub(in crate::postgres) fn of(
        table: &UserTable,
        columns: &[String],
        types: &[ColumnType],
    ) -> Option<Doubt> {
        table.key.iter().find_map(|name| {
            let at = columns.iter().position(|known| known == name)?;
            let why = ambiguity(table.column(name)?, types.get(at)?.kind)?;
            let table = table.published_name();
            let message = format!("table {table}: its key has the column {name}: {why}");
            Some(Doubt { table, message })
        })
    }

    pub(in crate::postgres) fn refusal(&self) -> Failure {
        Failure::new(Code::AmbiguousKey, self.message.clone()).table(self.table.as_str())
    }

    /// The same for `check`.
    pub(in crate::postgres) fn finding(&self) -> Finding {
        let message = format!("{} (E{})", self.message, Code::AmbiguousKey.number());
        Finding { severity: Severity::Error, table: Some(self.table.clone()), message }
    }
}

/// Why an unchanged model cannot have the table.
pub(in crate::postgres) fn initial_refusal(table: &UserTable) -> Option<Failure> {
    let column = |name: &String| table.column(name);
    let types = |name: &String| {
        let column = column(name)?;
        Some(ColumnType::of(&column.cast, column.oid, column.domain, NumericAs::Text))
    };
    let types: Vec<ColumnType> = table.key.iter().map(types).collect::<Option<_>>()?;
    Doubt::of(table, &table.key, &types).map(|doubt| doubt.refusal())
}
