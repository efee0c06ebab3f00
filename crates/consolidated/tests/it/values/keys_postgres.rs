//! Keys at PostgreSQL that are equal in different notations, or stored in another notation.

use crate::support::center::{Backend, Center, Remote, Row, Upload, deploy, int, text};
use harness::postgres::Cluster;
use model::{Code, Value};
use syncline_consolidated::{Finding, Severity, SyncModel, Url, administer};

const TYPES: &str = "
    CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE DOMAIN whole AS integer;
    CREATE DOMAIN amount AS numeric;
    CREATE DOMAIN span AS interval;
    CREATE DOMAIN shout AS text COLLATE nocase;
    CREATE TYPE mood AS ENUM ('sad', 'fine');
    CREATE TYPE quiet AS RANGE (subtype = text, collation = nocase);";

// S3, Trap 22: two rows at the remote were one at the center, and the deletion of the one
// deleted the other.
#[test]
fn a_key_with_several_spellings_is_refused_with_the_reason() {
    for (kind, why) in [
        ("text COLLATE nocase", "its collation"),
        ("varchar(9) COLLATE nocase", "its collation"),
        ("shout", "its collation"),
        ("shout[]", "its collation"),
        ("quiet", "its collation"),
        ("numeric", "1.0 and 1.00"),
        ("numeric[]", "1.0 and 1.00"),
        ("numrange", "1.0 and 1.00"),
        ("nummultirange", "1.0 and 1.00"),
        ("amount", "1.0 and 1.00"),
        ("jsonb", "1.0 and 1.00"),
        ("interval", "1 day"),
        ("interval[]", "1 day"),
        ("span", "1 day"),
        ("money", "setting"),
        ("char(3)[]", "blanks"),
        ("float8[]", "-0"),
    ] {
        let database = Cluster::shared().database();
        database.sql(&format!(
            "{TYPES} CREATE TABLE t (id {kind} PRIMARY KEY, note text);
                 CREATE TABLE other (id integer PRIMARY KEY)"
        ));
        let url = Url::parse(&database.url()).unwrap();
        let refused = deploy(&url, "[table.t]\n").unwrap_err();
        assert_eq!(refused.code(), Code::AmbiguousKey, "{kind}: {}", refused.message());
        assert!(refused.message().contains(why), "{kind}: {}", refused.message());
        let initial = administer(&url).unwrap().initial_model(&[], false).unwrap();
        assert_eq!(initial.tables.len(), 1, "{kind}: {}", initial.toml);
    }
}

// S3, Trap 22: what has one spelling goes on working; in another one it is no key.
#[test]
fn a_key_with_one_spelling_arrives_in_it_and_in_no_other() {
    for (kind, good, bad) in [
        ("varchar(3)", text("abc"), Some(text("abc  "))),
        ("varchar(3)", text("a "), None),
        ("char(3)", text("ab"), Some(text("ab "))),
        ("numeric(9)", int(12), Some(Value::Real(1.5))),
        ("numeric(20)", text("12"), Some(text("12.0"))),
        ("numeric(20, 2)", text("1.50"), Some(text("1.5"))),
        ("numeric(5, 2)", Value::Real(1.5), Some(Value::Real(1.234))),
        (
            "uuid",
            text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            Some(text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")),
        ),
        ("date", text("2024-02-29"), Some(text("20240229"))),
        ("date", text("infinity"), None),
        ("timestamp(0)", text("2024-02-29 08:30:00"), Some(text("2024-02-29 08:30:00.6"))),
        ("time(0)", text("08:30:00"), Some(text("08:30:00.6"))),
        ("macaddr", text("08:00:2b:01:02:03"), Some(text("08-00-2B-01-02-03"))),
        ("cidr", text("10.0.0.0/8"), Some(text("10/8"))),
        ("inet", text("10.0.0.1/32"), Some(text("10.0.0.1"))),
        ("int4range", text("[1,5)"), Some(text("[1,4]"))),
        ("int4multirange", text("{[1,5)}"), Some(text("{[1,3),[3,5)}"))),
        ("integer[]", text("{1,2}"), Some(text("{1, 2}"))),
        ("whole", text("5"), Some(text("05"))),
        ("whole", text("7"), Some(text("seven"))),
        ("mood", text("fine"), Some(text("better"))),
        ("bit(3)", text("101"), Some(text("1011"))),
        ("oid", text("5"), Some(text("005"))),
    ] {
        let schema = format!("{TYPES} CREATE TABLE t (id {kind} PRIMARY KEY, note text)");
        let mut center = Center::on(Backend::Postgres, &schema, "[table.t]\n");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let row = |id: &Value, note: &str| vec![id.clone(), text(note)];
        let mut uploads = vec![Upload::Insert("t", row(&good, "a"))];
        uploads.extend(bad.iter().map(|bad| Upload::Insert("t", row(bad, "b"))));
        let (applied, download) = center.synchronize(&mut remote, &uploads);
        let refused = u64::from(bad.is_some());
        assert_eq!((applied.rejected, applied.conflicts), (refused, 0), "{kind}");
        let other = download.upserts.iter().find(|(_, row)| row[0] != good);
        assert_eq!(other, None, "{kind}: it came back in other letters");
        let gone: Vec<Row> = download.deletes.into_iter().map(|(_, key)| key).collect();
        assert_eq!(gone, bad.iter().map(|bad| vec![bad.clone()]).collect::<Vec<_>>(), "{kind}");
        assert_eq!(center.list("SELECT note FROM t"), "a", "{kind}");
        let update = Upload::Update("t", row(&good, "a"), row(&good, "c"));
        let (applied, _) = center.synchronize(&mut remote, &[update]);
        assert_eq!((applied.rejected, applied.conflicts), (0, 0), "{kind}");
        assert_eq!(center.list("SELECT note FROM t"), "c", "{kind}");
        let delete = Upload::Delete("t", row(&good, "c"));
        let (applied, _) = center.synchronize(&mut remote, &[delete]);
        assert_eq!((applied.rejected, applied.conflicts), (0, 0), "{kind}");
        assert_eq!(center.value("SELECT count(*) FROM t"), int(0), "{kind}");
    }
}

// S3, Trap 22: a change of letter case was an insert that was refused and a delete that was not.
#[test]
fn a_key_that_comes_to_have_several_spellings_is_refused_too() {
    const TABLES: &str = "[table.t]\n[table.other]\n";
    let schema = format!(
        "{TYPES} CREATE TABLE t (id text PRIMARY KEY, note text);
         CREATE TABLE other (id integer PRIMARY KEY);"
    );
    let mut center = Center::on(Backend::Postgres, &schema, TABLES);
    // Its type changes only where a trigger that names it is dropped.
    center.foreign(
        "DROP TRIGGER syncline_moved ON t;
         ALTER TABLE t ALTER COLUMN id TYPE text COLLATE nocase",
    );
    let refused = deploy(&center.url, TABLES).unwrap_err();
    assert_eq!(refused.code(), Code::AmbiguousKey, "{}", refused.message());
    let model = SyncModel::parse(&format!("script_version = \"v1\"\n{TABLES}"), "m").unwrap();
    let findings = administer(&center.url).unwrap().check(&[model]).unwrap();
    let named = |f: &&Finding| f.severity == Severity::Error && f.message.contains("E6150");
    assert_eq!(findings.iter().filter(named).count(), 1, "{findings:?}");
    // So the table is not served meanwhile.
    center.reconnect();
    let session = center.session(&Remote::new("r"));
    let waiting: Vec<&str> = session.waiting.iter().map(|it| it.table.as_str()).collect();
    assert_eq!(waiting, ["t"]);
}

// S4, Trap 22: a foreign key that the center sees kept broke at every remote.
#[test]
fn a_foreign_key_over_such_values_is_left_out_at_remotes() {
    let database = Cluster::shared().database();
    database.sql(&format!(
        "{TYPES} CREATE TABLE p (id integer PRIMARY KEY, code text COLLATE nocase UNIQUE);
         CREATE TABLE c (id integer PRIMARY KEY, code text COLLATE nocase REFERENCES p (code));"
    ));
    let url = Url::parse(&database.url()).unwrap();
    let deployment = deploy(&url, "[table.p]\n[table.c]\n").unwrap();
    let said = deployment.notices.iter().any(|n| n.contains("spelled differently"));
    assert!(said, "{:?}", deployment.notices);
}
