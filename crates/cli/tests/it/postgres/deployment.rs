//! What `deploy` creates in a PostgreSQL database, which rights each role needs, and its removal.

use super::PROGRAM;
use harness::postgres::{APP_PASSWORD, Cluster, SUPERUSER};
use harness::{World, full};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

// A schema of many tables, with parents and children, is deployed, checked and undeployed.
#[test]
fn many_tables_are_deployed_and_leave_no_trace() {
    let tables = if full() { 300 } else { 100 };
    let database = Cluster::shared().database();
    let mut create = String::from(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE SCHEMA \"Other Place\";
         CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';",
    );
    for number in 0..tables {
        let parent = match number % 3 {
            0 => "int".to_owned(),
            _ => format!("int REFERENCES t{:03} ON DELETE CASCADE", number - 1),
        };
        create.push_str(&format!(
            "CREATE TABLE t{number:03} (id int PRIMARY KEY, parent {parent}, name text UNIQUE,
                 price numeric(10, 2) DEFAULT 1.5, mood mood, at timestamptz DEFAULT now());
             CREATE INDEX ON t{number:03} (parent);
             INSERT INTO t{number:03} (id, name) VALUES (1, 'one'), (2, NULL);"
        ));
    }
    create.push_str(
        "CREATE TRIGGER touched BEFORE UPDATE ON t000 FOR EACH ROW EXECUTE FUNCTION touched();
         CREATE TABLE \"Other Place\".\"Odd \"\"Name\" (\"Key\" text PRIMARY KEY, \"select\" int);
         CREATE VIEW seen AS SELECT id, name FROM t000; ANALYZE;",
    );
    database.sql(&create);
    let before = database.dump(&[]);
    let world = World::on_database(PROGRAM, database);
    world.syncline.ok(&["init", ".", "--consolidated", &world.database().url()]);
    world.syncline.ok(&["deploy"]);
    assert_ne!(world.database().dump(&["--schema-only"]), before);
    let again = world.syncline.ok(&["deploy", "--dry-run"]);
    assert!(!again.contains("CREATE"), "deploy is idempotent:\n{again}");
    world.syncline.ok(&["check"]);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    world.syncline.ok(&["undeploy", "--yes"]);
    let after = world.database().dump(&[]);
    let trace: Vec<(&str, &str)> =
        before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    assert_eq!(before, after, "{trace:?}");
}

// Three roles: one owns the tables, one serves, one writes. None may do more than it has to.
#[test]
fn whoever_serves_or_writes_needs_no_right_of_the_owner() {
    let database = Cluster::shared().database();
    let name = &database.name;
    let (server_role, writer_role) = (format!("{name}_server"), format!("{name}_writer"));
    database.sql("CREATE TABLE note (id int PRIMARY KEY, text text)");
    database.as_role(SUPERUSER).sql(&format!(
        "CREATE ROLE {server_role} LOGIN; CREATE ROLE {writer_role} LOGIN;
         REVOKE ALL ON DATABASE {name} FROM PUBLIC;
         GRANT CONNECT ON DATABASE {name} TO {server_role}, {writer_role}"
    ));
    let world = World::on_database(PROGRAM, database.clone());
    world.syncline.ok(&["init", ".", "--consolidated", &database.url()]);
    world.syncline.ok(&["deploy"]);
    world.add_user("ann");
    database.sql(&format!(
        "GRANT USAGE ON SCHEMA syncline TO {server_role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA syncline TO {server_role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA syncline TO {server_role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON note TO {server_role}, {writer_role}"
    ));
    let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
    let served = config.replace(&database.url(), &database.as_role(&server_role).url());
    assert_ne!(config, served);
    std::fs::write(world.path("syncline.toml"), served).unwrap();

    let server = world.serve();
    let writer = database.as_role(&writer_role);
    writer.sql("INSERT INTO note VALUES (1, 'one'), (2, 'two'); DELETE FROM note WHERE id = 2");
    world.sync("ann", &server);
    harness::sql(
        &world.remote("ann"),
        "UPDATE note SET text = 'remote'; INSERT INTO note VALUES (3, '')",
    );
    writer.sql("UPDATE note SET id = 4 WHERE id = 1; DELETE FROM note WHERE id = 1");
    for _ in 0..2 {
        world.sync("ann", &server);
    }
    world.assert_converged(&["ann"]);
    server.stop();

    let refused = |text: &str| writer.try_sql(text).stderr.contains("permission denied");
    assert!(refused("SELECT * FROM syncline.syncline_user"));
    assert!(refused("DELETE FROM syncline.syncline_remote"));
    world.syncline.fails("E3012", &["undeploy", "--yes"]);
    let owner = database.as_role(&server_role);
    assert!(owner.try_sql("DROP TABLE note").stderr.contains("must be owner"));
}

// A password that came in a URL is kept where only its owner can read it, and is never shown.
#[test]
fn a_password_is_moved_out_of_the_url_and_a_wrong_one_is_refused() {
    let database = Cluster::shared().database();
    database.sql("CREATE TABLE note (id int PRIMARY KEY, text text)");
    let root = Cluster::shared().root_certificate();
    let url = database.tcp_url(APP_PASSWORD).replace("127.0.0.1", "localhost");
    let url = format!("{url}?sslmode=verify-full&sslrootcert={}", root.display());
    let world = World::on_database(PROGRAM, database);
    let printed = world.syncline.ok(&["init", ".", "--consolidated", &url]);
    assert!(printed.contains("moved the password to ./consolidated.password"), "{printed}");
    let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
    assert!(config.contains("sslmode=verify-full"));
    let file = world.path("consolidated.password");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{APP_PASSWORD}\n"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let deployed = world.syncline.ok(&["deploy"]);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    for told in [printed, config, deployed, server.log()] {
        assert!(!told.contains(APP_PASSWORD), "{told}");
    }
    server.stop();

    world.write_secret("consolidated.password", "not the one\n");
    let message = world.syncline.fails("E3001", &["check"]);
    assert!(message.contains("password authentication failed"), "{message}");
    assert!(!message.contains("not the one"), "{message}");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    world.syncline.fails("E2111", &["check"]);
}
