//! Whole synchronizations through the programs: server, remotes, options and failures.

use harness::{Proxy, Server, Side, Verdict, World, count, finish, query, sql, until};
use protocol::Message;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, phone TEXT);
    CREATE TABLE \"order\" (id TEXT PRIMARY KEY NOT NULL,
        customer_id INTEGER NOT NULL REFERENCES customer ON DELETE CASCADE, total REAL);
    INSERT INTO customer VALUES (1, 'One', '1'), (2, 'Two', '2');
    INSERT INTO \"order\" VALUES ('a', 1, 1.5)";

/// A shop with a server and these users.
fn shop(names: &[&str]) -> (World, Server) {
    let world = World::new(PROGRAM, SHOP);
    for name in names {
        world.add_user(name);
    }
    let server = world.serve();
    (world, server)
}

fn uploaded(inserts: u64, updates: u64, deletes: u64) -> Value {
    json!({ "inserts": inserts, "updates": updates, "deletes": deletes })
}

#[test]
fn a_file_becomes_a_remote_and_rows_travel_both_ways() {
    let (world, server) = shop(&["ann", "ben"]);
    let first = world.sync("ann", &server);
    assert_eq!(first["downloaded"], json!({ "upserts": 3, "deletes": 0 }));
    assert_eq!(first["user"], json!("ann"));
    assert_eq!(first["error"], Value::Null);
    world.sync("ben", &server);
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (3, 'Three', NULL); UPDATE customer SET phone = '22'
         WHERE id = 2; DELETE FROM \"order\"",
    );
    let second = world.sync("ann", &server);
    assert_eq!(second["uploaded"], uploaded(1, 1, 1));
    assert_eq!(second["remote_id"], first["remote_id"]);
    let bens = world.sync("ben", &server);
    assert_eq!(bens["downloaded"], json!({ "upserts": 2, "deletes": 1 }));
    world.assert_converged(&["ann", "ben"]);
    // S3, trap 8: without writes, no row is sent.
    for name in ["ann", "ben"] {
        let quiet = world.sync(name, &server);
        assert_eq!(quiet["uploaded"], uploaded(0, 0, 0));
        assert_eq!(quiet["downloaded"], json!({ "upserts": 0, "deletes": 0 }));
    }
}

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let (world, server) = shop(&["ann"]);
    let result = world.sync("ann", &server);
    let names: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "remote_id",
            "user",
            "script_version",
            "uploaded",
            "downloaded",
            "conflicts",
            "rejected",
            "compression",
            "duration_ms",
            "error"
        ]
    );
}

#[test]
fn a_failure_is_told_in_json_too() {
    let (world, server) = shop(&["ann"]);
    world.write_secret("ann.password", "wrong\n");
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.extend(["--json".to_owned(), "--remote-id".to_owned(), "till-7".to_owned()]);
    let outcome = world.syncline.run(&arguments);
    assert_eq!(outcome.code, Some(1));
    outcome.message("E2101");
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&result["remote_id"], &result["user"]), (&json!("till-7"), &json!("ann")));
    let error = &result["error"];
    assert_eq!((&error["code"], &error["retry"]), (&json!("E2101"), &json!(false)));
    for field in ["message", "retry_after_s", "table", "key"] {
        assert!(error.get(field).is_some(), "{field}");
    }
}

#[test]
fn server_and_user_are_remembered_and_the_password_is_not() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    world.syncline.ok(&["sync", "ann.db", "--password-file", "ann.password"]);
    world.syncline.fails("E2112", &["sync", "ann.db"]);
    let bytes = fs::read(world.remote("ann")).unwrap();
    let password = b"ann-password";
    assert!(!bytes.windows(password.len()).any(|window| window == password));
    world.syncline.fails("E5011", &["sync", "new.db", "--password-file", "ann.password"]);
    assert!(!world.path("new.db").exists(), "nothing is created for what cannot succeed");
}

#[test]
fn a_name_that_does_not_exist_is_not_remembered() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    let sync = ["sync", "ann.db", "--password-file", "ann.password"];
    let with = |option: &'static str| [&sync[..], &[option, "nobody"]].concat();
    world.syncline.fails("E2103", &with("--script-version"));
    world.syncline.fails("E2104", &with("--publication"));
    world.syncline.ok(&sync);
}

fn files(world: &World, name: &str) -> Vec<String> {
    let entries = fs::read_dir(world.remote(name).parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|file| file.starts_with(&format!("{name}.db"))).collect()
}

/// Every attempt with a mistake left a file, and the next one with the right name found it.
#[test]
fn a_first_synchronization_that_fails_leaves_no_file() {
    let (world, server) = shop(&["ann"]);
    world.write_secret("wrong.password", "wrong\n");
    let ann = ["--user", "ann", "--password-file", "ann.password"];
    let at = |server: &'static str| [&["sync", "new.db", "--server", server], &ann[..]].concat();
    let here = [&["sync", "new.db", "--server", &server.url], &ann[..]].concat();
    let with = |more: &[&'static str]| [&here[..], more].concat();
    let wrong = ["sync", "new.db", "--server", &server.url, "--user", "ann"];
    world.syncline.ok(&["cert", "dev", "--dir", "tls"]);
    let tls = "tls_certificate = \"tls/server.pem\"\n\
               tls_key = \"tls/server.key\"";
    for (code, line) in [
        ("E5011", vec!["sync", "new.db", "--password-file", "ann.password"]),
        ("E1008", at("tcp://127.0.0.1:1")),
        ("E6006", at("mysql://127.0.0.1")),
        ("E2101", [&wrong[..], &["--password-file", "wrong.password"]].concat()),
        ("E2103", with(&["--script-version", "nobody"])),
        ("E2104", with(&["--publication", "nobody"])),
        ("E2101", [&wrong[..], &["--password-file", "wrong.password", "--ping"]].concat()),
        ("E1008", [&at("tcp://127.0.0.1:1")[..], &["--json"]].concat()),
    ] {
        world.syncline.fails(code, &line);
        assert_eq!(files(&world, "new"), [""; 0], "{code} {line:?}");
    }
    server.stop();
    world.configure(tls);
    let server = world.serve_at("tls://127.0.0.1:0");
    let line = [&["sync", "new.db", "--server", &server.url], &ann[..]].concat();
    world.syncline.fails("E2320", &line);
    assert_eq!(files(&world, "new"), [""; 0]);
    world.syncline.ok(&[&line[..], &["--ca-file", "tls/ca.pem"]].concat());

    // A file that was there is not taken away, and is not changed where no server is named.
    let mine = || query(&world.remote("mine"), "SELECT name FROM sqlite_schema");
    sql(&world.remote("mine"), "CREATE TABLE mine (id INTEGER PRIMARY KEY)");
    let said = world.syncline.fails("E5011", &["sync", "mine.db"]);
    assert!(said.contains("`mine.db` is no remote yet"), "{said}");
    assert_eq!(mine(), [["'mine'"]]);
    let said = world.syncline.fails("E5011", &["sync", "typo.db"]);
    assert!(said.contains("there is no file `typo.db`"), "{said}");
    let mut line = line.clone();
    line[1] = "mine.db";
    world.syncline.fails("E2320", &line);
    assert_eq!(mine(), [["'mine'"]]);
    assert_eq!(files(&world, "mine"), ["mine.db"]);
    fs::write(world.remote("empty"), "").unwrap();
    line[1] = "empty.db";
    world.syncline.fails("E2320", &line);
    assert!(world.remote("empty").exists());
}

/// It ended in the middle of the progress line, and nobody knew what had become of the rows.
#[test]
fn an_interrupted_synchronization_says_what_comes_next() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", silent.local_addr().unwrap());
    let mut line = world.sync_arguments("ann", &server);
    line[3] = url;
    let interrupted = world.syncline.on_terminal(&line, "connecting", "\x03");
    assert_eq!(interrupted.code, Some(130), "{interrupted:?}");
    let told = "\r\x1b[2Kinterrupted: nothing is lost; the next `syncline sync` continues\r\n";
    assert!(interrupted.stdout.ends_with(told), "{interrupted:?}");
    world.sync("ann", &server);
}

// S6
#[test]
fn a_first_synchronization_that_is_cut_keeps_what_it_has() {
    let (world, server) = shop(&["ann"]);
    let proxy = Proxy::new(&server.url);
    proxy.obey(|from, message| match (from, message) {
        (Side::Server, Message::DownloadEnd(_)) => Verdict::CutBefore,
        _ => Verdict::Pass,
    });
    let failed = finish(world.sync_through("ann", &proxy.url));
    failed.message("E1006");
    let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
    assert_eq!(status["server"], json!(proxy.url));
}

/// A typing mistake in the address or the user was what the next `sync` fell back on.
#[test]
fn nothing_is_remembered_before_a_server_has_accepted_it() {
    let (world, server) = shop(&["ann", "ben"]);
    let known = || {
        let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
        [&status["server"], &status["user"], &status["publications"]].map(Value::clone)
    };
    let nobody = "tcp://127.0.0.1:1";
    let password = ["--password-file", "ann.password"];
    let with = |options: &[&'static str]| [&["sync", "ann.db"], options, &password].concat();
    sql(&world.remote("ann"), "CREATE TABLE mine (id INTEGER PRIMARY KEY)");
    // Neither on the first synchronization …
    let unreachable = ["sync", "ann.db", "--server", nobody, "--user", "ann"];
    world.syncline.run(&[&unreachable[..], &password].concat());
    let refused = ["sync", "ann.db", "--server", &server.url, "--user", "ben"];
    world.syncline.fails("E2101", &[&refused[..], &password].concat());
    world.syncline.fails("E5007", &["remote", "status", "ann.db"]);
    world.syncline.fails("E5011", &with(&[]));
    // … nor on a later one.
    world.sync("ann", &server);
    let agreed = known();
    assert_eq!(agreed, [json!(server.url), json!("ann"), json!([])]);
    for (code, options) in [
        ("E1008", &["--server", nobody][..]),
        ("E2101", &["--user", "ben"]),
        ("E2104", &["--publication", "nothing"]),
        ("E1008", &["--publication", "all", "--server", nobody]),
    ] {
        world.syncline.fails(code, &with(options));
        assert_eq!(known(), agreed, "{options:?}");
    }
    // What was accepted is.
    world.syncline.ok(&with(&["--publication", "all"]));
    assert_eq!(known()[2], json!(["all"]));
}

#[test]
fn a_token_replaces_the_password_until_it_is_revoked() {
    let (world, server) = shop(&["ann"]);
    let with_both = [
        "sync",
        "ann.db",
        "--server",
        &server.url,
        "--user",
        "ann",
        "--password-file",
        "ann.password",
        "--token-file",
        "ann.token",
    ];
    let with_token = ["sync", "ann.db", "--token-file", "ann.token"];
    world.syncline.ok(&with_both);
    let first = fs::read_to_string(world.path("ann.token")).unwrap();
    let mode = fs::metadata(world.path("ann.token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world.syncline.ok(&with_token);

    world.write_secret("ann.password", "another one\n");
    world.syncline.ok(&["user", "password", "ann", "--password-file", "ann.password"]);
    world.syncline.fails("E2102", &with_token);
    world.syncline.ok(&with_both);
    assert_ne!(fs::read_to_string(world.path("ann.token")).unwrap(), first);
    world.syncline.ok(&with_token);
}

#[test]
fn parts_of_a_synchronization_can_be_had_alone() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    let part = |option: &str| {
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend([option.to_owned(), "--json".to_owned()]);
        world.syncline.json(&arguments)
    };
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (10, 'Ann', NULL)");
    sql(&world.consolidated(), "INSERT INTO customer VALUES (20, 'Center', NULL)");
    let ping = part("--ping");
    assert_eq!((&ping["uploaded"], &ping["error"]), (&uploaded(0, 0, 0), &Value::Null));
    let down = part("--download-only");
    assert_eq!(down["uploaded"], uploaded(0, 0, 0));
    assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM customer"), 4);
    assert_eq!(count(&world.consolidated(), "SELECT count(*) FROM customer"), 3);
    sql(&world.consolidated(), "INSERT INTO customer VALUES (21, 'Center', NULL)");
    let up = part("--upload-only");
    assert_eq!(up["uploaded"], uploaded(1, 0, 0));
    assert_eq!(up["downloaded"], json!({ "upserts": 0, "deletes": 0 }));
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

// S5
#[test]
fn a_conflict_is_counted_and_the_center_wins() {
    let (world, server) = shop(&["ann", "ben"]);
    for name in ["ann", "ben"] {
        world.sync(name, &server);
        sql(&world.remote(name), &format!("UPDATE customer SET name = '{name}' WHERE id = 1"));
    }
    assert_eq!(world.sync("ann", &server)["conflicts"], json!(0));
    assert_eq!(world.sync("ben", &server)["conflicts"], json!(1));
    world.assert_converged(&["ann", "ben"]);
    let name = query(&world.remote("ben"), "SELECT name FROM customer WHERE id = 1");
    assert_eq!(name, [["'ann'"]]);
}

// S7
#[test]
fn a_row_that_the_center_refuses_is_kept_as_a_reject() {
    let world = World::new(
        PROGRAM,
        "CREATE TABLE product (id INTEGER PRIMARY KEY, price REAL CHECK (price > 0))",
    );
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    // The remote has the same CHECK. If it is switched off, the center finds the fault.
    sql(
        &world.remote("ann"),
        "PRAGMA ignore_check_constraints = ON; INSERT INTO product VALUES (1, 5), (2, -5)",
    );
    let result = world.sync("ann", &server);
    assert_eq!((&result["rejected"], &result["error"]), (&json!(1), &Value::Null));
    let rejects = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    assert_eq!(rejects.as_array().unwrap().len(), 1, "{rejects}");
    assert_eq!((&rejects[0]["table"], &rejects[0]["code"]), (&json!("product"), &json!("E7002")));
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

#[test]
fn remote_shows_what_waits_and_detaches_the_file() {
    let (world, server) = shop(&["ann"]);
    let syncline = &world.syncline;
    syncline.fails("E5013", &["remote", "status", "consolidated.db"]);
    let first = world.sync("ann", &server);
    sql(
        &world.remote("ann"),
        "UPDATE customer SET phone = '9' WHERE id = 1; DELETE FROM \"order\"",
    );
    let status = syncline.json(&["remote", "status", "ann.db", "--json"]);
    assert_eq!(status["remote_id"], first["remote_id"]);
    assert_eq!((&status["user"], &status["server"]), (&json!("ann"), &json!(server.url)));
    assert_eq!(status["pending"], json!(2));
    let pending = syncline.json(&["remote", "pending", "ann.db", "--json"]);
    let shown: Vec<(&Value, &Value)> = pending
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["table"], &change["operation"]))
        .collect();
    assert_eq!(
        shown,
        [(&json!("customer"), &json!("update")), (&json!("order"), &json!("delete"))]
    );
    for action in ["status", "pending", "rejects"] {
        assert!(!syncline.ok(&["remote", action, "ann.db"]).is_empty());
    }

    let refused = syncline.fails("E5008", &["remote", "reset", "ann.db"]);
    assert!(refused.contains("2 changes were not uploaded"), "{refused}");
    syncline.ok(&["remote", "reset", "ann.db", "--discard-pending"]);
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);

    let detached = syncline.run(&["remote", "detach", "ann.db"]);
    assert_eq!((detached.code, &*detached.stderr), (Some(0), ""), "{detached:?}");
    let ours = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'syncline%'";
    assert_eq!(count(&world.remote("ann"), ours), 0);
    world.assert_converged(&["ann"]);
    syncline.fails("E5007", &["remote", "status", "ann.db"]);
}

/// A file was detached with changes that were never uploaded, and no message said so.
#[test]
fn detaching_names_the_changes_that_will_not_be_uploaded() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    sql(&world.remote("ann"), "UPDATE customer SET phone = '9' WHERE id = 1");
    let refused = world.syncline.fails("E5008", &["remote", "reset", "ann.db"]);
    assert!(refused.contains("1 change was not uploaded"), "{refused}");
    let detached = world.syncline.run(&["remote", "detach", "ann.db"]);
    let said = "warning: 1 pending change will not be uploaded";
    assert!(detached.code == Some(0) && detached.stderr.contains(said), "{detached:?}");
}

#[test]
fn watch_uploads_what_comes_and_ends_on_a_signal() {
    let (world, server) = shop(&["ann", "ben"]);
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.push("--watch".to_owned());
    let mut watch = world.syncline.command(&arguments).spawn().unwrap();
    let exists = |path: &Path| path.exists() && !harness::tables(path).is_empty();
    until("the first synchronization", || exists(&world.remote("ann")));
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (5, 'Five', NULL)");
    let five = "SELECT count(*) FROM customer WHERE id = 5";
    until("the upload", || count(&world.consolidated(), five) == 1);
    let killed = Command::new("kill").arg(watch.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn watch_survives_a_server_that_comes_late() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    let url = server.url.clone();
    server.stop();
    let watching = ["sync", "ann.db", "--password-file", "ann.password", "--watch"];
    let mut watch = world.syncline.command(&watching).spawn().unwrap();
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (6, 'Six', NULL)");
    let mut again = world.serve_at(&url);
    let six = "SELECT count(*) FROM customer WHERE id = 6";
    until("the upload", || count(&world.consolidated(), six) == 1);
    assert!(!again.has_ended());
    watch.kill().unwrap();
    watch.wait().unwrap();
}

// S11: an operator needs a moment between two steps. Whoever watches at a remote cannot help, and
// must not have to be started again everywhere.
#[test]
fn watch_survives_a_center_that_is_deployed_later_or_by_another_version() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    let watching = ["sync", "ann.db", "--password-file", "ann.password", "--watch"];
    let mut command = world.syncline.command(&watching);
    command.stderr(fs::File::create(world.path("watch.log")).unwrap());
    let mut watch = command.spawn().unwrap();
    let format = |change: &str| {
        format!(
            "UPDATE syncline_system SET value = value {change} WHERE name = 'format';
             UPDATE syncline_system SET value = value + 1 WHERE name = 'deployment'"
        )
    };
    let rename = |from, to| format!("ALTER TABLE customer RENAME COLUMN {from} TO {to}");
    let steps = [
        ("E3004", format("+ 1"), format("- 1")),
        ("E3005", rename("name", "called"), rename("called", "name")),
    ];
    for (id, (code, begin, end)) in (6..).zip(steps) {
        world.center_sql(&begin);
        let insert = format!("INSERT INTO customer VALUES ({id}, 'new', NULL)");
        sql(&world.remote("ann"), &insert);
        until(code, || fs::read_to_string(world.path("watch.log")).unwrap().contains(code));
        world.center_sql(&end);
        let arrived = format!("SELECT count(*) FROM customer WHERE id = {id}");
        until("the upload", || count(&world.consolidated(), &arrived) == 1);
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

// S11
#[test]
fn refusals_say_who_must_act() {
    let (world, server) = shop(&["ann"]);
    let refused = |code: &str, server: &str, user: &str, more: &[&str]| {
        let given = ["sync", "ann.db", "--server", server, "--user", user, "--password-file"];
        world.syncline.fails(code, &[&given[..], &["ann.password"], more].concat());
    };
    let url = server.url.as_str();
    refused("E2104", url, "ann", &["--publication", "nobody"]);
    refused("E2103", url, "ann", &["--script-version", "v9"]);
    refused("E6006", "quic://127.0.0.1:1", "ann", &[]);
    refused("E1008", "tcp://127.0.0.1:1", "ann", &[]);
    refused("E2101", url, "nobody", &[]);
    fs::write(world.path("text.db"), "this is not a database, it is only text").unwrap();
    world.syncline.fails(
        "E5001",
        &["sync", "text.db", "--server", url, "--user", "ann", "--password-file", "ann.password"],
    );
}

/// It said that the remote file is read-only, whichever file it was, or that there is no database.
#[test]
fn the_file_that_this_user_may_not_write_is_named() {
    let (world, server) = shop(&["ann"]);
    world.sync("ann", &server);
    // Root may write everything. So the program is run by somebody else.
    let other = rustix::process::geteuid().is_root().then_some(65534);
    let give = |path: &Path| std::os::unix::fs::chown(path, other, other).unwrap();
    // A program that has the file open keeps both files beside it.
    let application = rusqlite::Connection::open(world.remote("ann")).unwrap();
    application.execute_batch("CREATE TABLE own (id INTEGER)").unwrap();
    let parts = ["ann.db", "ann.db-wal", "ann.db-shm"].map(|name| world.path(name));
    [".", "ann.password", "ann.db-syncline"].iter().for_each(|name| give(&world.path(name)));
    parts.iter().for_each(|path| give(path));
    for part in &parts {
        let mode = |mode| fs::set_permissions(part, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o444);
        let arguments = world.sync_arguments("ann", &server);
        let mut command = world.syncline.command(&arguments);
        if let Some(user) = other {
            command.uid(user);
        }
        let told = finish(command.spawn().unwrap());
        mode(0o600);
        let name = part.file_name().unwrap().to_str().unwrap();
        let expected = format!("/{name}`");
        let is_named = |line: &str| line.contains(&expected);
        assert!(told.code == Some(1) && is_named(&told.stderr), "{name}: {told:?}");
        assert!(told.message("E6010").starts_with("this user may not write `"), "{told:?}");
    }
    world.sync("ann", &server);
}
