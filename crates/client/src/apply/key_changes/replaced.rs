//! Rows of which the center has given the key to a row that follows its parent.
//!
//! A delete names the key that the row had last at the center. Where another row has got the key
//! under which this remote knows the deleted row, nothing names that key. The row that arrives
//! there takes its place.

use crate::apply::key_changes::followers::Follow;
use crate::apply::values::{bind_all, key_of};
use crate::apply::{kept_back, key_changes};
use crate::connection::explain;
use crate::schema::key_reference::{in_key, matches};
use crate::sql::{all, ident};
use model::{Failure, Value, ValueRef};

impl Follow<'_, '_> {
    /// Deletes the rows that are in the way of children that the center has moved. False if there
    /// are none, or if none may go: a row with a pending change, one that goes to another key
    /// itself, and rows that only this file has.
    pub(super) fn delete_replaced(&self) -> Result<bool, Failure> {
        if self.followers.staying(self.reference).is_none()
            || !self.reference.columns.iter().any(|name| in_key(self.child, name))
        {
            return Ok(false);
        }
        let keys = self.replaced_keys()?;
        for key in &keys {
            let key: Vec<ValueRef<'_>> = key.iter().map(Value::as_ref).collect();
            if kept_back::has_any(self.followers.connection, self.child).map_err(explain)? {
                kept_back::forget(self.followers.connection, self.child, &key)?;
            }
            let circumstances = self.followers.circumstances;
            key_changes::delete(self.followers.connection, circumstances, self.child, &key)?;
        }
        Ok(!keys.is_empty())
    }

    fn replaced_keys(&self) -> Result<Vec<Vec<Value>>, Failure> {
        let Follow { followers, table, reference, child, shift } = *self;
        let (columns, width) = (&reference.columns, table.key.len());
        let refers =
            |alias: &str| matches(table, columns, |name| format!("{alias}{}", ident(name)));
        let arrives = all(child.key.iter().map(|key| {
            let part = columns.iter().position(|name| name.eq_ignore_ascii_case(&key.name));
            let name = ident(&key.name);
            let becomes = part.map_or(format!("t.{name}"), |n| format!("?{}", width + n + 1));
            format!("o.{name} = {becomes}{}", key.collate())
        }));
        let comes = followers.told.has_come(reference, table, child, &child.same_key("t.", "s."));
        let goes = followers.told.speaks_of_row(child, &child.same_key("o.", "s."));
        let pending = match child.uploads() {
            false => "0".into(),
            true => format!(
                "EXISTS (SELECT 1 FROM {} AS c WHERE c.\"generation\" = {} AND {})",
                child.change_sql(),
                followers.circumstances.open_generation,
                child.same_key("o.", "c."),
            ),
        };
        let sql = format!(
            "SELECT {keys} FROM {rows} AS o WHERE NOT {there} AND NOT {goes} \
             AND EXISTS (SELECT 1 FROM {rows} AS t WHERE {here} AND {arrives} AND {comes}) \
             AND NOT {pending}",
            keys = child.keys_sql("o."),
            rows = child.table_sql(),
            there = refers("o."),
            here = refers("t."),
        );
        let mut statement = followers.connection.prepare_cached(&sql).map_err(explain)?;
        bind_all(&mut statement, &shift.values()).map_err(explain)?;
        let mut rows = statement.raw_query();
        let mut keys = Vec::new();
        while let Some(row) = rows.next().map_err(explain)? {
            keys.push(key_of(child, row).map_err(explain)?);
        }
        Ok(keys)
    }
}
