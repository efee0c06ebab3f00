//! Refuses rows whose key the database spells otherwise than the remote (`key_spelling.rs`).

use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::key_spelling::{KeyColumn, KeySpelling};
use crate::postgres::statement::{Slot, Statement};
use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::isolation::group::Group;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::stop::Stop;
use crate::postgres::values::Kind;
use crate::synchronization::change::Change;
use crate::upload::halving;
use model::Code;

/// Asks which rows of a batch have a key that the database spells otherwise. It returns their
/// positions, from 1. `old`: it looks at the keys that the rows had.
fn misspelled(table: &Table, spelling: &KeySpelling, old: bool) -> Statement {
    let columns = &table.deployed.details.columns;
    let (mut slots, mut selected, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    for KeyColumn { at, asked, .. } in &spelling.columns {
        let Some(asked) = asked else { continue };
        let column = &columns[*at];
        slots.push(if old { Slot::OldColumn(*at) } else { Slot::NewColumn(*at) });
        selected.push(format!("unnest(${}::{}[]) AS k{at}", slots.len(), column.wire().name()));
        let cast = column.cast_from_wire().map(|cast| format!("::{cast}")).unwrap_or_default();
        conditions.push(match column.kind {
            Kind::Numeric(_) => format!("(k.k{at}{cast})::{asked} IS DISTINCT FROM k.k{at}{cast}"),
            _ => format!("(k.k{at}{cast})::{asked}::text COLLATE \"C\" IS DISTINCT FROM k.k{at}"),
        });
    }
    let sql = format!(
        "SELECT k.position FROM (SELECT {}, generate_subscripts($1, 1) AS position) AS k WHERE {}",
        selected.join(", "),
        conditions.join("\n    OR "),
    );
    Statement { sql, slots, set_based: true, keeps_plan: false, own: None }
}

/// Rejects the rows of `group` whose key the database spells otherwise, and returns the others.
pub(in crate::postgres) fn refuse_misspelled(
    isolation: &mut Isolation<'_, '_>,
    group: Group,
) -> Result<Group, Stop> {
    let Group { table, change, rows } = group;
    let this = isolation.table(table);
    let asked = |spelling: &&KeySpelling| spelling.columns.iter().any(|it| it.asked.is_some());
    let Some(spelling) = this.deployed.details.spelling.as_ref().filter(asked) else {
        return Ok(Group { table, change, rows });
    };
    let statement = misspelled(this, spelling, change != Change::Insert);
    let mut good = Vec::new();
    let unreadable = halving::failing(&rows, |some| {
        Ok::<_, Stop>(match isolation.positions(table, change, &statement, some)? {
            Err(fault) => Some(fault.into_reason()),
            Ok(found) => {
                for (at, row) in some.iter().enumerate() {
                    match found.contains(&at) {
                        true => isolation.reject(table, change, row, otherwise(this))?,
                        false => good.push(row.clone()),
                    }
                }
                None
            }
        })
    })?;
    for (row, reason) in unreadable {
        let reason = Reason { code: Code::RowKeyUnreadable, ..reason };
        isolation.reject(table, change, row, reason)?;
    }
    Ok(Group { table, change, rows: good })
}

/// Why a row is refused whose key is misspelled.
fn otherwise(table: &Table) -> Reason {
    let table = &table.deployed.published;
    let key: Vec<&str> =
        table.key.iter().map(|at| table.columns[usize::from(*at)].as_str()).collect();
    (Code::RowRefused, format!("key {}: the center spells it differently", key.join(", "))).into()
}
