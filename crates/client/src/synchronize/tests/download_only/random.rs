//! Random changes at both ends, and downloads without an upload.

use super::super::{sync, sync_as};
use crate::testing::center::Center;
use crate::testing::{Site, int, text};
use model::{Code, Random, Value};
use protocol::Mode;

const SEEDS: u8 = 8;
const STEPS: usize = 20;
const KEYS: u64 = 5;
const ACTIONS: [&str; 4] = ["", "ON DELETE CASCADE", "ON DELETE SET NULL", "ON DELETE RESTRICT"];

struct Walk {
    random: Random,
    center: Center,
    site: Site,
}

/// The center has no constraints.
const CENTER: &str = "CREATE TABLE g(id INTEGER PRIMARY KEY, u TEXT);
    CREATE TABLE p(id INTEGER PRIMARY KEY, g INT, u TEXT);
    CREATE TABLE t(id INTEGER PRIMARY KEY, p INT)";

/// The same tables as the remote has made them.
fn tables(action: &str) -> String {
    format!(
        "CREATE TABLE g(id INTEGER PRIMARY KEY, u TEXT UNIQUE);
         CREATE TABLE p(id INTEGER PRIMARY KEY, g INT REFERENCES g {action}, u TEXT UNIQUE,
            CHECK (u <> 'v3'));
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p {action})"
    )
}

impl Walk {
    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn key(&mut self) -> i64 {
        (1 + self.below(KEYS)).cast_signed()
    }

    fn row(&mut self, table: usize, key: i64) -> Vec<Value> {
        let parent = match self.below(4) {
            0 => Value::Null,
            _ => int(self.key()),
        };
        let value = text(&format!("v{}", self.below(7)));
        match table {
            0 => vec![int(key), value],
            1 => vec![int(key), parent, value],
            _ => vec![int(key), parent],
        }
    }

    /// An application writes here. Statements that SQLite refuses have no effect.
    fn write(&mut self) {
        let (table, key) = (self.below(3) as usize, self.key());
        let name = ["g", "p", "t"][table];
        let values = self.row(table, key);
        let values = crate::sql::list(values.iter().map(|value| value.as_ref().display()));
        let sql = match self.below(6) {
            0 => format!("DELETE FROM {name} WHERE id = {key}"),
            1 => format!("UPDATE {name} SET id = {} WHERE id = {key}", self.key()),
            2 => format!("INSERT INTO {name} VALUES ({values})"),
            _ => format!("INSERT OR REPLACE INTO {name} VALUES ({values})"),
        };
        let _ = self.site.try_write(&sql);
    }

    /// An application writes at the center.
    fn change(&mut self) {
        let (table, key) = (self.below(3) as usize, self.key());
        let name = ["g", "p", "t"][table];
        let row = self.row(table, key);
        let shown = |row: &[Value]| crate::sql::list(row.iter().map(|it| it.as_ref().display()));
        let exists = self.lines(table).iter().any(|line| line.starts_with(&format!("{key}, ")));
        match self.below(5) {
            0 => self.center.write(&format!("DELETE FROM {name} WHERE id = {key}")),
            1 if exists => {
                let to = self.key();
                if to != key {
                    let columns = ["(id, u)", "(id, g, u)", "(id, p)"][table];
                    let row = shown(&self.row(table, to));
                    self.center.write(&format!(
                        "DELETE FROM {name} WHERE id = {to};
                         UPDATE {name} SET {columns} = ({row}) WHERE id = {key}"
                    ));
                }
            }
            _ => self.center.write(&format!(
                "DELETE FROM {name} WHERE id = {key}; INSERT INTO {name} VALUES ({})",
                shown(&row)
            )),
        }
    }

    fn lines(&self, table: usize) -> Vec<String> {
        self.center.rows(&format!("SELECT * FROM {}", ["g", "p", "t"][table]))
    }

    /// S3: every row of the center is here, or waits in sight of the status; and there is no other.
    fn assert_equal(&self, seed: u8) {
        for (position, name) in ["g", "p", "t"].into_iter().enumerate() {
            let columns = ["id, u", "id, g, u", "id, p"][position];
            let mut here = self.site.rows(&format!("SELECT {columns} FROM {name}"));
            let waits = |kind: &str| format!("syncline_{kind}_{name}");
            let news = columns.split(", ").map(|name| format!("new_{name}"));
            let news = news.collect::<Vec<_>>().join(", ");
            let orphans = waits("orphan");
            let connection = &self.site.remote.connection;
            if connection.table_exists(Some("main"), orphans.as_str()).unwrap() {
                // A row whose key was taken here is discarded with the next download.
                here.extend(self.site.rows(&format!(
                    "SELECT {news} FROM {orphans}
                     WHERE NOT EXISTS (SELECT 1 FROM {name} AS t WHERE t.id = key_id)"
                )));
            }
            let kept = self.site.rows(&format!("SELECT {news} FROM {}", waits("incoming")));
            // A row that is kept back stands for the one that lies under its key.
            let key = |line: &str| line.split(", ").next().map(str::to_owned);
            here.retain(|line| !kept.iter().any(|kept| key(kept) == key(line)));
            let absent = format!("SELECT key_id FROM {} WHERE NOT present", waits("incoming"));
            assert_eq!(self.site.rows(&absent), Vec::<String>::new(), "seed {seed}: {name}");
            here.extend(kept);
            here.sort();
            let mut there = self.lines(position);
            there.sort();
            assert_eq!(here, there, "seed {seed}: {name}");
        }
    }
}

/// All rows of the remote.
fn rows(site: &Site) -> Vec<String> {
    let of = |name: &str| site.rows(&format!("SELECT * FROM {name}"));
    ["g", "p", "t"].iter().flat_map(|name| of(name)).collect()
}

// S1, S3, S4: a download keeps all pending changes and keeps foreign keys intact. It is applied as
// a whole or refused, and whatever it kept back comes to its place.
#[test]
fn a_mere_download_is_applied_as_a_whole_or_not_at_all() {
    let (mut refused, mut applied) = (0, 0);
    for seed in 0..SEEDS {
        let action = ACTIONS[usize::from(seed) % ACTIONS.len()];
        let center = Center::new(CENTER);
        let random = Random::from_seed([seed; 32]);
        let mut walk = Walk { random, center, site: Site::empty() };
        walk.site.write(&tables(action));
        sync(&mut walk.site, &walk.center).unwrap();
        for step in 0..STEPS {
            for _ in 0..walk.below(5) {
                walk.write();
            }
            for _ in 0..walk.below(5) {
                walk.change();
            }
            let before = walk.site.remote.pending().unwrap();
            let site = &mut walk.site;
            let rows_before = rows(site);
            let down = sync_as(&mut site.remote, &walk.center, Mode::DownloadOnly, &mut |_| {});
            if let Err(failure) = down {
                assert_eq!(failure.code(), Code::DownloadBlocked, "seed {seed}: {failure:?}");
                assert!(!before.is_empty(), "seed {seed}, step {step}");
                assert_eq!(rows(site), rows_before, "seed {seed}, step {step}");
                refused += 1;
            } else {
                applied += 1;
            }
            let broken = walk.site.rows("SELECT * FROM pragma_foreign_key_check");
            assert_eq!(broken, Vec::<String>::new(), "seed {seed}, step {step}");
            let after = walk.site.remote.pending().unwrap();
            assert!(after.len() <= before.len(), "seed {seed}, step {step}: {before:?} {after:?}");
            if walk.below(4) == 0 {
                for _ in 0..3 {
                    sync(&mut walk.site, &walk.center)
                        .unwrap_or_else(|failure| panic!("seed {seed}, step {step}: {failure:?}"));
                }
                assert_eq!(walk.site.remote.pending().unwrap(), []);
                walk.assert_equal(seed);
            }
        }
    }
    assert!(refused > 0 && applied > refused, "{refused} refused, {applied} applied");
}
