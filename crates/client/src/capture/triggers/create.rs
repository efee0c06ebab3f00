//! Creates triggers, many of them at once.
//!
//! For each statement that creates something SQLite reads the whole list of what there is in the
//! file. With a thousand tables the triggers took most of the first synchronization: ten seconds,
//! and four times as long with twice as many tables. So many triggers are written into that list as
//! rows, as SQLite itself does it, and SQLite reads it once behind them.

use rusqlite::Connection;

/// From so many on they are created at once.
const AT_ONCE_MIN: usize = 60;

/// A trigger that is to be there.
pub(super) struct Missing<'t> {
    pub(super) name: String,
    pub(super) table: &'t str,
    pub(super) sql: String,
}

/// Creates triggers that are not there. Call in a transaction: where one of them is wrong, nothing
/// of it may stay.
pub(super) fn create(connection: &Connection, missing: &[Missing<'_>]) -> rusqlite::Result<()> {
    match missing.len() < AT_ONCE_MIN {
        true => missing.iter().try_for_each(|trigger| connection.execute_batch(&trigger.sql)),
        false => create_at_once(connection, missing),
    }
}

fn create_at_once(connection: &Connection, missing: &[Missing<'_>]) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA writable_schema = ON")?;
    let written = write(connection, missing);
    // Whatever has become of it, nobody else may write there.
    connection.execute_batch("PRAGMA writable_schema = RESET")?;
    written?;
    // The first statement behind it reads the triggers, and fails where one of them is wrong. That
    // other connections read them again takes one that changes the schema.
    connection.execute_batch("CREATE TABLE syncline_reread (x); DROP TABLE syncline_reread")
}

fn write(connection: &Connection, missing: &[Missing<'_>]) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("INSERT INTO sqlite_schema VALUES ('trigger', ?1, ?2, 0, ?3)")?;
    for Missing { name, table, sql } in missing {
        statement.execute([name.as_str(), table, sql.as_str()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 2 * AT_ONCE_MIN;

    fn tables() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("remote.db")).unwrap();
        for number in 0..COUNT {
            let sql = format!("CREATE TABLE \"It em{number}\" (id); CREATE TABLE log{number} (id)");
            connection.execute_batch(&sql).unwrap();
        }
        (folder, connection)
    }

    fn missing(names: &[String]) -> Vec<Missing<'_>> {
        let trigger = |(number, table)| Missing {
            name: format!("tr_{number}"),
            table,
            sql: format!(
                "CREATE TRIGGER \"tr_{number}\" AFTER INSERT ON \"{table}\"\nBEGIN\n  \
                 INSERT INTO log{number} VALUES (NEW.id);\nEND"
            ),
        };
        names.iter().map(String::as_str).enumerate().map(trigger).collect()
    }

    fn schema(connection: &Connection) -> Vec<(String, String, String)> {
        let sql = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn triggers_created_at_once_are_those_that_are_created_one_by_one() {
        let names: Vec<String> = (0..COUNT).map(|number| format!("it em{number}")).collect();
        let missing = missing(&names);
        let (_one, one_by_one) = tables();
        missing.iter().for_each(|trigger| one_by_one.execute_batch(&trigger.sql).unwrap());
        let (folder, at_once) = tables();
        let other = Connection::open(folder.path().join("remote.db")).unwrap();
        let insert = "INSERT INTO \"It em7\" VALUES (5)";
        let mut prepared = other.prepare(insert).unwrap();
        prepared.execute([]).unwrap();
        at_once.execute_batch("BEGIN").unwrap();
        create(&at_once, &missing).unwrap();
        at_once.execute_batch(&format!("{insert}; COMMIT")).unwrap();
        assert_eq!(schema(&at_once), schema(&one_by_one));
        // What another connection has prepared before notices them.
        prepared.execute([]).unwrap();
        let count = |connection: &Connection, sql: &str| -> i64 {
            connection.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count(&other, "SELECT count(*) FROM log7"), 2);
        let whole: String =
            at_once.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
        at_once.execute_batch("DROP TABLE \"it em7\"").unwrap();
        assert_eq!(schema(&at_once).len(), COUNT - 1, "they go with their table");
        // Nobody may write to the schema any more.
        assert!(at_once.execute_batch("DELETE FROM sqlite_schema").is_err());
    }

    #[test]
    fn a_wrong_one_fails_and_leaves_nothing() {
        let names: Vec<String> = (0..COUNT).map(|number| format!("It em{number}")).collect();
        for wrong in ["CREATE TRIGGER \"tr_9\" AFTER INSERT ON nowhere BEGIN SELECT 1; END", "x"] {
            let (_folder, connection) = tables();
            let mut missing = missing(&names);
            missing[9].sql = wrong.to_owned();
            connection.execute_batch("BEGIN").unwrap();
            assert!(create(&connection, &missing).is_err());
            connection.execute_batch("ROLLBACK").unwrap();
            assert_eq!(schema(&connection), []);
            connection.execute_batch("INSERT INTO \"It em7\" VALUES (5)").unwrap();
        }
    }
}
