//! Every program is killed at every dangerous moment, the database among them (S1, S4).

use crate::PROGRAM;
use harness::postgres::{Cluster, TestDatabase};
use harness::{Chance, Server, Share, World, count, query, sql, until};
use std::sync::atomic::{AtomicBool, Ordering};

/// Journal rows that nobody changes, counted in the same transaction by whoever writes them; the
/// centre writes down every insert and every step, so that what is lost or done twice shows.
const SHOP: &str = "CREATE TABLE counter (site int PRIMARY KEY, entries int NOT NULL);
    CREATE TABLE journal (id int PRIMARY KEY, site int NOT NULL REFERENCES counter);
    CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, visits int NOT NULL);
    CREATE TABLE seen (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, journal int NOT NULL);
    INSERT INTO counter VALUES (0, 0), (1, 0), (2, 0);
    INSERT INTO customer SELECT n, 'customer ' || n, 0 FROM generate_series(1, 20) n;
    CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO seen (journal) VALUES (NEW.id); RETURN NULL; END';
    CREATE TRIGGER seen AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION seen();";

const TABLES: [&str; 3] = ["counter", "journal", "customer"];
const NAMES: [&str; 2] = ["ann", "ben"];

struct Shop {
    world: World,
    /// Journal rows written: at the centre, by ann, by ben.
    entries: [i64; 3],
    chance: Chance,
}

impl Shop {
    fn open(database: TestDatabase) -> Shop {
        database.sql(SHOP);
        let world = World::on_database(PROGRAM, database);
        let url = world.database().url();
        let mut init = vec!["init", ".", "--consolidated", &url];
        init.extend(TABLES.iter().flat_map(|table| ["--table", table]));
        world.syncline.ok(&init);
        world.syncline.ok(&["deploy"]);
        world.configure("takeover_after_s = 1");
        for name in NAMES {
            world.add_user(name);
        }
        let shop = Shop { world, entries: [0; 3], chance: Chance::usual(1) };
        let server = shop.world.serve();
        shop.sync_all(&server);
        server.stop();
        shop
    }

    /// A transaction at this site: journal rows, their count, and changes that meet others'.
    fn transaction(&mut self, site: usize) -> String {
        let number = 1 + self.chance.below(3) as i64;
        let mut text = String::new();
        for _ in 0..number {
            self.entries[site] += 1;
            let id = site as i64 * 1_000_000 + self.entries[site];
            text.push_str(&format!("INSERT INTO journal VALUES ({id}, {site});"));
        }
        text.push_str(&format!(
            "UPDATE counter SET entries = entries + {number} WHERE site = {site};"
        ));
        let (customer, other) = (self.chance.below(20) + 1, self.chance.below(1000) + 100);
        match self.chance.below(4) {
            0 => text.push_str(&format!("DELETE FROM customer WHERE id = {customer};")),
            1 => text.push_str(&format!(
                "INSERT INTO customer VALUES ({other}, 'new', 0) ON CONFLICT DO NOTHING;"
            )),
            _ => text.push_str(&format!(
                "UPDATE customer SET visits = visits + 1, name = 'by {site}' WHERE id = {customer};"
            )),
        }
        text
    }

    fn write_everywhere(&mut self) {
        let text = self.transaction(0);
        self.world.centre_sql(&format!("BEGIN; {text} COMMIT"));
        self.write_at_remotes();
    }

    fn write_at_remotes(&mut self) {
        for (index, name) in NAMES.iter().enumerate() {
            let text = self.transaction(index + 1);
            sql(&self.world.remote(name), text.trim_end_matches(';'));
        }
    }

    fn sync_all(&self, server: &Server) {
        for name in NAMES {
            until("a synchronization", || self.world.try_sync(name, server, None).code == Some(0));
        }
    }

    /// All synchronize twice and hold the same; every row arrived, and arrived once.
    fn assert_nothing_lost_or_doubled(&self) {
        let server = self.world.serve();
        for _ in 0..2 {
            self.sync_all(&server);
        }
        server.stop();
        for name in NAMES {
            let lines = self.world.differences_in(name, &TABLES.map(Share::whole));
            assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
        }
        for (site, entries) in self.entries.iter().enumerate() {
            let journal = format!("SELECT count(*) FROM journal WHERE site = {site}");
            assert_eq!(self.world.centre_count(&journal), *entries);
            let counter = format!("SELECT entries FROM counter WHERE site = {site}");
            assert_eq!(self.world.centre_count(&counter), *entries);
        }
        let seen =
            self.world.database().query("SELECT count(*), count(DISTINCT journal) FROM seen");
        let all: i64 = self.entries.iter().sum();
        assert_eq!(seen, [[all.to_string(), all.to_string()]]);
    }
}

// S1, S3, S4: the server dies with its first, second, … synchronization in its hands.
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
    for point in POINTS {
        for passages in 0..2 {
            let fail_points = format!("{point}={passages}*off->return");
            let mut server = shop.world.serve_with(&[], Some(&fail_points));
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

// S1, S4, Trap 6: the client dies, and learns what became of its upload.
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
        let outcome = shop.world.try_sync("ann", &server, Some(&format!("{point}=return")));
        assert_eq!(outcome.code, None, "{point}: {outcome:?}");
        shop.write_everywhere();
        server.stop();
        shop.assert_nothing_lost_or_doubled();
    }
}

// S1, S3, S4: the database server is killed and started again while everybody synchronizes.
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
        // The same server process connects again by itself.
        shop.sync_all(&server);
    }
    server.stop();
    shop.assert_nothing_lost_or_doubled();
    let broken = query(&shop.world.remote("ann"), "SELECT * FROM pragma_foreign_key_check");
    assert!(broken.is_empty(), "{broken:?}");
    assert!(count(&shop.world.remote("ann"), "SELECT count(*) FROM journal") > 0);
}
