//! Certificates that end, are replaced, or stand for the password of a user.

use harness::{
    Authority, Network, Outcome, Server, World, count, ends_in_year, finish, sql, until,
};
use rcgen::CertificateParams;
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    INSERT INTO customer VALUES (1, 'One'), (2, 'Two')";

const FILES: &str = "tls_certificate = \"server.pem\"\ntls_key = \"server.key\"";

/// A shop with the user ann, whose server has a certificate of this authority.
fn shop(authority: &Authority, options: &str) -> World {
    prepared(World::new(PROGRAM, SHOP), authority, options)
}

fn prepared(world: World, authority: &Authority, options: &str) -> World {
    authority.write(&world, "ca.pem");
    authority.server(&world, "server", |_| {});
    world.configure(FILES);
    world.configure(options);
    world.add_user("ann");
    world
}

fn serve(world: &World) -> Server {
    world.serve_at("tls://127.0.0.1:0")
}

/// Synchronizes `ann.db` as this user, who proves it with these options.
fn sync(world: &World, url: &str, user: &str, proof: &[&str]) -> Outcome {
    let all = ["sync", "ann.db", "--server", url, "--user", user, "--ca-file", "ca.pem"];
    world.syncline.run(&[&all[..], proof].concat())
}

const PASSWORD: [&str; 2] = ["--password-file", "ann.password"];
const OWN: [&str; 4] = ["--client-certificate", "own.pem", "--client-key", "own.key"];

fn succeeds(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

// S11
#[test]
fn a_server_whose_certificate_has_ended_is_refused_and_rsa_is_as_good() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    authority.server_with_rsa(&world, "server");
    let server = serve(&world);
    succeeds(&sync(&world, &server.url, "ann", &PASSWORD));
    server.stop();
    authority.server(&world, "server", ends_in_year(2020));
    let server = serve(&world);
    until("the warning", || server.log().contains("E5021"));
    sync(&world, &server.url, "ann", &PASSWORD).message("E2321");
    let found = world.syncline.ok(&["check"]);
    assert!(found.contains("E5021") && found.contains("has ended on 2020-01-01"), "{found}");
}

// S11
#[test]
fn a_certificate_that_ends_within_thirty_days_is_warned_of() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    let clock = client::Components::system(&std::env::temp_dir()).unwrap().clock;
    let today = clock.unix_ms() / 86_400_000;
    let (year, month, day) = model::civil_date(today + 10);
    let date = format!("{year}-{month:02}-{day:02}");
    let soon = |params: &mut CertificateParams| {
        let (year, month, day) = (year as i32, month as u8, day as u8);
        params.not_after = rcgen::date_time_ymd(year, month, day);
    };
    assert!(!world.syncline.ok(&["check"]).contains("E5021"));
    authority.server(&world, "server", soon);
    let found = world.syncline.ok(&["check"]);
    assert!(found.contains(&format!("ends on {date}")), "{found}");
    let server = serve(&world);
    until("the warning", || server.log().contains("E5021"));
    fs::remove_file(world.path("server.key")).unwrap();
    let outcome = world.syncline.run(&["check"]);
    assert!(outcome.stdout.contains("error: E5020"), "{outcome:?}");
}

// S11: instead of the password or besides it, and always that of the user.
#[test]
fn a_certificate_stands_for_its_user_and_for_nobody_else_on_both_databases() {
    let (tls, https) = ("tls://127.0.0.1:0", "https://127.0.0.1:0/base");
    for (world, listen) in [
        (World::new(PROGRAM, SHOP), tls),
        (World::on_postgres(PROGRAM, SHOP), tls),
        (World::new(PROGRAM, SHOP), https),
        (World::on_postgres(PROGRAM, SHOP), https),
    ] {
        let (authority, other) = (Authority::new(), Authority::new());
        let options = "tls_client_ca = \"ca.pem\"\ntls_client = \"optional\"";
        let world = prepared(world, &authority, options);
        world.add_user("ben");
        let server = world.serve_at(listen);
        let sync = |user: &str, proof: &[&str]| sync(&world, &server.url, user, proof);
        succeeds(&sync("ann", &PASSWORD));
        authority.user(&world, "own", "ann", |_| {});
        succeeds(&sync("ann", &OWN));
        succeeds(&sync("ann", &[&OWN[..], &PASSWORD].concat()));
        // Its user exists, and has the right password too.
        authority.user(&world, "own", "ben", |_| {});
        sync("ann", &OWN).message("E2324");
        sync("ann", &[&OWN[..], &PASSWORD].concat()).message("E2324");
        authority.user(&world, "own", "ann", ends_in_year(2020));
        sync("ann", &OWN).message("E2323");
        other.user(&world, "own", "ann", |_| {});
        sync("ann", &OWN).message("E2323");
        authority.user(&world, "own", "nobody", |_| {});
        sync("nobody", &OWN).message("E2101");
        authority.user(&world, "own", "ann", |_| {});
        world.syncline.ok(&["user", "lock", "ann"]);
        sync("ann", &OWN).message("E2101");
    }
}

// S11
#[test]
fn a_server_that_requires_certificates_serves_nobody_without() {
    let authority = Authority::new();
    let options = "tls_client_ca = \"ca.pem\"\ntls_client = \"required\"
        tls_client_user = \"san_uri\"";
    let world = shop(&authority, options);
    let server = serve(&world);
    sync(&world, &server.url, "ann", &PASSWORD).message("E2323");
    authority.user(&world, "own", "ann", |_| {});
    sync(&world, &server.url, "ann", &OWN).message("E2324");
    authority.user(&world, "own", "somebody", |params| {
        params.subject_alt_names.push(rcgen::SanType::URI("ann".try_into().unwrap()));
    });
    succeeds(&sync(&world, &server.url, "ann", &OWN));
    server.stop();
    let plain = world.serve();
    world.sync_fails("ann", &plain, "E2323");
    plain.stop();
    // A server that does not ask takes no certificate for a password.
    let text = fs::read_to_string(world.path("syncline.toml")).unwrap();
    let text = text.replace("tls_client = \"required\"", "tls_client = \"off\"");
    fs::write(world.path("syncline.toml"), text).unwrap();
    let server = serve(&world);
    sync(&world, &server.url, "ann", &OWN).message("E2323");
}

// S11: without a signal, and no connection is lost.
#[test]
fn replaced_files_are_used_and_broken_ones_are_not() {
    let (authority, next) = (Authority::new(), Authority::new());
    let world = shop(&authority, "");
    let server = serve(&world);
    // A synchronization under way, which stands still in the middle of its rows.
    succeeds(&sync(&world, &server.url, "ann", &PASSWORD));
    sql(
        &world.remote("ann"),
        "INSERT INTO customer WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n
            WHERE i < 20000) SELECT i, 'name ' || i FROM n",
    );
    let network = Network::new(&server.url.replace("tls://", "tcp://"));
    network.stall_upload_after(50_000);
    let url = network.url.replace("tcp://", "tls://");
    let all = ["sync", "ann.db", "--server", &url, "--ca-file", "ca.pem"];
    let child = world.syncline.command(&[&all[..], &PASSWORD].concat()).spawn().unwrap();
    until("the stall", || network.is_stalled());

    fs::write(world.path("server.pem"), "rubbish").unwrap();
    until("the refusal", || server.log().contains("code=E5020"));
    world.add_user("ben");
    let ping = ["sync", "b.db", "--server", &server.url, "--user", "ben", "--ping"];
    let ping = [&ping[..], &["--password-file", "ben.password", "--ca-file"]].concat();
    succeeds(&world.syncline.run(&[&ping[..], &["ca.pem"]].concat()));
    next.server(&world, "server", |_| {});
    next.write(&world, "next.pem");
    until("the new certificate", || server.log().contains("certificates reloaded"));
    world.syncline.fails("E2320", &[&ping[..], &["ca.pem"]].concat());
    succeeds(&world.syncline.run(&[&ping[..], &["next.pem"]].concat()));

    network.resume();
    succeeds(&finish(child));
    world.assert_converged(&["ann"]);
}

// S11
#[test]
fn clear_text_to_other_machines_is_refused_where_tls_is_required() {
    let authority = Authority::new();
    let world = shop(&authority, "require_tls = true");
    let message = world.syncline.fails("E1022", &["serve", "--listen", "tcp://0.0.0.0:0"]);
    assert!(message.contains("clear text"), "{message}");
    let server = world.serve();
    world.sync("ann", &server);
    let all = ["sync", "ann.db", "--require-tls", "--server", "tcp://192.0.2.1:2439"];
    world.syncline.fails("E1022", &[&all[..], &PASSWORD].concat());
}

// S1, S3, S11: the connection ends anywhere, in the handshake and after it.
#[test]
fn a_connection_may_be_cut_at_any_byte() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    let server = serve(&world);
    let target = server.url.replace("tls://", "tcp://");
    succeeds(&sync(&world, &server.url, "ann", &PASSWORD));
    let mut rows = 0;
    for bytes in [1, 6, 230, 400, 900, 4_000, 20_000] {
        for up in [true, false] {
            rows += 1;
            sql(
                &world.remote("ann"),
                &format!("INSERT INTO customer VALUES ({}, hex(randomblob(30000)))", 100 + rows),
            );
            let network = Network::new(&target);
            match up {
                true => network.stall_upload_after(bytes),
                false => network.stall_download_after(bytes),
            }
            let url = network.url.replace("tcp://", "tls://");
            let all = ["sync", "ann.db", "--server", &url, "--ca-file", "ca.pem"];
            let command = [&all[..], &PASSWORD].concat();
            let mut child = world.syncline.command(&command).spawn().unwrap();
            until("the cut", || network.is_stalled() || child.try_wait().unwrap().is_some());
            drop(network);
            let outcome = finish(child);
            assert!(matches!(outcome.code, Some(0 | 1)), "{bytes} {up}: {outcome:?}");
        }
    }
    succeeds(&sync(&world, &server.url, "ann", &PASSWORD));
    world.assert_converged(&["ann"]);
    assert_eq!(count(&world.consolidated(), "SELECT count(*) FROM customer"), 2 + rows);
}

// S1, S3: the server is killed over and over.
#[test]
fn kills_of_an_encrypted_server_lose_nothing() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    let mut server = serve(&world);
    succeeds(&sync(&world, &server.url, "ann", &PASSWORD));
    for (n, point) in
        ["server-upload-before-commit", "server-upload-committed"].into_iter().enumerate()
    {
        sql(&world.remote("ann"), &format!("INSERT INTO customer VALUES ({}, 'x')", 10 + n));
        let url = server.url.clone();
        server.kill();
        server = world.serve_with(&["--listen", &url], Some(&format!("{point}=return")));
        let outcome = sync(&world, &url, "ann", &PASSWORD);
        assert!(matches!(outcome.code, Some(0 | 1)), "{outcome:?}");
        server.kill();
        server = world.serve_at(&url);
        succeeds(&sync(&world, &url, "ann", &PASSWORD));
        world.assert_converged(&["ann"]);
    }
}
