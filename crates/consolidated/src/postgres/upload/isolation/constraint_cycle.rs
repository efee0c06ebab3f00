//! Rows that block each other in a circle.
//!
//! Values of unique columns are exchanged (trap 10), or rows refer to each other (trap 11). Such
//! rows are applied together, with constraints deferred as far as possible. Before that, updated
//! rows whose unique values are taken get temporary values, and references that cannot be deferred
//! are set to NULL for a moment. If this fails too, the rows that failed are rejected, and the
//! others are tried again without them.

mod room;

use crate::postgres::deploy::details::TableDetails;
use crate::postgres::errors::{Fault, unreadable};
use crate::postgres::link::{Call, RowRef};
use crate::postgres::upload::batch::are_enough;
use crate::postgres::upload::isolation::constraint_cycle::room::{Known, make_room};
use crate::postgres::upload::isolation::group::turn;
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::row_fault::{RowFault, row_fault};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::values::row_decoder::Decoder;
use crate::quote::ident;
use crate::synchronization::change::Change;
use crate::upload::halving;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::event_of;
use crate::upload::waiting::{WaitingRow, WaitingRows};

/// The most times that a constraint cycle is tried without the rows that failed.
const ATTEMPTS_MAX: usize = 100;

/// A foreign key: its parent, the condition that child `c` and parent `p` match, and the one that
/// the child refers to something at all.
const FOREIGN_KEY: &str = "SELECT o.confrelid::regclass::text,
    string_agg(format('p.%I = c.%I', b.attname, a.attname), ' AND '),
    string_agg(format('c.%I IS NOT NULL', a.attname), ' AND ')
FROM pg_constraint AS o
CROSS JOIN unnest(o.conkey, o.confkey) AS k(child, parent)
JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.child
JOIN pg_attribute AS b ON b.attrelid = o.confrelid AND b.attnum = k.parent
WHERE o.conrelid = $1::text::regclass AND o.conname = $2::text AND o.contype = 'f'
GROUP BY o.oid";

/// Applies the waiting rows, or rejects them.
pub(in crate::postgres) fn untie(isolation: &mut Isolation<'_, '_>) -> Result<(), Stop> {
    let mut known = Known::new();
    let mut waiting = isolation.waiting_rows.take();
    waiting.sort_by_key(turn);
    for _ in 0..ATTEMPTS_MAX {
        if waiting.is_empty() {
            return Ok(());
        }
        let Some(failed) = together(isolation, &waiting, &mut known)? else { return Ok(()) };
        let mut failed = failed.into_iter();
        for row in waiting.remove(|_| failed.next() == Some(false)) {
            reject(isolation, row)?;
        }
    }
    waiting.remove(|_| false).into_iter().try_for_each(|row| reject(isolation, row))
}

/// Applies all of `waiting`, or none and says of each whether it failed.
fn together(
    isolation: &mut Isolation<'_, '_>,
    waiting: &WaitingRows,
    known: &mut Known,
) -> Result<Option<Vec<bool>>, Stop> {
    isolation.flush()?;
    isolation
        .link
        .batch("SAVEPOINT constraint_cycle; SET CONSTRAINTS ALL DEFERRED")
        .map_err(stopped("set a savepoint"))?;
    let mut failed = vec![false; waiting.len()];
    for set in sets(isolation, waiting, known)? {
        set.apply(isolation, &mut failed)?;
    }
    isolation.flush()?;
    if !failed.contains(&true) {
        check(isolation, waiting, &mut failed)?;
    }
    isolation.flush()?;
    if failed.contains(&true) {
        isolation
            .link
            .batch("ROLLBACK TO SAVEPOINT constraint_cycle; RELEASE SAVEPOINT constraint_cycle")
            .map_err(stopped("undo what failed"))?;
        return Ok(Some(failed));
    }
    isolation
        .link
        .batch("RELEASE SAVEPOINT constraint_cycle")
        .map_err(stopped("end a savepoint"))?;
    for WaitingRow { table, change, row, .. } in waiting.rows() {
        isolation.echo(*table, *change, std::slice::from_ref(row))?;
    }
    Ok(None)
}

/// Rows of one table with one change, each with its number in the constraint cycle.
struct Set {
    table: usize,
    change: Change,
    rows: Vec<(usize, Vec<u8>)>,
}

/// What is left to do for the rows of a constraint cycle, once there is room for them.
fn sets(
    isolation: &mut Isolation<'_, '_>,
    waiting: &WaitingRows,
    known: &mut Known,
) -> Result<Vec<Set>, Stop> {
    let mut sets: Vec<Set> = Vec::new();
    for (number, row) in waiting.rows().iter().enumerate() {
        let table = row.table;
        let (change, bytes) = make_room(isolation, row, number, known)?;
        let member = (number, bytes);
        match sets.iter_mut().find(|set| (set.table, set.change) == (table, change)) {
            Some(set) => set.rows.push(member),
            None => sets.push(Set { table, change, rows: vec![member] }),
        }
    }
    Ok(sets)
}

impl Set {
    /// Applies them, and notes in `failed` which could not be. Rows that refer to each other within
    /// one table must come in one statement, as far as it takes them.
    fn apply(&self, isolation: &mut Isolation<'_, '_>, failed: &mut [bool]) -> Result<(), Stop> {
        let mut rest = &self.rows[..];
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            while count < rest.len() && !are_enough(count, bytes) {
                bytes += rest[count].1.len();
                count += 1;
            }
            let (members, others) = rest.split_at(count);
            rest = others;
            let failing = halving::failing(members, |some| {
                let rows: Vec<Vec<u8>> = some.iter().map(|(_, row)| row.clone()).collect();
                match isolation.run(self.table, self.change, event_of(self.change), &rows)? {
                    Ran::Affected(count) if count >= rows.len() as u64 => isolation.keep(),
                    _ => {
                        isolation.undo();
                        return Ok::<_, Stop>(Some(()));
                    }
                }
                Ok(None)
            })?;
            failing.into_iter().for_each(|((number, _), ())| failed[*number] = true);
        }
        Ok(())
    }
}

fn reject(isolation: &mut Isolation<'_, '_>, waiting_rows: WaitingRow) -> Result<(), Stop> {
    let WaitingRow { table, change, row, reason } = waiting_rows;
    Ok(isolation.reject(table, change, &row, reason)?)
}

/// Checks what was deferred. Blames the rows that refer to nothing, or else all of the table that
/// is named, or else all.
fn check(
    isolation: &mut Isolation<'_, '_>,
    waiting: &WaitingRows,
    failed: &mut [bool],
) -> Result<(), Stop> {
    let checking = "SAVEPOINT checked; SET CONSTRAINTS ALL IMMEDIATE";
    let Err(fault) = isolation.link.batch(checking) else { return Ok(()) };
    if !matches!(row_fault(&fault), Some(RowFault::References(_) | RowFault::NotUnique(_))) {
        return Err(stopped("check constraints")(fault));
    }
    isolation.link.batch("ROLLBACK TO SAVEPOINT checked").map_err(stopped("undo what failed"))?;
    let mut tables = waiting.rows().iter().map(|row| row.table);
    let named = tables.find(|table| names(&fault, &isolation.table(*table).deployed.details));
    let Some(named) = named else {
        failed.fill(true);
        return Ok(());
    };
    let constraint = fault.db().and_then(|said| said.constraint());
    let orphans = orphans(isolation, named, constraint)?;
    for only_orphans in [true, false] {
        for (failed, WaitingRow { table, change, row, .. }) in failed.iter_mut().zip(waiting.rows())
        {
            let row = isolation.read(*table, *change, row)?;
            let key = row.key(&isolation.table(*table).deployed.published, *table);
            *failed = *table == named && (!only_orphans || orphans.contains(&key)?);
        }
        if failed.contains(&true) {
            break;
        }
    }
    Ok(())
}

fn names(fault: &Fault, details: &TableDetails) -> bool {
    let said = fault.db().map(|said| (said.schema(), said.table()));
    said == Some((Some(details.schema.as_str()), Some(details.name.as_str())))
}

/// The rows of a table whose foreign key `constraint` finds no parent.
fn orphans(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    constraint: Option<&str>,
) -> Result<RowMap, Stop> {
    let this = isolation.table(table);
    let (published, details) = (&this.deployed.published, &this.deployed.details);
    let name = details.sql_name();
    let asking = stopped("read a foreign key");
    let found = isolation
        .link
        .query(FOREIGN_KEY, &[&name, &constraint.unwrap_or_default()])
        .map_err(&asking)?;
    let mut orphans = RowMap::within(isolation.upload.spills);
    let Some(row) = found.first() else { return Ok(orphans) };
    let text = |at: usize| row.try_get::<String>(at).map_err(unreadable);
    let (parent, same, present) = (text(0)?, text(1)?, text(2)?);
    let key: Vec<_> = published.key.iter().map(|at| usize::from(*at)).collect();
    let selected: Vec<String> = key
        .iter()
        .map(|at| {
            let cast = if details.columns[*at].read_as_text() { "::text" } else { "" };
            format!("c.{}{cast}", ident(&published.columns[*at]))
        })
        .collect();
    let sql = format!(
        "SELECT {} FROM {name} AS c WHERE {present}
         AND NOT EXISTS (SELECT FROM {parent} AS p WHERE {same})",
        selected.join(", ")
    );
    let columns: Vec<_> = key.iter().map(|at| &details.columns[*at]).collect();
    let each = &mut |_: usize, row: RowRef<'_>| {
        let mut key = Vec::new();
        Decoder::new(row, columns.iter().copied())?.write(row, &mut key)?;
        orphans.add(&(table, key))
    };
    isolation.link.stream(&[Call::new(&sql, &[])], each).map_err(&asking)?;
    Ok(orphans)
}
