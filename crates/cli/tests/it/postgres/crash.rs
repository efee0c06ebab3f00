//! Every program is killed at every dangerous moment, also the database (S1, S4).
//!
//! Keys and tables change in between. `kill/` has the shop, whose rows show a loss.

#![cfg(feature = "fail-points")]
#![allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]

use super::PROGRAM;
use crate::kill::owner::Owner;
use crate::kill::shop::{REMOTES, Site, assert_nothing_lost_or_doubled, open_shop_in};
use harness::postgres::{Cluster, TestDatabase};
use harness::{Chance, Server, World, full, until};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first two remotes are enough.
const NAMES: [&str; 2] = [REMOTES[0], REMOTES[1]];

struct Shop {
    world: World,
    /// The center, ann and ben.
    sites: Vec<Site>,
    owner: Owner,
    chance: Chance,
}

impl Shop {
    fn open(database: TestDatabase) -> Shop {
        let world = open_shop_in(PROGRAM, database);
        let mut chance = Chance::usual(1);
        let sites = (0..=NAMES.len()).map(|number| Site::new(&world, number, chance.split()));
        let sites = sites.collect();
        let shop = Shop { world, sites, owner: Owner::new(chance.split()), chance };
        let server = shop.world.serve();
        shop.sync_all(&server);
        server.stop();
        shop
    }

    fn write_everywhere(&mut self) {
        self.sites[0].write();
        self.write_at_remotes();
    }

    fn write_at_remotes(&mut self) {
        for site in &mut self.sites[1..] {
            site.write();
        }
    }

    fn sync_all(&self, server: &Server) {
        for name in NAMES {
            until("a synchronization", || {
                let outcome = self.world.try_sync(name, server, None);
                print!("{name}: {}", outcome.stderr);
                outcome.code == Some(0)
            });
        }
    }

    /// All synchronize twice and hold the same; every row arrived, and arrived once.
    fn assert_nothing_lost_or_doubled(&self) {
        let server = self.world.serve();
        for _ in 0..2 {
            self.sync_all(&server);
        }
        server.stop();
        let sites: Vec<&Site> = self.sites.iter().collect();
        assert_nothing_lost_or_doubled(&self.world, &NAMES, &sites);
    }
}

// S1, S3, S4, Trap 21, Trap 24: the server dies with its first, second, …
// synchronization in its hands.
#[cfg(feature = "fail-points")]
#[test]
fn a_server_that_dies_anywhere_loses_and_doubles_nothing() {
    const POINTS: [&str; 5] = [
        "server-upload-received",
        "server-upload-before-commit",
        "server-upload-committed",
        "server-download-fetched",
        "server-download-half-sent",
    ];
    let mut shop = Shop::open(Cluster::shared().database());
    for (number, point) in POINTS.into_iter().enumerate() {
        for passages in 0..2 {
            // A full run has both at each place.
            if !full() && passages != number % 2 {
                continue;
            }
            let fail_points = format!("{point}={passages}*off->return");
            let mut server = shop.world.serve_with(&[], Some(&fail_points));
            if passages > 0 {
                shop.owner.change(&shop.world);
            }
            until("the server to die", || {
                shop.write_everywhere();
                for name in NAMES {
                    shop.world.try_sync(name, &server, None);
                }
                server.has_ended()
            });
            shop.write_everywhere();
            shop.assert_nothing_lost_or_doubled();
        }
    }
}

// S1, S4, Trap 6, Trap 21, Trap 24: the client dies, and learns what became of its upload.
#[cfg(feature = "fail-points")]
#[test]
fn a_client_that_dies_anywhere_loses_and_doubles_nothing() {
    const POINTS: [&str; 6] = [
        "client-frozen",
        "client-upload-sent",
        "client-upload-committed",
        "client-download-received",
        "client-apply-before-commit",
        "client-apply-committed",
    ];
    let mut shop = Shop::open(Cluster::shared().database());
    for point in POINTS {
        let server = shop.world.serve();
        shop.write_everywhere();
        shop.owner.change(&shop.world);
        let outcome = shop.world.try_sync("ann", &server, Some(&format!("{point}=return")));
        assert_eq!(outcome.code, None, "{point}: {outcome:?}");
        shop.write_everywhere();
        server.stop();
        shop.assert_nothing_lost_or_doubled();
    }
}

// S1, S3, S4, Trap 21, Trap 24: the database server is killed and started again while all remotes
// synchronize.
#[test]
fn a_killed_database_loses_and_doubles_nothing() {
    const KILLS: usize = 4;
    let cluster = Cluster::start();
    let mut shop = Shop::open(cluster.database());
    let server = shop.world.serve();
    for _ in 0..KILLS {
        shop.write_everywhere();
        let (killed, syncs) = (AtomicBool::new(false), shop.chance.below(6));
        std::thread::scope(|scope| {
            let (world, server, killed) = (&shop.world, &server, &killed);
            for name in NAMES {
                scope.spawn(move || {
                    while !killed.load(Ordering::Relaxed) {
                        world.try_sync(name, server, None);
                    }
                });
            }
            // Somewhere in the middle of what they do, another place every time.
            let log = world.path("server.log");
            let lines = || std::fs::read_to_string(&log).unwrap().lines().count();
            let before = lines();
            until("synchronizations under way", || lines() >= before + syncs as usize);
            cluster.kill();
            killed.store(true, Ordering::Relaxed);
        });
        shop.write_at_remotes();
        assert_ne!(shop.world.try_sync("ann", &server, None).code, Some(0));
        cluster.restart();
        shop.owner.change(&shop.world);
        // The same server process connects again by itself.
        shop.sync_all(&server);
    }
    server.stop();
    shop.assert_nothing_lost_or_doubled();
}
