//! Who may know whom: the architecture invariants A1 to A8.
//!
//! A1 `model` and `protocol` know no socket, file, clock, thread or runtime.
//! A2 `protocol` knows no SQL; `consolidated` knows no wire message.
//! A3 `client` and `server` do not know each other.
//! A4 Only `server/src/network`, `server/src/authenticate/outside`, `client/src/transport` and
//!    `postgres-driver` know sockets; only a backend of `consolidated`, and the
//!    client engine, know a driver. A driver knows none of us.
//! A5 Only the worker stage touches the consolidated database; what it calls is blocking code.
//! A6 Only `clock.rs` reads time and only `random.rs` draws numbers.
//! A7 Nothing depends on `server` but programs and tests.
//! A8 In `client`, only `system` and the transports know an operating system.
//!
//! Crates are checked from their manifests, source by the paths it mentions.

use super::mention::{self, Mention};
use crate::checkout::SourceFile;
use crate::problem::Problem;
use crate::workspace;
use std::path::Path;

/// One package that another needs outside its tests.
struct Dependency<'a> {
    from: &'a str,
    from_folder: &'a str,
    to: &'a str,
}

/// Reads the manifests and checks who depends on whom.
pub(crate) fn check_dependencies(root: &Path) -> Result<Vec<Problem>, String> {
    let mut problems = Vec::new();
    for package in workspace::metadata(root)? {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy();
        let from = short(package["name"].as_str().unwrap_or_default());
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if dependency["kind"] == "dev" {
                continue;
            }
            let to = short(dependency["name"].as_str().unwrap_or_default());
            let fault = dependency_fault(&Dependency { from, from_folder: &manifest, to });
            problems.extend(fault.map(|fault| Problem::of(&manifest, fault)));
        }
    }
    Ok(problems)
}

/// The name of a package of ours without what it has for a registry's sake.
fn short(package: &str) -> &str {
    match package {
        "syncline" => "cli",
        _ => package.strip_prefix("syncline-").unwrap_or(package),
    }
}

fn dependency_fault(Dependency { from, from_folder, to }: &Dependency<'_>) -> Option<String> {
    let is_program = ["cli", "bench"].contains(from) || from_folder.starts_with("testing/");
    let reason = match (*from, *to) {
        ("model", "rand" | "serde" | "serde_bytes") => return None,
        ("model", _) => "A1: a dependency of `model` is one of everybody; it takes a decision",
        (
            "protocol",
            "model" | "lz4_flex" | "rmp-serde" | "serde" | "serde_bytes" | "sha2" | "zstd-safe",
        ) => return None,
        ("protocol", "consolidated" | "rusqlite") => "A2: the wire knows no SQL",
        ("protocol", _) => "A1: the wire knows only the nouns and its codec",
        ("consolidated", "protocol") => "A2: the consolidated database knows no wire message",
        ("client" | "server", "client" | "server") => {
            "A3: they meet only in `protocol` and in tests"
        }
        (
            "postgres-driver",
            "client" | "consolidated" | "model" | "protocol" | "server" | "terminal",
        ) => "A4: the driver knows nothing of what it is used for",
        ("client" | "server" | "terminal", "postgres-driver") => {
            "A4: only a backend of `consolidated` knows a driver"
        }
        ("server", "rusqlite") => "A4: only a backend of `consolidated` knows a driver",
        (_, "server") if !is_program => "A7: only programs and tests know the server",
        _ => return None,
    };
    Some(format!("`{from}` depends on `{to}` ({reason})"))
}

/// Checks what a file of the product mentions outside its tests.
pub(crate) fn check_source(file: &SourceFile, syntax: &syn::File) -> Vec<Problem> {
    let (Some(owner), Some(below)) = (file.product_crate(), file.below_src()) else {
        return Vec::new();
    };
    let place = Place { owner, below };
    let (mentions, _) = mention::of_file(syntax);
    let mut problems: Vec<Problem> = mentions
        .iter()
        .filter_map(|mention| {
            let reason = mention_fault(&place, mention)?;
            Some(Problem::at(&file.path, mention.line, format!("`{}` ({reason})", mention.path)))
        })
        .collect();
    problems.dedup();
    problems
}

/// Where a mention stands: `server`, `worker/apply.rs`.
struct Place<'a> {
    owner: &'a str,
    below: &'a str,
}

impl Place<'_> {
    /// Whether this is the module `name` of the crate, or below it: `sqlite.rs`, `sqlite/rows.rs`,
    /// `sqlite_rows.rs`.
    fn is(&self, owner: &str, name: &str) -> bool {
        self.owner == owner && self.below.starts_with(name)
    }

    fn file_is(&self, name: &str) -> bool {
        self.below == name || self.below.ends_with(&format!("/{name}"))
    }
}

const OUTSIDE: &[&str] = &[
    "getrandom",
    "rusqlite",
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net",
    "std::os",
    "std::process",
    "std::sync::mpsc",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tempfile",
    "tokio",
];
const SOCKETS: &[&str] =
    &["std::net", "std::os::unix::net", "tokio::net", "socket2", "rustix::net", "ureq"];
const ADDRESSES: &[&str] = &[
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
    "std::net::AddrParseError",
];
const CLOCKS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "tokio::time::Instant::now",
    "rustix::time::clock_gettime",
];
const CHANCE: &[&str] = &["getrandom", "rand::rng", "rand::random", "rand::rngs::OsRng"];
/// What a browser does not have.
const SYSTEM: &[&str] = &[
    "getrandom",
    "rustix",
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tempfile",
];
const THREADS: &[&str] = &[
    "std::thread::spawn",
    "std::thread::Builder",
    "tokio::spawn",
    "tokio::task::spawn",
    "tokio::task::spawn_blocking",
];

/// Why this may not be mentioned here.
fn mention_fault(place: &Place<'_>, mention: &Mention) -> Option<&'static str> {
    let any = |paths: &[&str]| paths.iter().any(|path| mention.is_within(path));
    let is_pure = ["model", "protocol"].contains(&place.owner);
    if is_pure && any(OUTSIDE) {
        return Some("A1: this crate knows no socket, file, clock, thread or runtime");
    }
    let knows_sockets = place.is("server", "network")
        || place.is("server", "authenticate/outside")
        || place.is("client", "transport")
        || place.owner == "postgres-driver";
    if any(SOCKETS) && !any(ADDRESSES) && !knows_sockets {
        return Some(
            "A4: only the network, services outside, the transport and the driver of PostgreSQL \
             know sockets",
        );
    }
    let knows_driver = place.is("consolidated", "sqlite")
        || place.owner == "client"
        // It plays the application which writes to its own files.
        || place.is("cli", "demo")
        // It measures the bare database.
        || place.owner == "bench";
    let knows_postgres = place.is("consolidated", "postgres")
        || ["bench", "harness", "postgres-driver"].contains(&place.owner);
    let postgres = ["tokio_postgres", "postgres_types", "postgres_protocol"];
    // A URL names its hosts and proofs with the nouns of the driver.
    if any(&["postgres_driver"]) && !knows_postgres && !place.is("consolidated", "url") {
        return Some("A4: only a backend of `consolidated` knows its driver");
    }
    if any(&postgres) && !knows_postgres {
        return Some("A4: only a backend of `consolidated` knows its driver");
    }
    if any(&["rusqlite"]) && !knows_driver {
        return Some("A4: only a backend of `consolidated` and the client engine know a driver");
    }
    if ["consolidated", "postgres-driver"].contains(&place.owner) && any(&["tokio"]) {
        return Some("A5: a backend is blocking code");
    }
    let touches = any(&[
        "consolidated::Reader",
        "consolidated::Writer",
        "consolidated::open_reader",
        "consolidated::open_writer",
    ]);
    if place.owner == "server" && touches && !place.is("server", "worker") {
        return Some("A5: only the worker stage touches the consolidated database");
    }
    if any(CLOCKS) && !place.file_is("clock.rs") {
        return Some("A6: only clock.rs reads time");
    }
    if any(CHANCE) && !place.file_is("random.rs") {
        return Some("A6: only random.rs draws numbers");
    }
    if any(SYSTEM) && !may_know_system(place) {
        return Some("A8: only system and the transports know an operating system");
    }
    let starts = place.is("server", "stage") || place.is("server", "network");
    if ["server", "client", "consolidated", "postgres-driver"].contains(&place.owner)
        && any(THREADS)
        && !starts
    {
        return Some("threads and tasks start in server/src/stage.rs and server/src/network only");
    }
    None
}

/// Everything but the engine, and in it what only ordinary programs use.
fn may_know_system(place: &Place<'_>) -> bool {
    place.owner != "client"
        || place.is("client", "system")
        || place.is("client", "transport")
        // It kills the process, where a test asks for it.
        || place.file_is("fail_point.rs")
        // Only tests see it.
        || place.below.starts_with("testing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn depends(from: &str, from_folder: &str, to: &str) -> bool {
        dependency_fault(&Dependency { from, from_folder, to }).is_none()
    }

    fn mentions(path: &str, text: &str) -> bool {
        let file = sample(path, text);
        check_source(&file, &syn::parse_file(text).unwrap()).is_empty()
    }

    #[test]
    fn a1_the_pure_crates_stay_pure() {
        assert!(!depends("model", "crates/model", "tokio"));
        assert!(!depends("protocol", "crates/protocol", "tokio"));
        assert!(depends("protocol", "crates/protocol", "model"));
        assert!(!mentions("crates/model/src/spill.rs", "use std::fs::File;"));
        assert!(!mentions("crates/protocol/src/frame.rs", "fn f() { std::thread::yield_now(); }"));
        assert!(mentions("crates/model/src/clock.rs", "use std::time::Duration;"));
    }

    #[test]
    fn a2_wire_and_database_do_not_see_each_other() {
        assert!(!depends("protocol", "crates/protocol", "consolidated"));
        assert!(!depends("consolidated", "crates/consolidated", "protocol"));
    }

    #[test]
    fn a3_the_parts_do_not_see_each_other() {
        assert!(!depends("client", "crates/client", "server"));
        assert!(!depends("server", "crates/server", "client"));
        assert!(depends("server", "crates/server", "protocol"));
    }

    #[test]
    fn a4_sockets_and_drivers_stay_at_the_edge() {
        let socket = "use tokio::net::TcpListener;";
        assert!(!mentions("crates/server/src/command.rs", socket));
        assert!(mentions("crates/server/src/network/listener.rs", socket));
        assert!(mentions("crates/server/src/config.rs", "use std::net::SocketAddr;"));
        assert!(!mentions("crates/server/src/authenticate/jwt.rs", "use ureq::Agent;"));
        assert!(mentions("crates/server/src/authenticate/outside/https.rs", "use ureq::Agent;"));
        let stream = "use std::net::TcpStream;";
        assert!(!mentions("crates/consolidated/src/postgres/fetch.rs", stream));
        assert!(mentions("crates/postgres-driver/src/socket.rs", stream));
        assert!(!depends("server", "crates/server", "rusqlite"));
        assert!(!mentions("crates/consolidated/src/script.rs", "use rusqlite::Connection;"));
        assert!(mentions("crates/consolidated/src/sqlite/rows.rs", "use rusqlite::Connection;"));
        let postgres = "use postgres_types::Type;";
        assert!(!mentions("crates/consolidated/src/sqlite/rows.rs", postgres));
        assert!(mentions("crates/consolidated/src/postgres/link.rs", postgres));
        let driver = "use postgres_driver::Session;";
        assert!(!mentions("crates/consolidated/src/connection.rs", driver));
        assert!(mentions("crates/consolidated/src/postgres/link.rs", driver));
        assert!(!depends("postgres-driver", "crates/postgres-driver", "model"));
        assert!(!depends("server", "crates/server", "postgres-driver"));
    }

    #[test]
    fn a5_only_the_worker_touches_the_database() {
        let text = "use consolidated::Writer;";
        assert!(!mentions("crates/server/src/command.rs", text));
        assert!(mentions("crates/server/src/worker/apply.rs", text));
        let runtime = "use tokio::runtime::Runtime;";
        assert!(!mentions("crates/consolidated/src/postgres/link.rs", runtime));
        assert!(!mentions("crates/postgres-driver/src/session.rs", runtime));
    }

    #[test]
    fn a6_time_and_chance_have_one_file_each() {
        let time = "use std::time::Instant;\nfn f() -> Instant { Instant::now() }";
        assert!(!mentions("crates/client/src/apply.rs", time));
        assert!(mentions("crates/client/src/system/clock.rs", time));
        let chance = "fn f(bytes: &mut [u8]) { getrandom::fill(bytes); }";
        assert!(!mentions("crates/server/src/command.rs", chance));
        assert!(mentions("crates/server/src/random.rs", chance));
    }

    #[test]
    fn a8_a_conversation_needs_no_operating_system() {
        for text in ["use std::fs::File;", "fn f() { std::thread::sleep(LONG) }"] {
            assert!(!mentions("crates/client/src/synchronize/attempt.rs", text));
            assert!(!mentions("crates/client/src/lib.rs", text));
            assert!(mentions("crates/client/src/system/files.rs", text));
            assert!(mentions("crates/cli/src/sync.rs", text));
        }
    }

    #[test]
    fn a7_only_programs_and_tests_know_the_server() {
        assert!(!depends("xtask", "xtask", "server"));
        assert!(depends("cli", "crates/cli", "server"));
        assert!(depends("harness", "testing/harness", "server"));
    }

    #[test]
    fn threads_start_in_the_stage_only() {
        assert!(!mentions("crates/server/src/worker.rs", "fn f() { std::thread::spawn(g); }"));
        assert!(mentions("crates/server/src/stage.rs", "fn f() { std::thread::Builder::new(); }"));
    }
}
