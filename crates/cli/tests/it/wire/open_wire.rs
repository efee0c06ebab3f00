//! A music shop with twenty remotes on the open network.
//!
//! They use HTTPS through a real nginx, rows are compressed, and each has a JWT.
//!
//! The server behind the proxy is stopped or killed again and again, and in the middle a column
//! is renamed and another one added. Nothing is lost, and nothing is there twice.
//!
//! SYNCLINE_TEST_FULL makes it long. SYNCLINE_TEST_SEED chooses other moments.

use crate::users::jwt::provider::{PROVIDER, SECRET, issue};
use harness::postgres::Cluster;
use harness::{Chance, Dialect, Nginx, Server, Share, Shop, World, count, full, sql};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const REMOTES: u64 = 20;
/// Remotes that are busy at the same time.
const BUSY: u64 = 4;
/// Customers of the shop, whom the remotes share among them.
const CUSTOMERS: u64 = 59;

/// Tracks that every remote changes.
const TRACKS_IN_COMMON: u64 = 3;
/// A remote deletes every so many rounds what it inserted in the round before.
const DELETES_EVERY: u64 = 2;

/// Rounds of a remote, if the interruptions never become enough.
const ROUNDS_MAX: u64 = 1000;

/// A customer belongs to one remote, with invoices and their lines; the rest is everybody's.
const MODEL: &str = "script_version = \"v1\"
[table.artist]
[table.album]
[table.employee]
[table.genre]
[table.media_type]
[table.playlist]
[table.playlist_track]
[table.track]
[table.customer]
partition = \"customer_id IN {u.customers}\"
[table.invoice]
parent = \"customer\"
[table.invoice_line]
parent = \"invoice\"
";

/// Names that the shop has in PostgreSQL, and that are words with capitals in SQLite.
const NAMES: [&str; 10] = [
    "artist_id",
    "company",
    "composer",
    "customer_id",
    "invoice_date",
    "invoice_id",
    "invoice_line",
    "media_type",
    "playlist_track",
    "track_id",
];

/// The same text with the names of this database.
fn spelled(dialect: Dialect, text: &str) -> String {
    let words = |name: &str| -> String {
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        name.split('_').map(capital).collect()
    };
    match dialect {
        Dialect::Postgres => text.to_owned(),
        Dialect::Sqlite => {
            NAMES.iter().fold(text.to_owned(), |text, name| text.replace(name, &words(name)))
        }
    }
}

/// Counts how often a row was inserted, whoever did it.
fn audit(dialect: Dialect) -> String {
    let table = "CREATE TABLE audit_inserted (of_table VARCHAR(20), id INTEGER);";
    let function = "CREATE FUNCTION audit_note() RETURNS trigger SECURITY DEFINER
        LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO audit_inserted VALUES
            (TG_TABLE_NAME, (to_jsonb(NEW) ->> TG_ARGV[0])::integer);
        RETURN NULL; END $$;";
    let trigger = |(table, key)| {
        let body = match dialect {
            Dialect::Postgres => format!("EXECUTE FUNCTION audit_note('{key}')"),
            Dialect::Sqlite => {
                format!("BEGIN INSERT INTO audit_inserted VALUES ('{table}', NEW.{key}); END")
            }
        };
        format!("CREATE TRIGGER note_{table} AFTER INSERT ON {table} FOR EACH ROW {body};")
    };
    let triggers: String =
        [("invoice", "invoice_id"), ("artist", "artist_id")].map(trigger).concat();
    match dialect {
        Dialect::Postgres => format!("{table}{function}{triggers}"),
        Dialect::Sqlite => format!("{table}{}", spelled(dialect, &triggers)),
    }
}

// S1, S3, S6, S7, Trap 24
#[test]
fn a_shop_on_the_open_network_loses_nothing() {
    loses_nothing(Shop::Generated, Dialect::Postgres);
}

// S1, S3, S6, S7, Trap 24
#[test]
fn a_shop_on_the_open_network_loses_nothing_on_sqlite() {
    loses_nothing(Shop::Generated, Dialect::Sqlite);
}

// S1, S3, S6, S7, Trap 24
#[test]
#[ignore = "SYNCLINE_TEST_DATA must name the folder with Chinook_PostgreSql.sql"]
fn chinook_on_the_open_network_loses_nothing_needs_syncline_test_data() {
    loses_nothing(Shop::Published, Dialect::Postgres);
}

// S1, S3, S6, S7, Trap 24
#[test]
#[ignore = "SYNCLINE_TEST_DATA must name the folder with Chinook_Sqlite.sql"]
fn chinook_on_the_open_network_loses_nothing_on_sqlite_needs_syncline_test_data() {
    loses_nothing(Shop::Published, Dialect::Sqlite);
}

fn loses_nothing(shop: Shop, dialect: Dialect) {
    let mut chance = Chance::usual(1);
    let world = deployed(shop, dialect);
    let server = world.serve_at("http://127.0.0.1:0/shop");
    let nginx = Nginx::start(&world, &server, Nginx::guided());
    let url = nginx.url("https");
    let scene = Scene { world: &world, dialect, url, storm: Storm::default() };
    let (rounds, interruptions) = if full() { (24, 40) } else { (3, 3) };
    thread::scope(|scope| {
        let storm = chance.split();
        let stormy = scope.spawn(|| scene.storm.rage(&world, server, storm));
        let busy: Vec<_> = (0..BUSY)
            .map(|at| {
                let scene = &scene;
                scope.spawn(move || {
                    let mine = || (0..REMOTES).filter(move |remote| remote % BUSY == at);
                    // As long as the weather is not over, there is more to do.
                    let mut round = 0;
                    while round < rounds || scene.storm.count() < interruptions {
                        assert!(round < ROUNDS_MAX, "the server is never interrupted");
                        mine().for_each(|remote| scene.work(remote, round));
                        round += 1;
                    }
                    round
                })
            })
            .collect();
        let changed = scope.spawn(|| scene.change_tables()).join();
        let rounds: Vec<_> = busy.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // Also where something went wrong: the storm would last for ever.
        scene.storm.over.store(true, Ordering::SeqCst);
        changed.unwrap();
        let rounds: Vec<u64> = rounds.into_iter().map(Result::unwrap).collect();
        let _server = stormy.join().unwrap();
        for remote in (0..REMOTES).chain(0..REMOTES) {
            scene.synchronize(remote);
        }
        scene.check(|remote| rounds[(remote % BUSY) as usize]);
    });
}

fn deployed(shop: Shop, dialect: Dialect) -> World {
    let create = format!("{};{}", shop.script(dialect), audit(dialect));
    let (world, url) = match dialect {
        Dialect::Sqlite => {
            let world = World::without_deployment(PROGRAM, &create);
            (world, "sqlite:consolidated.db".to_owned())
        }
        Dialect::Postgres => {
            let database = Cluster::shared().database();
            database.sql(&create);
            let url = database.url();
            (World::on_database(PROGRAM, database), url)
        }
    };
    world.syncline.ok(&["init", ".", "--consolidated", &url]);
    std::fs::write(world.path("model.toml"), spelled(dialect, MODEL)).unwrap();
    world.write_secret("jwt.secret", SECRET);
    world.configure(PROVIDER);
    world.configure("jwt_claims = [\"customers\"]\njwt_register = true");
    world.configure("jwt_secret_file = \"jwt.secret\"");
    world.syncline.ok(&["deploy"]);
    world.syncline.ok(&["cert", "dev"]);
    for remote in 0..REMOTES {
        issue(&world, &name(remote), &json!({ "customers": customers(remote) }));
    }
    world
}

fn name(remote: u64) -> String {
    format!("remote{remote}")
}

/// The customers of a remote.
fn customers(remote: u64) -> Vec<u64> {
    (1..=CUSTOMERS).filter(|customer| customer % REMOTES == remote).collect()
}

/// The weather: servers come and go.
#[derive(Default)]
struct Storm {
    over: AtomicBool,
    interruptions: AtomicUsize,
}

impl Storm {
    fn count(&self) -> usize {
        self.interruptions.load(Ordering::SeqCst)
    }

    /// Stops the server, or kills it, and starts another one. The last one lives.
    fn rage(&self, world: &World, mut server: Server, mut chance: Chance) -> Server {
        while !self.over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(300 + chance.below(1500)));
            let url = server.url.clone();
            match self.count() % 2 {
                0 => server.kill(),
                _ => server.stop(),
            }
            server = world.serve_at(&url);
            self.interruptions.fetch_add(1, Ordering::SeqCst);
        }
        server
    }
}

struct Scene<'a> {
    world: &'a World,
    dialect: Dialect,
    url: String,
    storm: Storm,
}

impl Scene<'_> {
    /// Works offline, if there is something to work with, and synchronizes.
    fn work(&self, remote: u64, round: u64) {
        let file = self.world.remote(&name(remote));
        if round > 0 {
            // All remotes write to few rows of everybody, and delete some of their own.
            let common = 1 + round % TRACKS_IN_COMMON;
            let deleted =
                id(remote, if round.is_multiple_of(DELETES_EVERY) { round - 1 } else { 0 });
            let (id, customer) = (id(remote, round), customers(remote)[0]);
            let renamed = "SELECT count(*) FROM pragma_table_info('customer') WHERE name = 'firm'";
            let company = if count(&file, renamed) == 1 { "firm" } else { "company" };
            let text = format!(
                "INSERT INTO artist (artist_id, name) VALUES ({id}, 'of {remote}');
                 INSERT INTO invoice (invoice_id, customer_id, invoice_date, total)
                     VALUES ({id}, {customer}, '2030-01-01 00:00:00', 1.98);
                 INSERT INTO invoice_line VALUES ({id}, {id}, 1, 0.99, 2);
                 UPDATE customer SET {company} = 'round {round}' WHERE customer_id = {customer};
                 UPDATE track SET composer = '{remote} in {round}' WHERE track_id = {common};
                 DELETE FROM invoice_line WHERE invoice_id = {deleted};
                 DELETE FROM invoice WHERE invoice_id = {deleted};
                 DELETE FROM artist WHERE artist_id = {deleted}"
            );
            sql(&file, &spelled(self.dialect, &text));
        }
        self.synchronize(remote);
    }

    /// Until it succeeds: what fails while the server is away must say that it passes.
    fn synchronize(&self, remote: u64) {
        let name = name(remote);
        let (file, token) = (format!("{name}.db"), format!("{name}.jwt"));
        let all = ["sync", &file, "--server", &self.url, "--user", &name, "--token-file", &token];
        let more = ["--ca-file", "ca.pem", "--compression", "zstd", "--json"];
        let all = [&all[..], &more].concat();
        harness::until(&format!("{name} to synchronize"), || {
            let outcome = self.world.syncline.run(&all);
            let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
            if outcome.code == Some(0) {
                assert_eq!(report["rejected"], 0, "{name}: {report}");
                return true;
            }
            assert_eq!(report["error"]["retry"], true, "{name}: {outcome:?}");
            false
        });
    }

    /// A column is renamed and another one added, once most remotes have rows.
    fn change_tables(&self) {
        let world = self.world;
        harness::until("two interruptions", || self.storm.count() >= 2);
        world.center_sql(
            "ALTER TABLE customer RENAME COLUMN company TO firm;
             ALTER TABLE artist ADD COLUMN country varchar(20) DEFAULT 'somewhere'",
        );
        let renamed = "[table.customer]\nrenamed = { firm = \"company\" }";
        let model = MODEL.replace("[table.customer]", renamed);
        std::fs::write(world.path("model.toml"), spelled(self.dialect, &model)).unwrap();
        world.syncline.ok(&["deploy"]);
    }

    /// Each remote has its share, and all that was written is there once.
    fn check(&self, rounds: impl Fn(u64) -> u64) {
        let world = self.world;
        let rows = |query: &str| world.center_count(&spelled(self.dialect, query));
        let shares = |remote| shares(remote, |text| spelled(self.dialect, text));
        for remote in 0..REMOTES {
            let differences = world.differences_in(&name(remote), &shares(remote));
            assert!(differences.is_empty(), "{}:\n{}", name(remote), differences.join("\n"));
            let last = rounds(remote) - 1;
            let (own, customer) = (id(remote, 0), customers(remote)[0]);
            let range = format!("BETWEEN {own} AND {}", own + last);
            for (table, key) in
                [("artist", "artist_id"), ("invoice", "invoice_id"), ("invoice_line", "invoice_id")]
            {
                let written = format!("SELECT count(*) FROM {table} WHERE {key} {range}");
                let left = last - last / DELETES_EVERY;
                assert_eq!(rows(&written), left as i64, "{} {table}", name(remote));
            }
            let audit = format!("SELECT count(*) FROM audit_inserted WHERE id {range}");
            assert_eq!(rows(&audit), 2 * last as i64, "{} twice", name(remote));
            let firm = format!(
                "SELECT count(*) FROM customer
                 WHERE customer_id = {customer} AND firm = 'round {last}'"
            );
            assert_eq!(rows(&firm), 1, "{} in round {last}", name(remote));
        }
    }
}

/// The keys that a remote gives to new rows.
fn id(remote: u64, round: u64) -> u64 {
    100_000 * (remote + 1) + round
}

fn shares(remote: u64, spelled: impl Fn(&str) -> String) -> Vec<Share> {
    let customers = customers(remote).iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let of_invoices = format!(
        "t.invoice_id IN (SELECT invoice_id FROM invoice WHERE customer_id IN ({customers}))"
    );
    let mine = format!("t.customer_id IN ({customers})");
    let everybodys = "artist album employee genre media_type playlist playlist_track track";
    let whole = everybodys.split(' ').map(|table| Share::whole(&spelled(table)));
    let parts = [("customer", &mine), ("invoice", &mine), ("invoice_line", &of_invoices)];
    let part =
        |(table, condition): (&str, &String)| Share::of(&spelled(table), &spelled(condition));
    whole.chain(parts.map(part)).collect()
}
