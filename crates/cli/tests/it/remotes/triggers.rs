//! Triggers of an application at a remote, and what a download means for them.

use harness::{World, count, query, sql};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, title VARCHAR(80) UNIQUE);
    CREATE TABLE seen (id VARCHAR(80) PRIMARY KEY, n INTEGER);
    INSERT INTO item VALUES (1, 'red fox'), (2, 'blue cat')";

/// An index that the application keeps as SQLite's manual says, and a note of each new item.
const INDEX: &str =
    "CREATE VIRTUAL TABLE fts USING fts5(title, content='item', content_rowid='id');
    CREATE TRIGGER item_ai AFTER INSERT ON item BEGIN
      INSERT INTO fts(rowid, title) VALUES (new.id, new.title);
    END;
    CREATE TRIGGER item_ad AFTER DELETE ON item BEGIN
      INSERT INTO fts(fts, rowid, title) VALUES('delete', old.id, old.title);
    END;
    CREATE TRIGGER item_au AFTER UPDATE ON item BEGIN
      INSERT INTO fts(fts, rowid, title) VALUES('delete', old.id, old.title);
      INSERT INTO fts(rowid, title) VALUES (new.id, new.title);
    END;
    CREATE TRIGGER item_seen AFTER INSERT ON item BEGIN
      INSERT INTO seen VALUES ('ann ' || new.id, 1) ON CONFLICT DO UPDATE SET n = n + 1;
    END;
    INSERT INTO fts(fts) VALUES ('rebuild')";

fn each(check: impl Fn(&World)) {
    check(&World::new(PROGRAM, SHOP));
    check(&World::on_postgres(PROGRAM, SHOP));
}

fn deploy(world: &World, option: &str) {
    let model = format!("script_version = \"v1\"\n[table.item]\n{option}\n[table.seen]\n");
    fs::write(world.path("model.toml"), model).unwrap();
    world.syncline.ok(&["deploy"]);
}

fn found(world: &World, word: &str) -> Vec<Vec<String>> {
    let ann = world.remote("ann");
    sql(&ann, "INSERT INTO fts(fts) VALUES ('integrity-check')");
    query(&ann, &format!("SELECT rowid FROM fts WHERE fts MATCH '{word}' ORDER BY 1"))
}

// S4: the index became wrong without a word, and the next change of the application failed on it.
#[test]
fn an_index_follows_what_is_downloaded_where_the_model_lets_it() {
    each(|world| {
        deploy(world, "remote_triggers = \"fire\"");
        world.add_user("ann");
        world.add_user("ben");
        let server = world.serve();
        world.sync("ann", &server);
        let ann = world.remote("ann");
        sql(&ann, INDEX);
        let triggers = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1";
        let before = query(&ann, triggers);
        world.center_sql(
            "UPDATE item SET title = 'red wolf' WHERE id = 1; DELETE FROM item WHERE id = 2;
             INSERT INTO item VALUES (3, 'green owl')",
        );
        let result = world.sync("ann", &server);
        assert_eq!(result["silent_triggers"], serde_json::Value::Null, "{result}");
        for (word, rows) in [("wolf", 1), ("cat", 0), ("fox", 0), ("owl", 1)] {
            assert_eq!(found(world, word).len(), rows, "{word}");
        }
        assert_eq!(query(&ann, triggers), before);
        // What a trigger has written is pending, and the downloaded rows are not.
        assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 1);
        assert_eq!(world.center_count("SELECT count(*) FROM seen WHERE id = 'ann 3'"), 1);
        let result = world.sync("ann", &server);
        assert_eq!(
            (&result["uploaded"]["inserts"], &result["uploaded"]["updates"]),
            (&0.into(), &0.into())
        );
        world.sync("ben", &server);
        world.assert_converged(&["ann", "ben"]);
    });
}

#[test]
fn triggers_that_do_not_fire_are_told_once() {
    each(|world| {
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        let ann = world.remote("ann");
        sql(&ann, INDEX);
        let told = world.try_sync("ann", &server, None);
        let warning = "warning: triggers on table item do not fire for downloaded rows: item_ai, \
                       item_ad, item_au, item_seen; write remote_triggers = \"fire\" for the table \
                       in the model, or rebuild after each sync what they keep, such as an index";
        assert!(told.code == Some(0) && told.stderr.contains(warning), "{told:?}");
        world.center_sql("INSERT INTO item VALUES (4, 'grey owl')");
        let told = world.try_sync("ann", &server, None);
        assert!(told.code == Some(0) && !told.stderr.contains("trigger"), "{told:?}");
        server.stop();
        // The model lets them fire from now on. What cannot is told once, too.
        deploy(world, "remote_triggers = \"fire\"");
        sql(
            &ann,
            "CREATE TRIGGER no BEFORE UPDATE ON item BEGIN SELECT RAISE(ABORT, 'no'); END;
            INSERT INTO fts(fts) VALUES ('rebuild')",
        );
        let server = world.serve();
        for expected in [true, false] {
            world.center_sql("UPDATE item SET title = title || '!' WHERE id = 4");
            let result = world.sync("ann", &server);
            let told = serde_json::json!([{
                "table": "item", "trigger": "no", "why": "it uses RAISE", "hint": null
            }]);
            assert_eq!(result["silent_triggers"] == told, expected, "{result}");
            assert_eq!(found(world, "grey").len(), 1);
        }
        world.assert_converged(&["ann"]);
    });
}

// S1, S4
#[cfg(feature = "fail-points")]
#[test]
fn a_client_that_is_killed_while_triggers_fire_leaves_the_file_as_it_was() {
    for point in ["client-apply-before-commit", "client-apply-committed"] {
        let world = World::new(PROGRAM, SHOP);
        deploy(&world, "remote_triggers = \"fire\"");
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        let ann = world.remote("ann");
        sql(&ann, INDEX);
        let schema = "SELECT name, sql FROM sqlite_schema ORDER BY 1";
        let before = query(&ann, schema);
        world.center_sql("INSERT INTO item VALUES (3, 'green owl')");
        let outcome = world.try_sync("ann", &server, Some(&format!("{point}=return")));
        assert!(outcome.code.is_none(), "{point} kills: {outcome:?}");
        assert_eq!(query(&ann, schema), before, "{point}");
        // The application goes on with the triggers that it has made.
        sql(&ann, "INSERT INTO item VALUES (9, 'own ant')");
        assert_eq!(found(&world, "ant").len(), 1);
        world.sync("ann", &server);
        world.sync("ann", &server);
        assert_eq!(found(&world, "owl").len(), 1);
        assert_eq!(count(&ann, "SELECT n FROM seen WHERE id = 'ann 3'"), 1, "{point}");
        world.assert_converged(&["ann"]);
    }
}
