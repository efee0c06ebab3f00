//! Rows that are compressed on their way, between real programs.

use harness::{Peer, Server, World, count, hello, sql, until};
use model::{Progress, ValueRef, write_value};
use protocol::{
    Capabilities, Compression, Compressor, MAGIC, Message, Operation, RowsFrame, UploadBegin,
    UploadEnd,
};
use std::fmt::Write;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE plain (id INTEGER PRIMARY KEY, text TEXT)";

/// The text of a note that can be compressed, a thousand times.
const MANY: &str = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)";

fn both() -> [World; 2] {
    [World::new(PROGRAM, NOTES), World::on_postgres(PROGRAM, NOTES)].map(|world| {
        world.add_user("ann");
        world.add_user("ben");
        world
    })
}

fn bytes_of(log: &str, what: &str) -> Vec<u64> {
    let value = |line: &str| {
        let at = line.find(&format!("{what}="))? + what.len() + 1;
        line[at..].split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    log.lines().filter(|line| line.contains("synchronized")).filter_map(value).collect()
}

// S3
#[test]
fn compressed_rows_arrive_in_both_directions_and_take_fewer_bytes() {
    for world in both() {
        let server = world.serve();
        let sync = |name: &str, compression: &str| {
            let mut arguments = world.sync_arguments(name, &server);
            arguments.extend(["--compression", compression].map(str::to_owned));
            world.syncline.ok(&arguments)
        };
        let mut id = 0;
        let mut sizes = Vec::new();
        for compression in ["none", "auto", "lz4", "zstd"] {
            sync("ann", compression);
            sync("ben", compression);
            let insert = format!(
                "{MANY} INSERT INTO note SELECT n + {id}, 'call the customer again, number ' || n
                 FROM n"
            );
            sql(&world.remote("ann"), &insert);
            id += 1000;
            let told = [sync("ann", compression), sync("ben", compression)];
            world.assert_converged(&["ann", "ben"]);
            let log = server.log();
            let last: Vec<&str> =
                log.lines().filter(|line| line.contains("synchronized")).rev().take(2).collect();
            let [up, down] = match compression {
                "none" | "auto" => {
                    assert!(told.iter().all(|line| !line.contains("compression")), "{told:?}");
                    ["none", "none"]
                }
                method => {
                    let of = |up, down| {
                        format!("compression of the upload {up}, of the download {down} (")
                    };
                    assert!(told[0].contains(&of(method, "none")), "{told:?}");
                    assert!(told[1].contains(&of("none", method)), "{told:?}");
                    [method, method]
                }
            };
            let of = |up, down| format!("compression_in=\"{up}\" compression_out=\"{down}\"");
            assert!(last[1].contains(&of(up, "none")), "{last:?}");
            assert!(last[0].contains(&of("none", down)), "{last:?}");
            let (up, down) = (bytes_of(&log, "bytes_in"), bytes_of(&log, "bytes_out"));
            sizes.push((up[up.len() - 2], down[down.len() - 1]));
        }
        println!("bytes up and down with none, auto, lz4, zstd: {sizes:?}");
        let [none, auto, lz4, zstd] = sizes.try_into().unwrap();
        // On this machine there is no network to spare.
        assert!(auto.0 * 10 > none.0 * 9 && auto.1 * 10 > none.1 * 9);
        for packed in [lz4, zstd] {
            assert!(packed.0 * 2 < none.0 && packed.1 * 2 < none.1);
        }
        // A thousand rows went up with Hello: compressed they are few bytes.
        assert_eq!(count(&world.remote("ben"), "SELECT count(*) FROM note"), 4000);
    }
}

/// A remote that says that it reads these, and that it will upload one frame of rows next.
fn admitted(server: &Server, remote_id: &str, reads: Capabilities) -> Peer {
    let mut hello = hello("ann", remote_id);
    hello.capabilities = reads;
    let (mut peer, _) = Peer::greeting(&server.url, hello);
    assert!(matches!(peer.receive(), Some(Message::SchemaChange(_))));
    let (previous, progress) = (Progress(0), Progress(7));
    peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
    peer
}

/// Rows of the first table, from this key on, as one frame.
fn rows(from: i64, count: i64, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in from..from + count {
        write_value(&mut bytes, ValueRef::Integer(id));
        write_value(&mut bytes, ValueRef::Text(text.as_bytes()));
    }
    let rows = RowsFrame { table: 0, operation: Operation::Insert, count: count as u32, bytes };
    Message::Rows(rows).to_frame().unwrap()
}

fn packed(method: Compression, mut frame: Vec<u8>) -> Vec<u8> {
    Compressor::default().compress(method, &mut frame).unwrap();
    assert_eq!(frame[4], Message::PACKED_ROWS_TYPE);
    frame
}

// S9, S11
#[test]
fn what_a_peer_packs_wrong_is_refused_by_number() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    world.configure("frame_bytes_max = 1048576");
    let server = world.serve();
    let good = |method| packed(method, rows(0, 300, "a text that is there again and again"));
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good(Compression::Zstd);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    // Behind the header of the frame and what uncompressed rows have too.
    let (method_at, len_at) = (5 + 7, 5 + 8);
    let wrong = [
        (1010, with(len_at, &7u32.to_le_bytes())),
        (1010, with(len_at + 4, b"rubbish")),
        (1011, with(method_at, &[9])),
        (1004, with(len_at, &u32::MAX.to_le_bytes())),
        // As it was said that many rows are there, but there are others.
        (1003, with(5 + 3, &2u32.to_le_bytes())),
    ];
    for (n, (code, frame)) in wrong.into_iter().enumerate() {
        let mut peer = admitted(&server, &format!("r{n}"), Capabilities::NONE);
        peer.send_bytes(&frame);
        assert_eq!(peer.refusal(), Some(code), "{n}");
    }
    // A bomb: what it becomes is larger than a frame may be.
    let bomb = packed(Compression::Zstd, rows(0, 1, &"0".repeat(8 << 20)));
    assert!(bomb.len() < 4 << 10);
    let mut peer = admitted(&server, "bomb", Capabilities::NONE);
    peer.send_bytes(&bomb);
    assert_eq!(peer.refusal(), Some(1004));
    // Nobody may pack anything who was not admitted.
    let mut peer = Peer::connect(&server.url);
    peer.send_bytes(&MAGIC);
    peer.send_bytes(&good(Compression::Lz4));
    assert_eq!(peer.refusal(), Some(1011));
    assert_eq!(world.center_count("SELECT count(*) FROM note"), 0);
}

// S9: there is no memory for what arrives, nor for what it becomes.
#[test]
fn compressed_rows_go_to_disk_where_memory_is_short() {
    for world in both() {
        world.configure("stream_memory_bytes_max = 1048576");
        let server = world.serve();
        let mut peer = admitted(&server, "r", Capabilities::NONE);
        let mut text = String::new();
        let mut digits = 0u64;
        let frames = 12;
        for n in 0..frames {
            for _ in 0..20_000 {
                digits = digits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                write!(text, "{digits:016x}").unwrap();
            }
            let method = if n % 2 == 0 { Compression::Zstd } else { Compression::Lz4 };
            let frame = rows(3 * n, 3, &(text.clone() + &"0".repeat(400_000)));
            text.clear();
            peer.send_bytes(&packed(method, frame));
        }
        peer.send(&Message::UploadEnd(UploadEnd { rows: 3 * frames as u64 }));
        assert!(matches!(peer.receive(), Some(Message::UploadCommitted(_))));
        while !matches!(peer.receive().unwrap(), Message::DownloadEnd(_)) {}
        drop(peer);
        let whole = "SELECT count(*) FROM note WHERE length(text) = 720000";
        assert_eq!(world.center_count(whole), 3 * frames);
        until("the line of it", || !bytes_of(&server.log(), "spilled_bytes").is_empty());
        assert!(bytes_of(&server.log(), "spilled_bytes")[0] > 10 << 20);
    }
}

// S3: no row is sent again because of it.
#[test]
fn a_table_is_not_compressed_that_the_model_says_so_of() {
    for world in both() {
        let fill = |table: &str| {
            format!("INSERT INTO {table} {MANY} SELECT n, 'call the customer again' FROM n")
        };
        for table in ["note", "plain"] {
            world.center_sql(&fill(table));
        }
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        let path = world.path("model.toml");
        let model = std::fs::read_to_string(&path).unwrap();
        let changed = model.replace("[table.plain]", "[table.plain]\ncompress = false");
        assert_ne!(model, changed);
        std::fs::write(&path, changed).unwrap();
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        let again = world.sync("ann", &server);
        assert_eq!(again["downloaded"]["upserts"], 0, "{again}");
        let reads = Compression::capabilities(&Compression::ALL);
        let mut peer = admitted(&server, "r", reads);
        peer.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
        let (mut seen, mut before) = (Vec::new(), 0);
        loop {
            match peer.receive().unwrap() {
                Message::Rows(rows) => seen.push((rows.table, peer.packed_frames > before)),
                Message::DownloadEnd(_) => break,
                _ => {}
            }
            before = peer.packed_frames;
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [(0, true), (1, false)]);
        // The same at a remote, once it knows.
        let sync = |table: &str| {
            sql(&world.remote("ann"), &format!("UPDATE {table} SET text = text || ' and again'"));
            let mut arguments = world.sync_arguments("ann", &server);
            arguments.extend(["--compression", "zstd"].map(str::to_owned));
            world.syncline.ok(&arguments);
            *bytes_of(&server.log(), "bytes_in").last().unwrap()
        };
        let sizes = [sync("note"), sync("note"), sync("plain")];
        assert!(sizes[1] * 4 < sizes[2], "{sizes:?}");
        world.assert_converged(&["ann"]);
    }
}

// S1: a server that reads less than the one before.
#[test]
fn a_remote_that_compressed_for_another_server_sends_its_rows_again_as_they_are() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    let sync = |server: &Server| {
        let insert = format!("{MANY} INSERT INTO note (text) SELECT 'again and again' FROM n");
        sql(&world.remote("ann"), &insert);
        let mut arguments = world.sync_arguments("ann", server);
        arguments.extend(["--compression", "zstd"].map(str::to_owned));
        world.syncline.ok(&arguments);
    };
    let server = world.serve();
    world.sync("ann", &server);
    sync(&server);
    server.stop();
    world.configure("compression = []");
    let server = world.serve();
    sync(&server);
    assert!(server.log().contains("E1011"), "{}", server.log());
    let refused = server.log().matches("E1011").count();
    // It knows now.
    sync(&server);
    assert_eq!(server.log().matches("E1011").count(), refused);
    assert_eq!(world.center_count("SELECT count(*) FROM note"), 3000);
    world.assert_converged(&["ann"]);
}
