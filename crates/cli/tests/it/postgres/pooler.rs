//! A real pgbouncer between Syncline and PostgreSQL.

use super::PROGRAM;
use harness::postgres::{Cluster, Pooler};
use harness::{Share, World, sql};

const NOTE: &str = "CREATE TABLE note (id int PRIMARY KEY, text text);
    INSERT INTO note VALUES (1, 'a'), (2, 'b')";

/// The same deployment by way of the pooler.
fn lead(world: &World, pooler: &Pooler) {
    let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
    let led = config.replace(&world.database().url(), &pooler.url());
    assert_ne!(led, config);
    std::fs::write(world.path("syncline.toml"), led).unwrap();
}

#[test]
fn a_pooler_by_session_is_as_good_as_none() {
    let database = Cluster::shared().database();
    database.sql(NOTE);
    let pooler = Pooler::start(&database, "session");
    let world = World::on_database(PROGRAM, database);
    world.syncline.ok(&["init", ".", "--consolidated", &pooler.url()]);
    world.syncline.ok(&["deploy"]);
    let names = ["ann", "ben"];
    names.iter().for_each(|name| world.add_user(name));
    let server = world.serve();
    for round in 0..3 {
        for name in names {
            world.sync(name, &server);
            let text = format!(
                "UPDATE note SET text = text || '{round}' WHERE id = 1;
                INSERT INTO note VALUES (1{round}, '{name}') ON CONFLICT DO NOTHING"
            );
            sql(&world.remote(name), &text);
        }
        world.center_sql("UPDATE note SET text = text || 'c' WHERE id = 2");
    }
    names.iter().for_each(|name| drop(world.sync(name, &server)));
    names.iter().for_each(|name| drop(world.sync(name, &server)));
    for name in names {
        assert_eq!(world.differences_in(name, &[Share::whole("note")]), [""; 0]);
    }
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id >= 10"), 3);
    server.stop();
}

// The settings and statements of one client would reach another.
#[test]
fn a_pooler_by_transaction_or_statement_is_refused() {
    for mode in ["transaction", "statement"] {
        let world = World::on_postgres(PROGRAM, NOTE);
        world.add_user("ann");
        let pooler = Pooler::start(world.database(), mode);
        lead(&world, &pooler);
        // The first one may be alone with its session.
        world.syncline.run(&["check"]);
        world.syncline.fails("E3267", &["check"]);
        world.syncline.fails("E3267", &["serve", "--listen", "tcp://127.0.0.1:0"]);
    }
}

// Settings that a pooler drops would be missing silently.
#[test]
fn settings_in_the_url_are_refused_by_the_pooler_and_the_way_out_is_named() {
    let world = World::on_postgres(PROGRAM, NOTE);
    let pooler = Pooler::start(world.database(), "session");
    let url = format!("{}?options=-c%20geqo%3Doff", pooler.url());
    let outcome = world.syncline.run(&["init", "other", "--consolidated", &url]);
    // From its release 1.20 on pgbouncer understands some of them.
    assert!(outcome.code == Some(0) || outcome.stderr.contains("ALTER ROLE"), "{outcome:?}");
}
