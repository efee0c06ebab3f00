//! An edit touches only the columns that the remote has changed.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};

/// A table whose triggers note which columns an update names.
fn center(backend: Backend, rule: &str) -> (Center, Remote) {
    let triggers = backend.pick(
        "CREATE TRIGGER of_name AFTER UPDATE OF name ON product
             BEGIN INSERT INTO touched (what) VALUES ('name'); END;
         CREATE TRIGGER of_price AFTER UPDATE OF price ON product
             BEGIN INSERT INTO touched (what) VALUES ('price'); END;
         CREATE TRIGGER of_note AFTER UPDATE OF note ON product
             BEGIN INSERT INTO touched (what) VALUES ('note'); END;",
        "CREATE FUNCTION touching() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO touched (what) VALUES (TG_ARGV[0]); RETURN NULL; END $$;
         CREATE TRIGGER of_name AFTER UPDATE OF name ON product
             FOR EACH ROW EXECUTE FUNCTION touching('name');
         CREATE TRIGGER of_price AFTER UPDATE OF price ON product
             FOR EACH ROW EXECUTE FUNCTION touching('price');
         CREATE TRIGGER of_note AFTER UPDATE OF note ON product
             FOR EACH ROW EXECUTE FUNCTION touching('note');",
    );
    let schema = format!(
        "CREATE TABLE touched (what TEXT);
         CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, price INTEGER, note TEXT);
         INSERT INTO product VALUES (1, 'tea', 10, 'n'), (2, 'salt', 20, 'n'), (3, 'rice', 30, 'n');
         {triggers}"
    );
    let mut center = Center::on(backend, &schema, &format!("[table.product]\nconflict = {rule}\n"));
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn product(id: i64, name: &str, price: i64, note: &str) -> Row {
    vec![int(id), text(name), int(price), text(note)]
}

fn touched(center: &Center) -> String {
    center.list("SELECT what AS v FROM touched ORDER BY what")
}

#[test]
fn a_trigger_of_other_columns_does_not_fire() {
    Backend::each(|backend| {
        for rule in ["\"consolidated_wins\"", "\"remote_wins\"", "{ latest = \"note\" }"] {
            let (mut center, mut remote) = center(backend, rule);
            let changes = [
                Upload::Update("product", product(1, "tea", 10, "n"), product(1, "chai", 10, "n")),
                Upload::Update("product", product(2, "salt", 20, "n"), product(2, "salt", 21, "n")),
                Upload::Update("product", product(3, "rice", 30, "n"), product(3, "ris", 30, "o")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let told = format!("{backend:?} {rule}: {download:?}");
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{told}");
            assert_eq!(touched(&center), "name,name,note,price", "{told}");
            let all = "SELECT name || price || note AS v FROM product ORDER BY id";
            assert_eq!(center.list(all), "chai10n,salt21n,ris30o", "{told}");
            // Nobody else has changed anything.
            assert_eq!(download.upserts, [], "{told}");
        }
    });
}

// In a conflict the rule decides about the whole row.
#[test]
fn the_row_of_the_remote_wins_as_a_whole() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, "\"remote_wins\"");
        center.foreign("UPDATE product SET price = 11 WHERE id = 1; DELETE FROM touched");
        let mine = product(1, "chai", 10, "n");
        let change = [Upload::Update("product", product(1, "tea", 10, "n"), mine)];
        let (applied, _) = center.synchronize(&mut remote, &change);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        let all = "SELECT name || price || note AS v FROM product WHERE id = 1";
        assert_eq!(center.list(all), "chai10n", "{backend:?}");
        assert_eq!(touched(&center), "name,note,price", "{backend:?}");
    });
}

// A change that is none is applied like one, and breaks nothing.
#[test]
fn an_update_that_changes_nothing_is_applied() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, "\"merge\"");
        let same = || product(2, "salt", 20, "n");
        let (applied, _) =
            center.synchronize(&mut remote, &[Upload::Update("product", same(), same())]);
        assert_eq!(
            (applied.updates, applied.conflicts, applied.rejected),
            (1, 0, 0),
            "{backend:?}"
        );
    });
}

// Rows with many sets of columns, some of them in conflict, and one that a constraint refuses.
#[test]
fn many_sets_of_columns_are_applied_each_as_it_is() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE wide (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER,
                d INTEGER CHECK (d < 1000), e INTEGER, f INTEGER);";
        let mut center = Center::on(backend, schema, "[table.wide]\nconflict = \"merge\"\n");
        let rows = 400;
        let values = (1..=rows).map(|id| format!("({id}, 0, 0, 0, 0, 0, 0)"));
        let values = values.collect::<Vec<_>>().join(", ");
        center.foreign(&format!("INSERT INTO wide VALUES {values}"));
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE wide SET f = 9 WHERE id % 40 = 0");
        let old = |id: i64| -> Row { [id, 0, 0, 0, 0, 0, 0].map(int).to_vec() };
        let new = |id: i64| -> Row {
            let bit = |n: i64| if id >> n & 1 == 1 { id } else { 0 };
            [id, bit(0), bit(1), bit(2), bit(3) * if id == 8 { 1000 } else { 1 }, bit(4), 0]
                .map(int)
                .to_vec()
        };
        let changes: Vec<Upload> = (1..=rows)
            .filter(|id| id % 32 != 0)
            .map(|id| Upload::Update("wide", old(id), new(id)))
            .collect();
        let (applied, download) = center.synchronize(&mut remote, &changes);
        let told = format!("{backend:?}: {:?}", download.rejects);
        assert_eq!((applied.conflicts, applied.rejected), (8, 1), "{told}");
        let expected = (1..=rows).map(|id| match id {
            _ if id % 32 == 0 || id == 8 => "0-0-0-0-0".to_owned(),
            _ => {
                let value = |n: i64| if id >> n & 1 == 1 { id } else { 0 }.to_string();
                (0..5).map(value).collect::<Vec<_>>().join("-")
            }
        });
        let expected = expected.collect::<Vec<_>>().join(",");
        let all = "a || '-' || b || '-' || c || '-' || d || '-' || e AS v";
        let stored = center.list(&format!("SELECT {all} FROM wide ORDER BY id"));
        assert_eq!(stored, expected, "{told}");
        assert_eq!(center.list("SELECT count(*) AS v FROM wide WHERE f = 9"), "10", "{told}");
    });
}
