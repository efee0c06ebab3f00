//! However large a synchronization is, the server needs little memory for it (S9).

use super::PROGRAM;
use harness::{Server, World, count, full, sql};

const MIB: u64 = 1 << 20;

/// Rows of one synchronization, and the characters of each. Either is more than the server may
/// hold; a million are shorter, so that the disk of a small machine has room for every copy.
fn size() -> (i64, usize) {
    if full() { (1_000_000, 200) } else { (15_000, 10_000) }
}

/// A stream of 1 MiB, statements of 2 to 6 MiB that are held as parameters and as messages, the
/// program itself, and what the allocator keeps.
const SERVER_MEMORY_MAX: u64 = 120 * MIB;

/// The same where each row is a conflict, of which four rows are noted in JSON.
const SERVER_CONFLICT_MEMORY_MAX: u64 = 160 * MIB;

/// Synchronizes, however long it takes: a million rows are no defect after a minute.
fn synchronize(world: &World, name: &str, server: &Server) {
    synchronize_within(world, name, server, SERVER_MEMORY_MAX);
}

fn synchronize_within(world: &World, name: &str, server: &Server, memory_max: u64) {
    let output = world.sync_through(name, &server.url).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let peak = server.peak_memory_bytes();
    assert!(peak < memory_max, "{name}: the server took {peak} bytes");
}

// S9, Trap 16
#[test]
fn many_rows_pass_in_little_memory() {
    let (rows, width) = size();
    let world =
        World::on_postgres(PROGRAM, "CREATE TABLE note (id int PRIMARY KEY, n bigint, text text)");
    world.configure(&format!("stream_memory_bytes_max = {MIB}"));
    for name in ["ann", "ben"] {
        world.add_user(name);
    }
    let server = world.serve();
    synchronize(&world, "ann", &server);
    let insert = format!(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})
         INSERT INTO note SELECT n, n * 7919 % 1000003, printf('%0{width}d', n) FROM number"
    );
    sql(&world.remote("ann"), &insert);
    synchronize(&world, "ann", &server);
    synchronize(&world, "ben", &server);
    // Every text is the number of its row, so the sum knows what belongs together.
    let wanted: i64 = (1..=rows).map(|n| n * (n * 7919 % 1_000_003)).sum();
    let [here, there] = ["numeric", "INTEGER"].map(|number| {
        [
            format!("SELECT count(*) FROM note WHERE length(text) = {width}"),
            format!("SELECT CAST(sum(n * CAST(text AS {number})) AS bigint) FROM note"),
        ]
    });
    for (at, wanted) in [rows, wanted].into_iter().enumerate() {
        assert_eq!(world.center_count(&here[at]), wanted, "at the center");
        for name in ["ann", "ben"] {
            assert_eq!(count(&world.remote(name), &there[at]), wanted, "at {name}");
        }
    }
}

// S9, S5, Trap 16: conflicts, with four rows each, and what was owed for them, were held until the
// end and left as one statement, which PostgreSQL takes up to 1 GB.
#[test]
fn many_conflicts_pass_in_little_memory() {
    let (rows, width) = if full() { (100_000, 4_000) } else { (4_000, 10_000) };
    let world = World::on_postgres(PROGRAM, "CREATE TABLE note (id int PRIMARY KEY, text text)");
    world.configure(&format!("stream_memory_bytes_max = {MIB}"));
    world.center_sql(&format!(
        "INSERT INTO note SELECT n, lpad(n::text, {width}, '0')
         FROM generate_series(1, {rows}) AS n"
    ));
    for name in ["ann", "ben"] {
        world.add_user(name);
    }
    let server = world.serve();
    for name in ["ann", "ben"] {
        synchronize(&world, name, &server);
        sql(&world.remote(name), &format!("UPDATE note SET text = '{name}' || text"));
    }
    synchronize(&world, "ann", &server);
    synchronize_within(&world, "ben", &server, SERVER_CONFLICT_MEMORY_MAX);
    let noted = "SELECT count(*) FROM syncline.syncline_conflict WHERE length(new_row) > 100";
    assert_eq!(world.center_count(noted), rows);
    let owed =
        "SELECT sum(coalesce(bundled, 1))::int8 FROM syncline.syncline_owed WHERE remote_id IN
        (SELECT remote_id FROM syncline.syncline_conflict)";
    assert_eq!(world.center_count(owed), rows);
    let of_ann = "SELECT count(*) FROM note WHERE text LIKE 'ann%'";
    assert_eq!(world.center_count(of_ann), rows);
    assert_eq!(count(&world.remote("ben"), of_ann), rows, "who lost is told");
}
