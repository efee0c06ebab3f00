//! A program of today synchronizes with a server of version 1.

use super::PROGRAM;
use super::recording::{Side, messages, recording};
use harness::{World, count, sql};
use protocol::{Hello, MAGIC, Message};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Answers one connection with what was recorded; yields what was heard.
fn answer(stream: &mut TcpStream, name: &str) -> Vec<Message> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).unwrap();
    assert_eq!(magic, MAGIC);
    let mut heard = Vec::new();
    for turn in recording(name) {
        match turn.from {
            Side::Server => stream.write_all(&turn.bytes).unwrap(),
            // The remote of the test may have more to say, or less.
            Side::Client if heard.is_empty() => heard.extend(whole_message(stream)),
            Side::Client => loop {
                heard.extend(whole_message(stream));
                if matches!(heard.last(), Some(Message::UploadEnd(_))) {
                    break;
                }
            },
        }
    }
    heard
}

fn whole_message(stream: &mut TcpStream) -> Vec<Message> {
    let mut frame = vec![0; 5];
    stream.read_exact(&mut frame).unwrap();
    let len = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    frame.resize(5 + len, 0);
    stream.read_exact(&mut frame[5..]).unwrap();
    messages(&frame)
}

/// A server that answers one connection after the other so.
fn serve(names: &'static [&'static str]) -> (String, JoinHandle<Vec<Hello>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let hello = |name: &&str| {
            let (mut stream, _) = listener.accept().unwrap();
            match answer(&mut stream, name).swap_remove(0) {
                Message::Hello(hello) => *hello,
                other => panic!("{other:?}"),
            }
        };
        names.iter().map(hello).collect()
    });
    (url, serving)
}

// Trap 18
#[test]
fn a_program_falls_back_to_the_version_of_an_old_server_and_remembers_it() {
    let world = World::without_deployment(PROGRAM, "");
    world.write_secret("ann.password", "ann-password\n");
    let sync = |url: &str| {
        let arguments =
            ["sync", "ann.db", "--server", url, "--user", "ann", "--password-file", "ann.password"];
        world.syncline.run(&arguments)
    };
    let (url, serving) = serve(&["5-version-2-refused", "1-first-download"]);
    let outcome = sync(&url);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM note WHERE id > -301"), 4);
    let hellos = serving.join().unwrap();
    let spoken: Vec<u16> = hellos.iter().map(|hello| hello.protocol_version).collect();
    assert_eq!(spoken, [2, 1]);
    assert!(hellos[0].attempt < hellos[1].attempt, "each connection has its number");
    // The next one begins with it.
    sql(&world.remote("ann"), "INSERT INTO note VALUES (7, 'seven', NULL, NULL)");
    let (url, serving) = serve(&["3-refusal"]);
    let outcome = sync(&url);
    assert!(outcome.stderr.contains("E2101"), "{outcome:?}");
    let hellos = serving.join().unwrap();
    assert_eq!((hellos[0].protocol_version, hellos[0].upload_follows), (1, true));
}

// Trap 18: a server that refuses every version was asked again and again.
#[test]
fn a_server_that_refuses_the_older_version_too_ends_the_synchronization() {
    let world = World::without_deployment(PROGRAM, "");
    world.write_secret("ann.password", "ann-password\n");
    let (url, serving) = serve(&["5-version-2-refused", "5-version-2-refused"]);
    let arguments =
        ["sync", "ann.db", "--server", &url, "--user", "ann", "--password-file", "ann.password"];
    let outcome = world.syncline.run(&arguments);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("E1002"), "{outcome:?}");
    assert_eq!(serving.join().unwrap().len(), 2);
}
