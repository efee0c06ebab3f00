//! Deploying to PostgreSQL, looking at it, and leaving no trace.

use harness::postgres::{Cluster, TestDatabase};
use harness::until;
use model::{Code, Failure, RemoteId, UserName};
use std::collections::BTreeMap;
use syncline_consolidated::{
    Administration, Deployment, Severity, SyncModel, Url, administer, open_reader,
};

const SCHEMA: &str = r#"
    CREATE SCHEMA sales;
    CREATE DOMAIN email AS varchar(40) CHECK (VALUE LIKE '%@%');
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE customer (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name varchar(40) NOT NULL UNIQUE,
        mood mood NOT NULL DEFAULT 'ok', mail email, tags text[], facts json, born date,
        changed timestamptz DEFAULT now(), length integer GENERATED ALWAYS AS (7) STORED);
    CREATE TABLE sales."Order Line" (
        "Order" bigint, line smallint, customer integer NOT NULL REFERENCES customer DEFERRABLE,
        price numeric(10, 2) DEFAULT 0, total numeric(30, 2), "Note" text DEFAULT 'it''s',
        PRIMARY KEY ("Order", line));
    CREATE INDEX order_customer ON sales."Order Line" (customer);
    CREATE UNIQUE INDEX first_letter ON customer (left(name, 1)) WHERE length(name) > 30;
    CREATE TABLE word (word text COLLATE "C" PRIMARY KEY, meaning text);
    CREATE VIEW names AS SELECT name FROM customer;
    CREATE TABLE keyless (a integer);
    CREATE TABLE audit (id bigserial PRIMARY KEY, what text);
    CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN INSERT INTO audit (what) VALUES (NEW.name); RETURN NEW; END $$;
    CREATE TRIGGER audited AFTER INSERT ON customer FOR EACH ROW EXECUTE FUNCTION audited();
    INSERT INTO customer (name) VALUES ('Ann'), ('Ben');
    INSERT INTO sales."Order Line" VALUES (1, 1, 1, 2, 2, NULL);"#;

const MODEL: &str = r#"
    [table.customer]
    conflict = "merge"
    [table."sales.Order Line"]
    conflict = "remote_wins"
    as = { total = "real" }
    [table.word]
    conflict = { latest = "meaning" }
    [table.audit]
    direction = "upload_only""#;

const REFUSED: &str = r#"
    CREATE MATERIALIZED VIEW kept AS SELECT id FROM customer;
    CREATE TABLE parted (id integer PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
    CREATE UNLOGGED TABLE forgetful (id integer PRIMARY KEY);
    CREATE TABLE ruled (id integer PRIMARY KEY);
    CREATE RULE nothing AS ON DELETE TO ruled DO INSTEAD NOTHING;
    CREATE TABLE late (id integer PRIMARY KEY DEFERRABLE);
    CREATE TABLE computed (a integer, b integer GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY);
    CREATE TABLE cases (id integer PRIMARY KEY, "ID" integer);
    CREATE TYPE pair AS (a integer, b integer);
    CREATE TABLE nested (id integer PRIMARY KEY, pair pair);"#;

/// Everything that `check` finds wrong.
fn errors(database: &TestDatabase, tables: &str) -> Vec<String> {
    let findings = admin(database).check(&[model(tables)]).unwrap();
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.message).collect()
}

fn database(schema: &str) -> TestDatabase {
    let database = Cluster::shared().database();
    database.sql(schema);
    database
}

fn admin(database: &TestDatabase) -> Box<dyn Administration> {
    administer(&Url::parse(&database.url()).unwrap()).unwrap()
}

fn model(tables: &str) -> SyncModel {
    SyncModel::parse(&format!("script_version = \"v1\"\n{tables}"), "model.toml").unwrap()
}

fn deploy(database: &TestDatabase, tables: &str) -> Result<Deployment, Failure> {
    admin(database).deploy(&[model(tables)], false)
}

#[test]
fn undeploy_leaves_the_database_as_it_was() {
    let database = database(SCHEMA);
    let before = database.dump(&[]);
    deploy(&database, MODEL).unwrap();
    database
        .sql("DELETE FROM sales.\"Order Line\"; UPDATE customer SET name = 'Ben!' WHERE id = 2");
    assert_ne!(database.dump(&[]), before);
    database.sql(
        "INSERT INTO sales.\"Order Line\" VALUES (1, 1, 1, 2, 2, NULL);
         UPDATE customer SET name = 'Ben' WHERE id = 2",
    );
    let mut admin = admin(&database);
    let planned = admin.undeploy(true).unwrap().statements;
    assert_eq!(admin.undeploy(false).unwrap().statements, planned, "a dry run changes nothing");
    assert_eq!(database.dump(&[]), before);
    assert!(admin.undeploy(false).unwrap().statements.is_empty(), "nothing is left to do");
}

// It was dropped without a word: what is ours was known by its name.
#[test]
fn an_index_of_the_user_stays_whatever_its_name() {
    let database = database(
        "CREATE TABLE word (word text PRIMARY KEY, meaning text, syncline integer);
         CREATE INDEX syncline_mine ON word (meaning);
         CREATE UNIQUE INDEX syncline_version_of_mine ON word (syncline);
         CREATE INDEX syncline_gone_word ON word ((length(meaning)));",
    );
    let kept = || {
        let listed = database.text(
            "SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind = 'i'
                 AND relname LIKE 'syncline%' AND relname <> 'syncline_version_word'",
        );
        let mine = "syncline_gone_word,syncline_mine,syncline_version_of_mine";
        assert_eq!(listed.trim(), mine);
    };
    deploy(&database, "[table.word]\nconflict = \"merge\"").unwrap();
    kept();
    deploy(&database, "[table.word]\nconflict = \"remote_wins\"").unwrap();
    kept();
    admin(&database).undeploy(false).unwrap();
    kept();
}

#[test]
fn deploying_twice_changes_nothing_and_a_dry_run_says_what_would_happen() {
    let database = database(SCHEMA);
    let before = database.dump(&[]);
    let dry = admin(&database).deploy(&[model(MODEL)], true).unwrap();
    assert_eq!(database.dump(&[]), before);
    let done = deploy(&database, MODEL).unwrap();
    assert_eq!(dry.statements, done.statements);
    let after = database.dump(&[]);
    assert_eq!(deploy(&database, MODEL).unwrap().statements, Vec::<String>::new());
    assert_eq!(database.dump(&[]), after);
    assert_eq!(errors(&database, MODEL), Vec::<String>::new());
}

#[test]
fn what_cannot_be_synchronized_is_refused() {
    let database = database(SCHEMA);
    database.sql(REFUSED);
    let initial = admin(&database).initial_model(&[], false).unwrap();
    let published = SyncModel::parse(&initial.toml, "model.toml").unwrap().tables;
    assert_eq!(published.into_keys().collect::<Vec<_>>(), ["audit", "customer", "word"]);
    for (table, code, why) in [
        ("names", Code::UnsupportedTable, "is a view"),
        ("kept", Code::UnsupportedTable, "is a materialized view"),
        ("parted", Code::UnsupportedTable, "is partitioned"),
        ("part", Code::UnsupportedTable, "is a partition, or inherits"),
        ("forgetful", Code::UnsupportedTable, "is unlogged"),
        ("ruled", Code::UnsupportedTable, "has rewrite rules"),
        ("late", Code::UnsupportedTable, "DEFERRABLE"),
        ("computed", Code::UnsupportedTable, "a generated column in its primary key"),
        ("cases", Code::UnsupportedTable, "differ only in letter case"),
        ("nested", Code::UnsupportedTable, "a composite type"),
        ("keyless", Code::NoPrimaryKey, "has no primary key"),
    ] {
        let failure = deploy(&database, &format!("[table.{table}]\n")).unwrap_err();
        assert_eq!(failure.code(), code, "{table}");
        assert!(failure.message().contains(why), "{}", failure.message());
        assert!(initial.warnings.iter().any(|w| w.contains(failure.message())), "{table}");
        let named = admin(&database).initial_model(&[table.into()], false).unwrap_err();
        assert_eq!(named.code(), code, "{table}");
    }
    let failure = deploy(&database, "[table.missing]\n").unwrap_err();
    assert_eq!(failure.code(), Code::ModelMismatch);
    // In a schema outside the search path a table is there for a model that names it.
    let named = admin(&database).initial_model(&["sales.Order Line".into()], false).unwrap();
    assert!(named.toml.contains("[table.\"sales.Order Line\"]"), "{}", named.toml);
}

#[test]
fn a_deploy_that_was_killed_is_done_by_the_next() {
    let database = database(SCHEMA);
    let before = database.dump(&[]);
    let statements = admin(&database).deploy(&[model(MODEL)], true).unwrap().statements;
    let ends: Vec<usize> =
        (0..statements.len()).filter(|at| statements[*at] == "COMMIT").map(|at| at + 1).collect();
    for end in [ends[0], ends[2], ends[ends.len() - 2]] {
        database.sql(&statements[..end].join(";\n"));
        deploy(&database, MODEL).unwrap();
        assert_eq!(errors(&database, MODEL), Vec::<String>::new());
        assert!(deploy(&database, MODEL).unwrap().statements.is_empty());
        admin(&database).undeploy(false).unwrap();
        assert_eq!(database.dump(&[]), before);
    }
}

#[test]
fn of_two_deploys_at_once_one_does_the_work() {
    let database = database(SCHEMA);
    let deployments: Vec<usize> = std::thread::scope(|scope| {
        let deploys: Vec<_> =
            (0..2).map(|_| scope.spawn(|| deploy(&database, MODEL).unwrap())).collect();
        deploys.into_iter().map(|deploy| deploy.join().unwrap().statements.len()).collect()
    });
    assert!(deployments.contains(&0) && deployments.iter().any(|count| *count > 0));
    assert_eq!(errors(&database, MODEL), Vec::<String>::new());
}

/// What stops a statement that would wait for `deploy` for long.
const IMPATIENT: &str = "SET lock_timeout = '20s';";

// S2: no program must stop when tracking begins, and no row is written again.
#[test]
fn a_large_table_is_tracked_while_others_write() {
    let rows = if harness::full() { 1_000_000 } else { 200_000 };
    let database = database(&format!(
        "CREATE TABLE big (id integer PRIMARY KEY, filling text NOT NULL);
         INSERT INTO big SELECT i, repeat('x', 60) FROM generate_series(1, {rows}) AS i;",
    ));
    let file = "SELECT pg_relation_filenode('big')";
    let before = database.text(file);
    let mut slow = database.session();
    slow.sql("BEGIN; UPDATE big SET filling = 'slow' WHERE id = 1");
    let mut writer = database.session();
    writer.sql(IMPATIENT);
    let is_waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'big'::regclass";
    std::thread::scope(|scope| {
        let deploying = scope.spawn(|| deploy(&database, "[table.big]\n").unwrap());
        until("deploy to wait for the slow writer", || database.count(is_waiting) > 0);
        // They get through between its attempts, again and again.
        for id in 2..8 {
            writer.sql(&format!("UPDATE big SET filling = 'quick' WHERE id = {id}"));
        }
        assert!(!deploying.is_finished(), "the slow writer is still there");
        slow.sql("COMMIT");
        until("the end of deploy", || {
            writer.sql("UPDATE big SET filling = 'on and on' WHERE id = 9");
            deploying.is_finished()
        });
        let statements = deploying.join().unwrap().statements;
        assert!(statements.iter().any(|sql| sql.contains("CONCURRENTLY")), "{statements:?}");
    });
    assert_eq!(database.text(file), before, "the table was written anew");
    assert_eq!(errors(&database, "[table.big]\n"), Vec::<String>::new());
    writer.sql("UPDATE big SET filling = 'later' WHERE id = 10");
    assert_eq!(
        database.count("SELECT count(*) FROM big WHERE id = 10 AND syncline_version IS NOT NULL"),
        1
    );
}

// Trap 12
#[test]
fn what_others_change_of_ours_is_found_and_repaired() {
    let database = database(SCHEMA);
    deploy(&database, MODEL).unwrap();
    for (change, found) in [
        ("ALTER TABLE customer DISABLE TRIGGER syncline_stamp", "syncline_stamp"),
        ("ALTER TABLE customer ENABLE TRIGGER syncline_gone", "syncline_gone"),
        ("DROP TRIGGER syncline_moved ON customer", "syncline_moved"),
        ("DROP TRIGGER syncline_truncated ON word", "syncline_truncated"),
        ("ALTER TABLE word ALTER syncline_version DROP DEFAULT", "syncline_version"),
        ("ALTER TABLE word DROP syncline_version CASCADE", "syncline_version"),
        ("DROP INDEX sales.\"syncline_version_Order Line\"", "index"),
        (
            "CREATE OR REPLACE FUNCTION syncline.syncline_stamp() RETURNS trigger
          LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "syncline_stamp",
        ),
        ("ALTER TABLE syncline.syncline_gone_word ADD extra text", "syncline_gone_word"),
        (
            "ALTER TABLE word DROP CONSTRAINT word_pkey;
          ALTER TABLE word ALTER meaning SET NOT NULL, ADD PRIMARY KEY (meaning)",
            "the model",
        ),
        ("ALTER TABLE customer DISABLE TRIGGER USER", "syncline_stamp"),
    ] {
        database.sql(change);
        let errors = errors(&database, MODEL);
        assert!(errors.iter().any(|error| error.contains(found)), "{change}: {errors:?}");
        assert!(!deploy(&database, MODEL).unwrap().statements.is_empty(), "{change}");
        assert_eq!(self::errors(&database, MODEL), Vec::<String>::new(), "{change}");
    }
}

// Trap 3
#[test]
fn row_versions_of_another_server_are_found_and_made_anew() {
    let database = database(SCHEMA);
    deploy(&database, MODEL).unwrap();
    let incarnation = "SELECT incarnation FROM syncline.syncline_logs WHERE table_name = 'word'";
    let before = database.text(incarnation);
    // As a restored dump leaves them: it brings the rows before the triggers.
    database.sql(
        "ALTER TABLE word DISABLE TRIGGER syncline_stamp;
         INSERT INTO word VALUES ('a', 'b', '4000000000');
         ALTER TABLE word ENABLE ALWAYS TRIGGER syncline_stamp",
    );
    let found = errors(&database, MODEL);
    assert!(found.iter().any(|error| error.contains("restored")), "{found:?}");
    deploy(&database, MODEL).unwrap();
    assert_eq!(errors(&database, MODEL), Vec::<String>::new());
    assert_eq!(database.text("SELECT syncline_version FROM word"), "NULL\n");
    assert_ne!(database.text(incarnation), before, "every remote gets it anew");
}

// S7: a mistake in a claim causes no rejects.
#[test]
fn a_claim_that_is_no_value_of_its_column_refuses_the_session() {
    let database = database(
        "CREATE TYPE kind AS ENUM ('a', 'b');
         CREATE TABLE customer (id integer PRIMARY KEY, rep integer, kind kind);",
    );
    for (partition, right, wrong) in [
        ("rep = {u.x}", " 3", "three"),
        ("rep = {u.x}", "3", "30000000000"),
        ("rep IN {u.x}", "1, 2,", "1, two"),
        ("kind = {u.x}", "a", "c"),
        ("kind IN {u.x}", "a,b", "a,c"),
    ] {
        deploy(&database, &format!("[table.customer]\npartition = \"{partition}\"\n")).unwrap();
        let mut reader = open_reader(&Url::parse(&database.url()).unwrap()).unwrap();
        let mut session = |value: &str| {
            let (ann, one) = (UserName::new("ann").unwrap(), RemoteId::new("one").unwrap());
            let claims = BTreeMap::from([("x".to_owned(), value.to_owned())]);
            reader.session(&ann, claims, &one, None, &[])
        };
        session(right).unwrap();
        let failure = session(wrong).unwrap_err();
        assert_eq!(failure.code(), Code::ClaimInvalid, "{partition}");
        assert!(failure.message().contains("{u.x} of user ann"), "{}", failure.message());
    }
}

// A table that is not published any more keeps nothing of Syncline; one that is gone leaves
// nothing.
#[test]
fn what_the_model_drops_is_tracked_no_longer() {
    let database = database(SCHEMA);
    deploy(&database, MODEL).unwrap();
    database.sql("DROP TABLE word");
    let rest = "[table.\"sales.Order Line\"]\n";
    deploy(&database, rest).unwrap();
    assert_eq!(errors(&database, rest), Vec::<String>::new());
    let ours = "SELECT string_agg(DISTINCT name, ' ' ORDER BY name) FROM syncline.syncline_object";
    let names = database.text(ours);
    assert!(!names.contains("customer") && !names.contains("word"), "{names}");
    let column = "SELECT count(*) FROM pg_attribute WHERE attname = 'syncline_version'
                  AND attrelid = 'customer'::regclass AND NOT attisdropped";
    assert_eq!(database.count(column), 0);
    assert_eq!(database.count("SELECT count(*) FROM syncline.syncline_logs"), 1);
}

#[test]
fn three_hundred_tables_are_no_hardship() {
    let tables: String = (0..300)
        .map(|i| {
            let parent = format!("parent integer REFERENCES t{}", i / 2);
            let parent = if i == 0 { "parent integer".to_owned() } else { parent };
            format!(
                "CREATE TABLE t{i} (id bigint PRIMARY KEY, {parent}, a text UNIQUE, b date,
                     c numeric);
                 CREATE INDEX ON t{i} (b);\n"
            )
        })
        .collect();
    let database = database(&tables.replace("parent integer", "parent bigint"));
    let before = database.dump(&["--schema-only"]);
    let initial = admin(&database).initial_model(&[], false).unwrap();
    assert_eq!(initial.tables.len(), 300);
    let model = SyncModel::parse(&initial.toml, "model.toml").unwrap();
    admin(&database).deploy(std::slice::from_ref(&model), false).unwrap();
    let findings = admin(&database).check(&[model]).unwrap();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Notice), "{findings:?}");
    admin(&database).undeploy(false).unwrap();
    assert_eq!(database.dump(&["--schema-only"]), before);
}
