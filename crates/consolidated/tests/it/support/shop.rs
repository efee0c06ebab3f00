//! A shop whose remotes share parts of it, in every way that a model can say.

use super::center::{Center, Download, Remote, Row, Upload, int, text};
use model::Value;
use std::collections::{BTreeMap, BTreeSet};
use syncline_consolidated::DownloadedTable;

pub(crate) const SCHEMA: &str = "
CREATE TABLE customer (id INTEGER PRIMARY KEY, rep INTEGER, name TEXT);
CREATE INDEX customer_rep ON customer (rep);
CREATE TABLE invoice (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer (id)
    ON DELETE CASCADE, note TEXT);
CREATE INDEX invoice_customer ON invoice (customer);
CREATE TABLE line (id INTEGER PRIMARY KEY, invoice INTEGER NOT NULL REFERENCES invoice (id)
    ON DELETE CASCADE, note TEXT);
CREATE INDEX line_invoice ON line (invoice);
CREATE TABLE member (person INTEGER, project TEXT, PRIMARY KEY (person, project));
CREATE TABLE task (id INTEGER PRIMARY KEY, project TEXT, note TEXT);
CREATE INDEX task_project ON task (project);
CREATE TABLE comment (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES task (id)
    ON DELETE CASCADE, note TEXT);
CREATE INDEX comment_task ON comment (task);
CREATE TABLE shop (id INTEGER PRIMARY KEY, region TEXT, note TEXT);
CREATE INDEX shop_region ON shop (region);
CREATE TABLE device (id INTEGER PRIMARY KEY, remote TEXT, note TEXT);
CREATE INDEX device_remote ON device (remote);
CREATE TABLE offer (id INTEGER PRIMARY KEY, price INTEGER, note TEXT);
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, note TEXT);
";

pub(crate) const ROWS: &str = "
INSERT INTO customer VALUES (1, 3, 'a'), (2, 3, 'b'), (3, 4, 'c');
INSERT INTO invoice VALUES (11, 1, ''), (12, 1, ''), (21, 2, ''), (31, 3, '');
INSERT INTO line VALUES (111, 11, ''), (112, 11, ''), (121, 12, ''), (211, 21, ''), (311, 31, '');
INSERT INTO member VALUES (3, 'p'), (4, 'q'), (4, 'p');
INSERT INTO task VALUES (1, 'p', ''), (2, 'q', '');
INSERT INTO comment VALUES (11, 1, ''), (21, 2, '');
INSERT INTO shop VALUES (1, 'north', ''), (2, 'south', ''), (3, 'east', '');
INSERT INTO device VALUES (1, 'one', ''), (2, 'two', '');
INSERT INTO offer VALUES (1, 10, ''), (2, 90, '');
INSERT INTO product VALUES (1, 'nail', '');
";

/// No row is left.
pub(crate) const CLEARED: &str = "
DELETE FROM line; DELETE FROM invoice; DELETE FROM customer; DELETE FROM member;
DELETE FROM comment; DELETE FROM task; DELETE FROM shop; DELETE FROM device; DELETE FROM offer;
DELETE FROM product;
";

/// The model; `customer` has these lines too.
pub(crate) fn model(customer: &str) -> String {
    format!(
        "[table.customer]\npartition = \"rep = {{u.rep}}\"\n{customer}\n\
         [table.invoice]\nparent = \"customer\"\nconflict = \"remote_wins\"\n\
         [table.line]\nparent = {{ table = \"invoice\", columns = [\"invoice\"] }}\n\
         conflict = \"merge\"\n\
         [table.task]\n\
         partition = \"project IN (SELECT project FROM member WHERE person = {{u.rep}})\"\n\
         [table.comment]\nparent = \"task\"\n\
         [table.shop]\npartition = \"region IN {{u.regions}}\"\n\
         [table.device]\npartition = \"remote = {{s.remote_id}}\"\n\
         [table.offer]\npartition = {{ custom = \"t.price < 50\" }}\n\
         [table.product]\n"
    )
}

/// Every published table, its columns, and the condition that a row of it is covered, in plain SQL.
/// `REP`, `REGIONS` and `REMOTE` stand for the claims.
pub(crate) const COVERED: [(&str, &str, &str); 9] = [
    ("customer", "id, rep, name", "rep = REP"),
    ("invoice", "id, customer, note", "customer IN (SELECT id FROM customer WHERE rep = REP)"),
    (
        "line",
        "id, invoice, note",
        "invoice IN (SELECT i.id FROM invoice AS i JOIN customer AS c ON c.id = i.customer
                     WHERE c.rep = REP)",
    ),
    ("task", "id, project, note", "project IN (SELECT project FROM member WHERE person = REP)"),
    (
        "comment",
        "id, task, note",
        "task IN (SELECT k.id FROM task AS k JOIN member AS m ON m.project = k.project
                  WHERE m.person = REP)",
    ),
    ("shop", "id, region, note", "region IN (REGIONS)"),
    ("device", "id, remote, note", "remote = REMOTE"),
    ("offer", "id, price, note", "price < 50"),
    ("product", "id, name, note", "1 = 1"),
];

/// The rows of a table by their key, which is their first value.
pub(crate) type Held = BTreeMap<&'static str, BTreeMap<i64, Row>>;

/// A remote with the rows that it holds.
pub(crate) struct Site {
    pub(crate) remote: Remote,
    pub(crate) held: Held,
}

impl Site {
    pub(crate) fn new(id: &'static str, rep: i64, regions: &str) -> Site {
        let mut site = Site { remote: Remote::new(id), held: Held::new() };
        site.claim("rep", &rep.to_string());
        site.claim("regions", regions);
        site
    }

    pub(crate) fn claim(&mut self, name: &str, value: &str) {
        self.remote.claims.insert(name.into(), value.into());
    }

    /// Changes its own rows.
    pub(crate) fn make(&mut self, changes: &[Upload]) {
        for change in changes {
            match change {
                Upload::Insert(table, new)
                | Upload::Update(table, _, new)
                | Upload::Again(table, _, new) => {
                    self.held.entry(table).or_default().insert(key(new), new.clone());
                }
                Upload::Delete(table, old) => {
                    self.held.entry(table).or_default().remove(&key(old));
                }
            }
        }
    }

    /// Makes its changes, synchronizes, and then must hold exactly what is covered.
    pub(crate) fn synchronize(&mut self, center: &mut Center, changes: &[Upload]) -> Download {
        self.make(changes);
        let (_, download) = center.synchronize(&mut self.remote, changes);
        let covered = self.covered(center);
        self.take(center, &download, &covered);
        for (table, rows) in &covered {
            let held = self.held.entry(table).or_default();
            assert_eq!(held, rows, "{table} at {}", self.remote.id);
        }
        download
    }

    fn take(&mut self, center: &mut Center, download: &Download, covered: &Held) {
        let schema = center.session(&self.remote).schema;
        for (table, mode) in schema.tables.iter().zip(&download.modes) {
            if *mode == DownloadedTable::Refresh {
                self.held.entry(name(&table.name)).or_default().clear();
            }
        }
        for (table, row) in &download.upserts {
            let table = name(table);
            assert!(covered[table].contains_key(&key(row)), "a foreign row of {table}: {row:?}");
            self.held.entry(table).or_default().insert(key(row), row.clone());
        }
        for (table, deleted) in &download.deletes {
            self.held.entry(name(table)).or_default().remove(&key(deleted));
        }
    }

    /// What it ought to hold.
    pub(crate) fn covered(&self, center: &Center) -> Held {
        let quoted = |value: &str| format!("'{value}'");
        // NULL covers nothing.
        let claim = |name: &str| self.remote.claims.get(name).map_or("NULL", String::as_str);
        let regions = claim("regions").split(',').map(str::trim);
        let regions: Vec<String> =
            regions.filter(|r| !r.is_empty()).map(|r| quoted(&r.replace('\'', "''"))).collect();
        // Not every database accepts `IN ()`.
        let regions = if regions.is_empty() { "NULL".into() } else { regions.join(", ") };
        let queries = COVERED.map(|(table, columns, condition)| {
            let condition = condition
                .replace("REGIONS", &regions)
                .replace("REMOTE", &quoted(self.remote.id))
                .replace("REP", claim("rep"));
            format!("SELECT {columns} FROM {table} WHERE {condition}")
        });
        let by_key = |rows: Vec<Row>| rows.into_iter().map(|row| (key(&row), row)).collect();
        let answers = center.answers(&queries).into_iter().map(by_key);
        COVERED.iter().map(|(table, ..)| *table).zip(answers).collect()
    }
}

pub(crate) fn key(row: &Row) -> i64 {
    match row[0] {
        Value::Integer(key) => key,
        _ => panic!("{row:?} has no key"),
    }
}

pub(crate) fn name(table: &str) -> &'static str {
    COVERED.iter().find(|(name, ..)| *name == table).expect("a table of the shop").0
}

/// Rows as `table:key`, separated by blanks, each once.
pub(crate) fn listed(rows: &[(String, Row)]) -> String {
    let keys: BTreeSet<String> =
        rows.iter().map(|(table, row)| format!("{table}:{}", key(row))).collect();
    keys.into_iter().collect::<Vec<_>>().join(" ")
}

/// A row of any table but the mapping: its key, its place, its note.
pub(crate) fn row(key: i64, place: impl Into<Place>, note: &str) -> Row {
    let place = match place.into() {
        Place::Number(number) => int(number),
        Place::Name(name) => text(&name),
    };
    vec![int(key), place, text(note)]
}

pub(crate) enum Place {
    Number(i64),
    Name(String),
}

impl From<i64> for Place {
    fn from(number: i64) -> Place {
        Place::Number(number)
    }
}

impl From<&str> for Place {
    fn from(name: &str) -> Place {
        Place::Name(name.into())
    }
}
