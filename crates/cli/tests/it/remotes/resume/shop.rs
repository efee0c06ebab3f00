//! Customers of representatives with their visits, tasks of projects, and tags with text as key.

use harness::{Chance, ForeignTool, Share, World, sql};
use std::fs;

const SCHEMA: &str = "
CREATE TABLE customer (id INTEGER PRIMARY KEY, rep INTEGER, name TEXT, note TEXT);
CREATE INDEX customer_rep ON customer (rep);
CREATE TABLE visit (customer INTEGER NOT NULL REFERENCES customer ON DELETE CASCADE, day TEXT,
    note TEXT, PRIMARY KEY (customer, day));
CREATE TABLE member (person TEXT, project TEXT, PRIMARY KEY (person, project));
CREATE TABLE task (id INTEGER PRIMARY KEY, project TEXT, note TEXT);
CREATE INDEX task_project ON task (project);
CREATE TABLE tag (name TEXT PRIMARY KEY, weight INTEGER);
CREATE TABLE price (amount NUMERIC(10, 2) PRIMARY KEY, note TEXT);
INSERT INTO member VALUES ('ann', 'p'), ('ben', 'q');
";

const MODEL: &str = "script_version = \"v1\"
[table.customer]
partition = \"rep = {u.rep}\"
conflict = \"remote_wins\"
may_leave = true
[table.visit]
parent = \"customer\"
[table.task]
partition = \"project IN (SELECT project FROM member WHERE person = {s.username})\"
[table.tag]
[table.price]
";

const NUMBERS: &str =
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 600)";

pub(crate) struct Shop {
    pub(crate) world: World,
}

impl Shop {
    /// On both databases. A frame has at most about 2 KiB.
    pub(crate) fn both(program: &str) -> [Shop; 2] {
        let sqlite = World::without_deployment(program, SCHEMA);
        sqlite.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
        [sqlite, World::on_postgres(program, SCHEMA)].map(|world| {
            fs::write(world.path("model.toml"), MODEL).unwrap();
            world.syncline.ok(&["deploy"]);
            world.configure("batch_bytes = 2048\nbatch_rows = 100");
            world.add_user("ann");
            world.syncline.ok(&["user", "set", "ann", "--claim", "rep=1"]);
            let shop = Shop { world };
            shop.fill();
            shop
        })
    }

    fn fill(&self) {
        let note = "'a note that is long enough to fill a frame'";
        for insert in [
            format!("INSERT INTO customer SELECT n, 1 + n % 3, 'c' || n, {note} FROM n"),
            format!("INSERT INTO visit SELECT n, 'd' || n % 7, {note} FROM n"),
            format!(
                "INSERT INTO task SELECT n, CASE n % 2 WHEN 0 THEN 'p' ELSE 'q' END, {note} FROM n"
            ),
            "INSERT INTO tag SELECT 'Tag ' || (n * 7919 % 601), n FROM n".into(),
            format!("INSERT INTO price SELECT n / 4.0, {note} FROM n"),
        ] {
            // SQLite has the words in another order than PostgreSQL allows.
            self.world.center_sql(&format!("{NUMBERS} {insert}"));
        }
    }

    /// The file of a remote is a new one.
    pub(crate) fn forget(&self, name: &str) {
        for end in ["db", "db-wal", "db-shm", "db-syncline"] {
            let _ = fs::remove_file(self.world.path(&format!("{name}.{end}")));
        }
    }

    /// What other programs do at the center.
    pub(crate) fn changes(&self, seed: u64) {
        let mut chance = Chance::from_seed(seed);
        for _ in 0..6 {
            let statement = statement(&mut chance, true);
            self.try_center(&statement);
        }
    }

    /// So much that it does not fit in a few frames.
    pub(crate) fn many_changes(&self, round: u64) {
        for sql in [
            format!("UPDATE customer SET name = 'round {round}' WHERE id % 5 <> 0"),
            format!("UPDATE visit SET note = 'a visit of round {round}, and what was said'"),
            format!("UPDATE task SET note = 'a task of round {round}, and what is to be done'"),
            format!("UPDATE tag SET weight = {round}"),
            format!("UPDATE price SET note = 'round {round}'"),
            // Deleted keys and departed rows do not fit either, and some come back.
            "DELETE FROM tag WHERE name IN (SELECT name FROM tag ORDER BY name LIMIT 250)".into(),
            format!(
                "{NUMBERS} INSERT INTO tag SELECT 'Tag of {round} ' || n, n FROM n WHERE n < 250"
            ),
            format!("UPDATE task SET project = 'q' WHERE id % 2 = {}", round % 2),
            format!("UPDATE task SET project = 'p' WHERE id % 2 <> {}", round % 2),
        ] {
            self.world.center_sql(&sql);
        }
    }

    /// What the user does at the remote.
    pub(crate) fn changes_of_remote(&self, seed: u64) {
        let mut chance = Chance::from_seed(seed);
        for _ in 0..3 {
            let statement = statement(&mut chance, false);
            ForeignTool::Shell.try_sql(&self.world.remote("ann"), &statement);
        }
    }

    /// Whatever breaks a constraint has not happened.
    fn try_center(&self, statement: &str) {
        let path = self.world.consolidated();
        match path.exists() {
            true => drop(ForeignTool::Shell.try_sql(&path, statement)),
            false => drop(self.world.database().try_sql(statement)),
        }
    }
}

fn statement(chance: &mut Chance, at_center: bool) -> String {
    let (key, other) = (1 + chance.below(620), 1 + chance.below(620));
    let (rep, n) = (1 + chance.below(3), chance.below(1000));
    match chance.below(if at_center { 16 } else { 12 }) {
        0 => format!("UPDATE customer SET rep = {rep} WHERE id BETWEEN {key} AND {key} + 20"),
        1 => format!("UPDATE customer SET name = 'n{n}' WHERE id BETWEEN {key} AND {key} + 9"),
        2 => format!("INSERT INTO customer VALUES ({key}, {rep}, 'new', '')"),
        3 => format!("DELETE FROM customer WHERE id BETWEEN {key} AND {key} + 3"),
        4 => format!("INSERT INTO visit VALUES ({key}, 'd{}', 'new')", n % 9),
        5 => format!("UPDATE visit SET customer = {other} WHERE customer = {key}"),
        6 => format!("UPDATE visit SET note = 'n{n}' WHERE customer BETWEEN {key} AND {other}"),
        7 => format!("DELETE FROM visit WHERE customer BETWEEN {key} AND {key} + 5"),
        8 => format!("UPDATE tag SET weight = {n} WHERE weight BETWEEN {key} AND {key} + 30"),
        9 => format!("INSERT INTO tag VALUES ('Tag x{n}', {n})"),
        10 => format!("DELETE FROM tag WHERE weight BETWEEN {key} AND {key} + 4"),
        11 => format!("UPDATE price SET note = 'n{n}' WHERE amount < {key} / 4.0"),
        12 => format!("UPDATE task SET project = 'p' WHERE id BETWEEN {key} AND {key} + 9"),
        13 => format!("UPDATE task SET project = 'q' WHERE id BETWEEN {key} AND {key} + 9"),
        14 => "INSERT INTO member VALUES ('ann', 'q')".into(),
        _ => "DELETE FROM member WHERE person = 'ann' AND project = 'q'".into(),
    }
}

/// What differs at a remote of this representative.
pub(crate) fn differences(shop: &Shop, rep: u64) -> Vec<String> {
    let customers = format!("SELECT id FROM customer WHERE rep = {rep}");
    let projects = "SELECT project FROM member WHERE person = 'ann'";
    let shares = [
        Share::of("customer", &format!("t.rep = {rep}")),
        Share::of("visit", &format!("t.customer IN ({customers})")),
        Share::of("task", &format!("t.project IN ({projects})")),
        Share::whole("tag"),
        Share::whole("price"),
    ];
    shop.world.differences_in("ann", &shares)
}

pub(crate) fn assert_same(shop: &Shop, when: &str) {
    let lines = differences(shop, 1);
    assert!(lines.is_empty(), "{when}:\n{}", lines.join("\n"));
    sql(&shop.world.remote("ann"), "PRAGMA foreign_key_check");
}
