//! Hundreds of random changes to a shop by other programs on both sides, and all databases agree.
//!
//! In the middle a column is renamed and another one is added.
//!
//! SYNCLINE_TEST_SEED chooses other changes.

#![allow(clippy::print_stdout, reason = "tells which case failed")]

use harness::{Dialect, ForeignTool, Server, Shop, World, count, full, tables};
use model::Random;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const REMOTES: usize = 20;
const CHANGES: usize = 300;
const CHANGES_FULL: usize = 1000;
/// Changes that one program makes before a synchronization.
const CHANGES_AT_ONCE: usize = 10;

// S3, Trap 11, Trap 24: in spite of conflicts, refused rows, and tables that change while changes
// are pending, all databases get the same rows.
#[test]
fn twenty_remotes_of_a_shop_converge() {
    twenty_remotes_converge(Shop::Generated);
}

// S3, Trap 11, Trap 24
#[test]
#[ignore = "SYNCLINE_TEST_DATA must name the folder with Chinook_Sqlite.sql"]
fn twenty_remotes_of_chinook_converge_needs_syncline_test_data() {
    twenty_remotes_converge(Shop::Published);
}

fn twenty_remotes_converge(shop: Shop) {
    let first: u64 = std::env::var("SYNCLINE_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (seeds, changes) = if full() { (5, CHANGES_FULL) } else { (1, CHANGES) };
    for seed in first..first + seeds {
        println!("SYNCLINE_TEST_SEED={seed}");
        let world = deployed(shop);
        let server = world.serve();
        let names: Vec<String> = (1..=REMOTES).map(|number| format!("remote{number}")).collect();
        let mut totals = Totals::default();
        for name in &names {
            totals.add(&synchronize(&world, &server, name));
        }
        totals = Totals::default();
        write_everywhere(&world, &server, &names, (seed, changes), &mut totals);
        for name in names.iter().chain(&names) {
            totals.add(&synchronize(&world, &server, name));
        }
        println!("{totals:?}");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.assert_converged(&names);
        assert_eq!(tables(&world.consolidated()).len(), 11);
        for path in names.iter().map(|name| world.remote(name)).chain([world.consolidated()]) {
            let broken = "SELECT count(*) FROM pragma_foreign_key_check";
            assert_eq!(count(&path, broken), 0, "{}", path.display());
        }
        // The changes were worth the name: they met each other, and some were impossible.
        let (uploaded_min, downloaded_min) = (changes as u64 * 2 / 5, changes as u64 * 5);
        assert!(totals.uploaded > uploaded_min && totals.downloaded > downloaded_min, "{totals:?}");
        assert!(totals.conflicts > 0 && totals.rejected > 0, "{totals:?}");
    }
}

/// The shop, initialized and deployed without a hand edit.
fn deployed(shop: Shop) -> World {
    let world = World::without_deployment(PROGRAM, "");
    let text = shop.script(Dialect::Sqlite);
    ForeignTool::Shell.sql(&world.consolidated(), &format!("BEGIN; {text}; COMMIT;"));
    let init = world.syncline.run(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
    assert!(init.code == Some(0) && init.stderr.is_empty(), "{init:?}");
    assert!(init.stdout.contains("11 tables published"), "{init:?}");
    world.syncline.ok(&["deploy"]);
    world.add_user("ann");
    world
}

#[derive(Debug, Default)]
struct Totals {
    uploaded: u64,
    downloaded: u64,
    conflicts: u64,
    rejected: u64,
}

impl Totals {
    fn add(&mut self, report: &serde_json::Value) {
        let sum = |counts: &serde_json::Value| -> u64 {
            counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
        };
        self.uploaded += sum(&report["uploaded"]);
        self.downloaded += sum(&report["downloaded"]);
        self.conflicts += report["conflicts"].as_u64().unwrap();
        self.rejected += report["rejected"].as_u64().unwrap();
    }
}

/// All remotes are those of one user.
fn synchronize(world: &World, server: &Server, name: &str) -> serde_json::Value {
    let file = format!("{name}.db");
    let mut arguments = vec!["sync", &file, "--server", &server.url, "--user", "ann"];
    arguments.extend(["--password-file", "ann.password", "--token-file", "token", "--json"]);
    world.syncline.json(&arguments)
}

/// The changes, each by one of two programs, at the center or at a remote, and synchronizations
/// in between.
fn write_everywhere(
    world: &World,
    server: &Server,
    names: &[String],
    (seed, changes): (u64, usize),
    totals: &mut Totals,
) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut dice = Dice { random: Random::from_seed(bytes), fresh: 100_000 };
    for round in 0..changes / CHANGES_AT_ONCE {
        if round == changes / CHANGES_AT_ONCE / 2 {
            change_tables(world);
        }
        let path = match dice.below(4) {
            0 => world.consolidated(),
            _ => world.remote(&names[dice.below(REMOTES)]),
        };
        let tool = ForeignTool::ALL[dice.below(2)];
        let changes: Vec<String> = (0..CHANGES_AT_ONCE).map(|_| dice.change()).collect();
        tool.sql(&path, &under_its_names(&path, changes.join("\n")));
        if dice.below(10) == 0 {
            tool.sql(&path, "VACUUM;");
        }
        if dice.below(4) > 0 {
            let name = &names[dice.below(REMOTES)];
            totals.add(&synchronize(world, server, name));
        }
    }
}

/// `Company` of the customers is called `Firm`, and artists have a country.
fn change_tables(world: &World) {
    let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
    let renamed = "[table.Customer]\nrenamed = { Firm = \"Company\" }";
    assert_eq!(model.matches("[table.Customer]").count(), 1, "{model}");
    std::fs::write(world.path("model.toml"), model.replace("[table.Customer]", renamed)).unwrap();
    world.center_sql(
        "ALTER TABLE Customer RENAME COLUMN Company TO Firm;
         ALTER TABLE Artist ADD COLUMN Country TEXT DEFAULT 'somewhere'",
    );
    world.syncline.ok(&["deploy"]);
}

/// The changes in the names that this database has, which may not have heard of the new ones, and a
/// use of what is new where it has.
fn under_its_names(path: &Path, changes: String) -> String {
    let firm = "SELECT count(*) FROM pragma_table_info('Customer') WHERE name = 'Firm'";
    match count(path, firm) {
        0 => changes,
        _ => {
            let artists = "UPDATE Artist SET Country = 'of ' || ArtistId WHERE ArtistId % 9 = 2;";
            changes.replace("SET Company =", "SET Firm =") + artists
        }
    }
}

/// Draws changes that are right wherever they are made: they choose among the rows that are
/// there, and delete only what nothing refers to.
struct Dice {
    random: Random,
    /// The next unused key.
    fresh: u64,
}

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.next_u64() % bound as u64).unwrap()
    }

    fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    /// A key that others draw too.
    fn common(&mut self) -> usize {
        90_000 + self.below(15)
    }

    /// A query for one row's key.
    fn pick(&mut self, table: &str, key: &str) -> String {
        self.pick_where(table, key, "1")
    }

    fn pick_where(&mut self, table: &str, key: &str, condition: &str) -> String {
        let salt = self.below(1_000_000);
        format!(
            "(SELECT {key} FROM {table} WHERE {condition} \
             ORDER BY ({key} * 48271 + {salt}) % 1000003, {key} LIMIT 1)"
        )
    }

    fn childless(&mut self, table: &str, key: &str, children: &[(&str, &str)]) -> String {
        let none: Vec<String> = children
            .iter()
            .map(|(child, column)| format!("{key} NOT IN (SELECT {column} FROM {child})"))
            .collect();
        self.pick_where(table, key, &none.join(" AND "))
    }

    fn text(&mut self) -> String {
        let number = self.below(10_000);
        ["'Straße ' || char(8364)", "'it''s \"' || char(10)", "'007'", "'   '", "''"]
            .get(self.below(8))
            .map_or(format!("'text {number}'"), |text| format!("{text} || {number}"))
    }

    /// A transaction.
    fn change(&mut self) -> String {
        match self.below(25) {
            0..=6 => self.insert(),
            7..=12 => self.update(),
            13..=17 => self.delete(),
            18..=20 => self.update_key(),
            _ => self.replace(),
        }
    }

    fn insert(&mut self) -> String {
        let (id, text) = (self.fresh(), self.text());
        let artist = self.pick("Artist", "ArtistId");
        let album = self.pick("Album", "AlbumId");
        let track = self.pick("Track", "TrackId");
        let genre = self.pick("Genre", "GenreId");
        let boss = self.pick("Employee", "EmployeeId");
        let customer = self.pick("Customer", "CustomerId");
        let playlist = self.pick("Playlist", "PlaylistId");
        match self.below(7) {
            0 => format!("INSERT INTO Artist (ArtistId, Name) VALUES ({id}, {text});"),
            1 => format!("INSERT INTO Album VALUES ({id}, {text}, {artist});"),
            2 => format!(
                "INSERT INTO Track (TrackId, Name, AlbumId, MediaTypeId, GenreId, Milliseconds,
                     UnitPrice) VALUES ({id}, {text}, {album}, 1, {genre}, 1, 0.99);"
            ),
            3 => format!(
                "INSERT INTO Employee (EmployeeId, LastName, FirstName, ReportsTo)
                     VALUES ({id}, {text}, 'New', {boss});"
            ),
            4 => format!(
                "INSERT INTO Customer (CustomerId, FirstName, LastName, Email, SupportRepId)
                     VALUES ({id}, 'New', {text}, 'x@y', {boss});"
            ),
            5 => format!(
                "BEGIN; INSERT INTO Invoice (InvoiceId, CustomerId, InvoiceDate, Total)
                     VALUES ({id}, {customer}, '2030-01-01 00:00:00', 1.98);
                 INSERT INTO InvoiceLine VALUES ({id}, {id}, {track}, 0.99, 2); COMMIT;"
            ),
            _ => format!("INSERT OR IGNORE INTO PlaylistTrack VALUES ({playlist}, {track});"),
        }
    }

    fn update(&mut self) -> String {
        let text = self.text();
        let track = self.pick("Track", "TrackId");
        let album = self.pick("Album", "AlbumId");
        let artist = self.pick("Artist", "ArtistId");
        // Few rows to choose from, so that changes meet.
        let few = self.pick_where("Customer", "CustomerId", "CustomerId <= 10");
        let (boss, employee) =
            (self.pick("Employee", "EmployeeId"), self.pick("Employee", "EmployeeId"));
        match self.below(7) {
            0 => {
                format!("UPDATE Track SET Name = {text}, Composer = NULL WHERE TrackId = {track};")
            }
            1 => format!("UPDATE Track SET UnitPrice = 1.5 WHERE AlbumId = {album};"),
            2 => format!("UPDATE Album SET ArtistId = {artist} WHERE AlbumId = {album};"),
            3 => format!("UPDATE Customer SET Company = {text} WHERE CustomerId = {few};"),
            4 => format!("UPDATE Customer SET SupportRepId = {boss} WHERE CustomerId = {few};"),
            5 => format!("UPDATE Employee SET ReportsTo = {boss} WHERE EmployeeId = {employee};"),
            _ => format!("UPDATE Genre SET Name = {text} WHERE GenreId <= 3;"),
        }
    }

    fn delete(&mut self) -> String {
        match self.below(8) {
            0 => {
                let line = self.pick("InvoiceLine", "InvoiceLineId");
                format!("DELETE FROM InvoiceLine WHERE InvoiceLineId = {line};")
            }
            1 => {
                let row = self.pick("PlaylistTrack", "rowid");
                format!("DELETE FROM PlaylistTrack WHERE rowid = {row};")
            }
            2 | 3 => {
                let children = [("InvoiceLine", "TrackId"), ("PlaylistTrack", "TrackId")];
                let track = self.childless("Track", "TrackId", &children);
                format!("DELETE FROM Track WHERE TrackId = {track};")
            }
            4 | 5 => {
                let artist = self.childless("Artist", "ArtistId", &[("Album", "ArtistId")]);
                format!("DELETE FROM Artist WHERE ArtistId = {artist};")
            }
            6 => {
                let invoice = self.pick("Invoice", "InvoiceId");
                format!(
                    "BEGIN; DELETE FROM InvoiceLine WHERE InvoiceId = {invoice};
                     DELETE FROM Invoice WHERE InvoiceId = {invoice}; COMMIT;"
                )
            }
            _ => {
                let customer =
                    self.childless("Customer", "CustomerId", &[("Invoice", "CustomerId")]);
                format!("DELETE FROM Customer WHERE CustomerId = {customer};")
            }
        }
    }

    /// Other primary keys of rows that nobody else knows, a parent with its child among them.
    fn update_key(&mut self) -> String {
        let (id, to, text) = (self.fresh(), self.fresh(), self.text());
        match self.below(2) {
            0 => format!(
                "BEGIN; PRAGMA defer_foreign_keys = ON;
                 INSERT INTO Artist (ArtistId, Name) VALUES ({id}, {text});
                 INSERT INTO Album (AlbumId, Title, ArtistId) VALUES ({id}, {text}, {id});
                 UPDATE Album SET ArtistId = {to}, AlbumId = {to} WHERE ArtistId = {id};
                 UPDATE Artist SET ArtistId = {to} WHERE ArtistId = {id}; COMMIT;"
            ),
            _ => {
                let common = self.common();
                format!(
                    "INSERT INTO Artist (ArtistId, Name) VALUES ({id}, {text});
                     UPDATE OR REPLACE Artist SET ArtistId = {common} WHERE ArtistId = {id};"
                )
            }
        }
    }

    fn replace(&mut self) -> String {
        let (common, text) = (self.common(), self.text());
        let (genre, playlist) =
            (self.pick("Genre", "GenreId"), self.pick("Playlist", "PlaylistId"));
        let track = self.pick("Track", "TrackId");
        match self.below(4) {
            0 => {
                format!("INSERT OR REPLACE INTO Artist (ArtistId, Name) VALUES ({common}, {text});")
            }
            1 => format!("REPLACE INTO Genre VALUES ({genre}, {text});"),
            2 => format!("REPLACE INTO PlaylistTrack VALUES ({playlist}, {track});"),
            _ => format!(
                "INSERT INTO Playlist VALUES ({common}, {text})
                     ON CONFLICT (PlaylistId) DO UPDATE SET Name = excluded.Name || ' again';"
            ),
        }
    }
}
