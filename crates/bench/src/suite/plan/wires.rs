//! The published test of transports: what encryption, HTTP and compression cost.
//!
//! In each test everything is compared with its first point, plain TCP without compression.

use super::{OPERATIONS, Plan, Point, ROWS, SETS, Sizes, Test, test};
use crate::options::{Operation, TestName};

/// What carries the rows: the name of a point, and the options of a run.
struct Wire {
    label: String,
    options: Vec<String>,
}

/// How encrypted connections begin.
const BEGINNINGS: [(&str, &str); 4] =
    [("ecdsa", "full"), ("ecdsa", "resumed"), ("rsa", "full"), ("rsa", "resumed")];

/// One operation in each direction: the others send the same rows.
const EACH_WAY: [Operation; 2] = [Operation::Download, Operation::UploadInsert];

const COMPRESSIONS: [&str; 3] = ["none", "lz4", "zstd"];

impl Plan<'_> {
    /// Everything with everything, and notes that do not compress, as those of the published test.
    pub(super) fn transports(&self) -> Test {
        let mut wires: Vec<Wire> = Vec::new();
        for compression in COMPRESSIONS {
            for transport in ["tcp", "http", "ws"] {
                wires.push(plain(transport, compression));
            }
            for transport in ["tls", "https"] {
                for beginning in BEGINNINGS {
                    wires.push(encrypted(transport, beginning, compression));
                }
            }
            wires.push(encrypted("wss", BEGINNINGS[0], compression));
        }
        let title = "Encryption, HTTP and compression, on one machine";
        self.wires((TestName::Transports, title), &wires, &OPERATIONS, self.sizes(), &[])
    }

    /// Notes of words.
    pub(super) fn notes(&self) -> Test {
        let title = "The same with notes that compress";
        let more = ["--notes", "text"];
        self.wires((TestName::Notes, title), &usual(), &EACH_WAY, self.sizes(), &more)
    }

    pub(super) fn link_1000(&self) -> Test {
        let more = ["--notes", "text", "--link-mbit", "1000"];
        let title = "Notes that compress over a link of 1 Gbit/s";
        self.link(TestName::Link1000, title, self.sizes(), &more)
    }

    /// With fewer rows, like other slow networks.
    pub(super) fn link_10(&self) -> Test {
        let sizes = Sizes { rows: self.scaled(ROWS).max(10), sets: SETS, ..self.sizes() };
        let more = ["--notes", "text", "--link-mbit", "10"];
        let title = "Notes that compress over a link of 10 Mbit/s";
        self.link(TestName::Link10, title, sizes, &more)
    }

    fn link(&self, name: TestName, title: &'static str, sizes: Sizes, more: &[&str]) -> Test {
        let test = self.wires((name, title), &usual(), &EACH_WAY, sizes, more);
        match &self.limits.no_link {
            None => test,
            Some(why) => {
                let missing = Some(format!("{} is left out: {why}", name.name()).into());
                Test { points: Vec::new(), missing, ..test }
            }
        }
    }

    fn wires(
        &self,
        (name, title): (TestName, &'static str),
        wires: &[Wire],
        operations: &[Operation],
        sizes: Sizes,
        more: &[&str],
    ) -> Test {
        let point = |wire: &Wire| -> Point {
            let more = more.iter().map(ToString::to_string);
            let extra: Vec<String> = wire.options.iter().cloned().chain(more).collect();
            self.labeled(name, &wire.label, operations, sizes, &extra)
        };
        let test = test(name, title, "transport", wires.iter().map(point));
        Test { is_compared: true, ..test }
    }
}

/// What remotes use: full handshakes with the usual key.
fn usual() -> Vec<Wire> {
    let of = |compression| {
        let both = |plain_one, encrypted_one| {
            [plain(plain_one, compression), encrypted(encrypted_one, BEGINNINGS[0], compression)]
        };
        both("tcp", "tls").into_iter().chain(both("http", "https"))
    };
    COMPRESSIONS.into_iter().flat_map(of).collect()
}

fn plain(transport: &str, compression: &str) -> Wire {
    wire(&[transport], compression, &["--transport", transport])
}

fn encrypted(transport: &str, (key, handshake): (&str, &str), compression: &str) -> Wire {
    let options = ["--transport", transport, "--certificate", key, "--handshake", handshake];
    wire(&[transport, key, handshake], compression, &options)
}

/// No compression is not mentioned.
fn wire(names: &[&str], compression: &str, options: &[&str]) -> Wire {
    let named = Some(compression).filter(|name| *name != "none");
    let label: Vec<&str> = names.iter().copied().chain(named).collect();
    let options = options.iter().copied().chain(["--compression", compression]);
    Wire { label: label.join(" "), options: options.map(str::to_owned).collect() }
}
