//! Users of an identity provider: its JWTs in place of passwords, and its claims.

pub(crate) mod provider;

use harness::{Outcome, Server, VISITS, World, regions};
use provider::{PROVIDER, SECRET, encoded, issue, unsigned};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// Visits by region, and a provider that signs with a secret.
fn visits(postgres: bool, options: &str) -> World {
    let world = harness::visits(PROGRAM, postgres);
    world.write_secret("jwt.secret", SECRET);
    world.configure(&format!("{PROVIDER}\njwt_claims = [\"regions\"]\n{options}"));
    world
}

fn try_sync(world: &World, user: &str, server: &Server) -> Outcome {
    let (file, token) = (format!("{user}.db"), format!("{user}.jwt"));
    let url = server.url.as_str();
    world.syncline.run(&["sync", &file, "--server", url, "--user", user, "--token-file", &token])
}

fn sync(world: &World, user: &str, server: &Server) {
    let outcome = try_sync(world, user, server);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

// S6
#[test]
fn the_claims_of_a_jwt_decide_which_rows_a_remote_has() {
    for postgres in [false, true] {
        let world = visits(postgres, "jwt_secret_file = \"jwt.secret\"\njwt_register = true");
        let server = world.serve();
        issue(&world, "ann", &json!({"regions": ["north", "south"]}));
        sync(&world, "ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"]);
        // The provider alone decides them.
        world.syncline.run(&["user", "set", "ann", "--claim", "regions=north,south,west"]);
        sync(&world, "ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"]);
        issue(&world, "ann", &json!({"regions": ["west"]}));
        sync(&world, "ann", &server);
        assert_eq!(regions(&world, "ann"), ["west"]);
        issue(&world, "ann", &json!({}));
        sync(&world, "ann", &server);
        assert_eq!(regions(&world, "ann"), [""; 0], "without the claim there are no rows");
        issue(&world, "ann", &json!({"regions": ["north,west"]}));
        try_sync(&world, "ann", &server).message("E2102");
    }
}

#[test]
fn users_are_registered_only_where_that_is_wanted_and_locked_ones_stay_out() {
    for postgres in [false, true] {
        let world = visits(postgres, "jwt_secret_file = \"jwt.secret\"");
        let server = world.serve();
        issue(&world, "ann", &json!({"regions": "north"}));
        let message = try_sync(&world, "ann", &server).message("E2101");
        assert!(message.contains("is not known here"), "{message}");
        world.configure("jwt_register = true");
        server.reload();
        sync(&world, "ann", &server);
        assert_eq!(regions(&world, "ann"), ["north"]);
        world.syncline.ok(&["user", "lock", "ann"]);
        let message = try_sync(&world, "ann", &server).message("E2101");
        assert!(message.contains("is locked"), "{message}");
        world.syncline.ok(&["user", "unlock", "ann"]);
        sync(&world, "ann", &server);
        // Nobody has a password of a user who came by a JWT.
        world.write_secret("ann.password", "-\n");
        world.sync_fails("ann", &server, "E2101");
    }
}

#[test]
fn a_jwt_that_is_not_good_is_refused_and_does_not_appear_in_the_log() {
    let world = visits(false, "jwt_secret_file = \"jwt.secret\"\njwt_register = true");
    let server = world.serve();
    let (late, others) = (json!({"exp": 1}), json!({"aud": "others"}));
    for more in [late, others, json!({"iss": "x"}), json!({"sub": "ben"})] {
        issue(&world, "ann", &more);
        try_sync(&world, "ann", &server).message("E2102");
        let token = fs::read_to_string(world.path("ann.jwt")).unwrap();
        assert!(!server.log().contains(token.trim()), "{}", server.log());
    }
    assert_eq!(world.syncline.json(&["user", "list", "--json"]), json!([]));
    let without = World::new(PROGRAM, VISITS);
    without.add_user("ann");
    issue(&without, "ann", &json!({}));
    try_sync(&without, "ann", &without.serve()).message("E2102");
}

/// A provider that publishes a key at a URL: answers each request with it.
fn publish(key: &Ed25519KeyPair) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let x = encoded(key.public_key().as_ref());
    let set = json!({"keys": [{"kid": "1", "kty": "OKP", "crv": "Ed25519", "x": x}]}).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let length = set.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(format!("{head}{set}").as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn the_keys_of_a_provider_may_be_at_a_url() {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let options = format!("jwt_keys = \"{}\"\njwt_register = true", publish(&key));
    let world = visits(false, &options);
    let server = world.serve();
    let text = unsigned(&json!({"alg": "EdDSA", "kid": "1"}), "ann", &json!({"regions": "west"}));
    let signature = key.sign(text.as_bytes());
    world.write_secret("ann.jwt", &format!("{text}.{}\n", encoded(signature)));
    sync(&world, "ann", &server);
    assert_eq!(regions(&world, "ann"), ["west"]);
    issue(&world, "ben", &json!({"regions": "west"}));
    try_sync(&world, "ben", &server).message("E2102");
}
