//! Tables that are not as they were deployed are left out, and stop nobody else.
//!
//! Somebody has dropped or renamed them, or taken our triggers away.

use harness::{Peer, Server, World, count, query, sql};
use model::{Code, Progress, ValueRef, write_value};
use protocol::{DownloadMode, Message, Operation, RowsFrame, UploadBegin, UploadEnd};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, note TEXT,
        customer INTEGER REFERENCES customer ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE line (id INTEGER PRIMARY KEY, note TEXT,
        invoice INTEGER REFERENCES invoice ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO customer VALUES (1, 'ann'), (2, 'ben');
    INSERT INTO invoice VALUES (11, 'x', 1), (12, 'y', 2);
    INSERT INTO line VALUES (111, 'x', 11), (121, 'y', 12);
    INSERT INTO article VALUES (1, 'saw')";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// Ann has synchronized.
fn served(world: &World) -> Server {
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server
}

/// What takes a table of this name away, with what refers to it.
fn drop_table(world: &World, name: &str) {
    let cascade = if is_postgres(world) { " CASCADE" } else { "" };
    world.center_sql(&format!("DROP TABLE {name}{cascade}"));
}

fn is_postgres(world: &World) -> bool {
    !world.consolidated().exists()
}

/// The names of the tables that a synchronization left out.
fn left_out(summary: &Value) -> Vec<&str> {
    let waiting = summary["waiting"].as_array().map(Vec::as_slice).unwrap_or_default();
    waiting.iter().map(|it| it["table"].as_str().unwrap()).collect()
}

fn pending(world: &World) -> u64 {
    let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
    status["pending"].as_u64().unwrap()
}

fn remote(world: &World, text: &str) -> Vec<String> {
    query(&world.remote("ann"), text).into_iter().map(|row| row.join(" ")).collect()
}

fn deploy(world: &World, model: &str) {
    std::fs::write(world.path("model.toml"), format!("script_version = \"v1\"\n{model}")).unwrap();
    world.syncline.ok(&["deploy"]);
}

// S2, S3, S11: a dropped table stopped the synchronizations of all remotes.
#[test]
fn a_dropped_table_stops_no_other_and_what_waits_for_it_stays_pending() {
    for world in worlds() {
        let server = served(&world);
        drop_table(&world, "article");
        let at_ann = world.remote("ann");
        sql(
            &at_ann,
            "INSERT INTO article VALUES (2, 'axe'); UPDATE article SET name = 'Saw' WHERE id = 1",
        );
        for round in 3..6 {
            sql(&at_ann, &format!("INSERT INTO customer VALUES ({round}, 'new')"));
            world.center_sql(&format!("INSERT INTO customer VALUES ({round}0, 'newer')"));
            let summary = world.sync("ann", &server);
            assert_eq!(left_out(&summary), ["article"], "{summary}");
            let message = summary["waiting"][0]["message"].as_str().unwrap();
            for word in ["is gone", "`syncline check`", "`syncline deploy`", "`dropped_tables`"] {
                assert!(message.contains(word), "{message}");
            }
            assert_eq!(summary["uploaded"]["inserts"], 1, "{summary}");
            assert_eq!(summary["downloaded"]["upserts"], 1, "{summary}");
            assert_eq!((summary["rejected"].as_u64(), pending(&world)), (Some(0), 2), "{summary}");
            let customers = remote(&world, "SELECT count(*) FROM customer");
            assert_eq!(customers, [(2 + 2 * (round - 2)).to_string()]);
        }
        let outcome = world.try_sync("ann", &server, None);
        assert!(outcome.stderr.contains("warning: table article was left out"), "{outcome:?}");
        let log = std::fs::read_to_string(world.path("server.log")).unwrap();
        assert!(log.matches("tables are left out").count() >= 4, "{log}");
        assert_eq!(remote(&world, "SELECT name FROM article ORDER BY id"), ["'Saw'", "'axe'"]);

        // Only the owner's word takes it away.
        let tables = "[table.customer]\n[table.invoice]\n[table.line]\n";
        deploy(&world, &format!("dropped_tables = [\"article\"]\n{tables}"));
        let summary = world.sync("ann", &server);
        assert_eq!((left_out(&summary).len(), pending(&world)), (0, 0), "{summary}");
        assert_eq!(summary["rejected"], 2, "{summary}");
    }
}

// S2, S3, S11: rows of one transaction at a remote may be in both tables, and no reader of the
// center sees half of it. So nothing is synchronized until the column is there again.
#[test]
fn a_column_that_is_gone_stops_all_tables_and_loses_nothing() {
    for world in worlds() {
        let server = served(&world);
        let at_ann = world.remote("ann");
        world.center_sql("ALTER TABLE article RENAME COLUMN name TO title");
        for round in 3..6 {
            // First there is only a download, then both have changes of the table too.
            world.center_sql(&format!("INSERT INTO article VALUES ({round}, 'center')"));
            world.center_sql(&format!("INSERT INTO customer VALUES ({round}0, 'newer')"));
            if round > 3 {
                sql(&at_ann, &format!("INSERT INTO customer VALUES ({round}, 'new')"));
                sql(&at_ann, &format!("INSERT INTO article VALUES ({round}0, 'ann')"));
            }
            let error = world.sync_fails("ann", &server, "E3005");
            let message = error["message"].as_str().unwrap();
            for word in ["column name of table article", "`syncline check`", "`syncline deploy`"] {
                assert!(message.contains(word), "{message}");
            }
            assert_eq!(pending(&world), 2 * (round - 3));
            assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE name = 'new'"), 0);
        }
        world.center_sql("ALTER TABLE article RENAME COLUMN title TO name");
        let summary = world.sync("ann", &server);
        assert_eq!((left_out(&summary).len(), pending(&world)), (0, 0), "{summary}");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        let all = ["1 'saw'", "3 'center'", "4 'center'", "5 'center'", "40 'ann'", "50 'ann'"];
        assert_eq!(remote(&world, "SELECT id, name FROM article ORDER BY id"), all);
    }
}

// S2, S6, S11: a column of a mapping table that is not published was renamed, and each
// synchronization failed in the words of the database, without saying what to do.
#[test]
fn a_column_that_decides_about_rows_and_is_gone_is_named() {
    let tables = "CREATE TABLE item (id INTEGER PRIMARY KEY, team TEXT, name TEXT);
        CREATE TABLE member (id INTEGER PRIMARY KEY, team TEXT, person TEXT);
        INSERT INTO member VALUES (1, 'red', 'ann'); INSERT INTO item VALUES (1, 'red', 'saw')";
    for world in [World::new(PROGRAM, tables), World::on_postgres(PROGRAM, tables)] {
        let model = |person: &str| {
            format!(
                "[table.item]\npartition = \"team IN (SELECT team FROM member \
                 WHERE {person} = {{s.username}})\"\n"
            )
        };
        deploy(&world, &model("person"));
        let server = served(&world);
        let rename = |from: &str, to: &str| {
            world.center_sql(&format!("ALTER TABLE member RENAME COLUMN {from} TO {to}"));
        };
        rename("person", "who");
        sql(&world.remote("ann"), "UPDATE item SET name = 'axe'");
        for _ in 0..2 {
            let error = world.sync_fails("ann", &server, "E3005");
            let message = error["message"].as_str().unwrap();
            for word in ["column person of table member", "item", "`syncline check`"] {
                assert!(message.contains(word), "{message}");
            }
            assert_eq!(pending(&world), 1);
        }
        let checked = world.syncline.fails("E6003", &["check"]);
        assert!(checked.contains("member has no column person"), "{checked}");
        rename("who", "person");
        assert_eq!(world.sync("ann", &server)["uploaded"]["updates"], 1);
        rename("person", "who");
        world.sync_fails("ann", &server, "E3005");
        deploy(&world, &model("who"));
        world.center_sql("INSERT INTO item VALUES (2, 'red', 'nail')");
        world.sync("ann", &server);
        assert_eq!(remote(&world, "SELECT name FROM item ORDER BY id"), ["'axe'", "'nail'"]);
    }
}

// S2, S3, trap 24: what waited for the deployment arrives under the new name of the column.
#[test]
fn pending_changes_wait_for_the_deployment_of_a_renamed_column() {
    for world in worlds() {
        let server = served(&world);
        let at_ann = world.remote("ann");
        sql(&at_ann, "UPDATE article SET name = 'Saw' WHERE id = 1");
        world.center_sql("ALTER TABLE article RENAME COLUMN name TO title");
        world.sync_fails("ann", &server, "E3005");
        assert_eq!(pending(&world), 1);
        let others = "[table.customer]\n[table.invoice]\n[table.line]\n";
        deploy(&world, &format!("{others}[table.article]\nrenamed = {{ title = \"name\" }}\n"));
        let summary = world.sync("ann", &server);
        assert_eq!((left_out(&summary).len(), pending(&world)), (0, 0), "{summary}");
        world.sync("ann", &server);
        assert_eq!(world.center_count("SELECT count(*) FROM article WHERE title = 'Saw'"), 1);
        assert_eq!(remote(&world, "SELECT title FROM article"), ["'Saw'"]);
    }
}

// S2, S3: a table that was created again was served as if no change had been missed.
#[test]
fn a_table_that_comes_back_is_left_out_until_it_is_deployed_and_then_sent_whole() {
    for world in worlds() {
        let server = served(&world);
        let watermark = "SELECT hex(watermark) FROM syncline_table WHERE name = 'article'";
        let before = remote(&world, watermark);
        drop_table(&world, "article");
        sql(&world.remote("ann"), "INSERT INTO article VALUES (2, 'axe')");
        assert_eq!(left_out(&world.sync("ann", &server)), ["article"]);
        world.center_sql(
            "CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT);
             INSERT INTO article VALUES (7, 'awl')",
        );
        for _ in 0..2 {
            let summary = world.sync("ann", &server);
            assert_eq!(left_out(&summary), ["article"], "{summary}");
            assert_eq!((pending(&world), summary["rejected"].as_u64()), (1, Some(0)));
        }
        assert_eq!(remote(&world, watermark), before, "it has not moved");
        assert_eq!(world.center_count("SELECT count(*) FROM article"), 1);
        world.syncline.ok(&["deploy"]);
        let summary = world.sync("ann", &server);
        assert_eq!((left_out(&summary).len(), pending(&world)), (0, 0), "{summary}");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        assert_eq!(remote(&world, "SELECT name FROM article ORDER BY id"), ["'axe'", "'awl'"]);
    }
}

// S2: a backup of one table has our triggers, but they did not see what was missed.
#[test]
fn a_table_that_comes_back_with_its_triggers_is_sent_whole() {
    for world in worlds() {
        let server = served(&world);
        world.center_sql("ALTER TABLE article RENAME TO aside");
        assert_eq!(left_out(&world.sync("ann", &server)), ["article"]);
        match is_postgres(&world) {
            true => world.center_sql(
                "ALTER TABLE aside DISABLE TRIGGER USER; UPDATE aside SET name = 'unseen';
                 ALTER TABLE aside ENABLE TRIGGER USER; ALTER TABLE aside RENAME TO article;
                 DO $$ DECLARE name text; BEGIN
                     FOR name IN SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
                         AND tgrelid = 'article'::regclass LOOP
                         EXECUTE format('ALTER TABLE article ENABLE ALWAYS TRIGGER %I', name);
                     END LOOP; END $$",
            ),
            false => {
                let triggers = query(
                    &world.consolidated(),
                    "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'
                     AND tbl_name = 'aside'",
                );
                let mut text = String::new();
                for trigger in &triggers {
                    text.push_str(&format!("DROP TRIGGER {};", trigger[0].trim_matches('\'')));
                }
                text.push_str("UPDATE aside SET name = 'unseen'; ");
                text.push_str("ALTER TABLE aside RENAME TO article;");
                world.center_sql(&text);
                let objects = query(
                    &world.consolidated(),
                    "SELECT sql FROM syncline_object WHERE kind = 'TRIGGER'
                     AND table_name = 'article'",
                );
                for object in objects {
                    let quoted = object[0].trim_matches('\'').replace("''", "'");
                    world.center_sql(&quoted);
                }
            }
        }
        let summary = world.sync("ann", &server);
        assert_eq!(left_out(&summary).len(), 0, "{summary}");
        world.assert_converged(&["ann"]);
    }
}

// S3, S4, S6, S7: what cannot be decided without the table waits with it, and its parents do not.
#[test]
fn children_of_a_dropped_table_wait_too_and_its_parents_do_not() {
    for world in worlds() {
        let server = served(&world);
        drop_table(&world, "invoice");
        let at_ann = world.remote("ann");
        sql(
            &at_ann,
            "PRAGMA foreign_keys = ON;
             INSERT INTO invoice VALUES (13, 'z', 1); INSERT INTO line VALUES (131, 'z', 13);
             INSERT INTO customer VALUES (5, 'new'); UPDATE invoice SET customer = 5 WHERE id = 12;
             INSERT INTO article VALUES (2, 'axe')",
        );
        let lines = world.center_count("SELECT count(*) FROM line");
        let summary = world.sync("ann", &server);
        assert_eq!(left_out(&summary), ["invoice", "line"], "{summary}");
        assert_eq!(summary["rejected"], 0, "{summary}");
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 5"), 1);
        assert_eq!(world.center_count("SELECT count(*) FROM article"), 2);
        assert_eq!(world.center_count("SELECT count(*) FROM line"), lines, "none was sent");
        let invoices = remote(&world, "SELECT id, customer FROM invoice ORDER BY id");
        assert_eq!(invoices, ["11 1", "12 5", "13 1"]);
        // The parent of what waits goes at the center.
        world.center_sql("DELETE FROM customer WHERE id = 1; INSERT INTO article VALUES (3, 'x')");
        let summary = world.sync("ann", &server);
        assert_eq!(summary["error"], Value::Null, "{summary}");
        assert_eq!(remote(&world, "SELECT count(*) FROM article"), ["3"]);
        assert_eq!(remote(&world, "SELECT id FROM invoice ORDER BY id"), ["11", "12", "13"]);
        assert!(remote(&world, "PRAGMA foreign_key_check").is_empty());

        // It is empty when it returns, and the changes of the remote are uploaded.
        world.center_sql(
            "CREATE TABLE invoice (id INTEGER PRIMARY KEY, note TEXT,
                 customer INTEGER REFERENCES customer ON UPDATE CASCADE ON DELETE CASCADE)",
        );
        world.syncline.ok(&["deploy"]);
        for _ in 0..3 {
            world.sync("ann", &server);
        }
        world.assert_converged(&["ann"]);
        assert_eq!(count(&at_ann, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
        assert_eq!(pending(&world), 0);
    }
}

// S7: rows of a child whose fence goes through the table can be neither sent nor applied.
#[test]
fn a_child_whose_partition_goes_through_a_dropped_table_waits() {
    let create = "CREATE TABLE shop (id INTEGER PRIMARY KEY, site TEXT);
        CREATE TABLE sale (id INTEGER PRIMARY KEY, shop INTEGER REFERENCES shop, note TEXT);
        CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT);
        INSERT INTO shop VALUES (1, 'north'), (2, 'south');
        INSERT INTO sale VALUES (10, 1, 'mine'), (20, 2, 'theirs')";
    for world in [World::new(PROGRAM, create), World::on_postgres(PROGRAM, create)] {
        deploy(
            &world,
            "[table.shop]\npartition = \"site = {u.site}\"\n\
             [table.sale]\nparent = \"shop\"\n[table.article]\n",
        );
        world.add_user("ann");
        world.syncline.ok(&["user", "set", "ann", "--claim", "site=north"]);
        let server = world.serve();
        world.sync("ann", &server);
        world.center_sql("ALTER TABLE shop RENAME TO branch");
        sql(
            &world.remote("ann"),
            "INSERT INTO sale VALUES (30, 1, 'new'), (31, 1, 'newer');
             INSERT INTO article VALUES (1, 'saw')",
        );
        let summary = world.sync("ann", &server);
        assert_eq!(left_out(&summary), ["shop", "sale"], "{summary}");
        assert_eq!((pending(&world), summary["rejected"].as_u64()), (2, Some(0)));
        assert_eq!(world.center_count("SELECT count(*) FROM sale WHERE id > 20"), 0);
        assert_eq!(world.center_count("SELECT count(*) FROM article"), 1);
        assert_eq!(remote(&world, "SELECT id FROM sale ORDER BY id"), ["10", "30", "31"]);
    }
}

// S1, S4, S11: the table goes while an upload is on its way, and while a download is fetched.
#[test]
fn a_table_that_goes_in_the_middle_is_left_out_at_once() {
    for point in ["server-upload-received", "worker-admits"] {
        for world in worlds() {
            drop(served(&world));
            let server = world.serve_with(&[], Some(&format!("{point}=1*sleep(1500)")));
            let at_ann = world.remote("ann");
            sql(
                &at_ann,
                "INSERT INTO article VALUES (2, 'axe'); INSERT INTO customer VALUES (3, 'x')",
            );
            world.center_sql("INSERT INTO customer VALUES (4, 'y')");
            let child = world.sync_through("ann", &server.url);
            std::thread::sleep(std::time::Duration::from_millis(700));
            drop_table(&world, "article");
            let outcome = harness::finish(child);
            assert_eq!(outcome.code, Some(0), "{point}: {outcome:?}");
            let summary = world.sync("ann", &server);
            assert_eq!(left_out(&summary), ["article"], "{point}: {summary}");
            assert_eq!((pending(&world), summary["rejected"].as_u64()), (1, Some(0)), "{point}");
            assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 3"), 1);
            assert_eq!(remote(&world, "SELECT count(*) FROM customer"), ["4"], "{point}");
        }
    }
}

// S11: a server that starts beside a dropped table, and a remote that is new to it.
#[test]
fn a_server_starts_without_a_dropped_table_and_new_remotes_get_the_rest() {
    for world in worlds() {
        world.add_user("ann");
        drop_table(&world, "line");
        let server = world.serve();
        let summary = world.sync("ann", &server);
        assert_eq!(left_out(&summary), ["line"], "{summary}");
        assert_eq!(remote(&world, "SELECT count(*) FROM customer"), ["2"]);
        assert_eq!(remote(&world, "SELECT count(*) FROM line"), ["0"]);
        sql(&world.remote("ann"), "INSERT INTO line VALUES (1, 'x', 11)");
        for arguments in [&["--upload-only"][..], &["--download-only"], &["--ping"]] {
            let mut all = world.sync_arguments("ann", &server);
            all.extend(arguments.iter().map(|it| (*it).to_owned()));
            let outcome = world.syncline.run(&all);
            assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
            assert!(outcome.stderr.contains("table line was left out"), "{outcome:?}");
        }
        assert_eq!(pending(&world), 1);
    }
}

// S11: what the role of the server may not read any more.
#[test]
fn a_table_that_may_not_be_read_any_more_is_left_out() {
    let world = World::on_postgres(PROGRAM, SHOP);
    let server = served(&world);
    world.center_sql("INSERT INTO customer VALUES (3, 'x'); INSERT INTO article VALUES (2, 'axe')");
    world.center_sql("REVOKE SELECT ON article FROM CURRENT_USER");
    let summary = world.sync("ann", &server);
    assert_eq!(remote(&world, "SELECT count(*) FROM customer"), ["3"], "{summary}");
    let summary = world.sync("ann", &server);
    assert_eq!(left_out(&summary), ["article"], "{summary}");
    assert!(summary["waiting"][0]["message"].as_str().unwrap().contains("grant it SELECT"));
    world.center_sql("GRANT SELECT ON article TO CURRENT_USER");
    let summary = world.sync("ann", &server);
    assert_eq!(left_out(&summary).len(), 0, "{summary}");
    world.assert_converged(&["ann"]);
}

// S11: where nothing is left to synchronize it is a failure.
#[test]
fn a_synchronization_of_which_no_table_is_left_fails() {
    let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)";
    for world in [World::new(PROGRAM, create), World::on_postgres(PROGRAM, create)] {
        let server = served(&world);
        drop_table(&world, "item");
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 'saw')");
        let error = world.sync_fails("ann", &server, "E3005");
        assert!(error["message"].as_str().unwrap().contains("`syncline check`"), "{error}");
        assert_eq!(pending(&world), 1);
    }
}

// S1, S5, S11, Trap 24: a remote that holds the tables of an earlier deployment.
#[test]
fn an_upload_under_older_tables_leaves_out_what_is_gone_too() {
    for world in worlds() {
        let server = served(&world);
        let at_ann = world.remote("ann");
        sql(&at_ann, "INSERT INTO article VALUES (2, 'axe'); INSERT INTO customer VALUES (3, 'x')");
        let new = "ALTER TABLE article ADD COLUMN price INTEGER;
            ALTER TABLE customer ADD COLUMN age INTEGER";
        world.center_sql(new);
        deploy(&world, "[table.customer]\n[table.invoice]\n[table.line]\n[table.article]\n");
        drop_table(&world, "article");
        for _ in 0..2 {
            let summary = world.sync("ann", &server);
            assert_eq!(left_out(&summary), ["article"], "{summary}");
            assert_eq!((pending(&world), summary["rejected"].as_u64()), (1, Some(0)), "{summary}");
        }
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 3"), 1);
        assert_eq!(remote(&world, "SELECT count(age) FROM customer"), ["0"]);
        world.center_sql("CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)");
        world.syncline.ok(&["deploy"]);
        for _ in 0..2 {
            world.sync("ann", &server);
        }
        world.assert_converged(&["ann"]);
        assert_eq!((pending(&world), world.center_count("SELECT count(*) FROM article")), (0, 1));
    }
}

// S1: the process dies between what is kept back and what is sent.
#[test]
fn what_is_kept_back_survives_a_kill() {
    for world in worlds() {
        let server = served(&world);
        drop_table(&world, "article");
        let at_ann = world.remote("ann");
        sql(&at_ann, "INSERT INTO article VALUES (2, 'axe'); INSERT INTO customer VALUES (3, 'x')");
        for point in ["client-kept-back", "client-upload-sent", "client-upload-committed"] {
            let outcome = world.try_sync("ann", &server, Some(&format!("{point}=panic")));
            assert_ne!(outcome.code, Some(0), "{point}");
            sql(&at_ann, "UPDATE article SET name = name || '!' WHERE id = 2");
        }
        let summary = world.sync("ann", &server);
        assert_eq!((left_out(&summary), pending(&world)), (vec!["article"], 1));
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 3"), 1);
        world.center_sql("CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT)");
        world.syncline.ok(&["deploy"]);
        world.sync("ann", &server);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        assert_eq!(remote(&world, "SELECT name FROM article WHERE id = 2"), ["'axe!!!'"]);
    }
}

// S5, S11, Trap 5: what a remote is owed of a table that waits is not forgotten meanwhile.
#[test]
fn what_is_owed_of_a_table_that_waits_arrives_when_it_is_back() {
    for world in worlds() {
        let server = served(&world);
        world.add_user("ben");
        world.sync("ben", &server);
        // Ann loses against Ben, and does not hear it.
        sql(&world.remote("ben"), "UPDATE article SET name = 'ben' WHERE id = 1");
        world.sync("ben", &server);
        sql(&world.remote("ann"), "UPDATE article SET name = 'ann' WHERE id = 1");
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.push("--upload-only".to_owned());
        world.syncline.ok(&arguments);
        world.center_sql("ALTER TABLE article RENAME TO aside");
        for round in 10..13 {
            world.center_sql(&format!("INSERT INTO customer VALUES ({round}, 'x')"));
            assert_eq!(left_out(&world.sync("ann", &server)), ["article"]);
        }
        let owed = "SELECT count(*) FROM OWED WHERE table_name = 'article'";
        let schema = if is_postgres(&world) { "syncline." } else { "" };
        let owed = owed.replace("OWED", &format!("{schema}syncline_owed"));
        assert_eq!(world.center_count(&owed), 1);
        world.center_sql("ALTER TABLE aside RENAME TO article");
        world.syncline.ok(&["deploy"]);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
}

// S7, S11: a program that keeps nothing back.
#[test]
fn a_program_is_refused_only_with_rows_of_what_is_gone() {
    for world in worlds() {
        let server = served(&world);
        drop_table(&world, "article");
        for (table, refused) in [("customer", false), ("article", true)] {
            let (mut peer, schema) = Peer::admitted(&server.url, "ann", &format!("of-{table}"));
            let at = schema.tables.iter().position(|it| it.name == table).unwrap();
            let mut bytes = Vec::new();
            write_value(&mut bytes, ValueRef::Integer(77));
            write_value(&mut bytes, ValueRef::Text(b"new"));
            let (previous, progress) = (Progress(0), Progress(1));
            peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
            let operation = Operation::Insert;
            let rows = RowsFrame { table: at as u16, operation, count: 1, bytes };
            peer.send(&Message::Rows(rows));
            peer.send(&Message::UploadEnd(UploadEnd { rows: 1 }));
            if refused {
                assert_eq!(peer.refusal(), Some(Code::Drift.number()));
                continue;
            }
            assert!(matches!(peer.receive(), Some(Message::UploadCommitted(_))));
            let Some(Message::DownloadBegin(begin)) = peer.receive() else { panic!("no download") };
            let gone = schema.tables.iter().position(|it| it.name == "article").unwrap();
            assert_eq!(begin.tables[gone].mode, DownloadMode::None);
        }
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 77"), 1);
    }
}
