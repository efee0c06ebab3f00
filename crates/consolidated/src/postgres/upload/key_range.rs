//! Looks for keys of new rows in one piece of the primary key's index.
//!
//! New rows mostly have keys that follow each other, and few or none of them exist. So it costs
//! little to read the keys that exist between the least and the greatest of them. If they are more
//! than the new rows, the keys are far apart, and each has to be looked up by itself.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Call, Link};
use crate::postgres::statement::Slot;
use crate::postgres::upload::batch::{ARRAY_HEADER, Batch};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::quote::{ident, join};
use postgres_types::{ToSql, Type};

/// The index gives the order, whatever the database believes of the table.
const IN_ORDER: &str = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('enable_sort', 'off', true)";
const AS_BEFORE: &str = "SELECT set_config('plan_cache_mode', 'auto', true),
    set_config('enable_sort', 'on', true)";

/// The keys of a batch, if they are integers.
#[derive(Debug)]
pub(in crate::postgres) struct KeyRange {
    /// Names of the key's columns.
    names: Vec<String>,
    keys: Vec<Vec<i64>>,
}

impl KeyRange {
    /// The keys of a batch that consists of keys, and is finished.
    pub(in crate::postgres) fn of(table: &Table, batch: &Batch<'_>) -> Option<KeyRange> {
        let (published, details) = (&table.deployed.published, &table.deployed.details);
        let mut keys = vec![Vec::new(); batch.rows as usize];
        let mut names = Vec::new();
        for (position, slot) in batch.statement.slots.iter().enumerate() {
            let Slot::NewColumn(at) = slot else { return None };
            let column = &details.columns[*at];
            let integer = matches!(column.wire(), Type::INT2 | Type::INT4 | Type::INT8);
            if !integer || column.cast_from_wire().is_some() {
                return None;
            }
            names.push(published.columns[*at].clone());
            let mut elements = batch.array(position).get(ARRAY_HEADER..)?;
            for key in &mut keys {
                let (length, behind) = elements.split_first_chunk()?;
                let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
                let (value, behind) = behind.split_at_checked(length)?;
                key.push(integer_of(value)?);
                elements = behind;
            }
        }
        (!keys.is_empty() && !names.is_empty()).then_some(KeyRange { names, keys })
    }

    /// The positions, from 1, of the keys that exist. None if too many others exist between them.
    pub(in crate::postgres) fn present(
        &self,
        link: &mut Link,
        table: &Table,
    ) -> Result<Option<Vec<i32>>, Stop> {
        let (Some(least), Some(greatest)) = (self.keys.iter().min(), self.keys.iter().max()) else {
            return Ok(Some(Vec::new()));
        };
        let same = least.iter().zip(greatest).take_while(|(least, greatest)| least == greatest);
        let same = same.count();
        let sql = self.question(table, same);
        let most = self.keys.len() as i64 + 1;
        let bounds = least.iter().chain(&greatest[same..]).chain([&most]);
        let parameters: Vec<&(dyn ToSql + Sync)> =
            bounds.map(|bound| bound as &(dyn ToSql + Sync)).collect();
        let calls =
            [Call::new(IN_ORDER, &[]), Call::new(&sql, &parameters), Call::new(AS_BEFORE, &[])];
        let answers = link.flight(&calls).map_err(stopped("look for keys that are there"))?;
        let rows = &answers[1].rows;
        if rows.len() > self.keys.len() {
            return Ok(None);
        }
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let key = (0..self.names.len()).map(|at| row.try_get::<i64>(at));
            found.push(key.collect::<Result<Vec<_>, _>>().map_err(unreadable)?);
        }
        let exists = |key: &Vec<i64>| found.binary_search(key).is_ok();
        let positions = (1..).zip(&self.keys).filter(|(_, key)| exists(key));
        Ok(Some(positions.map(|(position, _)| position).collect()))
    }

    /// Asks for the keys between two that have their first columns in common, in their order. The
    /// parameters are the first key, what the last has behind these columns, and a limit.
    fn question(&self, table: &Table, same: usize) -> String {
        let details = &table.deployed.details;
        let column = |name: &str| format!("t.{}", ident(name));
        let (common, others) = self.names.split_at(same);
        let mut conditions: Vec<String> = (1..)
            .zip(common)
            .map(|(number, name)| format!("{} = ${number}::int8", column(name)))
            .collect();
        let numbers = |first: usize| {
            let numbers = (first..).take(others.len()).map(|number| format!("${number}::int8"));
            numbers.collect::<Vec<_>>().join(", ")
        };
        if !others.is_empty() {
            let row = join(others, ", ", column);
            let (least, greatest) = (numbers(same + 1), numbers(self.names.len() + 1));
            conditions.push(format!("ROW({row}) >= ROW({least})"));
            conditions.push(format!("ROW({row}) <= ROW({greatest})"));
        }
        format!(
            "SELECT {}\nFROM {} AS t\nWHERE {}\nORDER BY {}\nLIMIT ${}::int8",
            join(&self.names, ", ", |name| column(name) + "::int8"),
            details.sql_name(),
            conditions.join(" AND "),
            join(&self.names, ", ", column),
            self.names.len() + others.len() + 1,
        )
    }
}

fn integer_of(value: &[u8]) -> Option<i64> {
    Some(match *value {
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        _ => i64::from_be_bytes(value.try_into().ok()?),
    })
}
