//! Tables whose functions and collations only their application has.

use harness::{World, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// SQLite only makes such tables in the application.
const CREATE: &str = "CREATE TABLE shelf (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE);
    CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT,
        sort TEXT AS (lower(title)), CHECK (lower(title) > ''));
    CREATE TABLE note (id INTEGER PRIMARY KEY, book INTEGER REFERENCES book (id), text TEXT);
    CREATE TRIGGER noted AFTER UPDATE ON note BEGIN SELECT lower(new.text); END;
    INSERT INTO shelf VALUES (1, 'one');
    INSERT INTO note VALUES (1, NULL, 'first');
    PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET sql = replace(
        replace(sql, 'NOCASE', 'german'), 'lower(', 'title_sort(');
    PRAGMA writable_schema = OFF";

// S4, S9: the remote could not be written to, because the table was made there as it is at the
// center; and the first change of a row ended all synchronizations.
#[test]
fn what_only_an_application_can_run_stops_no_other_row() {
    let world = World::new(PROGRAM, CREATE);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let ann = world.remote("ann");
    sql(
        &ann,
        "INSERT INTO shelf VALUES (2, 'two'); UPDATE shelf SET name = 'uno' WHERE id = 1;
         INSERT INTO book (id, title) VALUES (1, 'mine');
         INSERT INTO note VALUES (2, NULL, 'second'), (3, 1, 'of the book');
         UPDATE note SET text = 'changed' WHERE id = 1",
    );
    world.center_sql("INSERT INTO shelf VALUES (9, 'nine')");
    world.sync("ann", &server);
    world.sync("ann", &server);
    let rows = |select: &str| query(&ann, select).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(rows("SELECT name FROM shelf ORDER BY id"), ["'uno'", "'two'", "'nine'"]);
    assert_eq!(rows("SELECT text FROM note ORDER BY id"), ["'first'", "'second'"]);
    assert_eq!(rows("SELECT count(*) FROM book"), ["0"]);
    let rejects = world.syncline.ok(&["remote", "rejects", ann.to_str().unwrap()]);
    assert_eq!(rejects.matches("E7002").count(), 2, "{rejects}");
    assert_eq!(rejects.matches("E7003").count(), 1, "{rejects}");
    assert!(rejects.contains("the trigger noted of table note"), "{rejects}");
    world.assert_converged(&["ann"]);
}
