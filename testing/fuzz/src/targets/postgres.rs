//! What a server that calls itself PostgreSQL sends.

use super::refusal;
use consolidated::{Url, administer};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{LazyLock, Mutex};
use std::thread;
use tempfile::TempDir;

pub(crate) const WORDS: &[&str] = &[
    "R\0\0\0\u{8}\0\0\0\0",
    "Z\0\0\0\u{5}I",
    "Z\0\0\0\u{5}T",
    "1\0\0\0\u{4}",
    "2\0\0\0\u{4}",
    "n\0\0\0\u{4}",
    "t\0\0\0\u{6}\0\0",
    "C\0\0\0\u{d}SELECT 1\0",
    "S\0\0\0\u{9}a\0b\0",
    "E\0\0\0\u{e}SERROR\0\0\0\0\0",
    "N\0\0\0\u{5}\0",
    "D\0\0\0\u{6}\0\0",
    "T\0\0\0\u{6}\0\0",
    "T\0\0\0\u{1e}\0\u{1}a\0\0\0\0\0\0\0\0\0\0\u{19}\0\u{1}\0\0\0\0\0\0",
    "R\0\0\0\u{17}\0\0\0\u{a}SCRAM-SHA-256\0\0",
    "K\0\0\0\u{c}\0\0\0\u{1}\0\0\0\u{1}",
];

/// The server: each connection is sent the same bytes, and then ends.
struct Forger {
    folder: TempDir,
    bytes: Mutex<Vec<u8>>,
}

static FORGER: LazyLock<Forger> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.1")).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            answer(connection.unwrap());
        }
    });
    Forger { folder, bytes: Mutex::new(Vec::new()) }
});

fn answer(mut connection: UnixStream) {
    let bytes = FORGER.bytes.lock().unwrap().clone();
    // A client that has seen enough is gone.
    let _ = connection.write_all(&bytes);
    let _ = connection.shutdown(std::net::Shutdown::Write);
    // Closing with something unread would take back what the client has not read yet.
    let mut rest = [0; 4096];
    while connection.read(&mut rest).is_ok_and(|count| count > 0) {}
}

pub(crate) fn run(bytes: &[u8]) {
    let forger = &*FORGER;
    bytes.clone_into(&mut forger.bytes.lock().unwrap());
    let host = forger.folder.path().display();
    let url = format!("postgres://u:p@/d?host={host}&port=1&connect_timeout=5");
    let url = Url::parse(&url).unwrap();
    let done = administer(&url).and_then(|mut admin| admin.users());
    if let Err(failure) = done {
        refusal::is_told(&failure);
    }
}
