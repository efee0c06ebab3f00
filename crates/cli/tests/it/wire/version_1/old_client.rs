//! A server of today serves a program of version 1.

use super::PROGRAM;
use super::recording::{Side, receive, recording};
use harness::{Server, World, sql};
use protocol::{Failed, MAGIC, Message};
use std::io::Write;
use std::net::TcpStream;

const NOTES: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, price REAL, photo BLOB);
    INSERT INTO note VALUES (1, 'one', 1.5, x'00ff'), (2, 'zwölf', NULL, NULL),
        (-300, '', -0.25, x''), (4, 'four', 4, NULL)";

/// What a server draws, and a client says again: as it was recorded, and as it is now.
#[derive(Default)]
struct Drawn(Vec<(Vec<u8>, Vec<u8>)>);

impl Drawn {
    fn learn(&mut self, recorded: &[u8], live: &[u8]) {
        // Else the frame around it would have to be another one.
        assert_eq!(recorded.len(), live.len());
        if !recorded.is_empty() {
            self.0.push((recorded.to_vec(), live.to_vec()));
        }
    }

    /// The recorded bytes, with what this server has drawn.
    fn say(&self, recorded: &[u8]) -> Vec<u8> {
        let mut bytes = recorded.to_vec();
        for (old, new) in &self.0 {
            let at = |bytes: &[u8]| bytes.windows(old.len()).position(|part| part == old);
            if let Some(at) = at(&bytes) {
                bytes[at..at + old.len()].copy_from_slice(new);
            }
        }
        bytes
    }

    /// The message as this server should say it.
    fn expect(&mut self, recorded: Message, live: &Message) -> Message {
        match (recorded, live) {
            (Message::Welcome(mut old), Message::Welcome(new)) => {
                self.learn(old.database_id.0.as_bytes(), new.database_id.0.as_bytes());
                assert_eq!((old.protocol_version, new.protocol_version), (1, 2));
                assert!(new.capabilities.has(old.capabilities), "abilities do not vanish");
                assert_eq!(old.token.is_some(), new.token.is_some());
                old.database_id = new.database_id.clone();
                (old.protocol_version, old.capabilities) = (2, new.capabilities);
                (old.server, old.token) = (new.server.clone(), new.token.clone());
                Message::Welcome(old)
            }
            (Message::DownloadEnd(mut old), Message::DownloadEnd(new)) => {
                let bytes = |mark: &Option<model::Watermark>| {
                    mark.as_ref().map_or(Vec::new(), |it| it.as_bytes().to_vec())
                };
                for (old, new) in old.watermarks.iter().zip(&new.watermarks) {
                    self.learn(&bytes(old), &bytes(new));
                }
                let receipts = (old.receipt.as_ref().unwrap(), new.receipt.as_ref().unwrap());
                self.learn(receipts.0.as_bytes(), receipts.1.as_bytes());
                old.watermarks = new.watermarks.clone();
                old.receipt = new.receipt.clone();
                Message::DownloadEnd(old)
            }
            // An optional field that the old program knows, and does not rely on.
            (Message::DownloadBegin(mut old), Message::DownloadBegin(new)) => {
                for (old, new) in old.tables.iter_mut().zip(&new.tables) {
                    old.rows = new.rows;
                }
                Message::DownloadBegin(old)
            }
            (Message::Failed(old), Message::Failed(new)) => {
                let Failed { message, hint, .. } = new.clone();
                Message::Failed(Failed { message, hint, ..old })
            }
            (other, _) => other,
        }
    }

    /// Says what the old program said, and hears what it heard.
    fn replay(&mut self, server: &Server, name: &str) {
        let mut stream = TcpStream::connect(server.url.strip_prefix("tcp://").unwrap()).unwrap();
        stream.set_read_timeout(Some(harness::WAIT_MAX)).unwrap();
        let turns = recording(name);
        assert!(turns[0].bytes.starts_with(&MAGIC), "{name}");
        for turn in turns {
            if turn.from == Side::Client {
                stream.write_all(&self.say(&turn.bytes)).unwrap();
                continue;
            }
            let recorded = turn.messages();
            let live = receive(&mut stream, recorded.len());
            assert_eq!(live.len(), recorded.len(), "{name}: {live:?}");
            for (recorded, live) in recorded.into_iter().zip(live) {
                let expected = self.expect(recorded, &live);
                assert_eq!(live, expected, "{name}");
            }
        }
        assert!(receive(&mut stream, 1).is_empty(), "{name}: nothing comes behind the end");
    }
}

// Trap 18: byte for byte what a program of version 1 says, and nothing but what it understands.
#[test]
fn a_program_of_version_1_is_served_as_ever() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    let server = world.serve();
    let mut drawn = Drawn::default();
    drawn.replay(&server, "1-first-download");
    drawn.replay(&server, "2-upload");
    let uploaded = "SELECT count(*) FROM note WHERE (id, text) IN
        (VALUES (10, 'ten'), (1, 'eins'), (20, 'zwölf'), (-300, ''))";
    assert_eq!(world.center_count(uploaded), 4);
    assert_eq!(world.center_count("SELECT count(*) FROM note"), 4);
    drawn.replay(&server, "3-refusal");
    sql(&world.consolidated(), "ALTER TABLE note ADD COLUMN n INTEGER");
    world.syncline.ok(&["deploy"]);
    drawn.replay(&server, "4-schema-change");
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 10 AND price = 3"), 1);
}
