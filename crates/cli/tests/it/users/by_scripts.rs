//! Users whom scripts of the center check: a table of users there, and a real server.

use super::jwt::provider::{PROVIDER, SECRET, issue};
use harness::postgres::Cluster;
use harness::{Authority, Outcome, Server, World, regions, sql, until};
use serde_json::{Value, json};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE visit (id INTEGER PRIMARY KEY, region TEXT, sent_by TEXT);
    INSERT INTO visit VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'west', NULL);
    CREATE TABLE person (name TEXT PRIMARY KEY, secret TEXT, status INTEGER, region TEXT);
    CREATE TABLE tried (name TEXT, status INTEGER);
    CREATE TABLE once (n INTEGER PRIMARY KEY);";

const MODEL: &str = "script_version = \"v1\"
    [table.visit]
    partition = \"region = {u.region}\"\n";

/// Whoever is in the table has the status that is there.
const CHECK: &str = "INSERT INTO tried SELECT {s.username}, count(*) FROM person
    WHERE name = {s.username} AND secret = MATCHES;
SELECT coalesce(max(status), 4000) AS authentication_status, max(region) AS \"u.region\"
FROM person WHERE name = {s.username} AND secret = MATCHES";

const INSERT: &str = "INSERT INTO visit VALUES ({r.id}, {r.region}, {s.username})";

/// A center on SQLite and one on PostgreSQL with ann in its own table of people, and nobody in
/// that of Syncline.
fn worlds() -> [World; 2] {
    let database = Cluster::shared().database();
    let hashes =
        database.count("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgcrypto'");
    let (stored, matches) = match hashes {
        0 => ("md5('open sesame')", "md5({s.password})"),
        _ => ("crypt('open sesame', gen_salt('bf', 4))", "crypt({s.password}, secret)"),
    };
    let extension = if hashes == 0 { "" } else { "CREATE EXTENSION pgcrypto;" };
    let people =
        |secret: &str| format!("INSERT INTO person VALUES ('ann', {secret}, 1000, 'north')");
    let on_sqlite = format!("{TABLES}{}", people("'open sesame'"));
    database.sql(&format!("{extension}{TABLES}{}", people(stored)));
    let url = database.url();
    let worlds = [
        (World::without_deployment(PROGRAM, &on_sqlite), "sqlite:consolidated.db", "{s.password}"),
        (World::on_database(PROGRAM, database), &url, matches),
    ];
    worlds.map(|(world, url, matches)| {
        world.syncline.ok(&["init", ".", "--consolidated", url]);
        fs::write(world.path("model.toml"), MODEL).unwrap();
        let check = match matches.starts_with("crypt") {
            // Extensions are in a schema of their own.
            true => CHECK.replace("MATCHES", &format!("public.{matches}")),
            false => CHECK.replace("MATCHES", matches),
        };
        write(&world, "authenticate_user", &check);
        world.syncline.ok(&["deploy"]);
        world.write_secret("ann.password", "open sesame\n");
        world.write_secret("guess.password", "guessed wrongly\n");
        world
    })
}

fn write(world: &World, event: &str, text: &str) {
    fs::create_dir_all(world.path("scripts/v1/visit")).unwrap();
    fs::write(world.path(&format!("scripts/v1/{event}.sql")), text).unwrap();
}

fn sync(world: &World, server: &Server, password: &str, more: &[&str]) -> Outcome {
    let file = format!("{password}.password");
    let url = server.url.as_str();
    let mut arguments = vec![
        "sync",
        "ann.db",
        "--server",
        url,
        "--user",
        "ann",
        "--password-file",
        &file,
        "--json",
    ];
    arguments.extend(more);
    world.syncline.run(&arguments)
}

fn succeeds(world: &World, server: &Server, password: &str, more: &[&str]) -> Value {
    let outcome = sync(world, server, password, more);
    assert_eq!(outcome.code, Some(0), "{outcome:?}\n{}", server.log());
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn fails(world: &World, server: &Server, password: &str, more: &[&str], code: &str) -> String {
    let outcome = sync(world, server, password, more);
    let told: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    assert_eq!(told["error"]["code"], code, "{outcome:?}\n{}", server.log());
    told["error"]["message"].as_str().unwrap().to_owned()
}

fn stands(world: &World, status: u16) {
    world.center_sql(&format!("UPDATE person SET status = {status}"));
}

#[test]
fn a_script_checks_passwords_and_decides_what_a_user_gets() {
    for world in worlds() {
        let server = world.serve();
        fails(&world, &server, "guess", &[], "E2101");
        // The first attempt of a new file has no table yet.
        let token = ["--token-file", "ann.token"];
        succeeds(&world, &server, "ann", &token);
        assert_eq!(regions(&world, "ann"), ["north"]);
        assert!(!world.path("ann.token").exists(), "no token stands for the password");
        world.center_sql("UPDATE person SET region = 'west'");
        succeeds(&world, &server, "ann", &[]);
        assert_eq!(regions(&world, "ann"), ["west"]);
        // Fences see what was set, too.
        sql(
            &world.remote("ann"),
            "INSERT INTO visit (id, region) VALUES (8, 'north'), (9, 'west')",
        );
        assert_eq!(succeeds(&world, &server, "ann", &[])["rejected"], 1);
        for (status, code) in [(3000, "E6032"), (3999, "E6032"), (5000, "E2463"), (999, "E2101")] {
            stands(&world, status);
            fails(&world, &server, "ann", &[], code);
        }
        stands(&world, 2500);
        assert_eq!(succeeds(&world, &server, "ann", &[])["authentication"]["status"], 2500);
        let users = world.syncline.json(&["user", "list", "--json"]);
        assert_eq!(users, serde_json::json!([]), "nobody was added");
        // What was written stays, whatever was decided.
        assert_eq!(world.center_count("SELECT count(*) FROM tried WHERE status = 0"), 1);
        assert_eq!(world.center_count("SELECT count(*) FROM tried WHERE status = 1"), 8);
    }
}

// S6
#[test]
fn a_token_from_before_is_not_believed_and_a_locked_user_is_refused() {
    for world in worlds() {
        let script = fs::read_to_string(world.path("scripts/v1/authenticate_user.sql")).unwrap();
        fs::remove_file(world.path("scripts/v1/authenticate_user.sql")).unwrap();
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        world
            .write_secret("own.password", &fs::read_to_string(world.path("ann.password")).unwrap());
        let server = world.serve();
        succeeds(&world, &server, "own", &["--token-file", "ann.token"]);
        let with_token = ["sync", "ann.db", "--token-file", "ann.token"];
        world.syncline.ok(&with_token);
        write(&world, "authenticate_user", &script);
        world.syncline.ok(&["deploy"]);
        world.syncline.fails("E2102", &with_token);
        world.write_secret("ann.password", "open sesame\n");
        succeeds(&world, &server, "ann", &[]);
        world.syncline.ok(&["user", "lock", "ann"]);
        fails(&world, &server, "ann", &[], "E2101");
        world.syncline.ok(&["user", "unlock", "ann"]);
        succeeds(&world, &server, "ann", &[]);
        // Guesses are slowed down as if we had checked them.
        for _ in 0..3 {
            fails(&world, &server, "guess", &[], "E2101");
        }
        fails(&world, &server, "ann", &[], "E4260");
    }
}

#[test]
fn parameters_are_checked_behind_our_own_check() {
    for world in worlds() {
        fs::remove_file(world.path("scripts/v1/authenticate_user.sql")).unwrap();
        write(
            &world,
            "authenticate_parameters",
            "SELECT CASE {a.1} WHEN 'van' THEN 1000 ELSE 4000 END AS authentication_status,
                 CASE {a.1} WHEN 'van' THEN 'drive safely' ELSE 'no such car' END
                     AS authentication_message",
        );
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        let server = world.serve();
        let with = |car: &'static str| ["--auth-parameter", car];
        fails(&world, &server, "guess", &with("van"), "E2101");
        let message = fails(&world, &server, "ann", &with("bus"), "E2101");
        assert!(message.ends_with("(status 4000): no such car"), "{message}");
        let told = succeeds(&world, &server, "ann", &with("van"));
        assert_eq!(told["authentication"]["message"], "drive safely");
        // A right password does not make up for wrong parameters.
        for _ in 0..3 {
            fails(&world, &server, "ann", &with("bus"), "E2101");
        }
        fails(&world, &server, "ann", &with("van"), "E4260");
    }
}

#[test]
fn a_script_gives_the_user_another_name_and_the_remote_stays_with_who_has_proven_it() {
    for world in worlds() {
        write(&world, "modify_user", "SELECT 'person ' || {s.username} AS username");
        write(&world, "visit/upload_insert", INSERT);
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        succeeds(&world, &server, "ann", &[]);
        sql(&world.remote("ann"), "INSERT INTO visit (id, region) VALUES (9, 'north')");
        succeeds(&world, &server, "ann", &[]);
        let sent = "SELECT count(*) FROM visit WHERE sent_by = 'person ann'";
        assert_eq!(world.center_count(sent), 1);
        let fleet = world.syncline.ok(&["fleet", "list"]);
        assert!(fleet.contains("ann") && !fleet.contains("person"), "{fleet}");
        // Somebody else under the same name gets nothing of it.
        write(&world, "modify_user", "SELECT 'ann' AS username");
        world.syncline.ok(&["deploy"]);
        world.center_sql("INSERT INTO person SELECT 'ben', secret, 1000, 'south' FROM person");
        let ben = ["--user", "ben"];
        let arguments = ["sync", "ann.db", "--password-file", "ann.password"];
        world.syncline.fails("E2160", &[&arguments[..], &ben].concat());
    }
}

#[test]
fn a_ping_asks_the_scripts_and_does_nothing_else() {
    for world in worlds() {
        write(&world, "begin_synchronization", "INSERT INTO once VALUES (1)");
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        succeeds(&world, &server, "ann", &["--ping"]);
        fails(&world, &server, "guess", &["--ping"], "E2101");
        assert_eq!(world.center_count("SELECT count(*) FROM tried"), 2);
        assert_eq!(world.center_count("SELECT count(*) FROM once"), 0);
    }
}

// S7
#[test]
fn a_failing_script_refuses_and_no_secret_is_in_the_log() {
    for world in worlds() {
        let parameters = "INSERT INTO once SELECT length({a.1}) WHERE {a.1} LIKE 'fail%';
            INSERT INTO once SELECT length({a.1}) WHERE {a.1} LIKE 'fail%';
            SELECT 1000 AS authentication_status";
        write(&world, "authenticate_parameters", parameters);
        world.syncline.ok(&["deploy"]);
        let server = world.serve_with(&["--log", "trace", "--trace-events"], None);
        let with = |word: &'static str| ["--auth-parameter", word];
        succeeds(&world, &server, "ann", &with("quiet mouse"));
        fails(&world, &server, "guess", &with("quiet mouse"), "E2101");
        let message = fails(&world, &server, "ann", &with("failing mouse"), "E2101");
        assert_eq!(message, "unknown user or wrong password");
        let next = ["--new-password-file", "guess.password"];
        fails(&world, &server, "ann", &[&with("quiet mouse")[..], &next].concat(), "E2461");
        let log = server.log();
        let told = "scripts/v1/authenticate_parameters.sql:2:13: ";
        assert!(log.contains(told), "{log}");
        assert!(log.contains("authenticate_user") && log.contains("T1"), "{log}");
        for secret in ["sesame", "guessed", "mouse"] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
        assert_eq!(world.center_count("SELECT count(*) FROM once"), 0);
    }
}

// S8: whoever sends the same two passwords again has perhaps not heard that the new one counts.
#[test]
fn a_script_stores_a_new_password_and_no_service_is_asked() {
    const CHANGE: &str = "SELECT CASE count(*) WHEN 0 THEN 4000 ELSE 1000 END
        AS authentication_status FROM person WHERE name = {s.username} AND secret = {s.password};
    UPDATE person SET secret = {s.new_password} WHERE name = {s.username}
        AND secret = {s.password} AND {s.new_password} IS NOT NULL";
    for world in worlds() {
        world.center_sql("UPDATE person SET secret = 'open sesame'");
        write(&world, "authenticate_user", CHANGE);
        world.syncline.ok(&["deploy"]);
        // Nobody listens there.
        world.configure("authenticate_user_url = \"http://127.0.0.1:9/\"");
        world.write_secret("next.password", "close sesame\n");
        let server = world.serve();
        succeeds(&world, &server, "ann", &[]);
        for _ in 0..2 {
            let told = succeeds(&world, &server, "ann", &["--new-password-file", "next.password"]);
            assert_eq!(told["authentication"]["password_changed"], true);
        }
        fails(&world, &server, "ann", &[], "E2101");
        succeeds(&world, &server, "next", &[]);
        // Each of these tries two.
        let guesses = ["--new-password-file", "ann.password"];
        fails(&world, &server, "guess", &guesses, "E2101");
        fails(&world, &server, "guess", &guesses, "E2101");
        fails(&world, &server, "next", &[], "E4260");
    }
}

/// Whom something else has proven may synchronize, and nobody by a password.
const PROVEN: &str = "INSERT INTO tried SELECT {s.username}, 7 WHERE {s.password} IS NULL;
    SELECT CASE WHEN {s.password} IS NULL THEN 1000 ELSE 4000 END AS authentication_status,
        'west' AS u_region";

/// Whoever is proven in another way than by a password is asked about too: `proof` has the options
/// of that, and `forged` takes them for something that proves nothing, refused with a code.
fn is_asked_without_a_password(
    world: &World,
    server: &Server,
    proof: &[&str],
    forged: (&dyn Fn(&World), &str),
) {
    let run = |proof: &[&str]| {
        let all = ["sync", "ann.db", "--server", &server.url, "--user", "ann"];
        world.syncline.run(&[&all[..], proof].concat())
    };
    let asked = || world.center_count("SELECT count(*) FROM tried");
    // This script wants a password, and there is none.
    run(proof).message("E2101");
    assert_eq!(asked(), 1);
    write(world, "authenticate_user", PROVEN);
    world.syncline.ok(&["deploy"]);
    let outcome = run(proof);
    assert_eq!(outcome.code, Some(0), "{outcome:?}\n{}", server.log());
    assert_eq!(regions(world, "ann"), ["west"]);
    assert_eq!((asked(), world.center_count("SELECT max(status) FROM tried")), (2, 7));
    assert_eq!(world.syncline.json(&["user", "list", "--json"]), json!([]), "nobody was added");
    // No password does what the proof does, also none at all.
    let ca = proof.iter().position(|it| *it == "--ca-file").map(|at| &proof[at..at + 2]);
    for words in ["open sesame\n", "\n"] {
        world.write_secret("other.password", words);
        let outcome = run(&[&["--password-file", "other.password"], ca.unwrap_or(&[])].concat());
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    assert_eq!(asked(), 2);
    // What proves nothing reaches no script.
    write(world, "authenticate_user", &format!("INSERT INTO tried VALUES ('x', 0); {PROVEN}"));
    world.syncline.ok(&["deploy"]);
    let (forge, code) = forged;
    forge(world);
    run(proof).message(code);
    assert_eq!(asked(), 2);
}

// S6
#[test]
fn a_script_is_asked_about_the_user_of_a_jwt() {
    for world in worlds() {
        world.write_secret("jwt.secret", SECRET);
        world.configure(&format!("{PROVIDER}\njwt_secret_file = \"jwt.secret\""));
        let server = world.serve();
        issue(&world, "ann", &json!({}));
        let late = |world: &World| issue(world, "ann", &json!({"exp": 1}));
        is_asked_without_a_password(
            &world,
            &server,
            &["--token-file", "ann.jwt"],
            (&late, "E2102"),
        );
    }
}

// S6, S11
#[test]
fn a_script_is_asked_about_the_user_of_a_certificate() {
    for world in worlds() {
        let (authority, other) = (Authority::new(), Authority::new());
        authority.write(&world, "ca.pem");
        authority.server(&world, "server", |_| {});
        world.configure(
            "tls_certificate = \"server.pem\"\ntls_key = \"server.key\"
             tls_client_ca = \"ca.pem\"\ntls_client = \"optional\"",
        );
        let server = world.serve_at("tls://127.0.0.1:0");
        authority.user(&world, "own", "ann", |_| {});
        let own = ["--client-certificate", "own.pem", "--client-key", "own.key"];
        let forge = |world: &World| other.user(world, "own", "ann", |_| {});
        is_asked_without_a_password(
            &world,
            &server,
            &[&own[..], &["--ca-file", "ca.pem"]].concat(),
            (&forge, "E2323"),
        );
    }
}

// S1, S8: what T1 has committed stays, and nothing else of a synchronization that never began.
#[cfg(feature = "fail-points")]
#[test]
fn a_server_that_is_killed_behind_the_check_loses_and_doubles_nothing() {
    for world in worlds() {
        let log = |status: u16| format!("INSERT INTO tried VALUES ({{s.username}}, {status})");
        write(&world, "begin_synchronization", &log(200));
        write(&world, "end_synchronization", &log(600));
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        succeeds(&world, &server, "ann", &[]);
        server.stop();
        // The answers of scripts become durable as uploads do, so the first is their point too.
        for (id, point) in [(8, "server-upload-committed"), (9, "server-upload-received")] {
            let insert = format!("INSERT INTO visit (id, region) VALUES ({id}, 'north')");
            sql(&world.remote("ann"), &insert);
            let written = || {
                let of = |status: u16| {
                    let all = "SELECT count(*) FROM tried WHERE status = ";
                    world.center_count(&format!("{all}{status}"))
                };
                let visits = format!("SELECT count(*) FROM visit WHERE id = {id}");
                (of(1), of(200), of(600), world.center_count(&visits))
            };
            let (asked, begun, ended, _) = written();
            let mut server = world.serve_with(&[], Some(&format!("{point}=return")));
            let outcome = sync(&world, &server, "ann", &[]);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            until("the server to die", || server.has_ended());
            assert_eq!(written(), (asked + 1, begun, ended, 0), "{point}");
            let server = world.serve();
            until("a synchronization", || sync(&world, &server, "ann", &[]).code == Some(0));
            let (_, begun_now, ended_now, visits) = written();
            assert_eq!((begun_now, ended_now, visits), (begun + 1, ended + 1, 1), "{point}");
            assert_eq!(succeeds(&world, &server, "ann", &[])["uploaded"]["inserts"], 0);
            server.stop();
        }
    }
}
