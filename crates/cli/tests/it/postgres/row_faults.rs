//! Which errors of PostgreSQL are the fault of a row, and which are not.

use super::PROGRAM;
use harness::postgres::SUPERUSER;
use harness::{World, count, query, sql};

const DOC: &str = "CREATE TABLE doc (id text PRIMARY KEY, body json, n int);
    CREATE TABLE audit (id text PRIMARY KEY);
    ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
    ALTER TABLE doc FORCE ROW LEVEL SECURITY;
    CREATE POLICY seen ON doc USING (true) WITH CHECK (n < 100);
    INSERT INTO doc VALUES ('first', '{}', 1);";

fn docs() -> (World, harness::Server) {
    let world = World::on_postgres(PROGRAM, DOC);
    world.add_user("ann");
    let server = world.serve_with(&["--log-format", "json"], None);
    world.sync("ann", &server);
    (world, server)
}

fn rejected(world: &World) -> i64 {
    world.center_count("SELECT count(*) FROM syncline.syncline_reject")
}

// S2, S5, S11: a key that no index takes, and a value that is nested too deep, failed the upload
// again and again: nothing of the remote arrived any more. A row that a policy does not admit was
// taken for a missing privilege.
#[test]
fn a_row_that_no_statement_takes_is_rejected_and_blocks_no_other() {
    let (world, server) = docs();
    let remote = world.remote("ann");
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    sql(
        &remote,
        &format!(
            "INSERT INTO doc VALUES ('good', '[]', 2), (hex(randomblob(10000)), '{{}}', 3),
                 ('deep', '{deep}', 4), ('outside', '{{}}', 500), ('last', '{{}}', 5);
             UPDATE doc SET n = 6 WHERE id = 'first'"
        ),
    );
    let told = world.sync("ann", &server);
    assert_eq!(told["rejected"], 3, "{told}");
    assert_eq!(rejected(&world), 3);
    assert_eq!(world.database().text("SELECT sum(n) FROM doc").trim(), "13");
    assert_eq!(count(&remote, "SELECT count(*) FROM syncline_reject WHERE code = 7002"), 3);
    world.assert_converged(&["ann"]);
    assert_eq!(world.sync("ann", &server)["rejected"], 0);
    world.assert_converged(&["ann"]);
}

// S2, S11: what the owner of the database has to mend rejects nothing: a day's work would be gone
// from the remotes.
#[test]
fn what_is_no_rows_fault_fails_the_upload_and_rejects_nothing() {
    let (world, server) = docs();
    let (remote, database) = (world.remote("ann"), world.database());
    let role = database.text("SELECT current_user");
    let role = role.trim();
    let trigger = |body: &str| {
        database.sql(&format!(
            "CREATE OR REPLACE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 {body}; RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER noted BEFORE INSERT ON doc
                 FOR EACH ROW EXECUTE FUNCTION noted()"
        ));
    };
    type Case<'a> = (&'a str, &'a dyn Fn(), &'a dyn Fn());
    let cases: [Case<'_>; 4] = [
        ("E3012", &|| database.sql(&format!("REVOKE INSERT ON doc FROM {role}")), &|| {
            database.sql(&format!("GRANT INSERT ON doc TO {role}"))
        }),
        (
            "E3012",
            &|| {
                trigger("INSERT INTO audit VALUES (NEW.id)");
                database.sql(&format!("REVOKE INSERT ON audit FROM {role}"));
            },
            &|| database.sql(&format!("GRANT INSERT ON audit TO {role}")),
        ),
        ("E3006", &|| trigger("PERFORM nowhere(NEW.id)"), &|| trigger("PERFORM 1")),
        ("E3002", &|| trigger("RAISE EXCEPTION 'too slow' USING ERRCODE = '55P03'"), &|| {
            trigger("PERFORM 1")
        }),
    ];
    for (number, (code, spoil, mend)) in cases.into_iter().enumerate() {
        sql(
            &remote,
            &format!("INSERT INTO doc VALUES ('a{number}', '{{}}', 1), ('b{number}', '{{}}', 2)"),
        );
        spoil();
        world.sync_fails("ann", &server, code);
        assert_eq!(rejected(&world), 0, "{code}");
        mend();
        assert_eq!(world.sync("ann", &server)["rejected"], 0, "{code}");
        world.assert_converged(&["ann"]);
    }
}

/// A detail quotes other rows and columns that are not published.
// S11
#[test]
fn the_detail_of_an_error_stays_at_the_center() {
    let world = World::on_postgres(
        PROGRAM,
        "CREATE TABLE item (id int PRIMARY KEY, n int CHECK (n < 100),
             cost text NOT NULL DEFAULT 'secret cost');",
    );
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    world.center_sql(
        "CREATE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'no way' USING ERRCODE = '53200', DETAIL = 'the secret detail';
         END $$;
         CREATE TRIGGER failing BEFORE INSERT ON item FOR EACH ROW WHEN (NEW.id = 2)
             EXECUTE FUNCTION failing();",
    );
    let remote = world.remote("ann");
    sql(&remote, "INSERT INTO item (id, n, cost) VALUES (1, 500, 'secret row')");
    world.sync("ann", &server);
    let text = "SELECT count(*) FROM syncline_reject WHERE message LIKE '%secret%'";
    assert_eq!((count(&remote, text), rejected(&world)), (0, 1));
    assert!(server.log().contains("secret row"), "the operator sees the row: {}", server.log());

    sql(&remote, "INSERT INTO item (id, n, cost) VALUES (2, 5, 'x')");
    let failure = world.sync_fails("ann", &server, "E3001");
    assert!(!failure.to_string().contains("secret detail"), "{failure}");
    assert!(server.log().contains("the secret detail"), "{}", server.log());

    // A statement that a trigger has put together quotes values. One cannot be prepared, one run.
    for (statement, secret) in [
        ("INSERT INTO nowhere VALUES (%L)", "the secret value"),
        ("SELECT lo_get(1), %L", "the other secret value"),
    ] {
        world.center_sql(&format!(
            "CREATE OR REPLACE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 EXECUTE format('{statement}', '{secret}');
                 RETURN NEW;
             END $$"
        ));
        let failure = world.sync_fails("ann", &server, "E3006");
        assert!(!failure.to_string().contains("secret value"), "{failure}");
        assert!(server.log().contains(secret), "{}", server.log());
    }
}

// S11: the reason named triggers, rules and policies whether there were any or not.
#[test]
fn a_row_that_is_ignored_is_told_by_what_may_have_ignored_it() {
    let (world, server) = docs();
    let (remote, database) = (world.remote("ann"), world.database());
    let told = |text: &str| {
        let wanted = format!(
            "SELECT count(*) FROM syncline_reject WHERE code = 7004 AND message = '{text}'"
        );
        count(&remote, &wanted)
    };
    database.sql(
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER nothing BEFORE INSERT ON doc FOR EACH ROW WHEN (NEW.n = 50)
             EXECUTE FUNCTION nothing()",
    );
    sql(&remote, "INSERT INTO doc VALUES ('ignored', '{}', 50), ('taken', '{}', 51)");
    assert_eq!(world.sync("ann", &server)["rejected"], 1);
    assert_eq!(told("a trigger or row-level security ignored the row"), 1);
    database.sql("ALTER TABLE doc DISABLE ROW LEVEL SECURITY");
    sql(&remote, "INSERT INTO doc VALUES ('ignored too', '{}', 50)");
    assert_eq!(world.sync("ann", &server)["rejected"], 1);
    assert_eq!(told("a trigger ignored the row"), 1);
    world.assert_converged(&["ann"]);
}

const CASES: &str =
    "CREATE TABLE file (id int PRIMARY KEY, owner text, body text, tag text UNIQUE);
    ALTER TABLE file ENABLE ROW LEVEL SECURITY;
    ALTER TABLE file FORCE ROW LEVEL SECURITY;
    CREATE POLICY own ON file USING (owner = 'ann');
    INSERT INTO file SELECT i, 'ann', 'old', i::text FROM generate_series(1, 9) AS i;";

// An edit of a row that somebody else has by now was a conflict with a row that was deleted.
#[test]
fn an_edit_of_a_row_that_a_policy_hides_by_now_is_rejected_with_that_reason() {
    let model = |lines: &str| format!("script_version = \"v1\"\n[table.file]\n{lines}\n");
    for rule in ["consolidated_wins", "remote_wins", "merge"] {
        for partition in ["", "partition = \"owner = {u.owner}\""] {
            let world = World::on_postgres(PROGRAM, CASES);
            let lines = model(&format!("conflict = \"{rule}\"\n{partition}"));
            std::fs::write(world.path("model.toml"), lines).unwrap();
            world.syncline.ok(&["deploy"]);
            world.add_user_with("ann", &["owner=ann"]);
            let server = world.serve();
            world.sync("ann", &server);
            let remote = world.remote("ann");
            let superuser = world.database().as_role(SUPERUSER);
            superuser.sql(
                "UPDATE file SET owner = 'bob' WHERE id <= 4; DELETE FROM file WHERE id IN (5, 6)",
            );
            sql(
                &remote,
                "UPDATE file SET body = 'new' WHERE id IN (1, 2, 5, 7);
                 DELETE FROM file WHERE id IN (3, 6); UPDATE file SET owner = 'ann' WHERE id = 4;
                 UPDATE file SET body = 'mine' WHERE id = 4",
            );
            let told = world.sync("ann", &server);
            assert_eq!((&told["rejected"], &told["conflicts"]), (&4.into(), &1.into()), "{told}");
            let rejects =
                query(&remote, "SELECT key, code, message FROM syncline_reject ORDER BY key");
            let expected = [1, 2, 3, 4].map(|id| {
                let why = "'row-level security hides the row'".to_owned();
                vec![format!("'{{\"id\":{id}}}'"), "7004".to_owned(), why]
            });
            assert_eq!(rejects, expected, "{rule} {partition}");
            assert_eq!(superuser.count("SELECT count(*) FROM file WHERE owner = 'bob'"), 4);
            let gone = i64::from(rule == "consolidated_wins");
            assert_eq!(
                superuser.count("SELECT count(*) FROM file WHERE id = 5"),
                1 - gone,
                "{rule} {partition}"
            );
            world.sync("ann", &server);
            world.assert_converged(&["ann"]);
        }
    }
}

// Whether the row is there cannot be found out where the policy lets no row in.
#[test]
fn where_it_cannot_be_told_an_edit_is_rejected_too() {
    let world = World::on_postgres(PROGRAM, CASES);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let superuser = world.database().as_role(SUPERUSER);
    superuser.sql(
        "UPDATE file SET owner = 'bob' WHERE id = 1; DELETE FROM file WHERE id = 2;
         DROP POLICY own ON file;
         CREATE POLICY seen ON file FOR SELECT USING (owner = 'ann');
         CREATE POLICY changed ON file FOR UPDATE USING (owner = 'ann')",
    );
    sql(&world.remote("ann"), "UPDATE file SET body = 'new' WHERE id IN (1, 2, 3)");
    let told = world.sync("ann", &server);
    assert_eq!((&told["rejected"], &told["conflicts"]), (&2.into(), &0.into()), "{told}");
    let reason = "SELECT DISTINCT message FROM syncline_reject";
    let expected = "'the row is gone, or row-level security hides it'";
    assert_eq!(query(&world.remote("ann"), reason), [[expected]]);
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}
