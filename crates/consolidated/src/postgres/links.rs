//! Foreign keys between the tables of an upload.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::Link;
use crate::quote::ident;
use crate::upload::detached::Reference;
use model::Failure;
use std::sync::Arc;

/// Child and parent of every foreign key between the given tables, with their columns.
const READ: &str = "SELECT c.at::int4, p.at::int4,
    ARRAY(SELECT a.attname::text FROM unnest(o.conkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.num ORDER BY k.at),
    ARRAY(SELECT a.attname::text FROM unnest(o.confkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.confrelid AND a.attnum = k.num ORDER BY k.at)
FROM unnest($1::text[]) WITH ORDINALITY AS c(name, at)
JOIN pg_constraint AS o ON o.conrelid = c.name::regclass AND o.contype = 'f'
JOIN unnest($1::text[]) WITH ORDINALITY AS p(name, at) ON o.confrelid = p.name::regclass
ORDER BY o.oid";

/// The foreign keys between `tables` over published columns.
pub(super) fn references(
    link: &mut Link,
    tables: &[Arc<Table>],
) -> Result<Vec<Reference>, Failure> {
    let name = |table: &Arc<Table>| {
        let details = &table.deployed.details;
        let name = || format!("{}.{}", ident(&details.schema), ident(&details.name));
        table.deployed.is_known().then(name)
    };
    let names: Vec<Option<String>> = tables.iter().map(name).collect();
    let mut references = Vec::new();
    for row in link.query(READ, &[&names]).map_err(failed("read foreign keys"))? {
        let place = |at: usize| row.try_get::<i32>(at).map(|number| number as usize - 1);
        let (child, parent) = (place(0).map_err(unreadable)?, place(1).map_err(unreadable)?);
        let positions = |at: usize, table: usize| -> Result<Option<Vec<usize>>, Failure> {
            let names: Vec<String> = row.try_get(at).map_err(unreadable)?;
            let published = &tables[table].deployed.published.columns;
            let position = |name: &String| published.iter().position(|known| known == name);
            Ok(names.iter().map(position).collect())
        };
        let (columns, referred) = (positions(2, child)?, positions(3, parent)?);
        let (Some(columns), Some(referred)) = (columns, referred) else { continue };
        references.push(Reference { child, columns, parent, referred });
    }
    Ok(references)
}
