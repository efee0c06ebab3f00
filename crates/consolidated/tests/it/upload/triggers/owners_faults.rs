//! What only the owner's application can run in an SQLite database, or nobody.
//!
//! These are functions and collations of its own, and triggers that name what is gone.

use crate::support::center::{Center, Remote, Upload, deploy, int, text};
use model::{Code, Value};
use syncline_consolidated::{Notes, SyncModel, administer};

const BOOK: &str = "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, sort TEXT);
    CREATE TABLE shelf (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO book VALUES (1, 'one', NULL), (2, 'two', NULL);";

const MODEL: &str = "[table.book]\n[table.shelf]\n";

const UPDATES: &str = "CREATE TRIGGER tr AFTER UPDATE ON book
    BEGIN SELECT title_sort(new.title); END";

fn book(id: i64, title: &str) -> Vec<Value> {
    vec![int(id), text(title), Value::Null]
}

/// What the owner has made, what `deploy` says of it, and which rows are rejected then: inserts,
/// updates, deletes.
struct Case {
    owner: &'static str,
    says: &'static str,
    rejected: [bool; 3],
}

const CASES: [Case; 9] = [
    Case {
        owner: "CREATE TRIGGER tr AFTER INSERT ON book
            BEGIN UPDATE book SET sort = title_sort(new.title) WHERE id = new.id; END",
        says: "table book: inserts from remotes are rejected: SQLite cannot run the trigger tr of \
               table book at the server: no such function: title_sort",
        rejected: [true, false, false],
    },
    Case {
        owner: UPDATES,
        says: "table book: updates from remotes are rejected",
        rejected: [false, true, false],
    },
    Case {
        owner: "CREATE TRIGGER tr AFTER INSERT ON book BEGIN INSERT INTO gone VALUES (1); END",
        says: "SQLite cannot run the trigger tr of table book at the server: no such table: \
               main.gone",
        rejected: [true, false, false],
    },
    Case {
        // `name` is also a column that is published.
        owner: "CREATE TABLE note (a); CREATE TRIGGER tr AFTER DELETE ON book
            BEGIN INSERT INTO note (title) VALUES (1); END",
        says: "table book: deletes from remotes are rejected: SQLite cannot run the trigger tr of \
               table book at the server: table note has no column named title",
        rejected: [false, false, true],
    },
    Case {
        owner: "CREATE TABLE page (id INTEGER PRIMARY KEY,
                book INTEGER REFERENCES book (id) ON DELETE CASCADE);
            CREATE TRIGGER tr AFTER DELETE ON page BEGIN SELECT gone FROM book; END",
        says: "table book: deletes from remotes are rejected: SQLite cannot run the trigger tr of \
               table page at the server: no such column: gone",
        rejected: [false, false, true],
    },
    Case {
        owner: "CREATE INDEX ix ON book (title_sort(title))",
        says: "SQLite cannot run the index ix of table book at the server",
        rejected: [true, true, true],
    },
    Case {
        owner: "CREATE INDEX ix ON book (title) WHERE title_sort(title) > 'a'",
        says: "SQLite cannot run the index ix of table book at the server",
        rejected: [true, true, true],
    },
    Case {
        owner: "CREATE INDEX ix ON book (title COLLATE german)",
        says: "SQLite cannot run the index ix of table book at the server",
        rejected: [true, true, true],
    },
    Case {
        owner: "ALTER TABLE book ADD COLUMN more TEXT CHECK (title_sort(more) > 'a')",
        says: "SQLite cannot run the table book at the server: ",
        rejected: [true, false, false],
    },
];

/// Makes what SQLite only makes in the application, which has these functions and collations.
fn make(center: &Center, owner: &str) {
    let known = owner.replace("title_sort(", "lower(").replace("german", "NOCASE");
    center.foreign(&known);
    center.foreign(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(replace(sql, 'lower(', 'title_sort('),
             'NOCASE', 'german')
         WHERE name IN ('tr', 'ix', 'book')",
    );
}

// S4, S9, S11: one such trigger, and nothing of any remote arrived any more, and none received
// anything.
#[test]
fn what_only_the_application_can_run_rejects_the_rows_that_need_it() {
    for case in CASES {
        let mut center = Center::new(BOOK, MODEL);
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        make(&center, case.owner);
        let deployed = deploy(&center.url, MODEL).unwrap();
        let notices = deployed.notices.join("\n");
        assert!(notices.contains(case.says), "{}: {notices}", case.owner);
        assert!(findings(&center).contains(case.says), "{}", case.owner);
        center.reconnect();
        center.foreign("INSERT INTO shelf VALUES (5, 'theirs')");
        let (applied, download) = center.synchronize(
            &mut remote,
            &[
                Upload::Insert("book", book(3, "three")),
                Upload::Update("book", book(1, "one"), book(1, "uno")),
                Upload::Delete("book", book(2, "two")),
                Upload::Insert("shelf", vec![int(1), text("mine")]),
            ],
        );
        let rejected = case.rejected.iter().filter(|rejected| **rejected).count() as u64;
        assert_eq!((applied.rejected, applied.conflicts), (rejected, 0), "{}", case.owner);
        assert_eq!(center.list("SELECT name AS v FROM shelf ORDER BY id"), "mine,theirs");
        let theirs = ("shelf".to_owned(), vec![int(5), text("theirs")]);
        assert!(download.upserts.contains(&theirs), "{}: {download:?}", case.owner);
        let keys = [3, 1, 2].into_iter().zip(case.rejected).filter(|(_, rejected)| *rejected);
        let keys: Vec<String> = keys.map(|(key, _)| format!("{{\"id\":{key}}}")).collect();
        let mut notes = administer(&center.url).unwrap().rejects(&Notes::newest(10)).unwrap();
        notes.sort_by_key(|note| keys.iter().position(|key| *key == note.key));
        assert_eq!(
            notes.iter().map(|note| &note.key).collect::<Vec<_>>(),
            keys.iter().collect::<Vec<_>>()
        );
        for note in notes {
            assert_eq!(note.code, Code::RowRefused.number(), "{}: {note:?}", case.owner);
            assert!(note.message.starts_with("SQLite cannot run the "), "{note:?}");
        }
    }
}

/// What `check` finds.
fn findings(center: &Center) -> String {
    let model = format!("script_version = \"v1\"\n{MODEL}");
    let model = SyncModel::parse(&model, "model.toml").unwrap();
    let mut steward = administer(&center.url).unwrap();
    let found = steward.check(&[model]).unwrap();
    found.into_iter().map(|finding| finding.message + "\n").collect()
}

// S4, S5: a conflict needs a script of its own.
#[test]
fn a_conflict_that_cannot_be_resolved_is_rejected_alone() {
    let rule = "[table.book]\nconflict = \"remote_wins\"\n[table.shelf]\n";
    let schema = format!("{BOOK} {}", CASES[0].owner);
    let mut center = Center::new(&schema, rule);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign("UPDATE book SET title = 'theirs' WHERE id = 1");
    let (applied, _) = center.synchronize(
        &mut remote,
        &[
            Upload::Update("book", book(1, "one"), book(1, "mine")),
            Upload::Update("book", book(2, "two"), book(2, "due")),
        ],
    );
    assert_eq!((applied.rejected, applied.conflicts), (1, 0));
    assert_eq!(center.list("SELECT title AS v FROM book ORDER BY id"), "theirs,due");
    // Once it is mended, the row goes through.
    center.foreign("DROP TRIGGER tr");
    center.synchronize(&mut remote, &[Upload::Insert("book", book(3, "three"))]);
    assert_eq!(center.list("SELECT title AS v FROM book ORDER BY id"), "theirs,due,three");
}

// S4: a table that cannot be read is not deployed, with the reason.
#[test]
fn a_table_that_only_the_application_can_read_is_refused() {
    let owner = "DROP TABLE book;
        CREATE TABLE book (id TEXT COLLATE german PRIMARY KEY, title TEXT)";
    let center = Center::new(BOOK, "[table.shelf]\n");
    make(&center, owner);
    let refused = deploy(&center.url, MODEL).unwrap_err();
    let said = format!("{refused:?}");
    assert!(said.contains("no such collation sequence: german"), "{said}");
    // The rest can be deployed.
    deploy(&center.url, "[table.shelf]\n").unwrap();
}
