//! The bytes of watermarks.
//!
//! Remotes hold them for as long as they like. If an update of the program reads or writes them
//! otherwise, it sends every remote all of its rows again.

use crate::support::center::{Backend, Center, Remote};
use std::fmt::Write;
use syncline_consolidated::DownloadedTable;

const SCHEMA: &str = "
    CREATE TABLE customer (id INTEGER PRIMARY KEY, rep INTEGER);
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer (id));
    CREATE TABLE device (id INTEGER PRIMARY KEY, remote TEXT);
    CREATE TABLE task (id INTEGER PRIMARY KEY, login TEXT);
    CREATE TABLE product (id INTEGER PRIMARY KEY);
    CREATE TABLE diary (id INTEGER PRIMARY KEY);";

const TABLES: &str = r#"
[table.customer]
partition = "rep IN {u.rep}"
[table.invoice]
parent = "customer"
[table.device]
partition = "remote = {s.remote_id}"
[table.task]
partition = "login = {s.username}"
[table.product]
[table.diary]
direction = "upload_only"
"#;

/// What does not depend on the database: the version, the counter, the digest of the claims, and
/// how much follows the head.
fn described(backend: Backend, bytes: &[u8]) -> String {
    let (counter, claims, head) = match backend {
        Backend::Sqlite => (9..17, 17..33, 33),
        Backend::Postgres => (21..29, 37..53, 61),
    };
    let claims = bytes[claims].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let rest = match backend {
        Backend::Sqlite => format!("{} bytes", bytes.len() - head),
        // As long as the snapshot.
        Backend::Postgres => String::from(if bytes.len() > head { "snapshot" } else { "none" }),
    };
    format!("{} {} {claims} {rest}", bytes[0], bytes[counter][0])
}

// S2, S6, Trap 4
#[test]
fn watermarks_are_written_as_ever() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, TABLES);
        let mut remote = Remote::new("r");
        remote.claims.insert("rep".into(), "3,4".into());
        center.synchronize(&mut remote, &[]);
        let (_, again) = center.synchronize(&mut remote, &[]);
        assert!(!again.modes.contains(&DownloadedTable::Refresh), "{backend:?}: {:?}", again.modes);
        let schema = center.session(&remote).schema;
        let marks = schema.tables.iter().zip(&remote.marks).map(|(table, mark)| {
            let bytes = mark.watermark.as_ref().unwrap().as_bytes();
            format!("{} {}", table.name, described(backend, bytes))
        });
        let marks: Vec<String> = marks.collect();
        let expected = match backend {
            Backend::Sqlite => SQLITE,
            Backend::Postgres => POSTGRES,
        };
        assert_eq!(marks, expected, "{backend:?}");
    });
}

const SQLITE: [&str; 6] = [
    "customer 2 2 bcd6880b37b7b778719ba01528a02adc 16 bytes",
    "device 2 2 f33565ada9c9567fc456985e60785e25 16 bytes",
    "diary 2 2 00000000000000000000000000000000 0 bytes",
    "invoice 2 2 270288a3ea81760d3ba7ba641bf27988 32 bytes",
    "product 2 2 00000000000000000000000000000000 16 bytes",
    "task 2 2 50c1a7abdbb1c09326c3dd88f703843e 16 bytes",
];

const POSTGRES: [&str; 6] = [
    "customer 1 2 42e6ad95eaad5df0e5c171a22ccb4267 snapshot",
    "device 1 2 c390d45cff6ee94c35665369385127af snapshot",
    "diary 1 2 00000000000000000000000000000000 none",
    "invoice 1 2 9d9b5901a275340b8ad89ae96bd510a6 snapshot",
    "product 1 2 6ed92d6d3f2691adbe4965c97e4d31cd snapshot",
    "task 1 2 c7bb17f7954fda50f4b9a2fb3f07fd4a snapshot",
];
