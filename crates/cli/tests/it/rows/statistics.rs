//! What scripts at the end of a synchronization hear of all its parts.

use harness::{World, sql};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13));
    CREATE TABLE doc (id INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE heard (what TEXT, number INTEGER);
    INSERT INTO doc VALUES (1, 'small');";

const MODEL: &str = "script_version = \"v1\"\n[table.item]\n[table.doc]\n";

fn script(world: &World, folder: &str, event: &str, text: &str) {
    let folder = world.path(&format!("scripts/{folder}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{event}.sql")), text).unwrap();
}

fn heard(world: &World, what: &str) -> i64 {
    world
        .center_count(&format!("SELECT coalesce(sum(number), -1) FROM heard WHERE what = '{what}'"))
}

// Only the server knows which rows are too large, and each part may be done by another worker.
#[test]
fn scripts_at_the_end_hear_of_the_upload_and_of_the_download() {
    for world in World::on_each(PROGRAM, TABLES) {
        fs::write(world.path("model.toml"), MODEL).unwrap();
        world.configure(&format!("frame_bytes_max = {}", 64 << 10));
        let hears = |names: &[(&str, &str)]| {
            let rows = names.iter().map(|(what, value)| format!("('{what}', {value})"));
            format!("INSERT INTO heard VALUES {}", rows.collect::<Vec<_>>().join(", "))
        };
        let all = [
            ("errors", "{s.errors}"),
            ("warnings", "{s.warnings}"),
            ("tables", "{s.synchronized_tables}"),
        ];
        script(&world, "v1", "synchronization_statistics", &hears(&all));
        let of_doc = [("errors of doc", "{s.errors}"), ("warnings of doc", "{s.warnings}")];
        script(&world, "v1/doc", "synchronization_statistics", &hears(&of_doc));
        let timed = "INSERT INTO heard VALUES ({s.event_name}, {s.number_of_calls})";
        script(&world, "v1", "time_statistics", timed);
        script(&world, "v1/item", "time_statistics", timed);
        let events = ["begin_synchronization", "begin_upload", "end_download", "end_publication"];
        events.iter().for_each(|event| script(&world, "v1", event, "SELECT 1"));
        script(&world, "v1", "modify_user", "SELECT {s.username} AS username");
        let insert = "INSERT INTO item VALUES ({r.id}, CASE {r.n} WHEN 14 THEN 13 ELSE {r.n} END)";
        script(&world, "v1/item", "upload_insert", insert);
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        world.center_sql("DELETE FROM heard");

        let large = "x".repeat(70_000);
        world.center_sql(&format!(
            "UPDATE doc SET text = '{large}'; INSERT INTO item VALUES (5, 5)"
        ));
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 1), (2, 14)");
        assert_eq!(world.sync("ann", &server)["rejected"], 2);
        let all = ["errors", "warnings", "tables"].map(|what| heard(&world, what));
        assert_eq!(all, [1, 1, 2]);
        let of_doc = ["errors of doc", "warnings of doc"].map(|what| heard(&world, what));
        assert_eq!(of_doc, [0, 1]);
        for event in events.iter().chain(&["modify_user", "upload_insert", "download_cursor"]) {
            assert_eq!(heard(&world, event), 1, "{event}");
        }
        assert_eq!(heard(&world, "time_statistics"), -1);
    }
}
