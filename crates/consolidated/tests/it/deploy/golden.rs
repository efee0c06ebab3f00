//! What a deployment writes, letter by letter, for schemas of every kind and on both databases.
//!
//! Each folder of `golden/` is a case: a schema, the models that are deployed to it together, and a
//! change of both (`later`). Its golden files hold the statements of the deployments, which are
//! tracking, stored tables, scripts and shapes, and the fingerprints, notices and findings.
//! A difference is an update of the server that sends tables afresh, or says something else.
//! `SYNCLINE_TEST_RENEW=1` writes the files again.

use harness::postgres::{Cluster, TestDatabase};
use model::{PublicationName, RemoteId, UserName};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use syncline_consolidated::{
    Administration, Deployment, Severity, SyncModel, Url, administer, open_reader,
};

#[test]
fn names_of_every_kind_are_deployed_as_ever() {
    compare("names");
}

// Also cycles, several publications, and foreign keys that are left out.
#[test]
fn keys_and_foreign_keys_are_deployed_as_ever() {
    compare("keys");
}

#[test]
fn partitions_are_deployed_as_ever() {
    compare("partitions");
}

#[test]
fn conflict_rules_are_deployed_as_ever() {
    compare("conflicts");
}

#[test]
fn conflict_rules_for_columns_are_deployed_as_ever() {
    compare("rules");
}

#[test]
fn values_of_every_type_are_deployed_as_ever() {
    compare("values");
}

#[test]
fn columns_that_are_renamed_left_out_and_dropped_are_deployed_as_ever() {
    compare("columns");
}

/// A longer statement is not written twice where a second deployment runs it again.
const SHORT: usize = 100;

fn compare(case: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(case);
    for database in [Database::sqlite(), Database::postgres()] {
        let written = record(&folder, &database);
        let golden = folder.join(format!("{}.golden", database.name()));
        if std::env::var_os("SYNCLINE_TEST_RENEW").is_some() {
            fs::write(&golden, &written).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        let differs = expected.lines().zip(written.lines()).position(|(old, new)| old != new);
        let at = differs.unwrap_or_else(|| expected.lines().count().min(written.lines().count()));
        let around = |text: &str| {
            let lines: Vec<&str> = text.lines().skip(at.saturating_sub(3)).take(8).collect();
            lines.join("\n")
        };
        assert!(
            expected == written,
            "{} differs from line {} on.\nIt has\n{}\n\nand the deployment\n{}\n\nIf this is \
             wanted, SYNCLINE_TEST_RENEW=1 writes the golden files again.",
            golden.display(),
            at + 1,
            around(&expected),
            around(&written),
        );
    }
}

enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(TestDatabase),
}

impl Database {
    fn sqlite() -> Database {
        Database::Sqlite(tempfile::tempdir().unwrap())
    }

    fn postgres() -> Database {
        Database::Postgres(Cluster::shared().database())
    }

    fn name(&self) -> &'static str {
        match self {
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    fn path(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("consolidated.db")
    }

    fn url(&self) -> Url {
        let url = match self {
            Database::Sqlite(folder) => format!("sqlite:{}", Database::path(folder).display()),
            Database::Postgres(database) => database.url(),
        };
        Url::parse(&url).unwrap()
    }

    fn run(&self, sql: &str) {
        match self {
            Database::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(Database::path(folder)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Database::Postgres(database) => database.sql(sql),
        }
    }

    /// A remote of each script version that holds the tables of now, so that they stay known; and
    /// the same number of the deployment in every run.
    fn settle(&self) {
        let sql = "UPDATE {}syncline_system SET value = '1000' WHERE name = 'deployment';
                   INSERT INTO {}syncline_remote (remote_id, user_name, script_version, progress,
                       counter, nonce, epoch, attempt, held_deployment)
                   SELECT 'of ' || script_version, 'ann', script_version, 1, 1, 1, 1, 1, 1000
                   FROM {}syncline_script_version";
        self.run(&self.sql(sql));
    }

    /// SQL about system tables, which are in a schema on PostgreSQL.
    fn sql(&self, sql: &str) -> String {
        sql.replace("{}", if self.name() == "sqlite" { "" } else { "syncline." })
    }

    /// A file of the case that this database has for itself, or shares.
    fn read(&self, folder: &Path, shared: &str) -> String {
        let extension = shared.rsplit('.').next().unwrap();
        let own = folder.join(format!("{}.{extension}", self.name()));
        fs::read_to_string(own).unwrap_or_else(|_| fs::read_to_string(folder.join(shared)).unwrap())
    }
}

/// Deploys a case, and says all that it wrote.
fn record(folder: &Path, database: &Database) -> String {
    let (schema, models) =
        (database.read(folder, "schema.sql"), database.read(folder, "model.toml"));
    let (schema, later) = schema.split_once("-- later\n").unwrap();
    let (first, changed) = models.split_once("# later\n").unwrap();
    let mut golden = String::new();
    database.run(schema);
    let mut admin = administer(&database.url()).unwrap();
    deploy(&mut golden, database, admin.as_mut(), "FIRST", first);
    database.settle();
    database.run(later);
    deploy(&mut golden, database, admin.as_mut(), "LATER", changed);
    let undeployment = admin.undeploy(false).unwrap();
    let undone = undeployment.statements.iter().filter(|sql| !sql.starts_with("DROP TABLE"));
    list(&mut golden, "UNDEPLOYMENT", undone.map(|sql| format!("{sql};")));
    golden
}

fn deploy(
    golden: &mut String,
    database: &Database,
    admin: &mut dyn Administration,
    stage: &str,
    models: &str,
) {
    let parse = |text: &str| SyncModel::parse(text, "model.toml").unwrap();
    let models: Vec<SyncModel> = models.split("# version\n").map(parse).collect();
    let Deployment { statements, notices } = admin.deploy(&models, true).unwrap();
    let done = admin.deploy(&models, false).unwrap();
    assert_eq!(statements, done.statements, "{stage}: a dry run says something else");
    assert_eq!(notices, done.notices, "{stage}: a dry run says something else");
    database.run(&database.sql("UPDATE {}syncline_shape SET deployed_at = '2000-01-01 00:00:00'"));
    let again = admin.deploy(&models, false).unwrap().statements;
    assert_eq!(again, Vec::<String>::new(), "{stage}: the next deployment has nothing to do");
    let written = statements.iter().filter(|sql| !is_system(sql)).map(|sql| shortened(sql));
    let new: Vec<String> =
        written.filter(|sql| sql.len() < SHORT || !golden.contains(sql.as_str())).collect();
    list(golden, &format!("{stage} DEPLOYMENT"), new.into_iter());
    list(golden, &format!("{stage} NOTICES"), notices.into_iter());
    let findings = admin.check(&models).unwrap().into_iter().map(|finding| {
        let severity = if finding.severity == Severity::Error { "error" } else { "notice" };
        let table = finding.table.map_or(String::new(), |table| format!(" [{table}]"));
        format!("{severity}{table}: {}", finding.message)
    });
    list(golden, &format!("{stage} FINDINGS"), findings);
    list(golden, &format!("{stage} SESSIONS"), sessions(database, admin));
}

/// Whether a statement makes a system table, which other tests are about.
fn is_system(sql: &str) -> bool {
    let starts = ["CREATE TABLE syncline_", "CREATE TABLE syncline.syncline_"];
    let is_format = sql.contains("syncline_system VALUES ('format'");
    is_format || starts.iter().any(|start| sql.starts_with(start))
}

/// A statement without what others say already: what a note of an object holds is proven by a next
/// deployment that has nothing to do.
fn shortened(sql: &str) -> String {
    let notes = ["INSERT OR REPLACE INTO syncline_object", "INSERT INTO syncline.syncline_object"];
    if !notes.iter().any(|start| sql.starts_with(start)) {
        return format!("{sql};");
    }
    match sql.lines().find(|line| line.starts_with("WHERE o.kind")) {
        Some(which) => format!("(a note of the object {which});"),
        None => format!("({} …);", sql.chars().take(100).collect::<String>()),
    }
}

/// What remotes are offered: publication by publication, the tables with their fingerprints.
fn sessions(database: &Database, admin: &mut dyn Administration) -> std::vec::IntoIter<String> {
    let mut reader = open_reader(&database.url()).unwrap();
    let user = UserName::new("ann").unwrap();
    let id = RemoteId::new("one").unwrap();
    reader.admittees(&[(&user, &id)]).unwrap();
    let mut offered = Vec::new();
    for (version, publication, _) in admin.publications().unwrap() {
        let wanted: Vec<PublicationName> = vec![publication.clone()];
        let session =
            reader.session(&user, Default::default(), &id, Some(&version), &wanted).unwrap();
        let mut text = format!("{version}, {publication}: {}", session.schema.fingerprint);
        for table in &session.schema.tables {
            write!(text, "\n  {} {}", table.fingerprint, table.name).unwrap();
        }
        offered.push(text);
    }
    offered.into_iter()
}

fn list(golden: &mut String, title: &str, entries: impl Iterator<Item = String>) {
    writeln!(golden, "=== {title}\n").unwrap();
    entries.for_each(|entry| writeln!(golden, "{entry}\n").unwrap());
}
