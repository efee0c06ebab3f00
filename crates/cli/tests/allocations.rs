//! The server allocates memory for each message, and never for each row.
//!
//! It runs in this process, where every allocation is counted. The remotes are separate processes.
//! Allocations of SQLite are not counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{World, sql};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const PURCHASE: &str = "CREATE TABLE purchase (emp_id INTEGER, purch_id INTEGER,
    cost NUMERIC(30, 6) NOT NULL, order_date TIMESTAMP NOT NULL, notes VARCHAR(64),
    PRIMARY KEY (emp_id, purch_id))";

const FEW: i64 = 1_000;
const MANY: i64 = 10_000;

/// What else goes on in a server now and then is not in the least of several counts.
const REPETITIONS: i64 = 3;

/// A server in this process, and two remotes.
struct Site {
    world: World,
    server: server::Server,
    rows: i64,
}

impl Site {
    fn new(world: World) -> Site {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
        let text = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
        let line = text.lines().find(|line| line.starts_with("consolidated = ")).unwrap();
        let url = consolidated::Url::parse(line.split('"').nth(1).unwrap()).unwrap();
        let listen = vec!["tcp://127.0.0.1:0".to_owned()];
        let config = server::Config { listen, ..server::Config::default() };
        let components = server::Components::system(&config).unwrap();
        let server = server::start(config, &url, components).unwrap();
        Site { world, server, rows: 0 }
    }

    /// Allocations of the server while this remote synchronizes.
    fn synchronize(&self, name: &str) -> usize {
        let (file, password) = (format!("{name}.db"), format!("{name}.password"));
        let url = &self.server.addresses()[0];
        let region = Region::new(ALLOCATOR);
        self.world.syncline.ok(&[
            "sync",
            &file,
            "--server",
            url,
            "--user",
            name,
            "--password-file",
            &password,
        ]);
        let change = region.change();
        change.allocations + change.reallocations
    }

    /// Allocations while one remote uploads so many new rows and the other downloads them.
    fn carry(&mut self, rows: i64) -> (usize, usize) {
        let (first, last) = (self.rows + 1, self.rows + rows);
        self.rows = last;
        let text = format!(
            "WITH RECURSIVE number(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number
             WHERE n < {last}) INSERT INTO purchase SELECT 7, n, '123456789.120000',
             '2024-05-01 10:00:00', printf('%064d', n) FROM number"
        );
        sql(&self.world.remote("ann"), &text);
        (self.synchronize("ann"), self.synchronize("ben"))
    }

    fn least(&mut self, rows: i64) -> (usize, usize) {
        let counts: Vec<_> = (0..REPETITIONS).map(|_| self.carry(rows)).collect();
        let least = |of: fn(&(usize, usize)) -> usize| counts.iter().map(of).min().unwrap();
        (least(|count| count.0), least(|count| count.1))
    }
}

fn rows_cost_no_allocation(world: World) {
    let mut site = Site::new(world);
    site.synchronize("ann");
    site.synchronize("ben");
    // Buffers have grown and statements are prepared after this.
    site.carry(MANY);
    let (few_up, few_down) = site.least(FEW);
    let (many_up, many_down) = site.least(MANY);
    // How many it takes for a message is the benchmark's business; one for each row would be ten
    // times as many as this.
    let more_rows = usize::try_from(MANY - FEW).unwrap();
    assert!(many_up < few_up + more_rows / 10, "upload: {few_up}, then {many_up}");
    assert!(many_down < few_down + more_rows / 10, "download: {few_down}, then {many_down}");
    site.world.assert_converged(&["ann", "ben"]);
    site.server.drain();
}

// One test, because all of this process is counted.
#[test]
fn the_server_allocates_for_messages_and_not_for_rows() {
    rows_cost_no_allocation(World::new(PROGRAM, PURCHASE));
    rows_cost_no_allocation(World::on_postgres(PROGRAM, PURCHASE));
}
