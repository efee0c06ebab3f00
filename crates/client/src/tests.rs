//! Opening, remembering and refusing.

use crate::testing::Site;
use crate::{Components, Remote, Settings};
use model::{Code, Failure, RemoteId, UserName, Value, ValueRef};
use rusqlite::Connection;
use std::path::Path;

fn components(folder: &Path) -> Components {
    Components::system(folder).unwrap()
}

fn open(path: &Path) -> Result<Remote, Failure> {
    Remote::open(path, components(path.parent().unwrap()))
}

fn open_or_create(path: &Path) -> Result<Remote, Failure> {
    Remote::open_or_create(path, components(path.parent().unwrap()))
}

// S11
#[test]
fn what_is_no_remote_is_told_so_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    assert_eq!(open(&path("nothing.db")).unwrap_err().code(), Code::NotARemote);
    assert!(!path("nothing.db").exists());

    Connection::open(path("plain.db")).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    assert_eq!(open(&path("plain.db")).unwrap_err().code(), Code::NotARemote);

    std::fs::write(path("text.db"), "this is no database, however long it may be. ".repeat(50))
        .unwrap();
    let failure = open_or_create(&path("text.db")).unwrap_err();
    assert_eq!(failure.code(), Code::RemoteNotADatabase);
    assert!(failure.message().contains("text.db"), "{failure}");

    let failure = open_or_create(&path("no/such/folder.db")).map(|_| ());
    assert_eq!(failure.unwrap_err().code(), Code::RemoteNotADatabase);
}

#[test]
fn a_new_file_is_in_wal_mode_and_an_existing_one_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |remote: &Remote| -> String {
        remote.connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    let (new, old) = (folder.path().join("new.db"), folder.path().join("old.db"));
    assert_eq!(mode(&open_or_create(&new).unwrap()), "wal");
    Connection::open(&old).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    assert_eq!(mode(&open_or_create(&old).unwrap()), "delete");
    assert_eq!(mode(&open(&old).unwrap()), "delete");
}

// Trap 18
#[test]
fn a_file_of_another_layout_is_refused_and_left_alone() {
    let site = Site::empty();
    for format in ["2", "99", "NULL"] {
        let set = "UPDATE syncline_state SET value =";
        site.write(&format!("{set} {format} WHERE name = 'format_version'"));
        let before = site.rows("SELECT * FROM syncline_state");
        for refused in [open(&site.path()), open_or_create(&site.path())] {
            assert_eq!(refused.unwrap_err().code(), Code::RemoteMadeByAnother);
        }
        assert_eq!(site.rows("SELECT * FROM syncline_state"), before);
    }
}

#[test]
fn settings_are_remembered_one_by_one() {
    let mut site = Site::empty();
    let remote = &mut site.remote;
    let server = Some("tcp://host:1".to_owned());
    remote.remember(&Settings { server: server.clone(), ..Settings::default() }).unwrap();
    let remote_id = Some(RemoteId::new("till-7").unwrap());
    remote.remember(&Settings { remote_id: remote_id.clone(), ..Settings::default() }).unwrap();
    let settings = open(&site.path()).unwrap().settings().unwrap();
    assert_eq!((settings.server, settings.remote_id), (server, remote_id));
    assert_eq!(settings.user, Some(UserName::new("anna").unwrap()));
}

#[test]
fn a_remote_id_that_was_used_cannot_change() {
    let mut site = Site::empty();
    let name = |name| Settings { remote_id: RemoteId::new(name).ok(), ..Settings::default() };
    site.remote.remember(&name("a")).unwrap();
    site.remote.remember(&name("b")).unwrap();
    site.freeze();
    site.remote.remember(&name("b")).unwrap();
    assert_eq!(site.remote.remember(&name("c")).unwrap_err().code(), Code::RemoteIdInUse);
    site.remote.reset(false).unwrap();
    site.remote.remember(&name("c")).unwrap();
}

// S11
#[test]
fn a_busy_file_is_told_as_such() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY);");
    site.remote.connection.busy_timeout(std::time::Duration::from_millis(1)).unwrap();
    let other = Connection::open(site.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(site.download().apply().unwrap_err().code(), Code::RemoteBusy);
}

#[test]
fn a_remote_in_memory_works_through_its_application() {
    let folder = tempfile::tempdir().unwrap();
    let mut remote = Remote::in_memory(components(folder.path())).unwrap();
    remote.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").unwrap();
    remote.execute("INSERT INTO t VALUES (1, 'x'); INSERT INTO t VALUES (2, NULL)").unwrap();
    let failure = remote.execute("DELETE FROM t; INSERT INTO nowhere VALUES (1)");
    assert_eq!(failure.unwrap_err().code(), Code::Bug);
    let mut rows = Vec::new();
    let mut keep = |values: &[ValueRef<'_>]| {
        rows.push(values.iter().map(|value| ValueRef::to_owned(*value)).collect::<Vec<_>>());
        Ok(())
    };
    remote.for_each_row("SELECT b, a FROM t ORDER BY a", &mut keep).unwrap();
    let wanted =
        [[Value::Text(b"x".to_vec()), Value::Integer(1)], [Value::Null, Value::Integer(2)]];
    assert_eq!(rows, wanted, "a failed statement takes the others with it");
    remote.reset(false).unwrap();
    remote.detach().unwrap();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is on disk");
}

#[test]
fn changed_tables_of_syncline_have_a_code_of_their_own_and_are_no_defect() {
    for edit in [
        "DROP TABLE syncline_generation",
        "DELETE FROM syncline_generation",
        "ALTER TABLE syncline_table RENAME COLUMN watermark TO other",
        "INSERT INTO syncline_table VALUES (0, 't', '{', NULL, 1, '[]')",
        "DROP TABLE syncline_table",
        "INSERT OR REPLACE INTO syncline_state VALUES ('counter', 'many')",
        "INSERT OR REPLACE INTO syncline_state VALUES ('publications', 'all')",
        "INSERT OR REPLACE INTO syncline_state VALUES ('table_history', '[')",
    ] {
        let site = Site::empty();
        site.write(edit);
        let failure = open(&site.path()).and_then(|remote| remote.status().map(|_| ()));
        let code = failure.err().map(|failure| failure.code());
        assert_eq!(code, Some(Code::RemoteTablesDamaged), "{edit}");
    }
}
