//! Finds the owed rows that no script can read, because of what they contain.
//!
//! A download asks for all rows of a table at once. Where that fails, the transaction is lost. So
//! the download begins again, and asks in savepoints before it sends anything.

use crate::download::owed::OwedKeys;
use crate::download::{self, Sink};
use crate::postgres::catalog::table::Table;
use crate::postgres::download::cursor::Source;
use crate::postgres::download::owed;
use crate::postgres::download::search::Search;
use crate::postgres::errors::{Fault, failed, script_failed};
use crate::postgres::link::{Call, Link};
use crate::postgres::statement::{Slot, Value, as_parameters};
use crate::postgres::upload::row_fault::{may_be_a_row, row_fault};
use crate::script::Event;
use crate::upload::halving;
use model::Failure;

/// Why nothing was fetched.
pub(in crate::postgres) enum Unfetched {
    /// A script cannot read a row, because of what the row contains.
    Unreadable(Failure),
    Failed(Failure),
}

impl From<Failure> for Unfetched {
    fn from(failure: Failure) -> Unfetched {
        Unfetched::Failed(failure)
    }
}

impl Unfetched {
    /// What the failure of the script that looks owed rows up means.
    pub(in crate::postgres) fn reading(table: &Table, event: Event, fault: Fault) -> Unfetched {
        let may_be_a_row = may_be_a_row(&fault);
        let name = &table.deployed.published.name;
        let failure = script_failed(name, event.name())(fault);
        match may_be_a_row {
            true => Unfetched::Unreadable(failure),
            false => Unfetched::Failed(failure),
        }
    }
}

const UNDO: &str = "ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked";

/// Those of `keys` that cannot be read, and why.
pub(super) fn find<'k>(
    link: &mut Link,
    table: &Table,
    source: Source<'_>,
    keys: &'k [&'k [u8]],
) -> Result<Vec<(&'k &'k [u8], String)>, Failure> {
    let (_, statement) = table.lookup()?;
    halving::failing(keys, |some| {
        let values = statement.slots.iter().map(|slot| match slot {
            Slot::NewColumn(column) | Slot::OldColumn(column) => {
                Ok(Box::new(owed::key_array(some.iter().copied(), table, *column)?) as Value<'_>)
            }
            _ => Ok(source.value(slot)),
        });
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        let parameters = as_parameters(&values);
        let calls = [
            Call::Simple("SAVEPOINT asked"),
            Call::new(&statement.sql, &parameters),
            Call::Simple("RELEASE SAVEPOINT asked"),
        ];
        let asked = link.stream(&calls, &mut |_, _| Ok(()));
        let Err(fault) = asked else { return Ok(None) };
        let Some(row_fault) = row_fault(&fault) else {
            return Err(failed("read what the remote is owed")(fault));
        };
        link.batch(UNDO).map_err(failed("undo what failed"))?;
        Ok(Some(row_fault.into_reason().message))
    })
}

/// Takes out the owed rows that no script can read.
pub(super) fn leave_to_cursors(
    link: &mut Link,
    search: Search<'_>,
    owed: &mut [OwedKeys],
    sink: Sink<'_>,
) -> Result<(), Failure> {
    let unreadable = |table: usize, keys: &[Vec<u8>]| {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = find(link, &search.tables[table], search.source(), &keys)?;
        Ok(found.into_iter().map(|(key, message)| (key.to_vec(), message)).collect())
    };
    download::owed::leave_to_cursors(owed, search.ranges, unreadable, sink)
}
