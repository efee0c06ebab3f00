//! A shop whose rows tell whether anything was lost, done twice or seen half.
//!
//! K1. Every remote and the centre write journal rows, which nobody changes or deletes, and in the
//!     same transaction count them in a row of `counter` that only they write. Whoever sees the
//!     one without the other has seen half of a transaction.
//! K2. Triggers at the centre write down every insert into `journal`, and every step of `counter`.
//! K3. Everything else is changed by everybody at once, so that there are conflicts and rejects,
//!     and badges that change hands while each may have one owner.

use harness::{Chance, World, count, differences, query, sql};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const TABLES: &[&str] = &["counter", "customer", "journal", "line", "order"];

const CREATE: &str = r#"
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, badge INTEGER UNIQUE,
        visits INTEGER NOT NULL);
    CREATE TABLE "order" (id INTEGER PRIMARY KEY, note TEXT,
        customer_id INTEGER NOT NULL REFERENCES customer ON DELETE CASCADE);
    CREATE TABLE line (order_id INTEGER NOT NULL REFERENCES "order" ON DELETE CASCADE,
        number INTEGER NOT NULL, amount REAL, PRIMARY KEY (order_id, number));
    CREATE TABLE journal (id INTEGER PRIMARY KEY, site INTEGER NOT NULL, entry TEXT NOT NULL);
    CREATE TABLE counter (site INTEGER PRIMARY KEY, entries INTEGER NOT NULL);
    INSERT INTO counter VALUES (0, 0), (1, 0), (2, 0), (3, 0);
    WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 20)
        INSERT INTO customer SELECT n, 'customer ' || n, n, 0 FROM number;

    CREATE TABLE seen (journal_id INTEGER);
    CREATE TRIGGER seen_insert AFTER INSERT ON journal
        BEGIN INSERT INTO seen VALUES (new.id); END;
    CREATE TABLE trouble (what TEXT);
    CREATE TRIGGER trouble_update AFTER UPDATE ON journal
        BEGIN INSERT INTO trouble VALUES ('journal ' || old.id || ' written again'); END;
    CREATE TRIGGER trouble_delete AFTER DELETE ON journal
        BEGIN INSERT INTO trouble VALUES ('journal ' || old.id || ' deleted'); END;
    CREATE TRIGGER trouble_counter AFTER UPDATE ON counter WHEN new.entries <= old.entries
        BEGIN INSERT INTO trouble VALUES ('counter ' || old.site || ' from ' || old.entries
            || ' to ' || new.entries); END;
"#;

/// The names of the remotes. The first is site 1; the centre is site 0.
pub(crate) const REMOTES: &[&str] = &["ann", "ben", "cleo"];

/// Journal rows of one site: `site * SITE` + 1, 2, 3, …
const SITE: i64 = 1_000_000;

/// A shop without a server, its users added.
pub(crate) fn open_shop(executable: &str) -> World {
    let world = World::new(executable, CREATE);
    for name in REMOTES {
        world.add_user(name);
    }
    world
}

/// Who writes at one database, as an application that knows nothing of Syncline.
#[derive(Debug)]
pub(crate) struct Site {
    number: i64,
    /// How many journal rows it has committed.
    pub(crate) entries: i64,
    chance: Chance,
}

impl Site {
    pub(crate) fn new(number: usize, chance: Chance) -> Site {
        Site { number: number as i64, entries: 0, chance }
    }

    /// A site that had its rows before anybody thought of synchronizing.
    pub(crate) fn fill(number: usize, path: &Path, chance: Chance) -> Site {
        let first = number as i64 * SITE + 1;
        sql(
            path,
            &format!(
                "CREATE TABLE journal (id INTEGER PRIMARY KEY, site INTEGER NOT NULL,
                    entry TEXT NOT NULL);
                 CREATE TABLE counter (site INTEGER PRIMARY KEY, entries INTEGER NOT NULL);
                 INSERT INTO journal VALUES ({first}, {number}, 'x'), ({first} + 1, {number}, 'y');
                 INSERT INTO counter VALUES ({number}, 2)"
            ),
        );
        Site { number: number as i64, entries: 2, chance }
    }

    /// Commits one transaction: journal rows, their count, and changes that meet others'.
    pub(crate) fn write(&mut self, path: &Path) {
        self.write_rows(path, 1, 20);
    }

    /// The same with so many journal rows of so many bytes.
    pub(crate) fn write_rows(&mut self, path: &Path, rows: i64, bytes: usize) {
        let (site, first) = (self.number, self.number * SITE + self.entries + 1);
        let mut text = String::new();
        for id in first..first + rows {
            let entry = format!("{id:0bytes$}");
            text.push_str(&format!("INSERT INTO journal VALUES ({id}, {site}, '{entry}');\n"));
        }
        text.push_str(&format!(
            "UPDATE counter SET entries = entries + {rows} WHERE site = {site};\n"
        ));
        for _ in 0..self.chance.below(4) {
            text.push_str(&self.business());
        }
        // Either way it is another program that writes.
        match self.chance.below(6) {
            0 => shell(path, &text),
            _ => sql(path, text.trim_end().trim_end_matches(';')),
        }
        self.entries += rows;
    }

    /// One change of rows that everybody changes.
    fn business(&mut self) -> String {
        let own = self.number * SITE + self.chance.below(200) as i64;
        let (number, badge) = (self.chance.below(1000), self.chance.below(40));
        // Some row that is there, whichever it is.
        let mut some = |table: &str| {
            let skip = self.chance.below(50);
            format!(
                "(SELECT id FROM \"{table}\" ORDER BY id LIMIT 1
                  OFFSET {skip} % max(1, (SELECT count(*) FROM \"{table}\")))"
            )
        };
        let (customer, order) = (some("customer"), some("order"));
        match self.chance.below(12) {
            0 | 1 => format!(
                "INSERT OR IGNORE INTO customer VALUES ({own}, 'new', {badge}, {number});\n"
            ),
            2 | 3 => format!("UPDATE customer SET visits = visits + 1 WHERE id = {customer};\n"),
            4 => format!("DELETE FROM customer WHERE id = {customer} AND id > 5;\n"),
            5 | 6 => format!(
                "INSERT OR IGNORE INTO \"order\" SELECT {own}, 'note', id FROM customer
                 WHERE id = {customer};
                 INSERT OR IGNORE INTO line SELECT id, {number}, 1.5 FROM \"order\"
                 WHERE id = {own};\n"
            ),
            7 => format!(
                "UPDATE \"order\" SET note = 'note {number}', customer_id = {customer}
                 WHERE id = {order};\n"
            ),
            8 => format!("DELETE FROM \"order\" WHERE id = {order};\n"),
            9 => format!("UPDATE OR REPLACE customer SET badge = {badge} WHERE id = {customer};\n"),
            10 => format!(
                "UPDATE OR IGNORE customer SET badge = NULL WHERE badge = {badge};
                 UPDATE OR IGNORE customer SET badge = {badge} WHERE id = {customer};\n"
            ),
            _ => format!("UPDATE line SET amount = {number} WHERE order_id = {order};\n"),
        }
    }
}

/// Runs SQL in one transaction by the `sqlite3` shell.
fn shell(path: &Path, text: &str) {
    let mut shell = Command::new("sqlite3")
        .args(["-batch", "-bail", "-cmd", ".timeout 20000"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;\n{text}COMMIT;\n");
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{text}");
}

/// Checks that nobody sees half of a transaction (K1), at any moment.
pub(crate) fn assert_atomic(path: &Path) {
    let halves = "SELECT site, entries, (SELECT count(*) FROM journal j WHERE j.site = c.site)
        FROM counter c WHERE entries
        <> (SELECT count(*) FROM journal j WHERE j.site = c.site)";
    let halves = query(path, halves);
    assert!(halves.is_empty(), "{}: site, counted, there: {halves:?}", path.display());
}

/// The oracle, after everybody has synchronized: all hold the same, and the centre holds exactly
/// what was committed, each row written once.
pub(crate) fn assert_nothing_lost_or_doubled(world: &World, remotes: &[&str], sites: &[&Site]) {
    let centre = world.consolidated();
    for site in sites {
        let (from, to) = (site.number * SITE + 1, site.number * SITE + site.entries);
        let there = query(
            &centre,
            &format!("SELECT count(*), min(id), max(id) FROM journal WHERE site = {}", site.number),
        );
        let shown =
            |number: i64| if site.entries == 0 { "NULL".into() } else { number.to_string() };
        assert_eq!(there, [[site.entries.to_string(), shown(from), shown(to)]], "{site:?}");
    }
    let twice = "SELECT journal_id, count(*) FROM seen GROUP BY 1 HAVING count(*) <> 1";
    assert_eq!(query(&centre, twice), [[""; 0]; 0], "journal rows written twice");
    let all = |table: &str| count(&centre, &format!("SELECT count(*) FROM {table}"));
    assert_eq!(all("seen"), all("journal"));
    assert_eq!(query(&centre, "SELECT what FROM trouble"), [[""; 0]; 0]);
    let tables: Vec<String> = TABLES.iter().map(|table| table.to_string()).collect();
    for name in remotes {
        let lines = differences(&centre, &world.remote(name), &tables);
        assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
        assert_sound(&world.remote(name));
        let status = world.syncline.json(&["remote", "status", &format!("{name}.db"), "--json"]);
        assert_eq!(status["pending"], 0, "{status}");
    }
    assert_sound(&centre);
}

/// Checks the file itself, and its foreign keys.
fn assert_sound(path: &Path) {
    assert_eq!(query(path, "PRAGMA integrity_check"), [["'ok'"]], "{}", path.display());
    let broken = query(path, "PRAGMA foreign_key_check");
    assert!(broken.is_empty(), "{}: {broken:?}", path.display());
    assert_atomic(path);
}
