//! Random events in the life of a fleet, with real files, servers and databases.
//!
//! There are files that are remotes, a server, a consolidated database, and programs that write to
//! all of them.
//!
//! `walk.rs` draws the events and `writes.rs` the writes. `shop.rs` knows the tables and which
//! remote receives which rows, and `oracle.rs` compares. The printed seed repeats a run.

#![allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]

mod center;
mod cut;
mod file;
mod oracle;
mod own;
pub(crate) mod schema;
pub(crate) mod shape;
pub(crate) mod shop;
mod site;
mod upheaval;
mod walk;
pub(crate) mod writes;

use center::Backend;
use harness::full;
use own::FIRST_OWN_SEED;
use upheaval::FIRST_SEED;
use walk::Walk;

/// Fleets of one run. Their numbers are the seeds, the same in every run.
const FLEETS: u64 = 1;
const FLEETS_FULL: u64 = 12;
/// Fleets to which more happens, from this seed on.
const UPHEAVALS: u64 = 2;
const UPHEAVALS_FULL: u64 = 8;
/// Fleets to which as much happens, with scripts of the user's own.
const OWN: u64 = 1;
const OWN_FULL: u64 = 8;
/// Fleets behind these that found something on SQLite once: keys that change while foreign keys are
/// off, a ring that goes, and a conflict that opened the fence.
const FOUND: [u64; 3] = [74, 93, 351];
/// More of them.
const FOUND_FULL: [u64; 25] = [
    15, 21, 40, 45, 54, 55, 70, 71, 72, 73, 75, 91, 94, 95, 99, 116, 319, 342, 366, 375, 382, 384,
    465, 469, 500,
];
/// Those that found something on PostgreSQL: an orphan that came while a broken row was mended, and
/// a table that was older at the remote.
const FOUND_POSTGRES: [u64; 1] = [223];
const FOUND_POSTGRES_FULL: [u64; 2] = [222, 324];
/// On PostgreSQL every synchronization takes longer.
const POSTGRES_SHARE: u64 = 2;

fn walk(backend: Backend) {
    if let Ok(seed) = std::env::var("SYNCLINE_TEST_SEED") {
        println!("repeats the fleet of seed {seed}");
        return Walk::new(backend, seed.parse().unwrap()).go();
    }
    let (fleets, upheavals) =
        if full() { (FLEETS_FULL, UPHEAVALS_FULL) } else { (FLEETS, UPHEAVALS) };
    let share = if backend == Backend::Postgres { POSTGRES_SHARE } else { 1 };
    let upheavals = FIRST_SEED..FIRST_SEED + upheavals / share;
    let (found, more): (&[u64], &[u64]) = match backend {
        Backend::Sqlite => (&FOUND, if full() { &FOUND_FULL } else { &[] }),
        Backend::Postgres => (&FOUND_POSTGRES, if full() { &FOUND_POSTGRES_FULL } else { &[] }),
    };
    let own = if full() { OWN_FULL } else { OWN };
    let own = FIRST_OWN_SEED..FIRST_OWN_SEED + own / share;
    let drawn = (1..=fleets / share).chain(upheavals).chain(own);
    for fleet in drawn.chain(found.iter().chain(more).copied()) {
        println!("repeat with SYNCLINE_TEST_SEED={fleet}");
        Walk::new(backend, fleet).go();
    }
}

// S1, S2, S3, S5, S6, S7, Trap 20, Trap 21, Trap 23, Trap 24, Trap 26: keys, columns, publications
// and claims change, foreign keys are bypassed and connections end while all databases are written
// to. After each synchronization a remote has exactly the right rows, and each change of a remote
// is at the center or in a record.
#[test]
fn whatever_happens_to_a_fleet_it_converges_on_sqlite() {
    walk(Backend::Sqlite);
}

// S1, S2, S3, S5, S6, S7, Trap 20, Trap 21, Trap 23, Trap 24, Trap 26: the same on PostgreSQL.
#[test]
fn whatever_happens_to_a_fleet_it_converges_on_postgres() {
    walk(Backend::Postgres);
}
