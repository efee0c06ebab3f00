//! Remotes and servers with all kinds of networks and proxies between them.
//!
//! Needs programs that can be held up: `cargo test -p syncline --features fail-points`.
//! `balancer.rs` has those that say whose connections they hand on, `http2.rs` those that speak
//! HTTP/2.

#![cfg(feature = "fail-points")]

use harness::{Authority, ForwardProxy, Hoarder, Nginx, Outcome, Road, Rules, Server, World};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'one'), (2, 'two')";

const LISTEN: &str = "http://127.0.0.1:0/base/path";

/// The server is held up for so long before the first upload is committed.
const HELD_UP: &str = "server-upload-before-commit=1*sleep(4500)";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// A world with the users ann and ben.
fn prepared(world: World, lines: &str) -> World {
    world.configure(lines);
    world.add_user("ann");
    world.add_user("ben");
    world
}

/// Synchronizes by way of this URL.
fn sync_by(world: &World, name: &str, url: &str, more: &[&str]) -> Outcome {
    let (file, password) = (format!("{name}.db"), format!("{name}.password"));
    let all = ["sync", &file, "--server", url, "--user", name, "--password-file", &password];
    world.syncline.run(&[&all[..], more].concat())
}

fn succeeds(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// A server that is held up by the next upload of ann or ben, who have synchronized before.
fn held_up(world: &World, listen: &str) -> Server {
    let server = world.serve_at(listen);
    let url = server.url.clone();
    for name in ["ann", "ben"] {
        succeeds(&sync_by(world, name, &url, &[]));
    }
    server.stop();
    world.serve_at_with(&url, HELD_UP)
}

/// Rows go from ann to ben, a few and many, and both have what the center has.
fn rows_cross(world: &World, url: &str, more: &[&str], many: i64) {
    for (from, rows) in [(100, 2), (1000, many)] {
        world.add_notes("ann", from, rows);
        succeeds(&sync_by(world, "ann", url, more));
        succeeds(&sync_by(world, "ben", url, more));
        world.assert_converged(&["ann", "ben"]);
    }
}

// S11: as the distribution installs it, it takes 1 MB.
#[test]
fn nginx_as_installed_takes_small_uploads_and_names_the_option_for_large_ones() {
    for world in worlds() {
        let world = prepared(world, "heartbeat_interval_s = 1");
        world.syncline.ok(&["cert", "dev"]);
        let server = held_up(&world, LISTEN);
        let nginx = Nginx::start(&world, &server, "");
        let believes = ["--ca-file", "ca.pem"];
        rows_cross(&world, &nginx.url("https"), &believes, 300);
        // What is random is not compressed, and written in hexadecimal digits it is by half.
        world.add_notes("ann", 10_000, 4000);
        let outcome = sync_by(&world, "ann", &nginx.url("https"), &believes);
        outcome.message("E2325");
        assert!(outcome.stderr.contains("client_max_body_size"), "{outcome:?}");
        // WebSocket needs two lines, and then there is no such limit.
        let outcome = sync_by(&world, "ann", &nginx.url("wss"), &believes);
        outcome.message("E6022");
        assert!(outcome.stderr.contains("docs/guides/reverse-proxy.md"), "{outcome:?}");
        let small = nginx;
        let upgrades = "proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;";
        let nginx = Nginx::start(&world, &server, upgrades);
        succeeds(&sync_by(&world, "ann", &nginx.url("wss"), &believes));
        // Downloads are not limited: these are 4 MB before they are compressed.
        succeeds(&sync_by(&world, "ben", &small.url("https"), &believes));
        world.assert_converged(&["ann", "ben"]);
        server.stop();
    }
}

// S9: the server says nothing for longer than nginx waits, but for its heartbeats.
#[test]
fn heartbeats_pass_nginx_as_the_guide_sets_it_up() {
    for scheme in ["https", "wss"] {
        let world = prepared(World::new(PROGRAM, SHOP), "heartbeat_interval_s = 1");
        world.syncline.ok(&["cert", "dev"]);
        let server = held_up(&world, LISTEN);
        let guided = Nginx::guided().replace("proxy_read_timeout 2m", "proxy_read_timeout 3s");
        assert_ne!(guided, Nginx::guided());
        let nginx = Nginx::start(&world, &server, &guided);
        rows_cross(&world, &nginx.url(scheme), &["--ca-file", "ca.pem"], 300);
    }
}

// S3
#[test]
fn nginx_as_the_guide_sets_it_up_takes_uploads_of_any_size() {
    let world = prepared(World::new(PROGRAM, SHOP), "");
    world.syncline.ok(&["cert", "dev"]);
    let server = world.serve_at(LISTEN);
    let nginx = Nginx::start(&world, &server, Nginx::guided());
    for name in ["ann", "ben"] {
        succeeds(&sync_by(&world, name, &server.url, &[]));
    }
    rows_cross(&world, &nginx.url("https"), &["--ca-file", "ca.pem"], 4000);
    world.add_notes("ben", 50_000, 4000);
    succeeds(&sync_by(&world, "ben", &nginx.url("wss"), &[]));
    succeeds(&sync_by(&world, "ann", &nginx.url("https"), &[]));
    world.assert_converged(&["ann", "ben"]);
}

// S1
#[test]
fn the_requests_of_a_synchronization_share_a_connection_that_nginx_keeps() {
    for (more, is_kept) in [("", true), ("keepalive_requests 1;", false)] {
        let world = prepared(World::new(PROGRAM, SHOP), "");
        world.syncline.ok(&["cert", "dev"]);
        let server = world.serve_at(LISTEN);
        let nginx = Nginx::start(&world, &server, &format!("{}{more}", Nginx::guided()));
        let believes = ["--ca-file", "ca.pem"];
        // A remote that knows no table yet asks for them, and then for the rows.
        succeeds(&sync_by(&world, "ann", &nginx.url("https"), &believes));
        let first = nginx.connections(2);
        assert_eq!(first.len(), 2, "{first:?}");
        assert_eq!(first[0] == first[1], is_kept, "{more} {first:?}");
        world.assert_converged(&["ann"]);
        // The next synchronization has a connection of its own.
        world.add_notes("ann", 100, 5);
        succeeds(&sync_by(&world, "ann", &nginx.url("https"), &[]));
        let next = nginx.connections(3);
        assert!(!first.contains(&next[2]), "{next:?}");
        world.assert_converged(&["ann"]);
    }
}

// S1, S3: no heartbeat passes, in neither direction, while the server works.
#[test]
fn a_proxy_that_collects_whole_bodies_makes_it_later_and_does_no_harm() {
    for world in worlds() {
        let world = prepared(world, "heartbeat_interval_s = 1");
        let server = held_up(&world, LISTEN);
        rows_cross(&world, &Hoarder::new(&server.url).url, &[], 3000);
        server.stop();
    }
}

/// The road to a server that needs longer than the road bears a silence.
fn road_to_busy(world: &World, listen: &str, heartbeat_interval_s: u64) -> (Server, Road) {
    world.configure(&format!("heartbeat_interval_s = {heartbeat_interval_s}"));
    let server = held_up(world, listen);
    let silence_max = Some(Duration::from_secs(3));
    let road = Road::to(&server.url, Rules { silence_max, ..Rules::default() });
    (server, road)
}

// S9: as balancers in clouds do after a minute.
#[test]
fn heartbeats_keep_a_connection_that_is_cut_when_it_is_silent() {
    for listen in ["tcp://127.0.0.1:0", LISTEN, "ws://127.0.0.1:0/base"] {
        let world = prepared(World::new(PROGRAM, SHOP), "");
        let (server, road) = road_to_busy(&world, listen, 1);
        rows_cross(&world, &road.url_of(&server.url), &[], 300);
        assert_eq!(road.cut(), 0, "{listen}");
    }
}

// S1: the answer is lost with the connection, and the next attempt learns of it.
#[test]
fn what_is_cut_for_its_silence_goes_on_with_the_next_attempt() {
    for listen in ["tcp://127.0.0.1:0", LISTEN, "ws://127.0.0.1:0/base"] {
        let world = prepared(World::new(PROGRAM, SHOP), "");
        let (server, road) = road_to_busy(&world, listen, 60);
        let url = road.url_of(&server.url);
        world.add_notes("ann", 100, 5);
        let mut attempts = 0;
        harness::until("a synchronization", || {
            attempts += 1;
            let outcome = sync_by(&world, "ann", &url, &[]);
            let passing = ["E1006", "E2110", "E2113"];
            let done = outcome.code == Some(0);
            assert!(done || passing.iter().any(|it| outcome.stderr.contains(it)), "{outcome:?}");
            done
        });
        assert!(road.cut() > 0 && attempts > 1, "{listen}: {attempts} attempts");
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id >= 100"), 5);
        succeeds(&sync_by(&world, "ben", &server.url, &[]));
        world.assert_converged(&["ann", "ben"]);
    }
}

// S3: 40 ms each way, 2 Mbit/s, and one packet in twenty is lost.
#[test]
fn long_and_narrow_networks_with_losses_only_take_longer() {
    let rules = Rules {
        latency: Duration::from_millis(40),
        bytes_per_s: Some(250_000),
        lost_one_of: 20,
        ..Rules::default()
    };
    for listen in ["tcp://127.0.0.1:0", LISTEN, "ws://127.0.0.1:0/base"] {
        let world = prepared(World::new(PROGRAM, SHOP), "");
        let server = world.serve_at(listen);
        let road = Road::to(&server.url, rules);
        for name in ["ann", "ben"] {
            succeeds(&sync_by(&world, name, &road.url_of(&server.url), &[]));
        }
        rows_cross(&world, &road.url_of(&server.url), &["--compression", "none"], 200);
    }
}

/// Synchronizes in a network that only a proxy leads out of.
fn sync_out(world: &World, url: &str, proxy: &str, more: &[&str]) -> Outcome {
    let all = ["sync", "ann.db", "--server", url, "--user", "ann"];
    let all = [&all[..], &["--password-file", "ann.password"], more].concat();
    let mut command = world.syncline.command(&all);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
        command.env(name, proxy);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    harness::finish(command.spawn().unwrap())
}

// S7, S11: by a real one, which asks for a password and sees nothing of what is encrypted.
#[test]
fn a_forward_proxy_leads_to_servers_of_every_scheme_that_can_pass_it() {
    let proxy = ForwardProxy::start();
    let authority = Authority::new();
    // The machine itself is never behind a proxy, and this address of it is not known as its own.
    for (listen, tunnel) in [
        ("tls://0.0.0.0:0", true),
        ("https://0.0.0.0:0/base", true),
        ("wss://0.0.0.0:0/base", true),
        ("ws://0.0.0.0:0/base", true),
        ("http://0.0.0.0:0/base", false),
    ] {
        let world = prepared(
            World::new(PROGRAM, SHOP),
            "tls_certificate = \"server.pem\"\ntls_key = \"server.key\"",
        );
        authority.write(&world, "ca.pem");
        authority.server(&world, "server", |params| {
            let address = rcgen::SanType::IpAddress([0, 0, 0, 0].into());
            params.subject_alt_names.push(address);
        });
        let server = world.serve_at(listen);
        let url = server.url.clone();
        let believes = ["--ca-file", "ca.pem"];
        let before = (proxy.requests("CONNECT"), proxy.requests("POST"));
        let refused = sync_out(&world, &url, &proxy.url_without_password, &believes);
        refused.message(if tunnel { "E1028" } else { "E2326" });
        succeeds(&sync_out(&world, &url, &proxy.url, &believes));
        world.add_notes("ann", 100, 300);
        succeeds(&sync_out(&world, &url, &proxy.url, &believes));
        world.assert_converged(&["ann"]);
        let after = (proxy.requests("CONNECT"), proxy.requests("POST"));
        match tunnel {
            true => assert!(after.0 >= before.0 + 3 && after.1 == before.1, "{listen}: {after:?}"),
            false => assert!(after.1 >= before.1 + 3 && after.0 == before.0, "{listen}: {after:?}"),
        }
    }
}
