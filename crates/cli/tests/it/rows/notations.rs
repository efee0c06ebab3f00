//! Values that an application spells in its own way, with PostgreSQL at the center.

use harness::{World, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const VISIT: &str = "CREATE TABLE visit (id INTEGER PRIMARY KEY, placed timestamptz NOT NULL,
    device uuid, note text)";

const UPPER: &str = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";

// S3, Trap 8, Trap 15
#[test]
fn what_an_application_has_written_stays_as_it_was_written() {
    let world = World::on_postgres(PROGRAM, VISIT);
    ["ann", "ben"].iter().for_each(|name| world.add_user(name));
    let server = world.serve();
    let downloaded = |name: &str| world.sync(name, &server)["downloaded"]["upserts"].clone();
    downloaded("ann");
    let insert = format!(
        "INSERT INTO visit VALUES (1, datetime('now'), '{UPPER}', NULL),
            (2, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), NULL, NULL)"
    );
    sql(&world.remote("ann"), &insert);
    let all = "SELECT id, placed, device, note FROM visit ORDER BY id";
    let written = query(&world.remote("ann"), all);
    assert_eq!((downloaded("ann"), downloaded("ann")), (0.into(), 0.into()));
    assert_eq!(query(&world.remote("ann"), all), written);
    // Others get what SQLite's functions write.
    assert_eq!(downloaded("ben"), 2);
    let form = "SELECT DISTINCT placed = datetime(placed), length(placed) FROM visit";
    assert_eq!(query(&world.remote("ben"), form), [["1", "19"]]);
    let device = "SELECT device FROM visit WHERE id = 1";
    let lower = format!("'{}'", UPPER.to_lowercase());
    assert_eq!(query(&world.remote("ben"), device), [[lower.as_str()]]);
    // A comparison finds nothing, and mends nothing.
    for name in ["ann", "ben"] {
        let (file, password) = (format!("{name}.db"), format!("{name}.password"));
        let verify = ["remote", "verify", &file, "--server", &server.url];
        world.syncline.ok(&[&verify[..], &["--password-file", &password, "--repair"]].concat());
    }
    assert_eq!(query(&world.remote("ann"), all), written);
    // A change by another comes once.
    sql(&world.remote("ben"), "UPDATE visit SET note = 'seen' WHERE id = 1");
    assert_eq!(world.sync("ben", &server)["conflicts"], 0);
    assert_eq!((downloaded("ann"), downloaded("ann")), (1.into(), 0.into()));
    assert_eq!(query(&world.remote("ann"), device), [[lower.as_str()]]);
    assert_eq!(query(&world.remote("ann"), all)[1], written[1]);
}
