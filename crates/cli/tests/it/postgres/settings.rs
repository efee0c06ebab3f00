//! Settings of the database or the role that would change what statements mean.

use super::PROGRAM;
use harness::postgres::{Cluster, SUPERUSER};
use harness::{World, count, query, sql};

const ITEM: &str = "CREATE TABLE item (id uuid PRIMARY KEY, \"Name\" text, n int, note xml);
    CREATE TABLE part (id uuid PRIMARY KEY, item uuid REFERENCES item, list text[]);
    INSERT INTO item SELECT gen_random_uuid(), CASE WHEN i % 2 = 0 THEN 'a' END, NULL
    FROM generate_series(1, 300) AS i;";

const ODD: &str = "array_nulls = off; quote_all_identifiers = on; xmloption = document;
    row_security = off; DateStyle = 'German'; TimeZone = 'Asia/Kathmandu'; bytea_output = escape;
    IntervalStyle = sql_standard; extra_float_digits = 0; standard_conforming_strings = off;
    synchronous_commit = off; enable_indexscan = off";

// NULL came as the text «NULL»: what is set for the database held for our sessions too.
#[test]
fn what_is_set_for_the_database_does_not_change_what_is_synchronized() {
    let database = Cluster::shared().database();
    database.sql(ITEM);
    let name = database.name.clone();
    for setting in ODD.split(';') {
        database.sql(&format!("ALTER DATABASE {name} SET {setting}"));
    }
    let world = World::on_database(PROGRAM, database);
    world.syncline.ok(&["init", ".", "--consolidated", &world.database().url()]);
    world.syncline.ok(&["deploy"]);
    assert!(world.syncline.ok(&["deploy"]).contains("nothing to do"));
    let found = world.syncline.ok(&["check"]);
    assert!(found.contains("agree"), "{found}");
    let center = |text: &str| world.database().query(text);
    let named = "SELECT count(*), count(\"Name\"), count(n), count(note) FROM public.item";
    assert_eq!(center(named), [["300", "150", "0", "0"]]);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let ann = world.remote("ann");
    assert_eq!(count(&ann, "SELECT count(*) FROM item WHERE Name IS NULL"), 150);
    sql(
        &ann,
        "UPDATE item SET n = CASE WHEN rowid % 3 = 0 THEN rowid END, note = 'a <b/> c';
         INSERT INTO part SELECT id, id, '{a,NULL}' FROM item;
         UPDATE item SET Name = NULL WHERE rowid % 5 = 0",
    );
    let rows = query(&ann, "SELECT count(*), count(Name), count(n), count(note) FROM item");
    let told = world.sync("ann", &server);
    assert_eq!(told["rejected"], 0, "{told}");
    assert_eq!(center(named), rows);
    assert_eq!(center("SELECT count(*) FROM public.part WHERE list[2] IS NULL"), [["300"]]);
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

// What deploys may take its time.
#[test]
fn a_timeout_of_the_database_does_not_end_a_deployment() {
    let database = Cluster::shared().database();
    database.sql(ITEM);
    let name = database.name.clone();
    database.sql(&format!("ALTER DATABASE {name} SET statement_timeout = '500ms'"));
    let world = World::on_database(PROGRAM, database.clone());
    world.syncline.ok(&["init", ".", "--consolidated", &database.url()]);
    let mut session = database.session();
    session.sql("SET statement_timeout = 0; BEGIN; LOCK TABLE item IN ACCESS SHARE MODE");
    std::thread::scope(|scope| {
        let deploying = scope.spawn(|| world.syncline.run(&["deploy"]));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        session.sql("COMMIT");
        let outcome = deploying.join().unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    });
}

const REPLICA: &str = "session_replication_role = replica";

// Neither our triggers nor the owner's would fire, and no foreign key would hold.
#[test]
fn a_session_that_would_be_a_replica_is_made_an_origin_or_refused() {
    let database = Cluster::shared().database();
    let name = database.name.clone();
    let superuser = database.as_role(SUPERUSER);
    let world = World::deployed_on(
        PROGRAM,
        database.clone(),
        "CREATE TABLE note (id uuid PRIMARY KEY, text text, parent uuid REFERENCES note);
         CREATE SEQUENCE seen;
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN PERFORM nextval(''seen''); RETURN NULL; END';
         CREATE TRIGGER see AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION see()",
    );
    world.add_user("ann");
    superuser.sql(&format!("ALTER DATABASE {name} SET {REPLICA}"));
    for command in ["deploy", "check", "serve"] {
        let outcome = world.syncline.run(&[command]);
        assert!(outcome.stderr.contains("E3001"), "{command}: {outcome:?}");
        assert!(outcome.stderr.contains("session_replication_role is replica"), "{outcome:?}");
        let mends = format!("ALTER DATABASE {name} RESET session_replication_role");
        assert!(outcome.stderr.contains(&mends), "{command}: {outcome:?}");
    }
    superuser.sql(&format!("ALTER DATABASE {name} RESET session_replication_role"));
    let role = format!("{name}_replica");
    superuser.sql(&format!(
        "CREATE ROLE {role} LOGIN IN ROLE {}; ALTER ROLE {role} SET {REPLICA}",
        harness::postgres::APP_ROLE
    ));
    let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
    let with = |url: &str| config.replace(&database.url(), url);
    std::fs::write(world.path("syncline.toml"), with(&database.as_role(&role).url())).unwrap();
    let refused = world.syncline.run(&["check"]).stderr;
    let mends = format!("ALTER ROLE {role} RESET session_replication_role");
    assert!(refused.contains(&mends), "{refused}");

    // A superuser may, and does.
    superuser.sql(&format!("ALTER DATABASE {name} SET {REPLICA}"));
    std::fs::write(world.path("syncline.toml"), with(&superuser.url())).unwrap();
    let server = world.serve();
    world.sync("ann", &server);
    sql(
        &world.remote("ann"),
        "INSERT INTO note(id) VALUES ('00000000-0000-0000-0000-000000000001')",
    );
    world.sync("ann", &server);
    assert_eq!(superuser.count("SELECT count(*) FROM seen WHERE is_called AND last_value = 1"), 1);
    world.assert_converged(&["ann"]);
    server.stop();
}
