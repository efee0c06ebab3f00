//! Encrypted connections: rows travel, and whoever is not who he should be learns nothing.

use harness::{Server, World, sql, until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    INSERT INTO customer VALUES (1, 'One'), (2, 'Two')";

/// By this a remote believes the server.
const AUTHORITY: [&str; 2] = ["--ca-file", "ca.pem"];

/// A shop with the user ann, whose server could speak TLS.
fn prepared(world: World) -> World {
    world.syncline.ok(&["cert", "dev"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    world.add_user("ann");
    world
}

fn shop() -> World {
    prepared(World::new(PROGRAM, SHOP))
}

fn serve(world: &World) -> Server {
    world.serve_at("tls://127.0.0.1:0")
}

/// The arguments that synchronize `name`, with these.
fn arguments(world: &World, name: &str, server: &Server, more: &[&str]) -> Vec<String> {
    let mut all = world.sync_arguments(name, server);
    all.extend(more.iter().map(ToString::to_string));
    all
}

fn sync(world: &World, name: &str, server: &Server) {
    world.syncline.ok(&arguments(world, name, server, &AUTHORITY));
}

// S3
#[test]
fn rows_travel_both_ways_encrypted_on_both_databases() {
    for world in [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)] {
        let world = prepared(world);
        world.add_user("ben");
        let server = serve(&world);
        assert!(server.url.starts_with("tls://127.0.0.1:"), "{}", server.url);
        sync(&world, "ann", &server);
        sync(&world, "ben", &server);
        sql(
            &world.remote("ann"),
            "INSERT INTO customer WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n
                WHERE i < 20000) SELECT i, 'name ' || i FROM n;
             DELETE FROM customer WHERE id = 1",
        );
        sync(&world, "ann", &server);
        sync(&world, "ben", &server);
        world.assert_converged(&["ann", "ben"]);
        assert!(!server.log().contains("clear text"), "{}", server.log());
    }
}

// S11
#[test]
fn clear_text_and_tls_that_meet_are_told_apart_on_both_sides() {
    let world = shop();
    let (encrypted, plain) = (serve(&world), {
        fs::create_dir(world.path("plain")).unwrap();
        World::new(PROGRAM, SHOP)
    });
    plain.add_user("ann");
    plain.syncline.ok(&["cert", "dev"]);
    let clear = plain.serve();

    let turned = |url: &str, from: &str, to: &str| url.replacen(from, to, 1);
    for (world, server, url) in [
        (&world, &encrypted, turned(&encrypted.url, "tls", "tcp")),
        (&plain, &clear, turned(&clear.url, "tcp", "tls")),
    ] {
        let all = [
            "sync",
            "ann.db",
            "--server",
            &url,
            "--user",
            "ann",
            "--password-file",
            "ann.password",
        ];
        let message = world.syncline.fails("E1020", &[&all[..], &AUTHORITY].concat());
        assert!(message.contains("TLS"), "{message}");
        until("the log line", || server.log().contains("E1020"));
    }
    let alike = ["--server", "tcp://h:1", "--user", "ann", "--password-file", "ann.password"];
    let listed = world.syncline.run(&[&["sync", "x.db"], &alike[..]].concat());
    assert!(!listed.stderr.contains("E1020"), "{listed:?}");
}

// S11
#[test]
fn a_server_that_is_not_trusted_gets_no_password() {
    let world = shop();
    let server = serve(&world);
    let pin = world.syncline.ok(&["cert", "dev", "--dir", "other"]);
    let other_pin = pin.trim().rsplit(' ').next().unwrap().to_owned();
    let pin =
        certificates::Pin::of(&certificates::read_chain(&world.path("server.pem")).unwrap()[0]);
    let pin = pin.unwrap().to_string();

    let fails = |code: &str, more: &[&str]| {
        world.syncline.fails(code, &arguments(&world, "ann", &server, more))
    };
    fails("E2320", &[]);
    fails("E2320", &["--ca-file", "other/ca.pem"]);
    fails("E2320", &["--pin", &other_pin]);
    fails("E2320", &["--pin", &pin, "--ca-file", "other/ca.pem"]);
    fails("E5020", &["--ca-file", "ann.password"]);
    fails("E5020", &["--ca-file", "absent.pem"]);
    assert!(!world.remote("ann").exists() || !server.log().contains("synchronized"));

    for more in [vec!["--pin", &pin], vec!["--pin", &pin, "--ca-file", "ca.pem"]] {
        world.syncline.ok(&arguments(&world, "ann", &server, &more));
    }
    world.assert_converged(&["ann"]);
}

/// Synchronizes `ann.db` with nothing but this.
fn again(world: &World, more: &[&str]) -> harness::Outcome {
    world.syncline.run(&[&["sync", "ann.db"], more].concat())
}

// S11: the second time only the password is needed, from whatever folder; and a mistake is not what
// the next synchronization falls back on.
#[test]
fn whom_a_remote_believes_is_remembered_once_the_server_has_accepted_it() {
    let world = shop();
    let server = serve(&world);
    sync(&world, "ann", &server);
    let password = ["--password-file", "ann.password"];
    let works = |more: &[&str]| {
        let outcome = again(&world, &[&password, more].concat());
        assert_eq!(outcome.code, Some(0), "{more:?}: {outcome:?}");
    };
    let fails =
        |code: &str, more: &[&str]| again(&world, &[&password, more].concat()).message(code);
    let status =
        |fact: &str| world.syncline.json(&["remote", "status", "ann.db", "--json"])[fact].clone();
    works(&[]);
    assert_eq!(status("ca_file"), world.path("ca.pem").to_str().unwrap());
    assert_eq!((status("pin"), status("require_tls")), (Value::Null, Value::Bool(false)));
    fs::create_dir(world.path("elsewhere")).unwrap();
    let file = world.remote("ann");
    let secret = world.path("ann.password");
    let mut command = world.syncline.command(&["sync"]);
    command.arg(&file).arg("--password-file").arg(&secret).current_dir(world.path("elsewhere"));
    let outcome = harness::finish(command.spawn().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");

    // What does not work is not remembered, and neither is that something was to be forgotten.
    world.syncline.ok(&["cert", "dev", "--dir", "other"]);
    fails("E2320", &["--ca-file", "other/ca.pem"]);
    fails("E2320", &["--forget-trust"]);
    works(&[]);
    // A key replaces the authority.
    let chain = certificates::read_chain(&world.path("server.pem")).unwrap();
    let pin = certificates::Pin::of(&chain[0]).unwrap().to_string();
    works(&["--pin", &pin, "--require-tls"]);
    assert_eq!((status("ca_file"), status("pin")), (Value::Null, Value::String(pin)));
    assert_eq!(status("require_tls"), true);
    let shown = world.syncline.ok(&["remote", "status", "ann.db"]);
    assert!(shown.contains("believes        the key sha256:"), "{shown}");
    assert!(shown.contains("clear text      refused"), "{shown}");
    fails("E1022", &["--server", "tcp://192.0.2.1:2439"]);
    works(&["--forget-trust", "--ca-file", "ca.pem"]);
    assert_eq!((status("pin"), status("require_tls")), (Value::Null, Value::Bool(false)));
}

// S11: of the certificate the paths, so that it alone is enough; of keys and passwords nothing.
#[test]
fn the_paths_of_a_certificate_are_remembered_and_no_secret_is() {
    let world = World::new(PROGRAM, SHOP);
    let told = world.syncline.ok(&["cert", "dev", "--user", "ann"]);
    let of_server = told.lines().skip_while(|line| !line.starts_with("# for [server]"));
    let of_server = of_server.take_while(|line| *line != "# for remotes:");
    let options = of_server.filter(|line| !line.starts_with('#') && !line.starts_with("listen"));
    world.configure(&options.collect::<Vec<_>>().join("\n"));
    let proof = "--client-certificate ./client-ann.pem --client-key ./client-ann.key";
    assert!(told.contains(proof), "{told}");
    world.add_user("ann");
    let server = serve(&world);
    let own = ["--client-certificate", "client-ann.pem", "--client-key", "client-ann.key"];
    let first = ["sync", "ann.db", "--server", &server.url, "--user", "ann"];
    world.syncline.ok(&[&first[..], &AUTHORITY, &own].concat());
    world.syncline.ok(&["sync", "ann.db"]);
    let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
    assert_eq!(status["client_certificate"], world.path("client-ann.pem").to_str().unwrap());
    assert_eq!(status["client_key"], world.path("client-ann.key").to_str().unwrap());
    again(&world, &["--forget-trust", "--ca-file", "ca.pem"]).message("E2112");
    let key = fs::read_to_string(world.path("client-ann.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    for name in ["ann.db", "ann.db-wal"] {
        let bytes = fs::read(world.path(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret) && !text.contains("ann-password"), "{name}");
    }
    fs::rename(world.path("client-ann.pem"), world.path("gone.pem")).unwrap();
    assert!(again(&world, &[]).message("E5020").contains("client-ann.pem"));
}

// S11
#[test]
fn a_certificate_for_another_name_is_refused() {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    world.syncline.ok(&["cert", "dev", "--host", "sync.example", "--host", "127.0.0.2"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    let server = world.serve_at("tls://0.0.0.0:0");
    let port = server.url.rsplit(':').next().unwrap();
    let sync = |host: &str| {
        let url = format!("tls://{host}:{port}");
        let all = [
            "sync",
            "ann.db",
            "--server",
            &url,
            "--user",
            "ann",
            "--password-file",
            "ann.password",
        ];
        world.syncline.run(&[&all[..], &AUTHORITY].concat())
    };
    assert!(sync("127.0.0.3").message("E2322").contains("another name"));
    for host in ["127.0.0.2", "localhost"] {
        let outcome = sync(host);
        assert_eq!(outcome.code, Some(0), "{host}: {outcome:?}");
    }
}

/// How the server ends a connection that says this and no more.
fn answer(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let address = server.url.split_once("://").unwrap().1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(harness::WAIT_MAX)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    answer
}

/// The beginning of a handshake, which promises more.
const STALLED: [u8; 8] = [22, 3, 1, 2, 0, 1, 0, 1];

// S9, S11: rubbish, silence, and a handshake that stalls.
#[test]
fn a_handshake_that_is_none_or_stalls_is_ended() {
    let world = shop();
    world.configure("hello_timeout_s = 1");
    let server = serve(&world);
    answer(&server, b"GET / HTTP/1.1\r\n\r\n");
    until("the refusal of clear text", || server.log().contains("E1020"));
    let alert = answer(&server, &[22, 3, 1, 0, 4, 255, 0, 0, 0]);
    assert_eq!(alert.first(), Some(&21), "an alert: {alert:?}");
    until("the refusal of rubbish", || server.log().contains("E1021"));
    answer(&server, &STALLED);
    until("the end of what stalls", || server.log().contains("E1007"));
    let before = server.log().lines().count();
    answer(&server, &[]);
    assert!(server.log().lines().count() <= before + 1);
    sync(&world, "ann", &server);
}

#[test]
fn keys_are_for_their_owner_and_nothing_is_overwritten() {
    let world = World::new(PROGRAM, SHOP);
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    world.syncline.ok(&["cert", "dev", "--dir", "made"]);
    for key in ["made/server.key", "made/client-dev.key"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    let before = fs::read(world.path("made/client-dev.key")).unwrap();
    fs::remove_file(world.path("made/ca.pem")).unwrap();
    world.syncline.fails("E6005", &["cert", "dev", "--dir", "made"]);
    assert!(!world.path("made/ca.pem").exists(), "a refusal leaves no file");
    assert_eq!(fs::read(world.path("made/client-dev.key")).unwrap(), before);
    world.syncline.ok(&["cert", "dev", "--dir", "made", "--force"]);
    assert_ne!(fs::read(world.path("made/client-dev.key")).unwrap(), before);
    world.syncline.fails("E6006", &["cert", "dev", "--dir", "b", "--host", "größe"]);
    assert_eq!(mode("made/ca.key"), 0o600);
}

/// The lines named a HOST, and files from another folder than the configuration's.
#[test]
fn what_is_printed_of_certificates_works_as_it_is() {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    world.add_user("ben");
    let made = ["cert", "dev", "--dir", "tls", "--user", "ann", "--user", "dev"];
    let told = world.syncline.ok(&made);
    let toml: Vec<&str> = told.lines().filter(|line| line.contains(" = ")).collect();
    let free = toml.join("\n").replace("0.0.0.0:2439", "127.0.0.1:0");
    world.configure(&free);
    assert!(toml.contains(&"listen = [\"tls://0.0.0.0:2439\"]"), "{told}");
    let server = world.serve_at("tls://127.0.0.1:0");
    let sync = told.lines().find_map(|line| line.strip_prefix("syncline ")).unwrap();
    let port = server.url.rsplit(':').next().unwrap();
    let sync = sync.replace("2439", port);
    let sync: Vec<&str> = sync.split(' ').collect();
    world.syncline.ok(&[&sync[..], &["--password-file", "ann.password"]].concat());
    let by = |user: &'static str, file: &str| {
        let (pem, key) = (format!("tls/client-{user}.pem"), format!("tls/client-{user}.key"));
        let shown = ["--client-certificate", &pem, "--client-key", &key];
        world.syncline.run(
            &[
                &["sync", file, "--server", &server.url, "--user", user, "--ca-file", "tls/ca.pem"],
                &shown[..],
            ]
            .concat(),
        )
    };
    assert_eq!(by("ann", "ann.db").code, Some(0));
    // One more user, by the same authority.
    let client = ["cert", "client", "--dir", "tls", "--user", "ben"];
    world.syncline.ok(&client);
    world.syncline.fails("E6005", &client);
    let accepted = by("ben", "ben.db");
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    // Another authority is another one.
    let forced = world.syncline.run(&[&made[..], &["--force"]].concat());
    assert!(forced.stderr.contains("are refused from now on"), "{forced:?}");
    fs::copy(world.path("tls/server.pem"), world.path("tls/ca.pem")).unwrap();
    world.syncline.fails("E5020", &["cert", "client", "--dir", "tls", "--user", "cleo"]);
    let json = world.syncline.json(&["cert", "dev", "--dir", "b", "--host", "::2", "--json"]);
    assert_eq!(json["server"], "tls://[::2]:2439");
}

// S11
#[test]
fn a_server_without_usable_files_does_not_start() {
    let world = shop();
    let fails =
        |code: &str| world.syncline.fails(code, &["serve", "--listen", "tls://127.0.0.1:0"]);
    fs::set_permissions(world.path("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(fails("E2111").contains("server.key"));
    fs::set_permissions(world.path("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(world.path("client-dev.key"), world.path("server.key")).unwrap();
    assert!(fails("E5020").contains("server.key"));
    fs::remove_file(world.path("server.key")).unwrap();
    assert!(fails("E5020").contains("server.key"));
    let plain = World::new(PROGRAM, SHOP);
    let message = plain.syncline.fails("E6002", &["serve", "--listen", "tls://127.0.0.1:0"]);
    assert!(message.contains("certificate"), "{message}");
}
