//! Uploaded rows several levels above a broken foreign key.
//!
//! A delete removes children by `ON DELETE CASCADE`, and these may have children that refuse the
//! delete. The upload contains neither, because another user may have written them since the
//! remote's last download. So the rows above the row without a parent are searched for, in the
//! state before the upload.

use crate::quote::{ident, idents};
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::errors::{failed, script_failed};
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::values::{Bind, write_row};
use crate::upload::uploaded_row::RowId;
use model::{Code, Failure, RowReader, Spill, SpillMap, SpillPosition, Spills, skip_row};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes the key of a row, and the values by which it refers to others.
pub(super) type TakesReferring<'t> = &'t mut dyn FnMut(&[u8], &[u8]) -> Result<(), Failure>;

/// Rows that are looked for, in the order in which they were added. There may be as many as the
/// tables have.
pub(super) struct Sought {
    rows: Spill,
    /// Tables and columns by which rows are looked for.
    lookups: Vec<Lookup>,
    next: SpillPosition,
}

/// A table, and columns of it.
#[derive(Debug, Clone, PartialEq)]
struct Lookup {
    table: String,
    columns: Vec<String>,
}

/// Bytes of the number of a lookup in front of values.
const LOOKUP_BYTES: usize = 4;

impl Sought {
    /// None, with memory and files from `spills`.
    pub(super) fn within(spills: &Arc<Spills>) -> Sought {
        Sought { rows: spills.open(), lookups: Vec::new(), next: SpillPosition::default() }
    }

    /// Adds the rows of a table that have these values in these columns.
    pub(super) fn add(
        &mut self,
        table: &str,
        columns: &[impl AsRef<str>],
        values: &[u8],
    ) -> Result<(), Failure> {
        let is_same = |lookup: &Lookup| {
            let same = |(one, other): (&String, _)| one == AsRef::<str>::as_ref(other);
            lookup.table == table
                && lookup.columns.len() == columns.len()
                && lookup.columns.iter().zip(columns).all(same)
        };
        let known = self.lookups.iter().position(is_same);
        let number = known.unwrap_or(self.lookups.len());
        if known.is_none() {
            let columns = columns.iter().map(|column| column.as_ref().to_owned()).collect();
            self.lookups.push(Lookup { table: table.to_owned(), columns });
        }
        self.rows.append([&(number as u32).to_le_bytes(), values].concat())
    }

    /// The next ones, and their values; none behind the last.
    fn next(&mut self) -> Result<Option<(Lookup, Vec<u8>)>, Failure> {
        let torn = || Failure::new(Code::Bug, "rows that are looked for do not read");
        let Some(chunk) = self.rows.read_at(&mut self.next)? else { return Ok(None) };
        let (number, values) = chunk.split_first_chunk::<LOOKUP_BYTES>().ok_or_else(torn)?;
        let lookup = self.lookups.get(u32::from_le_bytes(*number) as usize).ok_or_else(torn)?;
        Ok(Some((lookup.clone(), values.to_vec())))
    }
}

/// Shows the rows sought, and all that they refer to, as they were before the upload. Takes the
/// attempt back.
pub(super) fn visit_rows_above(
    attempt: &Attempt<'_>,
    user_tables: &BTreeMap<String, UserTable>,
    mut sought: Sought,
    visit: &mut dyn FnMut(RowId) -> Result<(), Failure>,
) -> Result<(), Failure> {
    attempt.connection.execute_batch("ROLLBACK TO rows").map_err(failed("undo the attempt"))?;
    let mut seen = SpillMap::new(attempt.spills);
    while let Some((lookup, values)) = sought.next()? {
        let Some(table) = user_tables.get(&lookup.table) else { continue };
        let position = attempt.tables.iter().position(|t| t.published.name == table.name);
        let of = (table, lookup.columns.as_slice(), values.as_slice());
        visit_found(attempt, of, &mut |key, referring| {
            let known = [table.name.as_bytes(), &[0], key].concat();
            if seen.get(&known)?.is_some() {
                return Ok(());
            }
            seen.add(known, Vec::new())?;
            let mut rest = referring;
            for foreign_key in &table.foreign_keys {
                let behind = skip_row(rest, foreign_key.columns.len())?;
                let columns: Vec<&String> = foreign_key.columns.iter().map(|(_, to)| to).collect();
                let values = &rest[..rest.len() - behind.len()];
                sought.add(&foreign_key.parent, &columns, values)?;
                rest = behind;
            }
            position.map_or(Ok(()), |position| visit((position, key.to_vec())))
        })?;
    }
    Ok(())
}

/// Shows the keys of the rows of a table that have these values in these columns, and what each
/// refers to.
fn visit_found(
    attempt: &Attempt<'_>,
    (table, by, values): (&UserTable, &[String], &[u8]),
    visit: TakesReferring<'_>,
) -> Result<(), Failure> {
    let looking = |error| script_failed(error, &table.name, "the search for broken foreign keys");
    let conditions: Vec<String> = by
        .iter()
        .enumerate()
        .map(|(n, column)| format!("t.{} = ?{}", ident(column), n + 1))
        .collect();
    let referring = table.foreign_keys.iter().flat_map(|key| &key.columns);
    let columns: Vec<&str> = table
        .key
        .iter()
        .map(String::as_str)
        .chain(referring.map(|(from, _)| from.as_str()))
        .collect();
    let (columns_sql, name) = (idents("t.", &columns), ident(&table.name));
    let sql = format!("SELECT {columns_sql} FROM {name} AS t WHERE {}", conditions.join(" AND "));
    let mut statement = attempt.connection.prepare_cached(&sql).map_err(looking)?;
    let mut values = RowReader::new(values);
    for n in 0..by.len() {
        statement.raw_bind_parameter(n + 1, Bind(values.value()?)).map_err(looking)?;
    }
    let mut rows = statement.raw_query();
    let mut bytes = Vec::new();
    while let Some(row) = rows.next().map_err(looking)? {
        bytes.clear();
        write_row(&mut bytes, row, columns.len()).map_err(looking)?;
        let referring = skip_row(&bytes, table.key.len())?;
        visit(&bytes[..bytes.len() - referring.len()], referring)?;
    }
    Ok(())
}
