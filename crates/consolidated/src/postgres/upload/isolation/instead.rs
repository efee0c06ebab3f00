//! Rows that a trigger of the owner keeps from being written, while nothing stands in their way.
//!
//! What it does instead is the owner's will and stays. It was undone when these rows were looked
//! for, so they are given to the trigger once more.

use crate::postgres::upload::isolation::group::{Group, halve};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::stop::Stop;
use crate::upload::uploaded_row::event_of;
use crate::upload::verdict::Instead;

/// Leaves rows to the trigger, and tells the remote what became of each. Rows of a user's script
/// are only rejected: a script that changes nothing is undone.
pub(super) fn leave(isolation: &mut Isolation<'_, '_>, group: Group) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let deployed = &isolation.table(table).deployed;
    let (published, own) = (&deployed.published, deployed.is_own(change));
    let mut stack = vec![rows];
    while let Some(rows) = stack.pop() {
        if rows.is_empty() {
            continue;
        }
        if !own {
            match isolation.run(table, change, event_of(change), &rows)? {
                Ran::Affected(_) => isolation.keep(),
                Ran::Fault(fault) if rows.len() == 1 => {
                    isolation.undo();
                    isolation.reject(table, change, &rows[0], fault.into_reason())?;
                    continue;
                }
                Ran::Fault(_) => {
                    isolation.undo();
                    halve(rows, &mut stack);
                    continue;
                }
            }
        }
        let now = isolation.fetch(table, change, &rows)?;
        for bytes in &rows {
            let row = isolation.read(table, change, bytes)?;
            let key = row.key(published, table).1;
            match Instead::of(&row, now.get(&key).map(Vec::as_slice))? {
                Instead::Same => isolation.echo(table, change, std::slice::from_ref(bytes))?,
                Instead::Kept => isolation.owe(table, change, bytes)?,
                Instead::Ignored => {
                    let reason = isolation.vetoed(table, change)?;
                    isolation.reject(table, change, bytes, reason)?;
                }
            }
        }
    }
    Ok(())
}
