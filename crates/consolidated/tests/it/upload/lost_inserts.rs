//! Two remotes give two rows the same key.
//!
//! What the second has entered for its own row does not become part of the row of the first. The
//! same holds for a row that a remote has deleted and entered again.

use crate::support::center::{Backend, Center, Remote, Upload, int, text};

const SCHEMA: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, changed TEXT);
    CREATE TABLE line (id TEXT PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders (id));
    CREATE TABLE remark (id TEXT PRIMARY KEY, line_id TEXT REFERENCES line (id));
    INSERT INTO orders VALUES (7, 'Evans', '2026-01-01'); INSERT INTO line VALUES ('g', 7);";

fn model(rule: &str) -> String {
    format!("[table.orders]\nconflict = {rule}\n[table.line]\n[table.remark]\n")
}

fn order(id: i64, customer: &str, changed: &str) -> Upload {
    Upload::Insert("orders", vec![int(id), text(customer), text(changed)])
}

fn line(id: &str, order: i64) -> Upload {
    Upload::Insert("line", vec![text(id), int(order)])
}

fn remark(id: &str, line: &str) -> Upload {
    Upload::Insert("remark", vec![text(id), text(line)])
}

/// A center to which one remote has sent order 1 with a line, and another one that knows nothing
/// of it.
fn after_the_first(backend: Backend, rule: &str) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, &model(rule));
    let (mut first, mut second) = (Remote::new("first"), Remote::new("second"));
    center.synchronize(&mut first, &[]);
    center.synchronize(&mut second, &[]);
    center.synchronize(&mut first, &[order(1, "Adams", "2026-02-02"), line("a", 1)]);
    (center, second)
}

fn lines(center: &Center) -> String {
    center.list("SELECT id || '=' || order_id AS v FROM line ORDER BY id")
}

// S5
#[test]
fn what_was_entered_for_the_loser_is_rejected_with_it() {
    let losing = [
        ("\"consolidated_wins\"", "2026-02-03", "Adams"),
        ("\"merge\"", "2026-02-03", "Adams"),
        ("{ latest = \"changed\" }", "2026-02-01", "Adams"),
    ];
    Backend::each(|backend| {
        for (rule, changed, stays) in losing {
            let (mut center, mut second) = after_the_first(backend, rule);
            let changes = [
                order(1, "Brown", changed),
                order(2, "Clark", changed),
                line("b", 1),
                line("c", 2),
                line("d", 7),
                Upload::Update("line", vec![text("g"), int(7)], vec![text("g"), int(1)]),
                remark("of b", "b"),
                remark("of c", "c"),
            ];
            let (applied, download) = center.synchronize(&mut second, &changes);
            let told = format!("{backend:?} {rule}: {download:?}");
            assert_eq!((applied.conflicts, applied.rejected), (1, 4), "{told}");
            let wanted =
                ["line 'b' E7008", "line 'g' E7008", "orders 1 E7007", "remark 'of b' E7003"];
            assert_eq!(download.told(), wanted, "{told}");
            let row = vec![int(1), text(stays), text("2026-02-02")];
            assert!(download.upserts.contains(&("orders".into(), row)), "{told}");
            assert_eq!(lines(&center), "a=1,c=2,d=7,g=7", "{told}");
            assert_eq!(center.list("SELECT id AS v FROM remark"), "of c", "{told}");
            let customer = "SELECT customer AS v FROM orders WHERE id = 1";
            assert_eq!(center.list(customer), stays, "{told}");
        }
    });
}

#[test]
fn a_row_that_wins_keeps_what_was_entered_for_it() {
    let winning = ["\"remote_wins\"", "{ latest = \"changed\" }"];
    Backend::each(|backend| {
        for rule in winning {
            let (mut center, mut second) = after_the_first(backend, rule);
            let changes = [order(1, "Brown", "2026-02-03"), line("b", 1)];
            let (applied, download) = center.synchronize(&mut second, &changes);
            let told = format!("{backend:?} {rule}: {download:?}");
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{told}");
            assert_eq!(lines(&center), "a=1,b=1,g=7", "{told}");
            let kept = backend.pick("syncline_conflict", "syncline.syncline_conflict");
            let kept = center.list(&format!("SELECT consolidated_row AS v FROM {kept}"));
            assert!(kept.contains("Adams"), "{told}: {kept}");
        }
    });
}

// The same row twice is one row.
#[test]
fn two_equal_rows_are_one_and_have_the_lines_of_both() {
    Backend::each(|backend| {
        let (mut center, mut second) = after_the_first(backend, "\"consolidated_wins\"");
        let changes = [order(1, "Adams", "2026-02-02"), line("b", 1)];
        let (applied, _) = center.synchronize(&mut second, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(lines(&center), "a=1,b=1,g=7", "{backend:?}");
    });
}

// The answer got lost, and the user goes on with the order.
#[test]
fn what_comes_before_the_remote_has_heard_is_rejected_too() {
    for rule in ["\"consolidated_wins\"", "\"merge\""] {
        Backend::each(|backend| {
            let (mut center, mut second) = after_the_first(backend, rule);
            center.upload(&mut second, &[order(1, "Brown", "2026-02-03")]).unwrap();
            let mine = |customer: &str| vec![int(1), text(customer), text("2026-02-03")];
            let changes = [
                line("b", 1),
                line("d", 7),
                remark("of b", "b"),
                Upload::Update("orders", mine("Brown"), mine("Bruno")),
            ];
            let (applied, download) = center.synchronize(&mut second, &changes);
            let told = format!("{backend:?} {rule}: {download:?}");
            assert_eq!((applied.conflicts, applied.rejected), (0, 3), "{told}");
            let wanted = ["line 'b' E7008", "orders 1 E7007", "remark 'of b' E7003"];
            assert_eq!(download.told(), wanted, "{told}");
            assert_eq!(lines(&center), "a=1,d=7,g=7", "{told}");
            let customer = "SELECT customer AS v FROM orders WHERE id = 1";
            assert_eq!(center.list(customer), "Adams", "{told}");
            // Now the remote has the order of the first, and may add to it.
            let (applied, _) = center.synchronize(&mut second, &[line("e", 1)]);
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{told}");
            assert_eq!(lines(&center), "a=1,d=7,e=1,g=7", "{told}");
        });
    }
}

// The foreign key is not to the primary key, and a row refers to another one of its table.
#[test]
fn any_foreign_key_leads_to_what_belongs_to_the_loser() {
    let schema = "CREATE TABLE person (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE,
            boss TEXT REFERENCES person (code));
        CREATE TABLE visit (id INTEGER PRIMARY KEY, code TEXT REFERENCES person (code));";
    let person = |id: i64, code: &str, boss: &str| {
        Upload::Insert("person", vec![int(id), text(code), text(boss)])
    };
    let visit = |id: i64, code: &str| Upload::Insert("visit", vec![int(id), text(code)]);
    Backend::each(|backend| {
        let mut center = Center::on(backend, schema, "[table.person]\n[table.visit]\n");
        let (mut first, mut second) = (Remote::new("first"), Remote::new("second"));
        center.synchronize(&mut first, &[]);
        center.synchronize(&mut second, &[]);
        center.synchronize(&mut first, &[person(1, "x", "x")]);
        let changes = [
            person(1, "x", "y"),
            person(2, "y", "y"),
            person(3, "z", "x"),
            visit(1, "x"),
            visit(2, "y"),
        ];
        let (_, download) = center.synchronize(&mut second, &changes);
        let wanted = ["person 1 E7007", "person 3 E7008", "visit 1 E7008"];
        assert_eq!(download.told(), wanted, "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM person ORDER BY id"), "1,2", "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM visit ORDER BY id"), "2", "{backend:?}");
    });
}

// A winner is not rejected because a trigger spells it otherwise, and a row that only fills empty
// columns has lost nothing.
#[test]
fn a_row_that_is_stored_in_other_words_has_not_lost() {
    let note = |id: i64, a: &str, b: &str| Upload::Insert("note", vec![int(id), text(a), text(b)]);
    Backend::each(|backend| {
        let trigger = backend.pick(
            "CREATE TRIGGER loud AFTER UPDATE OF a ON note WHEN NEW.a <> upper(NEW.a)
                 BEGIN UPDATE note SET a = upper(a) WHERE id = NEW.id; END;",
            "CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 NEW.a := upper(NEW.a); RETURN NEW; END $$;
             CREATE TRIGGER loud BEFORE UPDATE ON note FOR EACH ROW EXECUTE FUNCTION loud();",
        );
        let schema = format!(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, a TEXT, b TEXT);
             CREATE TABLE line (id TEXT PRIMARY KEY, note INTEGER REFERENCES note); {trigger}"
        );
        for (rule, sent, told) in [
            ("\"remote_wins\"", note(1, "mine", "b"), vec![]),
            ("\"merge\"", note(1, "MINE", "theirs"), vec![]),
            ("\"merge\"", note(1, "MINE", "b"), vec!["line 'x' E7008", "note 1 E7007"]),
        ] {
            let tables = format!("[table.note]\nconflict = {rule}\n[table.line]\n");
            let mut center = Center::on(backend, &schema, &tables);
            let mut remote = Remote::new("r");
            center.synchronize(&mut remote, &[]);
            center.foreign("INSERT INTO note VALUES (1, NULL, 'theirs')");
            let line = Upload::Insert("line", vec![text("x"), int(1)]);
            let (applied, download) = center.synchronize(&mut remote, &[sent, line]);
            assert_eq!(applied.conflicts, 1, "{backend:?} {rule}");
            assert_eq!(download.told(), told, "{backend:?} {rule}");
            let stored = center.list("SELECT a || '-' || b AS v FROM note");
            let wanted = if rule == "\"merge\"" { "MINE-theirs" } else { "MINE-b" };
            assert_eq!(stored, wanted, "{backend:?} {rule}");
        }
    });
}

/// Order 7 as both remotes know it.
fn evans() -> Vec<model::Value> {
    vec![int(7), text("Evans"), text("2026-01-01")]
}

fn again(customer: &str, changed: &str) -> Upload {
    Upload::Again("orders", evans(), vec![int(7), text(customer), text(changed)])
}

/// A center with order 7, without its line, which a remote knows, and on which this was done since.
fn after(backend: Backend, rule: &str, done: &str) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, &model(rule));
    center.foreign("DELETE FROM line");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign(done);
    (center, remote)
}

const ORDER: &str = "SELECT customer AS v FROM orders WHERE id = 7";

const REPLACED: &str = "UPDATE orders SET customer = 'Adams', changed = '2026-02-02' WHERE id = 7";

const GONE: &str = "DELETE FROM orders WHERE id = 7";

// S5: the row that lost was in the conflict at the center alone.
#[test]
fn a_row_that_was_entered_again_and_loses_is_told_like_a_new_one() {
    let cases = [
        (REPLACED, "\"consolidated_wins\"", "2026-02-03", "Adams", true),
        (REPLACED, "\"merge\"", "2026-02-03", "Adams", true),
        (REPLACED, "{ latest = \"changed\" }", "2026-02-01", "Adams", true),
        (REPLACED, "{ latest = \"changed\" }", "2026-02-03", "Brown", false),
        (REPLACED, "\"remote_wins\"", "2026-02-03", "Brown", false),
        (GONE, "\"consolidated_wins\"", "2026-02-03", "", true),
        (GONE, "\"merge\"", "2026-02-03", "Brown", false),
        (GONE, "{ latest = \"changed\" }", "2026-02-03", "Brown", false),
        (GONE, "\"remote_wins\"", "2026-02-03", "Brown", false),
    ];
    Backend::each(|backend| {
        for (done, rule, changed, stays, lost) in cases {
            let (mut center, mut remote) = after(backend, rule, done);
            let changes = [again("Brown", changed), line("b", 7)];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let told = format!("{backend:?} {rule} {done}: {download:?}");
            let (wanted, rejected) = match (lost, done) {
                (false, _) => (vec![], 0),
                (true, GONE) => (vec!["line 'b' E7003", "orders 7 E7007"], 2),
                (true, _) => (vec!["line 'b' E7008", "orders 7 E7007"], 2),
            };
            assert_eq!((applied.conflicts, applied.rejected), (1, rejected), "{told}");
            assert_eq!(download.told(), wanted, "{told}");
            assert_eq!(center.list(ORDER), stays, "{told}");
            assert_eq!(lines(&center), if lost { "" } else { "b=7" }, "{told}");
            let kept = backend.pick("syncline_conflict", "syncline.syncline_conflict");
            let kept = center.list(&format!("SELECT count(*) AS v FROM {kept}"));
            assert_eq!(kept, "1", "beside the conflict: {told}");
        }
    });
}

// Whoever changes a row has no row of his own.
#[test]
fn an_edit_that_loses_and_a_row_that_meets_no_other_are_not_rejected() {
    let update = Upload::Update("orders", evans(), vec![int(7), text("Brown"), text("2026-02-03")]);
    Backend::each(|backend| {
        for done in [REPLACED, GONE] {
            let (mut center, mut remote) = after(backend, "\"consolidated_wins\"", done);
            let (applied, download) =
                center.synchronize(&mut remote, std::slice::from_ref(&update));
            let told = format!("{backend:?} {done}: {download:?}");
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{told}");
            assert_eq!(download.told(), Vec::<String>::new(), "{told}");
        }
        let nothing = "DELETE FROM remark";
        let (mut center, mut remote) = after(backend, "\"consolidated_wins\"", nothing);
        let (applied, _) = center.synchronize(&mut remote, &[again("Brown", "2026-02-03")]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(center.list(ORDER), "Brown", "{backend:?}");
    });
}
