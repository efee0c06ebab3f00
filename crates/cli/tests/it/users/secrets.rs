//! Secrets stay in files of one owner, and out of logs and messages.

use harness::{Outcome, Peer, Server, World, hello, query, sql};
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

        world.syncline.ok(&["rotate-keys", "--yes"]);
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

/// An authentication parameter, of which a database quotes all or a part.
const PARAMETER: &str = "failing mouse";

/// Warns of what it is given, and fails with it in a statement that it has put together.
const LOUD: &str = "CREATE FUNCTION loud(said text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        RAISE WARNING 'given %', said;
        RAISE NOTICE 'given %', said;
        EXECUTE 'SELECT ' || quote_literal(said) || '::int';
        RETURN said;
    END $$";

/// Scripts of the events of T2 to T6, each of which fails for the parameter.
fn failing(postgres: bool) -> Vec<(&'static str, String)> {
    let fails = if postgres { "loud({a.1})" } else { "json_extract('{}', {a.1})" };
    let fails = format!("CASE WHEN {{a.1}} LIKE 'fail%' THEN {fails} END");
    let around = [
        "begin_connection",
        "begin_synchronization",
        "item/begin_synchronization",
        "begin_upload",
        "item/end_upload_rows",
        "prepare_for_download",
        "begin_download",
        "item/end_download_rows",
        "item/download_statistics",
        "end_synchronization",
    ];
    let mut scripts: Vec<_> =
        around.map(|event| (event, format!("SELECT 1, {fails}"))).into_iter().collect();
    let row = format!("INSERT INTO item SELECT {{r.id}}, coalesce({fails}, {{r.note}})");
    scripts.push(("item/upload_insert", row));
    let cursor = format!("SELECT id, note FROM item WHERE coalesce({fails}, '') = ''");
    scripts.push(("item/download_cursor", cursor));
    // The last three need a row that is refused.
    let refuses = "INSERT INTO never SELECT NULL; INSERT INTO item VALUES ({r.id}, {r.note})";
    scripts.push(("item/upload_insert", refuses.to_owned()));
    let errors = ["modify_error_message", "report_error", "handle_error"];
    scripts.extend(
        errors
            .map(|event| (event, format!("SELECT {fails} AS error_message, 1000 AS action_code"))),
    );
    scripts
}

// S11
#[test]
fn what_a_database_says_of_a_parameter_is_in_no_message_and_no_log() {
    const TABLES: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, note TEXT);
        CREATE TABLE never (it TEXT NOT NULL);";
    for (postgres, world) in [false, true].into_iter().zip(World::on_each(PROGRAM, TABLES)) {
        std::fs::write(world.path("model.toml"), "script_version = \"v1\"\n[table.item]\n")
            .unwrap();
        std::fs::create_dir_all(world.path("scripts/v1/item")).unwrap();
        if postgres {
            world.center_sql(LOUD);
        }
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        let server = world.serve_with(&["--log", "trace", "--trace-events"], None);
        world.sync("ann", &server);
        for (number, (event, text)) in failing(postgres).iter().enumerate() {
            let file = world.path(&format!("scripts/v1/{event}.sql"));
            std::fs::write(&file, text).unwrap();
            world.syncline.ok(&["deploy"]);
            if !text.contains("{a.1}") {
                continue;
            }
            sql(&world.remote("ann"), &format!("INSERT INTO item VALUES ({number}, 'good')"));
            let parameter = ["--auth-parameter", PARAMETER, "--password-file", "ann.password"];
            let before = server.log().len();
            let outcome = world.syncline.run(&[&["sync", "ann.db"], &parameter[..]].concat());
            let rejects = "SELECT message FROM syncline_reject ORDER BY id DESC LIMIT 1";
            let rejects = query(&world.remote("ann"), rejects).concat().concat();
            let log = server.log().split_off(before);
            let told = format!("{}{}{rejects}{log}", outcome.stdout, outcome.stderr);
            assert!(told.contains("quote what the remote has sent"), "{event}: {told}");
            assert!(!told.contains("mouse"), "{event}: {told}");
            std::fs::remove_file(&file).unwrap();
        }
    }
}
