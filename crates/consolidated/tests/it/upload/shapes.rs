//! Uploads of older tables, on every database.
//!
//! Columns and tables were renamed, dropped or added since.

use crate::support::center::{Backend, Center, Remote, Row, Upload, deploy, int, text};
use model::{Code, Value};
use syncline_consolidated::{Held, Notes, administer};

const SCHEMA: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT);
    INSERT INTO item VALUES (1, 'nut', 5, 'old'), (2, 'bolt', 6, NULL);";

/// A center and a remote that has synchronized with it, then a schema change.
fn changed(backend: Backend, before: &str, sql: &str, after: &str) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, before);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign(sql);
    deploy(&center.url, after).unwrap();
    center.reconnect();
    (center, remote)
}

fn item(id: i64, name: &str, qty: i64, note: Value) -> Row {
    vec![int(id), text(name), int(qty), note]
}

// S1, S5, Trap 24: a change of a renamed column was lost, an insert arrived with NULL there, and a
// change of it and another column became a conflict without a cause.
#[test]
fn what_waits_goes_to_the_new_name_of_its_column() {
    Backend::each(|backend| {
        let (mut center, mut remote) = changed(
            backend,
            "[table.item]",
            "ALTER TABLE item RENAME COLUMN qty TO quantity",
            "[table.item]\nrenamed = { quantity = \"qty\" }",
        );
        let before = item(1, "nut", 5, text("old"));
        let (applied, download) = center.synchronize(
            &mut remote,
            &[
                Upload::Update("item", before, item(1, "nut", 50, text("old"))),
                Upload::Insert("item", item(3, "cog", 7, Value::Null)),
                Upload::Delete("item", item(2, "bolt", 6, Value::Null)),
            ],
        );
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!((applied.inserts, applied.updates, applied.deletes), (1, 1, 1));
        let held = center.list("SELECT id || ':' || quantity AS v FROM item ORDER BY id");
        assert_eq!(held, "1:50,3:7");
        assert_eq!(download.upserts.len(), 2, "the table comes anew");
    });
}

// H1, Trap 24: names that were swapped, and a name that was used again for another column.
#[test]
fn swapped_and_reused_names_are_what_they_were() {
    Backend::each(|backend| {
        let swap = "ALTER TABLE item RENAME COLUMN name TO spare;
            ALTER TABLE item RENAME COLUMN note TO name;
            ALTER TABLE item RENAME COLUMN spare TO note;
            ALTER TABLE item RENAME COLUMN qty TO quantity;
            ALTER TABLE item ADD COLUMN qty TEXT DEFAULT 'new'";
        let after = "[table.item]\n\
            renamed = { name = \"note\", note = \"name\", quantity = \"qty\" }";
        let (mut center, mut remote) = changed(backend, "[table.item]", swap, after);
        // A second deployment must not swap them back.
        assert_eq!(deploy(&center.url, after).unwrap().statements, [""; 0]);
        center.reconnect();
        let (applied, _) = center.synchronize(
            &mut remote,
            &[
                Upload::Update(
                    "item",
                    item(1, "nut", 5, text("old")),
                    item(1, "nuts", 50, text("older")),
                ),
                Upload::Insert("item", item(3, "cog", 7, text("n"))),
            ],
        );
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        let held = center.list(
            "SELECT id || note || name || quantity || qty AS v FROM item WHERE id <> 2 ORDER BY id",
        );
        assert_eq!(held, "1nutsolder50new,3cogn7new");
    });
}

// H1: several deployments while a remote was away, one of them undone again.
#[test]
fn a_remote_that_was_away_for_several_changes_is_followed_through_all() {
    Backend::each(|backend| {
        let (mut center, mut remote) = changed(
            backend,
            "[table.item]",
            "ALTER TABLE item RENAME COLUMN qty TO quantity",
            "[table.item]\nrenamed = { quantity = \"qty\" }",
        );
        center.foreign("ALTER TABLE item RENAME TO thing");
        let moved = "[table.thing]\nrenamed_from = \"item\"\n";
        deploy(&center.url, moved).unwrap();
        center.foreign("ALTER TABLE thing RENAME COLUMN quantity TO amount");
        deploy(
            &center.url,
            &format!("{moved}renamed = {{ quantity = \"qty\", amount = \"quantity\" }}"),
        )
        .unwrap();
        center.reconnect();
        let before = item(1, "nut", 5, text("old"));
        let rows = [Upload::Update("item", before, item(1, "nut", 50, text("old")))];
        let (applied, _) = center.synchronize(&mut remote, &rows);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(center.value("SELECT amount FROM thing WHERE id = 1"), int(50));
    });
}

// H3, Trap 24: a dropped column took the pending edit along without a word.
#[test]
fn a_value_of_a_dropped_column_is_told_and_the_rest_of_its_row_is_applied() {
    Backend::each(|backend| {
        let (mut center, mut remote) = changed(
            backend,
            "[table.item]",
            "ALTER TABLE item DROP COLUMN note",
            "[table.item]\ndropped = [\"note\"]",
        );
        let (applied, download) = center.synchronize(
            &mut remote,
            &[
                Upload::Update(
                    "item",
                    item(1, "nut", 5, text("old")),
                    item(1, "nuts", 5, text("new")),
                ),
                Upload::Update(
                    "item",
                    item(2, "bolt", 6, Value::Null),
                    item(2, "bolt", 6, text("only this")),
                ),
                Upload::Insert("item", item(3, "cog", 7, text("x"))),
                Upload::Insert("item", item(4, "pin", 8, Value::Null)),
            ],
        );
        assert_eq!((applied.inserts, applied.updates), (2, 2), "{backend:?}");
        assert_eq!((applied.conflicts, applied.rejected), (0, 3));
        let dropped = Code::ColumnDropped.number();
        let told: Vec<Value> = download.rejects.iter().map(|reject| reject.1[0].clone()).collect();
        assert_eq!(told, [int(1), int(2), int(3)]);
        assert!(download.rejects.iter().all(|reject| reject.2 == dropped));
        let held = center.list("SELECT id || name || qty AS v FROM item ORDER BY id");
        assert_eq!(held, "1nuts5,2bolt6,3cog7,4pin8");
    });
}

// S5, Trap 24: a newly published column became NULL, or the change was discarded as a conflict
// without a cause.
#[test]
fn a_new_column_is_neither_compared_nor_written_by_any_rule() {
    Backend::each(|backend| {
        for rule in ["consolidated_wins", "remote_wins", "merge", "latest", "add"] {
            let conflict = match rule {
                "latest" => "conflict = { latest = \"qty\" }".to_owned(),
                "add" => "conflict = { add = [\"qty\"] }".to_owned(),
                rule => format!("conflict = \"{rule}\""),
            };
            let model = format!("[table.item]\n{conflict}");
            let add = "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 9;
                UPDATE item SET price = 70 WHERE id = 1";
            let (mut center, mut remote) = changed(backend, &model, add, &model);
            // Another conflict, so that the rule runs for the second row.
            center.foreign("UPDATE item SET note = 'center', price = 80 WHERE id = 2");
            let (applied, _) = center.synchronize(
                &mut remote,
                &[
                    Upload::Update(
                        "item",
                        item(1, "nut", 5, text("old")),
                        item(1, "nuts", 5, text("old")),
                    ),
                    Upload::Update(
                        "item",
                        item(2, "bolt", 6, Value::Null),
                        item(2, "bolts", 60, Value::Null),
                    ),
                    Upload::Insert("item", item(3, "cog", 7, Value::Null)),
                ],
            );
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?} {rule}");
            let prices = center.list("SELECT price AS v FROM item ORDER BY id");
            assert_eq!(prices, "70,80,9", "{backend:?} {rule}");
            assert_eq!(center.value("SELECT name FROM item WHERE id = 1"), text("nuts"));
            let second = if rule == "consolidated_wins" { "bolt" } else { "bolts" };
            assert_eq!(center.value("SELECT name FROM item WHERE id = 2"), text(second), "{rule}");
        }
    });
}

// H2: an undeclared change is refused while a remote could lose changes by it.
#[test]
fn a_deployment_refuses_what_is_gone_without_a_word() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, "[table.item]");
        center.foreign("ALTER TABLE item RENAME COLUMN note TO remark");
        deploy(&center.url, "[table.item]").expect("no remote holds anything yet");
        center.reconnect();
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("ALTER TABLE item RENAME COLUMN qty TO quantity");
        let refused = deploy(&center.url, "[table.item]").unwrap_err();
        assert_eq!(refused.code(), Code::UndeclaredChange);
        assert_eq!(
            refused.message(),
            "column qty of table item is gone, and 1 remote may hold changes of it"
        );
        assert!(refused.hint_text().contains("renamed = { quantity = \"qty\" }"));
        // Said the other way round, where only that fits.
        deploy(&center.url, "[table.item]\nrenamed = { qty = \"quantity\" }").unwrap();
        center.foreign("ALTER TABLE item RENAME TO thing");
        let refused = deploy(&center.url, "[table.thing]").unwrap_err();
        assert_eq!(refused.code(), Code::UndeclaredChange);
        assert!(refused.hint_text().contains("renamed_from = \"item\""), "{}", refused.hint_text());
        let told = deploy(&center.url, "dropped_tables = [\"item\"]\n[table.thing]").unwrap();
        assert!(told.notices.iter().any(|notice| notice.contains("table item is gone")));
    });
}

// S7, H3: rows of a table that is gone have nowhere to go; the remote learns this beforehand.
#[test]
fn a_table_that_nobody_knows_is_named_to_the_remote() {
    Backend::each(|backend| {
        let (mut center, remote) = changed(
            backend,
            "[table.item]",
            "CREATE TABLE other (id INTEGER PRIMARY KEY); DROP TABLE item",
            "dropped_tables = [\"item\"]\n[table.other]",
        );
        let Held::Older(held) = center.session(&remote).held else { panic!("it holds item") };
        assert_eq!(held.unknown, [0]);
    });
}

// S7, S5: the column that decides who receives a row, and the one that decides a conflict.
#[test]
fn fences_and_rules_follow_the_columns_that_decide() {
    Backend::each(|backend| {
        let model = |owner: &str, time: &str, more: &str| {
            format!(
                "[table.task]\npartition = \"{owner} = {{u.name}}\"\n\
                 conflict = {{ latest = \"{time}\" }}\n{more}"
            )
        };
        let schema = "CREATE TABLE task (id INTEGER PRIMARY KEY, owner TEXT, at INTEGER, job TEXT);
            INSERT INTO task VALUES (1, 'ann', 5, 'a'), (2, 'bob', 5, 'b'), (3, 'ann', 5, 'c')";
        let mut center = Center::on(backend, schema, &model("owner", "at", ""));
        let mut remote = Remote::new("r");
        remote.claims.insert("name".into(), "ann".into());
        center.synchronize(&mut remote, &[]);
        center.foreign(
            "ALTER TABLE task RENAME COLUMN owner TO person;
             ALTER TABLE task RENAME COLUMN at TO changed",
        );
        let renamed = "renamed = { person = \"owner\", changed = \"at\" }";
        deploy(&center.url, &model("person", "changed", renamed)).unwrap();
        center.reconnect();
        center.foreign("UPDATE task SET job = 'center', changed = 6 WHERE id IN (1, 3)");
        let task = |id, owner, at, job: &str| vec![int(id), text(owner), int(at), text(job)];
        let (applied, download) = center.synchronize(
            &mut remote,
            &[
                Upload::Update("task", task(1, "ann", 5, "a"), task(1, "ann", 7, "later")),
                Upload::Update("task", task(2, "bob", 5, "b"), task(2, "bob", 7, "not mine")),
                Upload::Update("task", task(3, "ann", 5, "c"), task(3, "ann", 4, "earlier")),
                Upload::Insert("task", task(4, "bob", 7, "not mine")),
                Upload::Insert("task", task(5, "ann", 7, "mine")),
            ],
        );
        assert_eq!((applied.conflicts, applied.rejected), (2, 2), "{backend:?}");
        assert_eq!(download.rejects.len(), 2);
        let held = center.list("SELECT id || person || job AS v FROM task ORDER BY id");
        assert_eq!(held, "1annlater,2bobb,3anncenter,5annmine");
    });
}

// S5: a column that must not be NULL refuses the rows that lack it, and no others.
#[test]
fn a_column_that_must_be_there_refuses_single_rows() {
    Backend::each(|backend| {
        let add = backend.pick(
            "CREATE TABLE fresh (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT,
                 price INTEGER NOT NULL);
             INSERT INTO fresh SELECT *, 1 FROM item; DROP TABLE item;
             ALTER TABLE fresh RENAME TO item",
            "ALTER TABLE item ADD COLUMN price integer NOT NULL DEFAULT 1;
             ALTER TABLE item ALTER COLUMN price DROP DEFAULT",
        );
        let (mut center, mut remote) = changed(backend, "[table.item]", add, "[table.item]");
        let (applied, download) = center.synchronize(
            &mut remote,
            &[
                Upload::Update(
                    "item",
                    item(1, "nut", 5, text("old")),
                    item(1, "nuts", 5, text("old")),
                ),
                Upload::Insert("item", item(3, "cog", 7, Value::Null)),
            ],
        );
        assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{backend:?}");
        assert_eq!(download.rejects[0].2, Code::RowRefused.number());
        assert_eq!(center.list("SELECT name AS v FROM item ORDER BY id"), "nuts,bolt");
    });
}

// H2, S9: a shape is kept for as long as a remote may hold it, and goes with the next deployment.
#[test]
fn shapes_that_no_remote_holds_go_with_the_next_change() {
    Backend::each(|backend| {
        let renamed = "[table.item]\nrenamed = { quantity = \"qty\" }";
        let (mut center, mut remote) = changed(
            backend,
            "[table.item]",
            "ALTER TABLE item RENAME COLUMN qty TO quantity",
            renamed,
        );
        let prefix = backend.pick("", "syncline.");
        let shapes = format!("SELECT count(*) FROM {prefix}syncline_shape");
        let mut away = Remote::new("away");
        away.clone_from(&remote);
        away.id = "away";
        center.foreign("ALTER TABLE item ADD COLUMN price INTEGER");
        deploy(&center.url, renamed).unwrap();
        center.reconnect();
        assert_eq!(center.value(&shapes), int(3), "{backend:?}: the remote may hold the first");
        // The first synchronization hands out the new tables, the second proves that they arrived.
        center.synchronize(&mut remote, &[]);
        center.synchronize(&mut remote, &[]);
        assert_eq!(deploy(&center.url, renamed).unwrap().statements, [""; 0]);
        center.foreign("ALTER TABLE item ADD COLUMN more INTEGER");
        deploy(&center.url, renamed).unwrap();
        center.reconnect();
        assert_eq!(center.value(&shapes), int(2), "{backend:?}: today's and the one before");
        let Held::Older(held) = center.session(&away).held else { panic!("it holds the first") };
        assert_eq!(held.unknown, [0], "a remote that nobody knows");
    });
}

// H1, Trap 24: a column that got its former name back. The line that said so was taken for the one
// of before, read backwards, and the deployment was refused for want of that very line.
#[test]
fn a_column_gets_its_former_name_back() {
    Backend::each(|backend| {
        let (mut center, mut remote) = changed(
            backend,
            "[table.item]",
            "ALTER TABLE item RENAME COLUMN qty TO quantity",
            "[table.item]\nrenamed = { quantity = \"qty\" }",
        );
        center.foreign("ALTER TABLE item RENAME COLUMN quantity TO qty");
        let back = "[table.item]\nrenamed = { qty = \"quantity\" }";
        deploy(&center.url, back).unwrap();
        assert_eq!(deploy(&center.url, back).unwrap().statements, [""; 0]);
        center.reconnect();
        let before = item(1, "nut", 5, text("old"));
        let edit = Upload::Update("item", before, item(1, "nut", 50, text("old")));
        let (applied, _) = center.synchronize(&mut remote, &[edit]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(center.value("SELECT qty FROM item WHERE id = 1"), int(50), "{backend:?}");
    });
}

// H3, S11, Trap 24: a row that was rejected for another reason took its value of a dropped column
// along, since the remote has it under the columns of today by then.
#[test]
fn a_rejected_row_tells_what_no_column_takes_too() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE part (id INTEGER PRIMARY KEY,
            item INTEGER REFERENCES item, note TEXT);";
        let all = "[table.item]\n[table.part]\n";
        let mut center = Center::on(backend, &format!("{SCHEMA}{schema}"), all);
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("ALTER TABLE part DROP COLUMN note");
        deploy(&center.url, &format!("{all}dropped = [\"note\"]")).unwrap();
        center.reconnect();
        let part = vec![int(1), int(99), text("for the bike")];
        let (applied, download) = center.synchronize(&mut remote, &[Upload::Insert("part", part)]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{backend:?}");
        let code = Code::RowReferences.number();
        assert_eq!(download.rejects, [("part".to_owned(), vec![int(1)], code)], "{backend:?}");
        let notes = administer(&center.url).unwrap().rejects(&Notes::newest(9)).unwrap();
        assert!(notes[0].message.contains("for the bike"), "{backend:?}: {notes:?}");
    });
}
