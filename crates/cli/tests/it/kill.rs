//! Programs are killed at every dangerous moment and at random ones, and nothing is lost.
//!
//! Needs programs that can kill themselves: `cargo test -p syncline --features fail-points`.
//! `kill/shop.rs` has the rows that show a loss, `kill/owner.rs` the changes of the tables, and
//! `kill/storm.rs` the random kills.

#![cfg(feature = "fail-points")]
#![allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]

pub(crate) mod business;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod shop;
mod storm;

use harness::postgres::Cluster;
use harness::{Chance, Server, World, full, sql, until};
use owner::Owner;
use shop::{REMOTES, Site, assert_nothing_lost_or_doubled, open_shop, open_shop_in};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

pub(crate) const CLIENT_POINTS: &[&str] = &[
    "client-frozen",
    "client-upload-sent",
    "client-upload-committed",
    "client-outcome-learned",
    "client-download-received",
    "client-apply-before-commit",
    "client-apply-committed",
];

pub(crate) const SERVER_POINTS: &[&str] = &[
    "server-upload-received",
    "server-upload-before-commit",
    "server-upload-committed",
    "server-download-fetched",
    "server-download-half-sent",
];

const SIGKILL: i32 = 9;

/// Journal rows of this many bytes, this many at once, do not fit behind Hello.
const LARGE: (i64, usize) = (600, 200);

/// How often a server lets the killing place pass before it dies there.
const PASSAGES_MAX: u64 = 3;

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(SIGKILL)
}

/// Synchronizes by a client that dies at this point, if it comes there.
fn sync_and_die(world: &World, name: &str, server: &Server, point: &str) -> ExitStatus {
    let arguments = sync_arguments(name, &server.url);
    let mut command = world.syncline.command(&arguments);
    command.env("FAILPOINTS", format!("{point}=return"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}

/// With a token beside the password, so that a password is verified only once per remote.
fn sync_arguments(name: &str, url: &str) -> Vec<String> {
    let (file, password) = (format!("{name}.db"), format!("{name}.password"));
    let token = format!("{name}.token");
    let arguments = ["sync", &file, "--server", url, "--user", name];
    let secrets = ["--password-file", &password, "--token-file", &token];
    arguments.into_iter().chain(secrets).map(str::to_owned).collect()
}

/// Synchronizes until it works: the dead predecessor is taken over within seconds (S8).
fn sync(world: &World, name: &str, server: &Server) {
    let arguments = sync_arguments(name, &server.url);
    until("a synchronization", || {
        let outcome = world.syncline.run(&arguments);
        if outcome.code != Some(0) {
            print!("{name}: {}", outcome.stderr);
            assert_passing(&outcome.stderr);
        }
        outcome.code == Some(0)
    });
}

/// A synchronization between crashes fails only in ways that another attempt gets over. A lost
/// answer must not look like a copied file (E2107) or a gap (E2109).
fn assert_passing(stderr: &str) {
    const PASSING: &[&str] = &["E1006", "E1008", "E2110", "E2113", "E5006"];
    let told = stderr.lines().find_map(|line| line.strip_prefix("error "));
    let code = told.and_then(|line| line.split(':').next());
    assert!(code.is_some_and(|code| PASSING.contains(&code)), "{stderr}");
}

/// A shop with all who work there.
struct Busy {
    world: World,
    sites: Vec<Site>,
    owner: Owner,
    chance: Chance,
}

/// A shop with a server where these remotes have synchronized once.
fn busy_shop(remotes: &[&str]) -> Busy {
    let world = open_shop(PROGRAM);
    let server = world.serve();
    for name in remotes {
        sync(&world, name, &server);
    }
    server.stop();
    let mut chance = Chance::from_environment();
    let numbers = 0..=remotes.len();
    let sites = numbers.map(|number| Site::new(&world, number, chance.split())).collect();
    Busy { world, sites, owner: Owner::new(chance.split()), chance }
}

impl Busy {
    /// Writes at the center and at every remote. Now and then the tables change, before or behind.
    fn write_everywhere(&mut self) {
        let way = self.chance.below(WAYS_TO_CHANGE);
        if way == 0 {
            self.owner.change(&self.world);
        }
        for site in &mut self.sites {
            site.write();
        }
        if way == 1 {
            self.owner.change(&self.world);
        }
    }

    fn assert_converges(&self) {
        assert_converges(&self.world, &self.sites);
    }
}

/// Of so many times that everybody writes the tables change twice. A center keeps 32 shapes of a
/// table.
const WAYS_TO_CHANGE: u64 = 8;

/// All synchronize twice, and the oracle is asked.
fn assert_converges(world: &World, sites: &[Site]) {
    let remotes = &REMOTES[..sites.len() - 1];
    let server = world.serve();
    for name in remotes.iter().chain(remotes) {
        sync(world, name, &server);
    }
    server.stop();
    assert_nothing_lost_or_doubled(world, remotes, &sites.iter().collect::<Vec<_>>());
}

/// Places that only a large table reaches (`first_fill.rs`), a change of the tables
/// (`changing_tables.rs`), a table that is left out (`left_out.rs`), a row that is too large
/// (`oversize.rs`), a new password (`passwords.rs`), or a download that goes on (`resume.rs`).
const RARE_POINTS: &[&str] = &[
    "client-fill-begun",
    "client-fill-indexed",
    "client-fill-written",
    "client-kept-back",
    "client-left-behind",
    "client-position-reached",
    "client-schema-changed",
    "client-stores-at-once",
    "server-password-changed",
];

/// Every place in the product where a test may kill.
fn points_of(source: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            points_of(&path, prefix, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.split("fail_point!(\"").skip(1).filter_map(|it| it.split('"').next());
        found.extend(names.filter(|name| name.starts_with(prefix)).map(str::to_owned));
    }
}

#[test]
fn the_killing_places_are_all_known_here() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (part, prefix, known) in
        [("client", "client-", CLIENT_POINTS), ("server", "server-", SERVER_POINTS)]
    {
        let rare = RARE_POINTS.iter().filter(|name| name.starts_with(prefix));
        let mut found = BTreeSet::new();
        points_of(&crates.join(part).join("src"), prefix, &mut found);
        let known = known.iter().chain(rare).map(|name| name.to_string());
        assert_eq!(found, known.collect());
    }
}

// S1, S3, S4, Trap 6: the client dies, has small or large uploads, and dies again while it learns
// what became of the first one.
#[test]
fn a_client_that_dies_anywhere_loses_and_doubles_nothing() {
    let mut busy = busy_shop(&REMOTES[..2]);
    for large in [false, true] {
        for point in CLIENT_POINTS {
            let learns = *point == "client-outcome-learned";
            let server = busy.world.serve();
            busy.write_everywhere();
            if large {
                busy.sites[1].write_rows(LARGE.0, LARGE.1);
            }
            if learns {
                let status = sync_and_die(&busy.world, "ann", &server, "client-frozen");
                assert!(was_killed(status));
                busy.sites[1].write();
            }
            let status = sync_and_die(&busy.world, "ann", &server, point);
            assert!(was_killed(status), "{point}: {status}");
            busy.write_everywhere();
            sync_and_die(&busy.world, "ann", &server, "client-outcome-learned");
            busy.write_everywhere();
            server.stop();
            busy.assert_converges();
        }
    }
}

// S1, S4: a file that other programs filled is made a remote, and dies at its first steps.
#[test]
fn a_client_that_dies_in_its_first_synchronization_loses_and_doubles_nothing() {
    for point in CLIENT_POINTS.iter().filter(|point| **point != "client-outcome-learned") {
        let mut busy = busy_shop(&[]);
        sql(&busy.world.consolidated(), "DELETE FROM counter WHERE site = 1");
        busy.sites.push(Site::fill(&busy.world, 1, Chance::from_seed(1)));
        let server = busy.world.serve();
        let status = sync_and_die(&busy.world, "ann", &server, point);
        assert!(was_killed(status), "{point}: {status}");
        busy.sites[0].write();
        server.stop();
        busy.assert_converges();
    }
}

// S1, S3, S4, Trap 17: the server dies with its first, second, … synchronization in its hands.
#[test]
fn a_server_that_dies_anywhere_loses_and_doubles_nothing() {
    let mut busy = busy_shop(&REMOTES[..2]);
    for point in SERVER_POINTS {
        for passages in 0..PASSAGES_MAX {
            let fail_points = format!("{point}={passages}*off->return");
            let mut server = busy.world.serve_with(&[], Some(&fail_points));
            until("the server to die", || {
                busy.write_everywhere();
                for name in ["ann", "ben"] {
                    busy.world.syncline.run(&sync_arguments(name, &server.url));
                }
                server.has_ended()
            });
            let status = server.wait();
            assert!(was_killed(status), "{point}: {status}");
            busy.write_everywhere();
            busy.assert_converges();
        }
    }
}

// S1, S4, Trap 6: first the client dies, then the server while it answers the next attempt. A full
// run has every pair of places, others have each place in several pairs.
#[test]
fn both_die_one_after_the_other_and_nothing_is_lost_or_doubled() {
    let mut busy = busy_shop(&REMOTES[..1]);
    for (i, client_point) in CLIENT_POINTS.iter().enumerate() {
        for (j, server_point) in SERVER_POINTS.iter().enumerate() {
            if !full() && (i + j) % 3 != 0 {
                continue;
            }
            let mut server = busy.world.serve();
            busy.write_everywhere();
            sync_and_die(&busy.world, "ann", &server, client_point);
            server.kill();
            busy.write_everywhere();
            server = busy.world.serve_with(&[], Some(&format!("{server_point}=return")));
            until("the server to die", || {
                busy.world.syncline.run(&sync_arguments("ann", &server.url));
                server.has_ended()
            });
            assert!(was_killed(server.wait()));
            server = busy.world.serve();
            busy.sites[0].write();
            // It dies once more where it learns what became of all this, if there is anything.
            sync_and_die(&busy.world, "ann", &server, "client-outcome-learned");
            server.stop();
            busy.assert_converges();
        }
    }
}

// S1, S3, S4, S8, Trap 21, Trap 24: all remotes write and synchronize at once, keys and tables
// change, and all programs are killed at random.
#[test]
fn a_storm_of_kills_loses_and_doubles_nothing() {
    storm::run(&open_shop(PROGRAM), 60);
}

// S1, S3, S4, S8, Trap 21, Trap 24
#[test]
fn a_storm_of_kills_over_postgres_loses_and_doubles_nothing() {
    storm::run(&open_shop_in(PROGRAM, Cluster::shared().database()), 30);
}
