//! A shop whose rows show whether a change was lost, made twice or seen half.
//!
//! K1. Every remote and the center insert journal rows, which are never changed or deleted. In the
//!     same transaction they count them in a row of `counter` that only they write. A reader that
//!     sees one without the other has seen half of a transaction.
//! K2. Triggers at the center record every insert into `journal`, and every step of `counter`.
//! K3. All remotes change everything else, so that there are conflicts and rejects, and badges that
//!     move while each has one owner at most. Keys change, also of rows that others refer to, and
//!     the owner changes the tables.

use super::business;
use super::owner::{TABLES, model};
use super::place::{Place, Program};
use harness::postgres::TestDatabase;
use harness::{Chance, Share, World, query, sql};
use std::path::Path;

const CREATE: &str = r#"
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, badge INTEGER UNIQUE,
        visits INTEGER NOT NULL);
    CREATE TABLE "order" (id INTEGER PRIMARY KEY, note TEXT,
        customer_id INTEGER NOT NULL REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE line (order_id INTEGER NOT NULL
        REFERENCES "order" ON DELETE CASCADE ON UPDATE CASCADE,
        number INTEGER NOT NULL, amount DOUBLE PRECISION, PRIMARY KEY (order_id, number));
    CREATE TABLE journal (id INTEGER PRIMARY KEY, site INTEGER NOT NULL, entry TEXT NOT NULL);
    CREATE TABLE counter (site INTEGER PRIMARY KEY, entries INTEGER NOT NULL);
    INSERT INTO counter VALUES (0, 0), (1, 0), (2, 0), (3, 0);
    WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 20)
        INSERT INTO customer SELECT n, 'customer ' || n, n, 0 FROM number;
    CREATE TABLE seen (journal_id INTEGER);
    CREATE TABLE trouble (what TEXT);
"#;

const WATCH_ON_SQLITE: &str = "
    CREATE TRIGGER seen_insert AFTER INSERT ON journal
        BEGIN INSERT INTO seen VALUES (new.id); END;
    CREATE TRIGGER trouble_update AFTER UPDATE ON journal
        BEGIN INSERT INTO trouble VALUES ('journal ' || old.id || ' written again'); END;
    CREATE TRIGGER trouble_delete AFTER DELETE ON journal
        BEGIN INSERT INTO trouble VALUES ('journal ' || old.id || ' deleted'); END;
    CREATE TRIGGER trouble_counter AFTER UPDATE ON counter WHEN new.entries <= old.entries
        BEGIN INSERT INTO trouble VALUES ('counter ' || old.site || ' from ' || old.entries
            || ' to ' || new.entries); END";

const WATCH_ON_POSTGRES: &str = "
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO seen VALUES (NEW.id); RETURN NULL; END';
    CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO trouble VALUES (TG_OP || to_jsonb(OLD)::text || to_jsonb(NEW)::text);
        RETURN NULL; END$$;
    CREATE TRIGGER seen_insert AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER trouble_update AFTER UPDATE OR DELETE ON journal FOR EACH ROW
        EXECUTE FUNCTION complain();
    CREATE TRIGGER trouble_counter AFTER UPDATE ON counter FOR EACH ROW
        WHEN (NEW.entries <= OLD.entries) EXECUTE FUNCTION complain()";

/// The names of the remotes. The first is site 1; the center is site 0.
pub(crate) const REMOTES: &[&str] = &["ann", "ben", "cleo"];

/// Journal rows of one site: `site * SITE` + 1, 2, 3, …
const SITE: i64 = 1_000_000;

/// A shop in an SQLite file, without a server, its users added.
pub(crate) fn open_shop(executable: &str) -> World {
    deployed(World::without_deployment(executable, &format!("{CREATE}{WATCH_ON_SQLITE}")))
}

/// The same in a database of PostgreSQL.
pub(crate) fn open_shop_in(executable: &str, database: TestDatabase) -> World {
    database.sql(&format!("{CREATE}{WATCH_ON_POSTGRES}"));
    deployed(World::on_database(executable, database))
}

fn deployed(world: World) -> World {
    world.syncline.ok(&["init", ".", "--consolidated", &url(&world)]);
    std::fs::write(world.path("model.toml"), model("", "")).unwrap();
    world.syncline.ok(&["deploy"]);
    world.configure("takeover_after_s = 1");
    for name in REMOTES {
        world.add_user(name);
    }
    world
}

fn url(world: &World) -> String {
    match center(world) {
        Place::File(_) => "sqlite:consolidated.db".to_owned(),
        Place::Postgres(database) => database.url(),
    }
}

/// Where the center's own programs write.
pub(crate) fn center(world: &World) -> Place {
    match world.consolidated() {
        path if path.exists() => Place::File(path),
        _ => Place::Postgres(world.database().clone()),
    }
}

/// Who writes at one database, as an application that knows nothing of Syncline.
#[derive(Debug)]
pub(crate) struct Site {
    number: i64,
    /// How many journal rows it has committed.
    pub(crate) entries: i64,
    place: Place,
    chance: Chance,
}

impl Site {
    /// Site 0 is the center.
    pub(crate) fn new(world: &World, number: usize, chance: Chance) -> Site {
        let place = match number {
            0 => center(world),
            _ => Place::File(world.remote(REMOTES[number - 1])),
        };
        Site { number: number as i64, entries: 0, place, chance }
    }

    /// A site that had its rows before the first synchronization.
    pub(crate) fn fill(world: &World, number: usize, chance: Chance) -> Site {
        let first = number as i64 * SITE + 1;
        let site = Site::new(world, number, chance);
        sql(
            &world.remote(REMOTES[number - 1]),
            &format!(
                "CREATE TABLE journal (id INTEGER PRIMARY KEY, site INTEGER NOT NULL,
                    entry TEXT NOT NULL);
                 CREATE TABLE counter (site INTEGER PRIMARY KEY, entries INTEGER NOT NULL);
                 INSERT INTO journal VALUES ({first}, {number}, 'x'), ({first} + 1, {number}, 'y');
                 INSERT INTO counter VALUES ({number}, 2)"
            ),
        );
        Site { entries: 2, ..site }
    }

    /// Commits one transaction: journal rows, their count, and changes that meet others'.
    pub(crate) fn write(&mut self) {
        self.write_rows(1, 20);
    }

    /// The same with so many journal rows of so many bytes.
    pub(crate) fn write_rows(&mut self, rows: i64, bytes: usize) {
        let (site, first) = (self.number, self.number * SITE + self.entries + 1);
        let mut statements = Vec::new();
        for id in first..first + rows {
            let entry = format!("{id:0bytes$}");
            statements.push(format!(
                "INSERT INTO journal (id, site, {{journal}}) VALUES ({id}, {site}, '{entry}')"
            ));
        }
        statements
            .push(format!("UPDATE counter SET entries = entries + {rows} WHERE site = {site}"));
        for _ in 0..self.chance.below(4) {
            statements.extend(business::draw(self.number * SITE, &mut self.chance, &self.place));
        }
        // Either way it is another program that writes.
        let program = match self.chance.below(6) {
            0 => Program::Shell,
            _ => Program::Application,
        };
        self.place.write(&statements, program);
        self.entries += rows;
    }

    /// Checks that no reader sees half of a transaction (K1), at any moment.
    pub(crate) fn assert_atomic(&self) {
        assert_atomic(&self.place);
    }
}

fn assert_atomic(place: &Place) {
    let halves = "SELECT site, entries, (SELECT count(*) FROM journal j WHERE j.site = c.site)
        FROM counter c WHERE entries
        <> (SELECT count(*) FROM journal j WHERE j.site = c.site)";
    let halves = place.rows(halves);
    assert!(halves.is_empty(), "{place:?}: site, counted, there: {halves:?}");
}

/// The oracle, after all have synchronized: all have the same rows, and the center has exactly the
/// committed rows, each written once.
pub(crate) fn assert_nothing_lost_or_doubled(world: &World, remotes: &[&str], sites: &[&Site]) {
    let center = center(world);
    for site in sites {
        let (from, to) = (site.number * SITE + 1, site.number * SITE + site.entries);
        let journal = format!("SELECT count(*) FROM journal WHERE site = {}", site.number);
        assert_eq!(center.count(&journal), site.entries, "{site:?}");
        let named = format!("{journal} AND id BETWEEN {from} AND {to}");
        assert_eq!(center.count(&named), site.entries, "{site:?}");
    }
    let twice = "SELECT journal_id, count(*) FROM seen GROUP BY 1 HAVING count(*) <> 1";
    assert_eq!(center.rows(twice), [[""; 0]; 0], "journal rows written twice");
    let all = |table: &str| center.count(&format!("SELECT count(*) FROM {table}"));
    assert_eq!(all("seen"), all("journal"));
    assert_eq!(center.rows("SELECT what FROM trouble"), [[""; 0]; 0]);
    for name in remotes {
        drop_what_the_center_dropped(&world.remote(name), &center);
        let lines = world.differences_in(name, &TABLES.map(Share::whole));
        assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
        assert_sound(&world.remote(name));
        let status = world.syncline.json(&["remote", "status", &format!("{name}.db"), "--json"]);
        assert_eq!(status["pending"], 0, "{status}");
    }
    match &center {
        Place::File(path) => assert_sound(path),
        Place::Postgres(_) => assert_atomic(&center),
    }
}

/// A remote keeps columns that are no longer published, as its own. Its owner clears them away.
fn drop_what_the_center_dropped(remote: &Path, center: &Place) {
    let published = center.columns();
    let here = Place::File(remote.to_owned()).columns();
    let own = |(table, _): &&(String, String)| TABLES.contains(&table.as_str());
    for (table, column) in here.iter().filter(own).filter(|it| !published.contains(it)) {
        sql(remote, &format!("ALTER TABLE \"{table}\" DROP COLUMN {column}"));
    }
}

/// Checks the file itself, and its foreign keys.
fn assert_sound(path: &Path) {
    assert_eq!(query(path, "PRAGMA integrity_check"), [["'ok'"]], "{}", path.display());
    let broken = query(path, "PRAGMA foreign_key_check");
    assert!(broken.is_empty(), "{}: {broken:?}", path.display());
    assert_atomic(&Place::File(path.to_owned()));
}
