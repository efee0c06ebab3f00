//! Secrets stay in files of one owner, and out of logs and messages.

use harness::{Outcome, Peer, Server, World, hello, query};
use protocol::Message;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO product VALUES (1, 'Tea')";

fn shop(postgres: bool) -> World {
    let world = match postgres {
        true => World::on_postgres(PROGRAM, SHOP),
        false => World::new(PROGRAM, SHOP),
    };
    world.add_user("ann");
    world
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A synchronization with a token, and with the password where one is named.
fn sync(world: &World, server: &Server, secrets: &[&str]) -> Outcome {
    let remote = ["sync", "ann.db", "--server", &server.url, "--user", "ann"];
    world.syncline.run(&[&remote[..], &["--token-file", "ann.token"], secrets].concat())
}

// Trap 30: an attacker may have read the database.
#[test]
fn new_keys_void_every_token_and_no_receipt() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        let password = ["--password-file", "ann.password"];
        assert_eq!(sync(&world, &server, &password).code, Some(0));
        assert_eq!(sync(&world, &server, &[]).code, Some(0), "by the token");
        let before = generation(&world);

        world.syncline.ok(&["rotate-keys"]);
        sync(&world, &server, &[]).message("E2102");
        assert_eq!(sync(&world, &server, &password).code, Some(0), "of the same server");
        drop(server);
        let server = world.serve();
        sync(&world, &server, &[]).message("E2102");
        assert_eq!(sync(&world, &server, &password).code, Some(0));
        assert_eq!(sync(&world, &server, &[]).code, Some(0), "by a token of the new key");
        assert_eq!(generation(&world), before, "a receipt of the former key proves no restore");
    }
}

fn generation(world: &World) -> Vec<Vec<String>> {
    let system = "SELECT value FROM syncline_system WHERE name = 'generation'";
    match world.consolidated().exists() {
        true => query(&world.consolidated(), system),
        false => {
            world.database().query(&system.replace("syncline_system", "syncline.syncline_system"))
        }
    }
}

#[test]
fn what_is_made_belongs_to_its_owner_alone() {
    let world = shop(false);
    std::fs::set_permissions(world.consolidated(), Permissions::from_mode(0o644)).unwrap();
    let server = world.serve();
    world.sync("ann", &server);
    assert_eq!(mode(&world.remote("ann")), 0o600);
    let warnings = |server: &Server| server.log().matches("every user of this machine may").count();
    assert_eq!(warnings(&server), 1);
    drop(server);

    std::fs::set_permissions(world.consolidated(), Permissions::from_mode(0o640)).unwrap();
    // The log goes on.
    assert_eq!(warnings(&world.serve()), 1);
}

/// A credential of the wrong type came back in the refusal, and stood in the log.
#[test]
fn a_secret_in_the_wrong_place_is_in_no_message_and_no_log() {
    let world = shop(false);
    let server = world.serve();
    let url = server.url.replace("tcp://", "tcp://ann:open-sesame@");
    let refused = world.syncline.run(&["sync", "new.db", "--server", &url, "--user", "ann"]);
    assert!(!refused.message("E6006").contains("sesame"));

    // A text where a map with one entry belongs.
    let frame = Message::Hello(Box::new(hello("ann", "till"))).to_frame().unwrap();
    let name = |text: &str| [&[0xa0 | text.len() as u8][..], text.as_bytes()].concat();
    let at = |wanted: &[u8]| frame.windows(wanted.len()).position(|part| part == wanted).unwrap();
    let credential = at(&name("credential")) + name("credential").len();
    let behind = at(&name("script_version"));
    let mut forged = frame[..credential].to_vec();
    forged.extend(name("open sesame"));
    forged.extend(&frame[behind..]);
    let payload = (forged.len() - 5) as u32;
    forged[..4].copy_from_slice(&payload.to_le_bytes());
    let mut peer = Peer::connect(&server.url);
    peer.send_bytes(&[&protocol::MAGIC[..], &forged].concat());
    match peer.receive() {
        Some(Message::Failed(failed)) => {
            assert_eq!(failed.code, 1003);
            assert!(!failed.message.contains("sesame"), "{}", failed.message);
        }
        other => panic!("{other:?}"),
    }
    assert!(!server.log().contains("sesame"), "{}", server.log());
}
