//! Plans that PostgreSQL keeps for downloads are right for any later content of the tables.

use crate::support::center::{self, Center, Remote, Upload, int};
use crate::support::on_postgres;
use harness::postgres::{SUPERUSER, TestDatabase};
use harness::until;

const SCHEMA: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, rep integer, note text)
        WITH (autovacuum_enabled = off);
    CREATE INDEX ON t (rep, note);";
const TABLES: &str = "[table.t]\npartition = \"rep = {u.rep}\"\n";

fn remote(id: &'static str, rep: &str) -> Remote {
    let mut remote = Remote::new(id);
    remote.claims.insert("rep".into(), rep.into());
    remote
}

fn came(center: &mut Center, remote: &mut Remote) -> (usize, usize) {
    let download = center.synchronize(remote, &[]).1;
    (download.upserts.len(), download.deletes.len())
}

/// What the connections have read is known for certain when they are gone.
fn disconnect(center: Center, database: &TestDatabase) {
    drop(center);
    until("the connections to be gone", || {
        database.count(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'syncline'",
        ) == 0
    });
}

/// The plan is made while the table is empty, and its statistics say so. Then nearly all rows
/// are of one partition, and the index has them in another order than the table.
#[test]
fn a_kept_plan_finds_few_rows_without_the_others_and_reads_no_page_of_many_rows_twice() {
    const MANY: i64 = 50_000;
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let (mut few, mut many) = (remote("few", "1"), remote("many", "2"));
    database.sql("ANALYZE t");
    for _ in 0..8 {
        assert_eq!(came(&mut center, &mut few), (0, 0));
        assert_eq!(came(&mut center, &mut many), (0, 0));
    }
    database.sql(&format!(
        "INSERT INTO t SELECT g, 2, md5(g::text) FROM generate_series(1, {MANY}) AS g;
         INSERT INTO t SELECT -g, 1, md5(g::text) FROM generate_series(1, 5) AS g"
    ));
    database.as_role(SUPERUSER).sql("SELECT pg_stat_reset()");
    assert_eq!(came(&mut center, &mut few), (5, 0));
    assert_eq!(came(&mut center, &mut few), (0, 0));
    assert_eq!(came(&mut center, &mut many), (MANY as usize, 0));
    disconnect(center, &database);
    let stat = |column: &str, of: &str| -> i64 {
        database.count(&format!("SELECT {column} FROM {of} WHERE relname = 't'"))
    };
    assert_eq!(stat("seq_tup_read", "pg_stat_user_tables"), 0, "rows read in sequence");
    let fetched = stat("idx_tup_fetch", "pg_stat_user_tables");
    assert!(fetched < MANY + 100, "{fetched} rows read for {MANY} and twice 5");
    let read = stat("heap_blks_read + heap_blks_hit", "pg_statio_user_tables");
    let pages = database.count("SELECT pg_relation_size('t') / 8192");
    assert!(read < pages + 100, "{read} pages read of {pages}");
}

// S2, S6: a log that is not asked has nothing that a download could have seen.
#[test]
fn a_departure_comes_once_after_its_commit_from_the_partition_that_it_left() {
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let (mut one, mut two) = (remote("one", "1"), remote("two", "2"));
    database.sql("INSERT INTO t VALUES (1, 1, ''), (2, 1, ''), (3, 2, ''), (4, 2, '')");
    assert_eq!(came(&mut center, &mut one), (2, 0));
    assert_eq!(came(&mut center, &mut two), (2, 0));
    let mut open = database.session();
    open.sql("BEGIN; DELETE FROM t WHERE id = 1; UPDATE t SET rep = 2 WHERE id = 2");
    for _ in 0..3 {
        assert_eq!(came(&mut center, &mut one), (0, 0));
    }
    database.sql("DELETE FROM t WHERE id = 3");
    assert_eq!(came(&mut center, &mut one), (0, 0));
    assert_eq!(came(&mut center, &mut two), (0, 1));
    open.sql("COMMIT");
    assert_eq!(came(&mut center, &mut one), (0, 2));
    assert_eq!(came(&mut center, &mut two), (1, 0));
    assert_eq!(came(&mut center, &mut one), (0, 0));
    // The log goes with its table's tracking, and comes back as another one.
    center::deploy(&center.url, "[table.t]\n").unwrap();
    let all = came(&mut center, &mut one);
    assert_eq!(all, (2, 0), "afresh");
    database.sql("DELETE FROM t WHERE id = 4");
    assert_eq!(came(&mut center, &mut one), (0, 1));
}

// S7: a join would compare each line with every purchase of the remote.
#[test]
fn the_fence_looks_up_the_parent_of_each_uploaded_row() {
    const SCHEMA: &str = "
        CREATE TABLE purchase (id integer PRIMARY KEY, rep integer) WITH (autovacuum_enabled = off);
        CREATE TABLE line (id integer PRIMARY KEY, purchase integer)
            WITH (autovacuum_enabled = off);
        CREATE INDEX ON purchase (rep);
        CREATE INDEX ON line (purchase);
        INSERT INTO purchase SELECT g, 1 FROM generate_series(1, 400) AS g;
        ANALYZE purchase";
    const TABLES: &str = r#"
        [table.purchase]
        partition = "rep = {u.rep}"
        [table.line]
        parent = { table = "purchase", columns = ["purchase"] }
    "#;
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let mut remote = remote("few", "1");
    came(&mut center, &mut remote);
    database.as_role(SUPERUSER).sql("SELECT pg_stat_reset()");
    let lines: Vec<Upload> =
        (1..=400).map(|id| Upload::Insert("line", vec![int(id), int(id)])).collect();
    let applied = center.upload(&mut remote, &lines).unwrap();
    assert_eq!((applied.inserts, applied.rejected), (400, 0));
    disconnect(center, &database);
    let stat = |column: &str| -> i64 {
        database
            .count(&format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 'purchase'"))
    };
    assert!(stat("seq_tup_read") <= 400, "{} rows read in sequence", stat("seq_tup_read"));
    assert!(stat("idx_scan") >= 400, "{} look-ups", stat("idx_scan"));
}
