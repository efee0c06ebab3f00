//! Deploying to PostgreSQL, looking at it, and leaving no trace.

#![allow(clippy::unwrap_used)]

use consolidated::{Administration, Deployment, SyncModel, Url, administer};
use harness::postgres::{Cluster, TestDatabase};
use model::{Code, Failure};

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
    assert!(!admin.undeploy().unwrap().is_empty());
    assert_eq!(database.dump(&[]), before);
    assert!(admin.undeploy().unwrap().is_empty(), "nothing is left to do");
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
    let findings = admin(&database).check(&[model(MODEL)]).unwrap();
    let errors: Vec<_> =
        findings.iter().filter(|f| f.severity == consolidated::Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn every_generated_script_is_valid() {
    let database = database(SCHEMA);
    for rule in
        ["\"consolidated_wins\"", "\"remote_wins\"", "\"merge\"", "{ latest = \"changed\" }"]
    {
        deploy(&database, &format!("[table.customer]\nconflict = {rule}\n")).unwrap();
        for stored in admin(&database).scripts().unwrap() {
            println!("{}\n{}\n", stored.event, stored.script);
        }
    }
}

#[test]
fn what_cannot_be_synchronized_is_refused() {
    let database = database(SCHEMA);
    let initial = admin(&database).initial_model(&[]).unwrap();
    println!("{}", initial.toml);
    assert!(initial.warnings.iter().any(|w| w.contains("names is a view")), "{initial:?}");
    for (table, code) in [
        ("names", Code::UnsupportedTable),
        ("keyless", Code::NoPrimaryKey),
        ("missing", Code::ModelMismatch),
    ] {
        let failure = deploy(&database, &format!("[table.{table}]\n")).unwrap_err();
        assert_eq!(failure.code(), code, "{table}");
    }
}
