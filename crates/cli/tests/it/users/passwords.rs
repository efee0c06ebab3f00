//! Passwords in the database: users who change theirs, and passwords that expire.

use harness::{Outcome, Peer, Proxy, Server, Side, World, hello};
use model::Code;
use protocol::{Credential, Hello, Message, NewPassword};
use serde_json::{Value, json};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'one'), (2, 'two')";

fn world(postgres: bool) -> World {
    let world = match postgres {
        true => World::on_postgres(PROGRAM, NOTES),
        false => World::new(PROGRAM, NOTES),
    };
    world.add_user("ann");
    world.write_secret("next.password", "close sesame\n");
    world
}

/// Synchronizes with the password of a file, and with further options.
fn sync(world: &World, server: &Server, password: &str, more: &[&str]) -> Outcome {
    let url = server.url.as_str();
    let mut arguments =
        vec!["sync", "ann.db", "--server", url, "--user", "ann", "--password-file", password];
    arguments.extend(more);
    world.syncline.run(&arguments)
}

fn succeeds(world: &World, server: &Server, password: &str, more: &[&str]) -> Outcome {
    let outcome = sync(world, server, password, more);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

fn fails(world: &World, server: &Server, password: &str, more: &[&str], code: &str) {
    let outcome = sync(world, server, password, more);
    assert!(outcome.stderr.contains(&format!("error {code}: ")), "{code}: {outcome:?}");
}

const CHANGE: [&str; 2] = ["--new-password-file", "next.password"];

/// What a server answers to a Hello with these passwords: a code, or none where it is welcome.
fn refusal(server: &Server, credential: Credential, new: Value) -> Option<u16> {
    // As a forger does it, past the checks of the client.
    let new_password = serde_json::from_value::<Option<NewPassword>>(new).unwrap();
    let hello = Hello { credential, new_password, ..hello("ann", "till-7") };
    Peer::refused(&server.url, hello)
}

fn password(text: &str) -> Credential {
    Credential::Password(text.to_owned())
}

#[test]
fn a_synchronization_changes_the_password_and_revokes_the_tokens_of_the_old_one() {
    for (postgres, listen) in [(false, "http://127.0.0.1:0"), (true, "tcp://127.0.0.1:0")] {
        let world = world(postgres);
        let server = world.serve_at(listen);
        let token = ["--token-file", "ann.token"];
        succeeds(&world, &server, "ann.password", &token);
        fs::copy(world.path("ann.token"), world.path("old.token")).unwrap();
        harness::sql(&world.remote("ann"), "INSERT INTO note VALUES (3, 'ann')");
        let changed = succeeds(&world, &server, "ann.password", &[&token[..], &CHANGE].concat());
        assert!(changed.stderr.contains("changed the password of user ann"), "{changed:?}");
        world.assert_converged(&["ann"]);
        world.syncline.fails("E2102", &["sync", "ann.db", "--token-file", "old.token"]);
        world.syncline.ok(&["sync", "ann.db", "--token-file", "ann.token"]);
        fails(&world, &server, "ann.password", &[], "E2101");
        succeeds(&world, &server, "next.password", &[]);
        let again = succeeds(&world, &server, "ann.password", &[&CHANGE[..], &["--json"]].concat());
        let told: Value = serde_json::from_str(&again.stdout).unwrap();
        let expected = json!({"status": 1000, "message": null, "expires_in_s": null,
            "password_changed": true});
        assert_eq!(told["authentication"], expected, "the same two passwords are no mistake");
        assert!(!server.log().contains("sesame"));
    }
}

// S1: whoever does not know whether the password was changed sends the same two again.
#[test]
fn a_lost_answer_locks_nobody_out() {
    for (postgres, point) in [
        (false, "server-password-changed"),
        (true, "server-password-changed"),
        (false, "server-upload-before-commit"),
        (true, "server-upload-committed"),
    ] {
        let world = world(postgres);
        let server = world.serve();
        succeeds(&world, &server, "ann.password", &[]);
        let url = server.url.clone();
        server.kill();
        let server = world.serve_at_with(&url, &format!("{point}=return"));
        let lost = sync(&world, &server, "ann.password", &CHANGE);
        assert_ne!(lost.code, Some(0), "{point}: {lost:?}");
        drop(server);
        let server = world.serve_at(&url);
        for _ in 0..4 {
            succeeds(&world, &server, "ann.password", &CHANGE);
        }
        fails(&world, &server, "ann.password", &[], "E2101");
        succeeds(&world, &server, "next.password", &[]);
    }
}

#[test]
fn a_new_password_that_is_none_or_that_nothing_proves_changes_nothing() {
    let world = world(false);
    let server = world.serve();
    let token = ["--token-file", "ann.token"];
    succeeds(&world, &server, "ann.password", &token);
    let token = fs::read_to_string(world.path("ann.token")).unwrap().trim().to_owned();
    let ann = || password("ann-password");
    let (refused, unchanged) = (Some(2460), Some(2461));
    assert_eq!(refusal(&server, ann(), json!("")), refused);
    assert_eq!(refusal(&server, ann(), json!("x".repeat(5000))), refused);
    assert_eq!(refusal(&server, ann(), json!("ann-password")), refused);
    assert_eq!(refusal(&server, Credential::Token(token), json!("x")), unchanged);
    assert_eq!(refusal(&server, Credential::Certificate, json!("x")), Some(2323), "none is shown");
    world.write_secret("empty.password", "\n");
    fails(&world, &server, "ann.password", &["--new-password-file", "empty.password"], "E2112");
    fails(&world, &server, "ann.password", &["--new-password-file", "ann.password"], "E2460");
    succeeds(&world, &server, "ann.password", &[]);
    world.syncline.ok(&["user", "lock", "ann"]);
    fails(&world, &server, "ann.password", &CHANGE, "E2101");
    world.syncline.ok(&["user", "unlock", "ann"]);
    succeeds(&world, &server, "ann.password", &[]);
}

// S9: two passwords are two guesses.
#[test]
fn a_guess_of_two_passwords_counts_twice() {
    let world = world(false);
    let server = world.serve();
    assert_eq!(refusal(&server, password("guess"), json!("other")), Some(2101));
    assert_eq!(refusal(&server, password("guess"), json!("other")), Some(2101));
    let slowed = Some(Code::PasswordsSlowed.number());
    assert_eq!(refusal(&server, password("ann-password"), json!(null)), slowed);
}

// S11: the change got lost on its way.
#[test]
fn a_new_password_that_the_server_does_not_confirm_does_not_count() {
    let world = world(false);
    let server = world.serve();
    let proxy = Proxy::new(&server.url);
    proxy.forge(|side, message| {
        if let (Side::Client, Message::Hello(hello)) = (side, message) {
            hello.new_password = None;
        }
    });
    let arguments = ["sync", "ann.db", "--server", &proxy.url, "--user", "ann", "--password-file"];
    let arguments = [&arguments[..], &["ann.password"], &CHANGE[..]].concat();
    world.syncline.fails("E2461", &arguments);
    succeeds(&world, &server, "ann.password", &[]);
}

#[test]
fn an_expired_password_is_good_for_changing_it_only() {
    for postgres in [false, true] {
        let world = world(postgres);
        world.configure("password_delay_max_s = 0");
        world.add_user("ben");
        let server = world.serve();
        let token = ["--token-file", "ann.token"];
        succeeds(&world, &server, "ann.password", &token);
        world.syncline.ok(&["user", "set", "ann", "--password-expires", "now"]);
        fails(&world, &server, "ann.password", &[], "E6032");
        world.syncline.fails("E2102", &["sync", "ann.db", "--token-file", "ann.token"]);
        world.write_secret("wrong.password", "guessed\n");
        fails(&world, &server, "wrong.password", &[], "E2101");
        assert_eq!(refusal(&server, password("guessed"), json!("other")), Some(2101));
        succeeds(&world, &server, "ann.password", &CHANGE);
        succeeds(&world, &server, "next.password", &[]);
        // By age, of all users but those of whom an operator says otherwise.
        world.configure("password_days_max = 30");
        server.reload();
        let aged = "UPDATE SCHEMAsyncline_user SET password_set_at = password_set_at - 2592001";
        let schema = if postgres { "syncline." } else { "" };
        world.center_sql(&aged.replace("SCHEMA", schema));
        fails(&world, &server, "next.password", &[], "E6032");
        // The new one is as old: it is no way around.
        fails(&world, &server, "ann.password", &CHANGE, "E6032");
        world.sync_fails("ben", &server, "E6032");
        world.syncline.ok(&["user", "set", "ben", "--password-expires", "never"]);
        world.sync("ben", &server);
        world.syncline.ok(&["user", "set", "ann", "--password-expires", "2101-01-01"]);
        succeeds(&world, &server, "next.password", &[]);
        let users = world.syncline.json(&["user", "list", "--json"]);
        let expiry = |users: &Value, at: usize| {
            [&users[at]["password_expires"], &users[at]["password_expiry"]].map(Value::clone)
        };
        assert_eq!(expiry(&users, 0), [json!("2101-01-01T00:00:00Z"), json!("at")]);
        world.syncline.ok(&["user", "password", "ben", "--password-file", "next.password"]);
        world.syncline.ok(&["user", "password", "ann", "--password-file", "ann.password"]);
        let users = world.syncline.json(&["user", "list", "--json"]);
        assert_eq!(expiry(&users, 0), [Value::Null, json!("by-age")]);
        assert_eq!(expiry(&users, 1), [Value::Null, json!("never")]);
        world.syncline.ok(&["user", "set", "ben", "--password-expires", "by-age"]);
        succeeds(&world, &server, "ann.password", &[]);
    }
}

#[test]
fn a_password_that_expires_soon_is_warned_of() {
    let world = world(false);
    world.configure("password_days_max = 30\npassword_warning_days = 7");
    let server = world.serve();
    let quiet = succeeds(&world, &server, "ann.password", &["--token-file", "ann.token"]);
    assert!(!quiet.stderr.contains("expires"), "{quiet:?}");
    // Three days and a half are left.
    let days = 30 * 86_400 - 302_400;
    world.center_sql(&format!(
        "UPDATE syncline_user SET password_set_at = password_set_at - {days}"
    ));
    let warned = "warning: the password expires in 3 days; change it with --new-password-file";
    let loud = succeeds(&world, &server, "ann.password", &[]);
    assert!(loud.stderr.contains(warned), "{loud:?}");
    let by_token = ["sync", "ann.db", "--token-file", "ann.token", "--json"];
    let outcome = world.syncline.run(&by_token);
    assert!(outcome.stderr.contains(warned), "also where a token is sent: {outcome:?}");
    let told: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let left = told["authentication"]["expires_in_s"].as_u64().unwrap();
    assert!((302_000..=302_400).contains(&left), "{told}");
    assert_eq!(told["authentication"]["status"], 2000);
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    let world = world(false);
    for date in ["2027-02-30", "tomorrow", ""] {
        let outcome = world.syncline.run(&["user", "set", "ann", "--password-expires", date]);
        assert_eq!(outcome.code, Some(2), "{date}: {outcome:?}");
    }
    world.syncline.fails("E6008", &["user", "set", "nobody", "--password-expires", "now"]);
}

/// A password of three letters was taken, which is guessed in no time.
#[test]
fn a_short_password_is_refused_unless_the_operator_insists() {
    let world = world(false);
    // Seven characters and eight, in nine bytes and ten.
    world.write_secret("short.password", "größer1\n");
    world.write_secret("long.password", "größer12\n");
    let (add, change) = (["user", "add", "ben"], ["user", "password", "ann"]);
    let with = |command: &[&'static str], more: &[&'static str]| {
        [command, &["--password-file"], more].concat()
    };
    for command in [&add, &change] {
        let said = world.syncline.fails("E6014", &with(command, &["short.password"]));
        assert_eq!(said, "the password has fewer than 8 characters");
    }
    world.syncline.ok(&with(&add, &["short.password", "--weak"]));
    world.syncline.ok(&with(&change, &["long.password"]));
    let server = world.serve();
    succeeds(&world, &server, "long.password", &[]);
    let ben = ["sync", "ben.db", "--server", &server.url, "--user", "ben", "--password-file"];
    world.syncline.ok(&[&ben[..], &["short.password"]].concat());
    // What a user chooses is no better.
    fails(&world, &server, "long.password", &["--new-password-file", "short.password"], "E2460");
    succeeds(&world, &server, "long.password", &CHANGE);
}
