//! The foreign keys that the tables of a file declare, the user's own tables included.

use rusqlite::{Connection, Row};

/// A foreign key as SQLite lists it.
pub(crate) struct ForeignKey {
    /// The table that refers, and the number that the key has there.
    pub(crate) child: String,
    pub(crate) number: i64,
    pub(crate) parent: String,
    /// Per column what refers to what; to nothing named where the primary key is meant.
    pub(crate) columns: Vec<(String, Option<String>)>,
    pub(crate) on_delete: String,
}

/// Those of all tables, in the order of their names.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<ForeignKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT s.name, f.id, f.\"table\", f.\"from\", f.\"to\", f.on_delete
         FROM sqlite_schema AS s, pragma_foreign_key_list(s.name) AS f
         WHERE s.type = 'table' ORDER BY s.name, f.id, f.seq",
    )?;
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        add(&mut found, row)?;
    }
    Ok(found)
}

/// Those of one table.
pub(crate) fn of(connection: &Connection, child: &str) -> rusqlite::Result<Vec<ForeignKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT ?1, id, \"table\", \"from\", \"to\", on_delete
         FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut found = Vec::new();
    let mut rows = statement.query([child])?;
    while let Some(row) = rows.next()? {
        add(&mut found, row)?;
    }
    Ok(found)
}

/// Adds one column: to the last key where it is that one's.
fn add(found: &mut Vec<ForeignKey>, row: &Row<'_>) -> rusqlite::Result<()> {
    let (child, number): (String, i64) = (row.get(0)?, row.get(1)?);
    let column = (row.get(3)?, row.get(4)?);
    match found.last_mut() {
        Some(last) if last.child == child && last.number == number => last.columns.push(column),
        _ => {
            found.push(ForeignKey {
                child,
                number,
                parent: row.get(2)?,
                columns: vec![column],
                on_delete: row.get(5)?,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_columns_and_tables_are_told_apart() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
                 CREATE TABLE one (id INTEGER PRIMARY KEY);
                 CREATE TABLE zebra (x INTEGER, y INTEGER, one INTEGER REFERENCES one (id)
                     ON DELETE CASCADE, FOREIGN KEY (x, y) REFERENCES pair);
                 CREATE TABLE ant (one INTEGER REFERENCES one);",
            )
            .unwrap();
        let spell = |key: ForeignKey| {
            let column = |(from, to): (String, Option<String>)| match to {
                Some(to) => format!("{from}>{to}"),
                None => from,
            };
            let columns: Vec<String> = key.columns.into_iter().map(column).collect();
            format!("{} {} {} {}", key.child, columns.join(","), key.parent, key.on_delete)
        };
        let all: Vec<String> = all(&connection).unwrap().into_iter().map(spell).collect();
        assert_eq!(
            all,
            ["ant one one NO ACTION", "zebra x,y pair NO ACTION", "zebra one>id one CASCADE"]
        );
        let of_zebra: Vec<String> =
            of(&connection, "zebra").unwrap().into_iter().map(spell).collect();
        assert_eq!(of_zebra, all[1..]);
    }
}
