//! The memory that a server uses for its remotes has one budget and returns to the system (S9).
//!
//! It is measured at the real program, whose remotes stop in the middle of a synchronization.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the figures are recorded")]

use harness::{Peer, Server, World, full, hello, sql, until};
use model::{Progress, ValueRef, write_value};
use protocol::{Message, Mode, Operation, RowsFrame, UploadBegin, UploadEnd};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const ITEMS: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)";

const MIB: u64 = 1 << 20;

/// More than this does not stay with the process when its remotes have left.
const KEPT: u64 = 32 * MIB;

/// The pages that SQLite keeps of what it has written.
const SQLITE_CACHE: u64 = 64 * MIB;

/// What it takes beside: a frame that is looked at by each of the network's threads, small buffers
/// of every connection, and what the allocator keeps.
fn beside() -> u64 {
    2 * frame_bytes() + 24 * MIB
}

/// Bytes of a large frame.
fn frame_bytes() -> u64 {
    if full() { 62 * MIB } else { 24 * MIB }
}

/// Remotes that stop in the middle.
fn sessions() -> usize {
    if full() { 40 } else { 12 }
}

/// The memory that the server is allowed for streams.
fn stream_memory() -> u64 {
    if full() { 256 * MIB } else { 8 * MIB }
}

fn world() -> (World, Server) {
    let world = World::new(PROGRAM, ITEMS);
    world.configure(&format!("stream_memory_bytes_max = {}", stream_memory()));
    world.add_user("ann");
    let server = world.serve();
    (world, server)
}

/// A frame with one row.
fn insert(id: i64, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(id));
    write_value(&mut bytes, ValueRef::Text(text));
    let rows = RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes };
    Message::Rows(rows).to_frame().unwrap()
}

/// A remote that has begun its upload.
fn uploading(server: &Server, remote_id: &str) -> Peer {
    let (mut peer, _) = Peer::admitted(&server.url, "ann", remote_id);
    let (previous, progress) = (Progress(0), Progress(1));
    peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
    peer
}

// S9, S10: forty remotes with 62 MiB of a frame each took 2.5 GiB, whatever the limit was.
#[test]
fn unfinished_frames_count_and_go_to_disk_and_arrive() {
    let (world, server) = world();
    drop(uploading(&server, "first"));
    let idle = server.memory_bytes();
    let text = vec![b'x'; frame_bytes() as usize];
    let frame = insert(1, &text);
    let begun = frame.len() - MIB as usize;
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let mut peer = uploading(&server, &format!("remote-{number}"));
        peer.send_bytes(&frame[..begun]);
        peers.push(peer);
    }
    let peak = server.peak_memory_bytes();
    assert!(peak < stream_memory() + beside(), "{} remotes: {peak} bytes", peers.len());
    // Nothing of it is lost, and none waits for the others.
    let mut last = peers.pop().unwrap();
    last.send_bytes(&frame[begun..]);
    last.send(&Message::UploadEnd(UploadEnd { rows: 1 }));
    match last.receive() {
        Some(Message::UploadCommitted(committed)) => assert_eq!(committed.inserts, 1),
        other => panic!("{other:?}"),
    }
    let wanted = format!("SELECT count(*) FROM item WHERE length(text) = {}", text.len());
    assert_eq!(world.center_count(&wanted), 1);
    // All of it goes back.
    drop((last, peers));
    println!("{} remotes: peak {peak}, then {} bytes", sessions(), server.memory_bytes());
    until("the memory to go back", || server.memory_bytes() < idle + KEPT + SQLITE_CACHE);
}

// S9: a frame of one row used 57 bytes beside its row, which were not counted.
#[test]
fn frames_of_one_row_count_with_all_that_they_take() {
    let (_world, server) = world();
    let frames: i64 = if full() { 2_000_000 } else { 500_000 };
    let mut peer = uploading(&server, "remote");
    server.forget_peak_memory();
    let before = server.memory_bytes();
    for first in (0..frames).step_by(1000) {
        let together: Vec<u8> = (first..first + 1000).flat_map(|id| insert(id, b"")).collect();
        peer.send_bytes(&together);
    }
    let taken = server.peak_memory_bytes().saturating_sub(before);
    assert!(taken < stream_memory() + 8 * MIB, "{frames} frames: {taken} bytes");
}

// S9, S10: each remote that stopped in a large row of its download held all of it in memory.
#[test]
fn downloads_that_wait_for_their_remotes_lie_on_disk() {
    let (world, server) = world();
    let insert = format!("INSERT INTO item VALUES (1, printf('%0{}d', 1))", frame_bytes());
    sql(&world.consolidated(), &insert);
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let remote = hello("ann", &format!("remote-{number}"));
        let (mut peer, _) =
            Peer::greeting(&server.url, protocol::Hello { mode: Mode::DownloadOnly, ..remote });
        loop {
            match peer.receive() {
                Some(Message::DownloadBegin(_)) => break,
                Some(Message::SchemaChange(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        peers.push(peer);
    }
    let held = server.memory_bytes();
    let largest = stream_memory() + beside() + 64 * MIB;
    assert!(held < largest, "{} remotes: {held} bytes", peers.len());
    let row = peers.pop().unwrap().receive();
    assert!(matches!(row, Some(Message::Rows(rows)) if rows.bytes.len() as u64 > frame_bytes()));
}

// S9: 552 MB stayed with the process.
#[test]
fn memory_goes_back_to_the_system_when_the_remotes_have_left() {
    let world = World::new(PROGRAM, ITEMS);
    world.add_user("ann");
    let server = world.serve();
    drop(uploading(&server, "first"));
    let idle = server.memory_bytes();
    let text = vec![b'x'; 100_000];
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let mut peer = uploading(&server, &format!("remote-{number}"));
        for id in 0..150 {
            peer.send_bytes(&insert(id, &text));
        }
        peer.send_bytes(&insert(1_000, &text.repeat(40))[..3_000_000]);
        peers.push(peer);
    }
    until("the server to hold it", || server.memory_bytes() > idle + 100 * MIB);
    drop(peers);
    until("the memory to go back", || server.memory_bytes() < idle + KEPT);
}

/// The memory for streams where a single upload is held.
const LITTLE: u64 = MIB;

/// The allocator gives back at once what is freed. By default it keeps it for ten seconds, which
/// was more than half of what an upload took at PostgreSQL: up to 115 of 151 MB.
const KEEP_NOTHING: (&str, &str) = ("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");

/// What one upload takes beside: batches as rows, as parameters and as messages; and the cache of
/// SQLite.
fn one_upload(world: &World) -> u64 {
    if world.consolidated().exists() { SQLITE_CACHE + 48 * MIB } else { 64 * MIB }
}

/// Runs a test on both databases, with a table of these columns whose rows `rows` makes: SQL with
/// `n` from 1 on.
fn on_each(columns: &str, rows: &str, count: u32, test: impl Fn(&World, &Server)) {
    let table = format!("CREATE TABLE item ({columns})");
    for world in [World::new(PROGRAM, &table), World::on_postgres(PROGRAM, &table)] {
        on(&world, rows, count, &test);
    }
}

/// The same in one world.
fn on(world: &World, rows: &str, count: u32, test: impl Fn(&World, &Server)) {
    world.configure(&format!("stream_memory_bytes_max = {LITTLE}"));
    world.add_user("ann");
    world.center_sql(&format!(
        "WITH RECURSIVE number(n) AS (
             SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count})
         INSERT INTO item {rows}"
    ));
    let server = world.serve_with_environment(&[KEEP_NOTHING]);
    test(world, &server);
}

/// Uploads rows of this many values each, and nothing else. Returns what was rejected, what was a
/// conflict, and the memory that it took.
fn upload(
    server: &Server,
    operation: Operation,
    count: u32,
    row: impl Fn(u32, &mut Vec<u8>),
) -> (u64, u64, u64) {
    let mut peer = uploading_only(server, "remote");
    server.forget_peak_memory();
    let before = server.memory_bytes();
    for first in (1..=count).step_by(100) {
        let last = (first + 100).min(count + 1);
        let mut bytes = Vec::new();
        (first..last).for_each(|n| row(n, &mut bytes));
        let rows = RowsFrame { table: 0, operation, count: last - first, bytes };
        peer.send(&Message::Rows(rows));
    }
    peer.send(&Message::UploadEnd(UploadEnd { rows: count.into() }));
    match peer.receive() {
        Some(Message::UploadCommitted(committed)) => {
            let taken = server.peak_memory_bytes().saturating_sub(before);
            println!("{count} rows: {taken} bytes");
            (committed.rejected, committed.conflicts, taken)
        }
        other => panic!("{other:?}"),
    }
}

/// The same as [`uploading`], of a remote that downloads nothing.
fn uploading_only(server: &Server, remote_id: &str) -> Peer {
    let remote = protocol::Hello { mode: Mode::UploadOnly, ..hello("ann", remote_id) };
    let (mut peer, _) = Peer::greeting(&server.url, remote);
    assert!(matches!(peer.receive(), Some(Message::SchemaChange(_))));
    let (previous, progress) = (Progress(0), Progress(1));
    peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
    peer
}

// S9: rows of one upload that wait for others were held in memory, all of them.
#[test]
fn rows_that_all_wait_take_little_memory() {
    let (count, width) = if full() { (100_000, 1_000) } else { (3_000, 30_000) };
    let columns = "id INTEGER PRIMARY KEY, code TEXT UNIQUE, text TEXT";
    // Every value that must be unique is there already: nobody moves out of the way.
    on_each(columns, "SELECT n, 'c' || n, 'theirs' FROM number", count, |world, server| {
        let text = "x".repeat(width);
        let (rejected, _, taken) = upload(server, Operation::Insert, count, |n, bytes| {
            write_value(bytes, ValueRef::Integer(i64::from(n) + 10_000_000));
            write_value(bytes, ValueRef::Text(format!("c{n}").as_bytes()));
            write_value(bytes, ValueRef::Text(text.as_bytes()));
        });
        assert_eq!(rejected, u64::from(count));
        assert_eq!(world.center_count("SELECT count(*) FROM item"), i64::from(count));
        assert!(taken < LITTLE + one_upload(world), "{taken} bytes");
    });
}

// S9, S11, Trap 10: rows that swap their values wait for each other, and are applied together. Each
// row above a limit is rejected.
#[test]
fn rows_that_swap_their_values_take_little_memory_or_are_rejected() {
    let (pairs, width) = if full() { (20_000, 2_000) } else { (750, 30_000) };
    let columns = "id INTEGER PRIMARY KEY, code TEXT UNIQUE, text TEXT";
    let text = "x".repeat(width);
    let rows = format!("SELECT n, 'c' || n, '{text}' FROM number");
    on_each(columns, &rows, 2 * pairs, |world, server| {
        let (rejected, conflicts, taken) =
            upload(server, Operation::Update, 2 * pairs, |n, bytes| {
                let other = if n % 2 == 1 { n + 1 } else { n - 1 };
                for code in [n, other] {
                    write_value(bytes, ValueRef::Integer(n.into()));
                    write_value(bytes, ValueRef::Text(format!("c{code}").as_bytes()));
                    write_value(bytes, ValueRef::Text(text.as_bytes()));
                }
            });
        let swapped = world.center_count("SELECT count(*) FROM item WHERE code <> 'c' || id");
        assert_eq!((swapped + rejected as i64, conflicts), (i64::from(2 * pairs), 0));
        assert!(swapped > 100 && rejected > 100, "{swapped} swapped, {rejected} rejected");
        assert!(taken < LITTLE + one_upload(world), "{taken} bytes");
    });
}

// S9, S5: the keys of rows that have lost, and what was reported of each, were held until the
// commit.
#[test]
fn what_many_conflicts_owe_lies_on_disk() {
    let (count, width) = if full() { (1_000_000, 30) } else { (20_000, 2_500) };
    let columns = "id TEXT PRIMARY KEY, n INTEGER";
    let prefix = "k".repeat(width);
    let rows = format!("SELECT '{prefix}' || n, n FROM number");
    on_each(columns, &rows, count, |world, server| {
        let (rejected, conflicts, taken) = upload(server, Operation::Update, count, |n, bytes| {
            for value in [-1, -2] {
                write_value(bytes, ValueRef::Text(format!("{prefix}{n}").as_bytes()));
                write_value(bytes, ValueRef::Integer(value));
            }
        });
        assert_eq!((rejected, conflicts), (0, u64::from(count)));
        assert_eq!(world.center_count("SELECT count(*) FROM item WHERE n > 0"), i64::from(count));
        assert!(taken < LITTLE + one_upload(world), "{taken} bytes");
    });
}

// S9, Trap 5: all rows that a remote was owed were held while its download was fetched.
#[test]
fn what_a_remote_is_owed_is_not_held_while_it_is_fetched() {
    let (count, width): (u32, usize) = if full() { (1_000_000, 30) } else { (60_000, 900) };
    let table = "CREATE TABLE item (id TEXT PRIMARY KEY, n INTEGER)";
    let mut begin = Vec::new();
    write_value(&mut begin, ValueRef::Text(&vec![b'0'; width]));
    begin.truncate(begin.len() - width);
    let begin: String = begin.iter().map(|byte| format!("{byte:02x}")).collect();
    for world in [World::new(PROGRAM, table), World::on_postgres(PROGRAM, table)] {
        world.configure(&format!("stream_memory_bytes_max = {LITTLE}"));
        world.add_user("ann");
        let server = world.serve_with_environment(&[KEEP_NOTHING]);
        drop(uploading(&server, "remote"));
        let (owed, key, id) = match world.consolidated().exists() {
            true => (
                "syncline_owed",
                format!("CAST(x'{begin}' || id AS BLOB)"),
                format!("printf('%0{width}d', n)"),
            ),
            false => (
                "syncline.syncline_owed",
                format!("decode('{begin}', 'hex') || convert_to(id, 'UTF8')"),
                format!("lpad(n::text, {width}, '0')"),
            ),
        };
        world.center_sql(&format!(
            "INSERT INTO {owed} (remote_id, table_name, row_key, counter)
                 WITH RECURSIVE number(n) AS (
                     SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count})
                 SELECT 'remote', 'item', {key}, 1 FROM (SELECT {id} AS id FROM number) AS made"
        ));
        server.forget_peak_memory();
        let before = server.memory_bytes();
        let remote = protocol::Hello { mode: Mode::DownloadOnly, ..hello("ann", "remote") };
        let (mut peer, _) = Peer::greeting(&server.url, remote);
        let mut deleted = 0;
        loop {
            match peer.receive() {
                Some(Message::Rows(rows)) => deleted += u64::from(rows.count),
                Some(Message::DownloadEnd(_)) => break,
                Some(_) => {}
                None => panic!("the server has closed"),
            }
        }
        let taken = server.peak_memory_bytes().saturating_sub(before);
        println!("{count} owed rows: {taken} bytes");
        assert_eq!(deleted, u64::from(count));
        // What the remote has received of it is looked for first, which fills the cache. The check
        // of the password takes some too.
        let cache = if world.consolidated().exists() { SQLITE_CACHE } else { 0 };
        assert!(taken < LITTLE + cache + 32 * MIB, "{taken} bytes");
    }
}

/// Workers of each kind, and how often one has a message in hand: as it came, as rows, as
/// parameters of a statement and as what is sent to the database.
const WORKERS: u64 = 2;
const IN_HAND: u64 = 5;

// S9: what a worker takes from disk to write it is beyond the budget, and bounded by the number of
// workers.
#[test]
fn workers_have_one_message_each_in_hand() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)";
    for world in [World::new(PROGRAM, table), World::on_postgres(PROGRAM, table)] {
        world.configure(&format!(
            "stream_memory_bytes_max = {LITTLE}\nworkers = {WORKERS}\n\
             upload_appliers = {WORKERS}"
        ));
        world.add_user("ann");
        let server = world.serve();
        let text = vec![b'x'; 16 * MIB as usize];
        let mut peers = Vec::new();
        for number in 0..10 {
            let mut peer = uploading_only(&server, &format!("remote-{number}"));
            let frame = insert(number, &text);
            let (most, last) = frame.split_at(frame.len() - 10);
            peer.send_bytes(most);
            peers.push((peer, last.to_vec()));
        }
        server.forget_peak_memory();
        let before = server.memory_bytes();
        for (peer, last) in &mut peers {
            peer.send_bytes(last);
            peer.send(&Message::UploadEnd(UploadEnd { rows: 1 }));
        }
        for (peer, _) in &mut peers {
            assert!(matches!(peer.receive(), Some(Message::UploadCommitted(_))));
        }
        let taken = server.peak_memory_bytes().saturating_sub(before);
        println!("{} uploads at {WORKERS} workers: {taken} bytes", peers.len());
        let network = 2 * text.len() as u64;
        let most = WORKERS * IN_HAND * text.len() as u64 + network + 64 * MIB;
        assert!(taken < most, "{taken} bytes");
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 10);
    }
}
