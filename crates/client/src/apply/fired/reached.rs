//! The tables that triggers may write to, by themselves, by other triggers or by foreign keys.
//!
//! Each trigger that is copied costs time with each download. A table that no text names and no
//! foreign key follows is not written to.

use super::stored::Stored;
use crate::connection::explain;
use crate::schema::foreign_keys;
use crate::sql::tokens::tokens;
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Names of tables, in lower case.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeSet<String>);

impl Reached {
    /// What the triggers on tables that are `firing` may write to.
    pub(super) fn from(
        connection: &Connection,
        triggers: &[Stored],
        firing: &dyn Fn(&Stored) -> bool,
    ) -> Result<Reached, Failure> {
        let keys = foreign_keys::all(connection).map_err(explain)?;
        let mut reached = Reached::default();
        let mut read = BTreeSet::new();
        // Every round but the last reads a trigger or adds a table.
        loop {
            let mut is_news = false;
            for (at, trigger) in triggers.iter().enumerate() {
                if (firing(trigger) || reached.has(&trigger.table)) && read.insert(at) {
                    reached.0.extend(tokens(&trigger.sql).iter().map(|it| plain(it.text)));
                    is_news = true;
                }
            }
            for key in &keys {
                is_news |=
                    reached.has(&key.parent) && reached.0.insert(key.child.to_ascii_lowercase());
            }
            if !is_news {
                return Ok(reached);
            }
        }
    }

    /// Whether the table may be written to.
    pub(super) fn has(&self, table: &str) -> bool {
        self.0.contains(&table.to_ascii_lowercase())
    }
}

/// A name as SQLite compares it, without its quotes.
fn plain(name: &str) -> String {
    let mut inner = name.chars();
    let quote = inner.next().filter(|first| "\"'`[".contains(*first));
    let Some(quote) = quote else { return name.to_ascii_lowercase() };
    inner.next_back();
    let closing = if quote == '[' { ']' } else { quote };
    let doubled = format!("{closing}{closing}");
    inner.as_str().replace(&doubled, &closing.to_string()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_whatever_their_quotes() {
        for (written, name) in [
            ("My", "my"),
            ("\"My \"\"T\"\"\"", "my \"t\""),
            ("[my t]", "my t"),
            ("`a``b`", "a`b"),
            ("'a''b'", "a'b"),
            ("\"", ""),
        ] {
            assert_eq!(plain(written), name);
        }
    }

    #[test]
    fn tables_are_reached_by_triggers_and_foreign_keys() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t(id); CREATE TABLE \"A b\"(id INTEGER PRIMARY KEY);
                 CREATE TABLE c(id);
                 CREATE TABLE child(id, a REFERENCES \"A b\" ON DELETE CASCADE);
                 CREATE TABLE idle(id); CREATE TABLE far(id);
                 CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM [a B]; END;
                 CREATE TRIGGER y AFTER DELETE ON child BEGIN DELETE FROM C; END;
                 CREATE TRIGGER z AFTER DELETE ON idle BEGIN DELETE FROM far; END;",
            )
            .unwrap();
        let triggers = super::super::stored::stored(&connection, &[]).unwrap();
        let reached = Reached::from(&connection, &triggers, &|it| it.table == "t").unwrap();
        let names = ["t", "A b", "child", "c", "idle", "far"];
        let has = names.map(|name| reached.has(name));
        assert_eq!(has, [true, true, true, true, false, false]);
    }
}
