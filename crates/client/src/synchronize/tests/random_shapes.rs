//! Random changes of the tables and of rows; a map has the expected result.

use super::{sync, sync_as};
use crate::StoredReject;
use crate::testing::Site;
use crate::testing::center::{Center, published};
use harness::Fault;
use model::{Code, Random};
use protocol::Mode;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u8 = 10;
const STEPS: usize = 60;
const KEYS: u64 = 6;
/// Few, so that names are swapped and used again.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What the one remote has written: per key, per identity of a column.
type Expected = BTreeMap<u64, BTreeMap<String, u64>>;

struct Walk {
    random: Random,
    center: Center,
    site: Site,
    /// Name and identity of each column but the key, as the center has them.
    columns: Vec<(String, String)>,
    /// Per fingerprint likewise.
    shapes: BTreeMap<String, Vec<(String, String)>>,
    expected: Expected,
    written: u64,
    /// Per identity of a column: what the remote has written to it.
    values: BTreeMap<String, BTreeSet<u64>>,
    /// Identities of columns that the center has dropped.
    dropped: BTreeSet<String>,
}

impl Walk {
    fn new(seed: u8) -> Walk {
        let center = Center::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
        let columns = vec![("a".to_owned(), "first a".to_owned())];
        let mut walk = Walk {
            random: Random::from_seed([seed; 32]),
            center,
            site: Site::empty(),
            columns,
            shapes: BTreeMap::new(),
            expected: Expected::new(),
            written: 0,
            values: BTreeMap::new(),
            dropped: BTreeSet::new(),
        };
        walk.note_shape();
        sync(&mut walk.site, &walk.center).unwrap();
        walk
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    /// Deploys the table with these columns, each with what it is called now, if it is there.
    fn deploy(&mut self, columns: Vec<(String, String)>, lines: &str) {
        let of = |(_, identity): &(String, String)| {
            let held = self.columns.iter().find(|(_, held)| held == identity);
            held.map_or("NULL", |(name, _)| name).to_owned()
        };
        let query = columns.iter().map(of).collect::<Vec<_>>().join(", ");
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let sql = format!(
            "CREATE TABLE new(id INTEGER PRIMARY KEY, {});
             INSERT INTO new SELECT id, {query} FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t",
            names.join(", ")
        );
        self.center.deploy(&sql, &format!("{}{lines}", published("t")));
        self.columns = columns;
        self.note_shape();
    }

    fn note_shape(&mut self) {
        let print = "SELECT json_extract(published, '$.fingerprint') FROM syncline_table";
        let print = self.center.rows(print).remove(0);
        self.shapes.insert(print, self.columns.clone());
    }

    /// Renames, drops and adds.
    fn change_tables(&mut self) {
        let added = self.written;
        self.written += 1;
        let mut columns = self.columns.clone();
        if columns.len() > 1 && self.below(3) == 0 {
            let at = self.below(columns.len() as u64) as usize;
            let (dropped, identity) = columns.remove(at);
            self.dropped.insert(identity);
            self.deploy(columns.clone(), &format!("dropped = [\"{dropped}\"]"));
        }
        let adds = columns.len() < NAMES.len() && self.below(2) == 0;
        let mut names: Vec<&str> = NAMES.to_vec();
        for (name, _) in &mut columns {
            *name = self.name(name, &mut names);
        }
        let pairs = columns.iter().zip(&self.columns).filter(|((new, _), (old, _))| new != old);
        let renamed: Vec<String> =
            pairs.map(|((new, _), (old, _))| format!("{new} = \"{old}\"")).collect();
        if !renamed.is_empty() {
            self.deploy(columns.clone(), &format!("renamed = {{ {} }}", renamed.join(", ")));
        }
        if adds {
            let name = self.name("", &mut names);
            columns.push((name, format!("added {added}")));
            self.deploy(columns, "");
        }
    }

    /// What a column is called from now on.
    fn name(&mut self, now: &str, names: &mut Vec<&str>) -> String {
        let free = names.contains(&now);
        let name = match free && self.below(2) == 0 {
            true => now.to_owned(),
            false => names[self.below(names.len() as u64) as usize].to_owned(),
        };
        names.retain(|it| *it != name);
        name
    }

    /// The columns as the remote holds them.
    fn held(&self) -> Vec<(String, String)> {
        let print = "SELECT json_extract(published, '$.fingerprint') FROM syncline_table";
        let print = self.site.rows(print).remove(0);
        self.shapes[&print].clone()
    }

    fn write(&mut self) {
        let held = self.held();
        let key = self.below(KEYS);
        self.written += 1;
        let value = self.written;
        if !self.expected.contains_key(&key) {
            let values: Vec<String> = held.iter().map(|_| value.to_string()).collect();
            let names: Vec<&str> = held.iter().map(|(name, _)| name.as_str()).collect();
            self.site.write(&format!(
                "INSERT INTO t(id, {}) VALUES ({key}, {})",
                names.join(", "),
                values.join(", ")
            ));
            let row = held.into_iter().map(|(_, identity)| (identity, value)).collect();
            for identity in BTreeMap::keys(&row) {
                self.values.entry(identity.clone()).or_default().insert(value);
            }
            self.expected.insert(key, row);
        } else if self.below(4) == 0 {
            self.site.write(&format!("DELETE FROM t WHERE id = {key}"));
            self.expected.remove(&key);
        } else {
            let (name, identity) = held[self.below(held.len() as u64) as usize].clone();
            self.site.write(&format!("UPDATE t SET {name} = {value} WHERE id = {key}"));
            self.values.entry(identity.clone()).or_default().insert(value);
            self.expected.get_mut(&key).unwrap().insert(identity, value);
        }
    }

    fn synchronize(&mut self) {
        let faults = [
            None,
            Some(Fault::BeforeCommit),
            Some(Fault::AfterCommit),
            Some(Fault::AfterAcknowledgement),
            Some(Fault::AfterSchemaChange),
            Some(Fault::WithinDownload),
        ];
        let modes = [Mode::Full, Mode::Full, Mode::Full, Mode::UploadOnly, Mode::DownloadOnly];
        let mode = modes[self.below(modes.len() as u64) as usize];
        if let Some(fault) = faults[self.below(faults.len() as u64) as usize] {
            self.center.proxy.strike(fault);
        }
        if let Err(failure) = sync_as(&mut self.site.remote, &self.center, mode, &mut |_| {}) {
            let known = [Code::ConnectionLost, Code::ShapeChangeBlocked, Code::DownloadFirst];
            assert!(known.contains(&failure.code()), "{mode:?}: {failure:?}");
        }
        self.center.proxy.pass_all();
    }

    fn go(&mut self) {
        for _ in 0..STEPS {
            match self.below(8) {
                0 => self.change_tables(),
                1 | 2 => self.synchronize(),
                _ => self.write(),
            }
        }
        sync(&mut self.site, &self.center).unwrap();
        sync(&mut self.site, &self.center).unwrap();
    }

    /// Whether the row of a record has what lay in a column that was dropped.
    fn had_dropped_column(&self, told: &StoredReject) -> bool {
        let row: BTreeMap<String, Option<u64>> =
            serde_json::from_str(told.row.as_deref().unwrap()).unwrap();
        let dropped = self.dropped.iter().filter_map(|identity| self.values.get(identity));
        dropped.flatten().any(|value| row.values().any(|it| it.as_ref() == Some(value)))
    }

    fn here(&self) -> Vec<String> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        self.site.rows(&format!("SELECT id, {} FROM t ORDER BY id", names.join(", ")))
    }

    fn there(&self) -> Vec<String> {
        self.center.rows("SELECT * FROM t ORDER BY id")
    }

    fn wanted(&self) -> Vec<String> {
        let line = |(key, row): (&u64, &BTreeMap<String, u64>)| {
            let value = |(_, identity): &(String, String)| {
                row.get(identity).map_or("NULL".to_owned(), u64::to_string)
            };
            let values = self.columns.iter().map(value);
            crate::sql::list(std::iter::once(key.to_string()).chain(values))
        };
        self.expected.iter().map(line).collect()
    }
}

// S1, S3, Trap 24: whatever is renamed, swapped, dropped and added while changes wait, and wherever
// a synchronization is cut off, each value that the remote has written is in its column at the end,
// at both ends, and nothing is reported but what had its column dropped.
#[test]
fn every_value_finds_its_column_through_random_changes_of_the_tables() {
    for seed in 1..=SEEDS {
        let mut walk = Walk::new(seed);
        walk.go();
        let told = walk.site.remote.rejects().unwrap();
        let codes = [Code::ColumnLost, Code::ColumnDropped].map(Code::number);
        // What a dropped column has left here gives way to a new column of its name.
        let left = |it: &StoredReject| {
            it.code == Code::RowDiffersOnReturn.number() && walk.had_dropped_column(it)
        };
        let lost = |it: &StoredReject| codes.contains(&it.code) || left(it);
        assert!(told.iter().all(lost), "seed {seed}: {told:?}");
        assert_eq!(walk.here(), walk.wanted(), "the remote, seed {seed}");
        assert_eq!(walk.there(), walk.wanted(), "the center, seed {seed}");
        assert_eq!(walk.site.remote.pending().unwrap(), []);
    }
}
