//! Triggers of the owner that end the triggers after them, at an SQLite center.

use crate::support::center::{Center, Download, Remote, Row, Upload, deploy, int, text};
use model::Code;
use std::collections::BTreeMap;
use syncline_consolidated::DownloadedTable::{Changes, Refresh};
use syncline_consolidated::{SyncModel, administer};

/// There is a harmless trigger from the start, so that another one is no change of the scripts.
const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, note TEXT);
    CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT UNIQUE);
    CREATE TRIGGER audited AFTER INSERT ON t BEGIN INSERT INTO audit (what) VALUES (NEW.code); END;
    INSERT INTO t VALUES (1, 'one', ''), (2, 'two', ''), (3, 'three', ''), (4, 'four', ''),
        (5, 'five', ''), (6, 'six', ''), (7, 'seven', ''), (8, 'eight', ''), (9, 'nine', '');";

const TABLES: &str = "[table.t]\n";

/// Each way to write, for the round `N`.
const WRITES: &str = "
    INSERT INTO t VALUES (1N, 'new N', '');
    UPDATE t SET note = 'N' WHERE id = 1;
    UPDATE t SET id = 2N WHERE code = 'two';
    DELETE FROM t WHERE id = 1N;
    DELETE FROM t WHERE id = 3;
    INSERT OR REPLACE INTO t VALUES (4, 'four', 'N');
    INSERT OR REPLACE INTO t VALUES (5N, 'five', 'N');
    UPDATE OR REPLACE t SET code = 'six' WHERE code = 'seven';
    INSERT INTO t VALUES (8, 'eight', '') ON CONFLICT (id) DO UPDATE SET note = 'N';
    INSERT INTO t VALUES (3, 'three', ''), (6N, 'seven', 'N');
    INSERT OR FAIL INTO t VALUES (7N, 'again N', ''), (8N, 'and N', '')";

/// What the triggers do, `THIS` being the row of the event.
const ENDS: [&str; 4] = [
    "SELECT RAISE(IGNORE)",
    "SELECT RAISE(FAIL, 'no')",
    "UPDATE t SET note = note || '!' WHERE id = THIS.id; SELECT RAISE(IGNORE)",
    "INSERT OR FAIL INTO audit (what) VALUES ('one')",
];

fn triggers(timing: &str, ends: &str) -> String {
    let one = |event: &str, row: &str| {
        let body = ends.replace("THIS", row);
        format!(
            "CREATE TRIGGER own_{event} {timing} {event} ON t WHEN length({row}.note) < 4
             BEGIN {body}; END;"
        )
    };
    [one("INSERT", "NEW"), one("UPDATE", "NEW"), one("DELETE", "OLD")].concat()
}

/// Another program writes, and does not mind what fails.
fn write(center: &Center, recursive: bool, round: u32) {
    let connection = rusqlite::Connection::open(center.path()).unwrap();
    connection.pragma_update(None, "recursive_triggers", recursive).unwrap();
    for sql in WRITES.replace('N', &round.to_string()).split(';') {
        connection.execute_batch(sql).ok();
    }
}

/// A remote with its rows.
struct Copy {
    remote: Remote,
    rows: BTreeMap<String, Row>,
}

impl Copy {
    fn new() -> Copy {
        Copy { remote: Remote::another(), rows: BTreeMap::new() }
    }

    fn take(&mut self, download: &Download) {
        let key = |row: &Row| row[0].as_ref().display();
        if download.modes == [Refresh] {
            self.rows.clear();
        }
        self.rows.extend(download.upserts.iter().map(|(_, row)| (key(row), row.clone())));
        download.deletes.iter().for_each(|(_, row)| drop(self.rows.remove(&key(row))));
    }

    /// Synchronizes, and has what the center has.
    fn follow(&mut self, center: &mut Center, rows: &[Upload], what: &str) -> Download {
        let (_, download) = center.synchronize(&mut self.remote, rows);
        self.take(&download);
        let there = center.rows("SELECT id, code, note FROM t");
        let there = there.into_iter().map(|row| (row[0].as_ref().display(), row));
        assert_eq!(self.rows, there.collect(), "{what}");
        download
    }
}

fn refuses(center: &mut Center) -> Option<Code> {
    let user = model::UserName::new("ann").unwrap();
    let id = model::RemoteId::new("other").unwrap();
    let session = center.reader.session(&user, Default::default(), &id, None, &[]);
    session.err().map(|failure| failure.code())
}

/// SQLite fires the newest trigger first. One that was made behind a deployment ended what ours
/// would have noted, and no deployment changed that.
// S2, Trap 29
#[test]
fn a_trigger_that_ends_the_others_hides_nothing() {
    for (ends, timing, recursive, before) in cases() {
        let what = format!("{timing} {ends}, recursive {recursive}, before {before}");
        let made = triggers(timing, ends);
        let mut center = match before {
            true => Center::new(&format!("{SCHEMA}{made}"), TABLES),
            false => Center::new(SCHEMA, TABLES),
        };
        let (mut copy, mut other) = (Copy::new(), Copy::new());
        copy.follow(&mut center, &[], &what);
        other.follow(&mut center, &[], &what);
        if !before {
            center.foreign(&made);
            // Changes before the next deployment are sent after it.
            write(&center, recursive, 1);
            let hides = timing == "AFTER";
            assert_eq!(refuses(&mut center), hides.then_some(Code::Drift), "{what}");
            let model = SyncModel::parse(&format!("script_version = \"v1\"\n{TABLES}"), "m");
            let found = administer(&center.url).unwrap().check(&[model.unwrap()]).unwrap();
            let said = found.iter().any(|finding| finding.message.contains("own_INSERT fires"));
            assert_eq!(said, hides, "{what}: {found:?}");
            assert_eq!(deploy(&center.url, TABLES).unwrap().statements.is_empty(), !hides);
            assert!(deploy(&center.url, TABLES).unwrap().statements.is_empty());
            copy.follow(&mut center, &[], &what);
        }
        for round in 2..4 {
            write(&center, recursive, round);
            assert_eq!(copy.follow(&mut center, &[], &what).modes, [Changes], "{what}");
        }
        let rows = [
            Upload::Insert("t", vec![int(99), text("up"), text("")]),
            Upload::Insert("t", vec![int(98), text("up too"), text("quiet")]),
        ];
        let download = copy.remote_upload(&mut center, &rows);
        copy.take(&download);
        other.follow(&mut center, &[], &what);
        copy.follow(&mut center, &[], &what);
    }
}

impl Copy {
    /// Uploads without looking at what it has: of what it sent it receives only what differs.
    fn remote_upload(&mut self, center: &mut Center, rows: &[Upload]) -> Download {
        for row in rows {
            let Upload::Insert(_, row) = row else { continue };
            self.rows.insert(row[0].as_ref().display(), row.clone());
        }
        center.synchronize(&mut self.remote, rows).1
    }
}

fn cases() -> Vec<(&'static str, &'static str, bool, bool)> {
    let mut cases = Vec::new();
    for ends in ENDS {
        for timing in ["AFTER", "BEFORE"] {
            for recursive in [false, true] {
                cases.extend([true, false].map(|before| (ends, timing, recursive, before)));
            }
        }
    }
    cases
}

/// A trigger that only writes is allowed, and no table is sent again. After the next deployment the
/// triggers of Syncline fire before it. `OR FAIL` of a statement also applies to its triggers.
// S2, Trap 29
#[test]
fn a_trigger_that_only_writes_is_put_behind_ours_without_a_refresh() {
    let mut center = Center::new(SCHEMA, TABLES);
    let mut copy = Copy::new();
    copy.follow(&mut center, &[], "first");
    center.foreign(
        "CREATE TRIGGER late AFTER INSERT ON t
         BEGIN INSERT INTO audit (what) VALUES ('once'); END",
    );
    assert_eq!(refuses(&mut center), None);
    center.foreign("INSERT INTO t VALUES (10, 'ten', '')");
    assert_eq!(copy.follow(&mut center, &[], "before").modes, [Changes]);
    deploy(&center.url, TABLES).unwrap();
    let connection = rusqlite::Connection::open(center.path()).unwrap();
    connection.execute_batch("INSERT OR FAIL INTO t VALUES (11, 'eleven', '')").unwrap_err();
    let download = copy.follow(&mut center, &[], "behind");
    assert_eq!(download.modes, [Changes]);
    assert_eq!(download.upserts.len(), 1);
}
