//! Deploying to a database, looking at it, and leaving no trace.

use crate::support::center::{self, Backend, Center, deploy, sqlite};
use model::{Code, Value};
use syncline_consolidated::{Finding, Severity, SyncModel, Url, administer};

const SCHEMA: &str = "
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE \"order\" (id INTEGER PRIMARY KEY,
        customer INTEGER REFERENCES customer, note TEXT);
    CREATE TABLE \"Odd \"\"name\"\"\" (\"the key\" TEXT PRIMARY KEY, \"a b\" BLOB) WITHOUT ROWID;
    CREATE TABLE keyless (a INTEGER);
    CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT);
    CREATE TRIGGER audited AFTER INSERT ON customer
        BEGIN INSERT INTO audit (what) VALUES (NEW.name); END;
    INSERT INTO customer VALUES (1, 'Ann');";

fn dump(path: &std::path::Path) -> String {
    let output = std::process::Command::new("sqlite3").arg(path).arg(".dump").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn model(tables: &str) -> SyncModel {
    SyncModel::parse(&format!("script_version = \"v1\"\n{tables}"), "model.toml").unwrap()
}

#[test]
fn undeploy_leaves_the_database_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.db");
    sqlite(&path, SCHEMA);
    let before = dump(&path);
    let url = Url::parse(&format!("sqlite:{}", path.display())).unwrap();
    deploy(&url, "[table.customer]\n[table.order]\n[table.\"Odd \\\"name\\\"\"]\n").unwrap();
    assert_ne!(dump(&path), before);
    let mut admin = administer(&url).unwrap();
    let deployed = dump(&path);
    let planned = admin.undeploy(true).unwrap().statements;
    assert_eq!(dump(&path), deployed, "a dry run changes nothing");
    let undeployment = admin.undeploy(false).unwrap();
    assert_eq!(planned, undeployment.statements);
    assert!(!undeployment.statements.is_empty() && undeployment.left.is_empty());
    assert_eq!(dump(&path), before);
    assert!(admin.undeploy(false).unwrap().statements.is_empty(), "nothing is left to do");
    let mode =
        rusqlite::Connection::open(&path)
            .unwrap()
            .query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    assert_eq!(mode.unwrap(), "delete", "the journal mode is what it was");
}

#[test]
fn deploying_twice_changes_nothing_and_a_dry_run_never_does() {
    let center = Center::new(SCHEMA, "[table.customer]\n");
    let before = dump(&center.path());
    assert!(deploy(&center.url, "[table.customer]\n").unwrap().statements.is_empty());
    let wider = model("[table.customer]\n[table.order]\n");
    let mut admin = administer(&center.url).unwrap();
    assert!(!admin.deploy(&[wider], true).unwrap().statements.is_empty());
    assert_eq!(dump(&center.path()), before);
}

#[test]
fn check_tells_drift_from_a_changed_model() {
    let center = Center::new(SCHEMA, "[table.customer]\n");
    let mut admin = administer(&center.url).unwrap();
    let same = model("[table.customer]\n");
    // A table that is not published is named, and nothing else.
    let said = |findings: Vec<Finding>| {
        assert!(findings.iter().all(|f| f.severity == Severity::Notice), "{findings:?}");
        let new = "is in the database and not in the model v1; `syncline model add` publishes it, \
                   `unpublished` leaves it out";
        let (new, others): (Vec<_>, Vec<_>) =
            findings.iter().partition(|finding| finding.message.ends_with(new));
        assert!(new.iter().any(|finding| finding.message.starts_with("table audit ")));
        others.len()
    };
    assert_eq!(said(admin.check(std::slice::from_ref(&same)).unwrap()), 0);
    let findings =
        admin.check(&[model("[table.customer]\ndirection = \"download_only\"\n")]).unwrap();
    assert!(
        findings[0].message.contains("the model differs from the deployed one"),
        "{findings:?}"
    );

    center.foreign("DROP TRIGGER syncline_update_customer");
    let findings = admin.check(std::slice::from_ref(&same)).unwrap();
    assert_eq!(findings[0].severity, Severity::Error);
    assert_eq!(findings[0].table.as_deref(), Some("customer"));
    admin.deploy(std::slice::from_ref(&same), false).unwrap();
    assert_eq!(said(admin.check(&[same]).unwrap()), 0);
}

// S11: tables that are left out on purpose were named by every check, so that new ones were
// overlooked.
#[test]
fn check_names_what_is_new_and_not_what_is_left_out_on_purpose() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, cost INTEGER);
            CREATE TABLE secret (id INTEGER PRIMARY KEY)";
        let item = "[table.item]\ncolumns = [\"id\", \"name\"]\nunpublished = [\"cost\"]\n";
        let text = format!("unpublished = [\"secret\"]\n{item}");
        let center = Center::on(backend, schema, &text);
        let mut admin = administer(&center.url).unwrap();
        let models = [model(&text)];
        assert_eq!(admin.check(&models).unwrap(), [], "{backend:?}");
        assert_eq!(admin.differences(&models).unwrap(), [], "{backend:?}");
        center.foreign(
            "ALTER TABLE item ADD COLUMN price INTEGER;
             CREATE TABLE shelf (id INTEGER PRIMARY KEY)",
        );
        let found: Vec<String> =
            admin.check(&models).unwrap().into_iter().map(|found| found.message).collect();
        assert_eq!(found.len(), 2, "{backend:?}: {found:?}");
        assert!(found[0].starts_with("column price of table item is in the database"), "{found:?}");
        assert!(found[1].starts_with("table shelf is in the database"), "{found:?}");
    });
}

// S2
#[test]
fn a_server_refuses_to_go_on_without_its_triggers() {
    let mut center = Center::new(SCHEMA, "[table.customer]\n");
    let remote = center::Remote::new("r");
    center.session(&remote);
    center.foreign("DROP TRIGGER syncline_delete_customer");
    let user = model::UserName::new("ann").unwrap();
    let id = model::RemoteId::new("r").unwrap();
    let failure = center.reader.session(&user, Default::default(), &id, None, &[]).unwrap_err();
    assert_eq!(failure.code(), Code::Drift);
}

#[test]
fn what_cannot_be_synchronized_is_refused_by_name() {
    let center = Center::new(SCHEMA, "[table.customer]\n");
    for (tables, code) in [
        ("[table.nobody]\n", Code::ModelMismatch),
        ("[table.keyless]\n", Code::NoPrimaryKey),
        ("[table.customer]\ncolumns = [\"age\"]\n", Code::ModelMismatch),
        ("[table.customer]\ncolumns = [\"id\"]\n", Code::ModelMismatch),
        ("[table.customer]\nconflict = { latest = \"age\" }\n", Code::ModelMismatch),
        ("[publication.p]\ntables = [\"order\"]\n[table.customer]\n", Code::ModelMismatch),
    ] {
        let before = dump(&center.path());
        assert_eq!(deploy(&center.url, tables).unwrap_err().code(), code, "{tables}");
        assert_eq!(dump(&center.path()), before, "{tables}");
    }
}

#[test]
fn the_initial_model_has_every_table_with_a_key_and_says_what_it_left_out() {
    let center = Center::new(SCHEMA, "[table.customer]\n");
    let mut admin = administer(&center.url).unwrap();
    let initial = admin.initial_model(&[], false).unwrap();
    assert_eq!(initial.tables.len(), 4);
    assert_eq!(initial.warnings, ["table keyless has no primary key; it is left out"]);
    let parsed = SyncModel::parse(&initial.toml, "model.toml").unwrap();
    assert!(parsed.tables.contains_key("Odd \"name\""));
    assert_eq!(
        admin.initial_model(&["keyless".into()], false).unwrap_err().code(),
        Code::NoPrimaryKey
    );
}

#[test]
fn a_foreign_key_whose_parent_stays_behind_is_left_out_and_named() {
    let mut center = Center::new(SCHEMA, "[table.order]\ncolumns = [\"id\", \"customer\"]\n");
    let notices =
        deploy(&center.url, "[table.order]\ncolumns = [\"id\", \"customer\"]\n").unwrap().notices;
    assert!(notices.iter().any(|n| n.contains("foreign key of order to customer")), "{notices:?}");
    let session = center.session(&center::Remote::new("r"));
    let create = session.schema.tables[0].create.join(";");
    assert!(!create.contains("REFERENCES") && !create.contains("note"), "{create}");
}

// Trap 18: another layout, older or newer, may say something else with the same names.
#[test]
fn system_tables_of_another_layout_are_refused_and_left_alone() {
    let schema = "CREATE TABLE customer (id INTEGER PRIMARY KEY)";
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let center = Center::on(backend, schema, "[table.customer]\n");
        let system = backend.pick("syncline_system", "syncline.syncline_system");
        for format in [8, 99] {
            center
                .foreign(&format!("UPDATE {system} SET value = '{format}' WHERE name = 'format'"));
            let opened = [
                administer(&center.url).map(drop),
                syncline_consolidated::open_writer(&center.url).map(drop),
                deploy(&center.url, "[table.customer]\n").map(drop),
            ];
            for opened in opened {
                assert_eq!(opened.unwrap_err().code(), Code::DeployedByAnother, "{backend:?}");
            }
            let left = format!("SELECT count(*) FROM {system} WHERE value = '{format}'");
            assert_eq!(center.value(&left), Value::Integer(1));
        }
    }
}

#[test]
fn three_hundred_tables_are_deployed_and_undeployed() {
    let schema: String = (0..300)
        .map(|n| format!("CREATE TABLE t{n} (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b REAL);\n"))
        .collect();
    let tables: String = (0..300).map(|n| format!("[table.t{n}]\n")).collect();
    let mut center = Center::new(&schema, &tables);
    assert_eq!(center.session(&center::Remote::new("r")).schema.tables.len(), 300);
    assert!(deploy(&center.url, &tables).unwrap().statements.is_empty());
    let mut admin = administer(&center.url).unwrap();
    admin.undeploy(false).unwrap();
    let path = center.path();
    assert_eq!(
        center::value(&path, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'syncline%'"),
        Value::Integer(0)
    );
}

/// It did nothing at all while another program had the file open, because of the journal mode.
#[test]
fn undeploy_beside_another_program_does_its_work_and_says_what_it_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.db");
    sqlite(&path, SCHEMA);
    let before = dump(&path);
    let url = Url::parse(&format!("sqlite:{}", path.display())).unwrap();
    deploy(&url, "[table.customer]\n").unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let mode = || other.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    assert_eq!(mode().unwrap(), "wal");

    let undeployment = administer(&url).unwrap().undeploy(false).unwrap();
    assert!(!undeployment.statements.is_empty());
    assert_eq!(dump(&path), before);
    let [left] = &undeployment.left[..] else { panic!("{undeployment:?}") };
    assert!(left.contains("PRAGMA journal_mode = delete"), "{left}");
    // What it says works.
    assert_eq!(mode().unwrap(), "wal");
    other.query_row("PRAGMA journal_mode = delete", [], |_| Ok(())).unwrap();
    assert_eq!(mode().unwrap(), "delete");
}

// S4
#[test]
fn a_trigger_that_comes_after_the_deployment_is_found_before_it_can_leave_halves() {
    let mut center = Center::new(SCHEMA, "[table.order]\n");
    let remote = center::Remote::new("r");
    center.session(&remote);
    center.foreign("CREATE TRIGGER late AFTER INSERT ON \"order\" BEGIN DELETE FROM audit; END");
    let user = model::UserName::new("ann").unwrap();
    let id = model::RemoteId::new("r").unwrap();
    let failure = center.reader.session(&user, Default::default(), &id, None, &[]).unwrap_err();
    assert_eq!(failure.code(), Code::Drift);
    deploy(&center.url, "[table.order]\n").unwrap();
    center.session(&remote);
}

// S11: on SQLite, a foreign key whose own columns stay behind was left out without a word, and one
// whose parent's column stays behind was not left out: no program could write to the table.
#[test]
fn a_foreign_key_whose_columns_stay_behind_is_left_out_and_named() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE, name TEXT);
            CREATE TABLE by_code (id INTEGER PRIMARY KEY, code TEXT REFERENCES parent (code));
            CREATE TABLE hidden (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id));";
        let tables = "[table.parent]\ncolumns = [\"name\"]\n[table.by_code]\n\
                      [table.hidden]\ncolumns = [\"id\"]\n";
        let mut center = Center::on(backend, schema, tables);
        let notices = deploy(&center.url, tables).unwrap().notices;
        for child in ["by_code", "hidden"] {
            let said = format!(
                "the foreign key of {child} to parent is left out at remotes: its columns are not \
                 published"
            );
            assert!(notices.contains(&said), "{backend:?}: {notices:?}");
        }
        let remote = rusqlite::Connection::open_in_memory().unwrap();
        remote.pragma_update(None, "foreign_keys", true).unwrap();
        let session = center.session(&center::Remote::another());
        for statement in session.schema.tables.iter().flat_map(|table| &table.create) {
            remote.execute_batch(statement).unwrap();
        }
        remote.execute_batch("INSERT INTO by_code VALUES (1, 'a')").unwrap();
    });
}

/// Actions of foreign keys are told when a model is deployed or checked, once for all versions, and
/// not with every upload.
// S5, S11
#[test]
fn what_foreign_keys_do_when_uploads_delete_rows_is_listed_once() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE);
            CREATE TABLE child (id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
                code TEXT REFERENCES parent (code) ON UPDATE SET NULL);
            CREATE TABLE hidden (id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES parent (id) ON DELETE CASCADE);
            CREATE TABLE sent (id INTEGER PRIMARY KEY,
                hidden INTEGER DEFAULT 0 REFERENCES hidden (id) ON DELETE SET DEFAULT);
            CREATE TABLE kept (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id));
            CREATE TABLE read_only (id INTEGER PRIMARY KEY);
            CREATE TABLE below (id INTEGER PRIMARY KEY,
                of INTEGER REFERENCES read_only (id) ON DELETE CASCADE);
            CREATE TABLE whole (id INTEGER,
                parent INTEGER REFERENCES parent (id) ON DELETE CASCADE)";
        // The parts of a table have its foreign keys.
        let parts = backend.pick(
            "",
            "PARTITION BY LIST (id);
             CREATE TABLE part_1 PARTITION OF whole FOR VALUES IN (1);
             CREATE TABLE part_2 PARTITION OF whole DEFAULT",
        );
        let schema = &format!("{schema} {parts};");
        let tables = "[table.parent]\n[table.child]\n[table.sent]\ndirection = \"upload_only\"\n\
                      [table.kept]\n[table.read_only]\ndirection = \"download_only\"\n\
                      [table.below]\n";
        let center = Center::on(backend, schema, tables);
        let versions = ["v1", "v2"].map(|version| {
            let text = format!("script_version = \"{version}\"\n{tables}");
            SyncModel::parse(&text, "model.toml").unwrap()
        });
        let cascades = |told: Vec<String>| {
            told.into_iter().filter(|told| told.contains(" REFERENCES ")).collect::<Vec<_>>()
        };
        let expected = [
            "child.code REFERENCES parent ON UPDATE SET NULL: an uploaded change of code of a row \
             of parent sets code of its rows of child to NULL at the center; remotes that have \
             them get these changes with their next download",
            "child.parent REFERENCES parent ON DELETE CASCADE: an uploaded delete of a row of \
             parent deletes its rows of child at the center; remotes that have them get these \
             deletes with their next download",
            "child.parent REFERENCES parent ON UPDATE CASCADE: remotes cannot change the key of a \
             synchronized row; a change of id of a row of parent changes parent of its rows of \
             child at the center; remotes that have them get these changes with their next \
             download",
            "hidden.parent REFERENCES parent ON DELETE CASCADE: an uploaded delete of a row of \
             parent deletes its rows of hidden at the center; no remote is told, because hidden is \
             not downloaded",
            "sent.hidden REFERENCES hidden ON DELETE SET DEFAULT: an uploaded delete that takes a \
             row of hidden along sets hidden of its rows of sent to the default at the center; no \
             remote is told, because sent is not downloaded",
            "whole.parent REFERENCES parent ON DELETE CASCADE: an uploaded delete of a row of \
             parent deletes its rows of whole at the center; no remote is told, because whole is \
             not downloaded",
        ];
        let mut admin = administer(&center.url).unwrap();
        let deployment = admin.deploy(&versions, false).unwrap();
        assert_eq!(cascades(deployment.notices), expected, "{backend:?}");
        let findings = admin.check(&versions).unwrap().into_iter();
        let notices = findings.filter(|finding| finding.severity == Severity::Notice);
        let notices = cascades(notices.map(|finding| finding.message).collect());
        assert_eq!(notices, expected, "{backend:?}");
    });
}
