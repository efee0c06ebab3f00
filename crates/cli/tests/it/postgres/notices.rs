//! Notices of the database.

use super::PROGRAM;
use harness::World;

// S11: what an operator should look at is a warning.
#[test]
fn notices_of_the_database_are_logged_by_their_severity_and_cut() {
    let create = "CREATE TABLE note (id int PRIMARY KEY, text text);
        INSERT INTO note SELECT g, 'x' FROM generate_series(1, 30) AS g;
        CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE WARNING 'beware % %', NEW.id, repeat('long', 100) USING DETAIL = 'hidden';
            RAISE NOTICE 'by the way';
            RETURN NEW; END $$;
        CREATE TRIGGER say BEFORE UPDATE ON note FOR EACH ROW EXECUTE FUNCTION say()";
    let world = World::on_postgres(PROGRAM, create);
    world.add_user("ann");
    let server = world.serve_with(&["--log", "debug"], None);
    world.sync("ann", &server);
    harness::sql(&world.remote("ann"), "UPDATE note SET text = 'y'");
    world.sync("ann", &server);
    let log = server.log();
    let lines = |what: &str| log.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    let warnings = lines("beware");
    assert!(warnings.len() >= 30, "{log}");
    assert!(warnings.iter().all(|line| line.contains('…') && !line.contains("hidden")), "{log}");
    let severe = warnings.iter().filter(|line| !line.contains("DEBUG")).count();
    assert!((1..30).contains(&severe), "{severe} of {}", warnings.len());
    let notices = lines("by the way");
    assert!(notices.len() >= 30 && notices.iter().all(|line| line.contains("DEBUG")), "{log}");
    server.stop();
}
