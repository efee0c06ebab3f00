//! What the rule `latest` compares.

use harness::{World, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const CREATE: &str = "CREATE TABLE page (id INTEGER PRIMARY KEY, version TEXT)";

// S1, S5: every text that sorts behind the present time was replaced by it: a version in words, or
// a number in a column of text.
#[test]
fn a_text_that_is_no_time_is_stored_as_it_is() {
    for world in [World::new(PROGRAM, CREATE), World::on_postgres(PROGRAM, CREATE)] {
        let model = "script_version = \"v1\"\n[table.page]\nconflict = { latest = \"version\" }\n";
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        let versions = ["300", "v12", "draft", "2999", "9999-1", ""];
        for (id, version) in versions.iter().enumerate() {
            let insert = format!("INSERT INTO page VALUES ({id}, '{version}')");
            sql(&world.remote("ann"), &insert);
        }
        // These are times.
        sql(&world.remote("ann"), "INSERT INTO page VALUES (10, '2999-01-01 00:00:00')");
        sql(&world.remote("ann"), "INSERT INTO page VALUES (11, '2999-01-01T00:00:00Z')");
        world.sync("ann", &server);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        let select = "SELECT version FROM page ORDER BY id";
        let stored = query(&world.remote("ann"), select).into_iter().flatten();
        let stored: Vec<String> = stored.map(|text| text.trim_matches('\'').to_owned()).collect();
        assert_eq!(stored[..versions.len()], versions);
        let times = &stored[versions.len()..];
        assert!(times.iter().all(|time| time.as_str() < "2999"), "{times:?}");
        // A change of them is decided by what is stored.
        sql(&world.remote("ann"), "UPDATE page SET version = '301' WHERE id = 0");
        world.center_sql("UPDATE page SET version = '299' WHERE id = 0");
        world.sync("ann", &server);
        assert_eq!(query(&world.remote("ann"), select)[0], ["'301'"]);
        world.assert_converged(&["ann"]);
    }
}
