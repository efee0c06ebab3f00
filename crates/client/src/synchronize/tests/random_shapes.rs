//! Random changes of the tables and of rows; a map has the expected result.

use super::{sync, sync_as};
use crate::StoredReject;
use crate::testing::Site;
use crate::testing::centre::{Centre, Fault, SharedCentre};
use model::{Code, Direction, PublishedTable, Random};
use protocol::Mode;
use std::collections::BTreeMap;

const SEEDS: u8 = 10;
const STEPS: usize = 60;
const KEYS: u64 = 6;
/// Few, so that names are swapped and used again.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What the one remote has written: per key, per identity of a column.
type Expected = BTreeMap<u64, BTreeMap<String, u64>>;

struct Walk {
    random: Random,
    centre: SharedCentre,
    site: Site,
    /// Name and identity of each column but the key, as the centre has them.
    columns: Vec<(String, String)>,
    /// Per fingerprint likewise.
    shapes: BTreeMap<String, Vec<(String, String)>>,
    expected: Expected,
    written: u64,
}

impl Walk {
    fn new(seed: u8, takes_held_shapes: bool) -> Walk {
        let centre = Centre::new(&[]);
        centre.borrow_mut().takes_held_shapes = takes_held_shapes;
        let columns = vec![("a".to_owned(), "first a".to_owned())];
        let mut walk = Walk {
            random: Random::from_seed([seed; 32]),
            centre,
            site: Site::empty(),
            columns,
            shapes: BTreeMap::new(),
            expected: Expected::new(),
            written: 0,
        };
        walk.publish();
        sync(&mut walk.site, &walk.centre).unwrap();
        walk
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn publish(&mut self) {
        let fingerprint = format!("shape {}", self.shapes.len());
        let mut names = vec!["id".to_owned()];
        names.extend(self.columns.iter().map(|(name, _)| name.clone()));
        let mut identities = vec!["id"];
        identities.extend(self.columns.iter().map(|(_, identity)| identity.as_str()));
        let table = PublishedTable {
            name: "t".into(),
            key: vec![0],
            direction: Direction::Both,
            create: vec![format!(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, {})",
                names[1..].join(", ")
            )],
            columns: names,
            fingerprint: fingerprint.clone(),
        };
        let mut centre = self.centre.borrow_mut();
        centre.identify(&fingerprint, "t", &identities);
        centre.publish(&[table]);
        self.shapes.insert(fingerprint, self.columns.clone());
    }

    /// Renames, drops and adds.
    fn change_tables(&mut self) {
        let added = self.written;
        self.written += 1;
        if self.columns.len() > 1 && self.below(3) == 0 {
            let at = self.below(self.columns.len() as u64) as usize;
            self.columns.remove(at);
        }
        if self.columns.len() < NAMES.len() && self.below(2) == 0 {
            self.columns.push((String::new(), format!("added {added}")));
        }
        let mut names: Vec<&str> = NAMES.to_vec();
        for at in 0..self.columns.len() {
            let free = names.contains(&self.columns[at].0.as_str());
            let keeps = (free || self.columns[at].0.starts_with('n')) && self.below(2) == 0;
            let name = match keeps {
                true => self.columns[at].0.clone(),
                // A server of before cannot say that a name was handed on.
                false if !self.centre.borrow().takes_held_shapes => format!("n{added}_{at}"),
                false => names[self.below(names.len() as u64) as usize].to_owned(),
            };
            names.retain(|it| *it != name);
            self.columns[at].0 = name;
        }
        self.publish();
    }

    /// The columns as the remote holds them.
    fn held(&self) -> Vec<(String, String)> {
        let print = "SELECT json_extract(published, '$.fingerprint') FROM syncline_table";
        let print = self.site.rows(print).remove(0);
        self.shapes[print.trim_matches('\'')].clone()
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
            self.expected.insert(key, row);
        } else if self.below(4) == 0 {
            self.site.write(&format!("DELETE FROM t WHERE id = {key}"));
            self.expected.remove(&key);
        } else {
            let (name, identity) = held[self.below(held.len() as u64) as usize].clone();
            self.site.write(&format!("UPDATE t SET {name} = {value} WHERE id = {key}"));
            self.expected.get_mut(&key).unwrap().insert(identity, value);
        }
    }

    fn synchronize(&mut self) {
        let faults = [
            Fault::None,
            Fault::BeforeCommit,
            Fault::AfterCommit,
            Fault::AfterAcknowledgement,
            Fault::AfterSchemaChange,
            Fault::WithinDownload,
        ];
        let modes = [Mode::Full, Mode::Full, Mode::Full, Mode::UploadOnly, Mode::DownloadOnly];
        let mode = modes[self.below(modes.len() as u64) as usize];
        self.centre.borrow_mut().fault = faults[self.below(faults.len() as u64) as usize];
        if let Err(failure) = sync_as(&mut self.site.remote, &self.centre, mode, &mut |_| {}) {
            let known = [Code::ConnectionLost, Code::ShapeChangeBlocked, Code::DownloadFirst];
            assert!(known.contains(&failure.code()), "{mode:?}: {failure:?}");
        }
        self.centre.borrow_mut().fault = Fault::None;
    }

    fn go(&mut self) {
        for _ in 0..STEPS {
            match self.below(8) {
                0 => self.change_tables(),
                1 | 2 => self.synchronize(),
                _ => self.write(),
            }
        }
        sync(&mut self.site, &self.centre).unwrap();
        sync(&mut self.site, &self.centre).unwrap();
    }

    fn here(&self) -> Vec<String> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        self.site.rows(&format!("SELECT id, {} FROM t ORDER BY id", names.join(", ")))
    }

    fn there(&self) -> Vec<String> {
        let mut there = self.centre.borrow().lines(0);
        there.sort();
        there
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
        let mut walk = Walk::new(seed, true);
        walk.go();
        let told = walk.site.remote.rejects().unwrap();
        let lost = |it: &StoredReject| it.code == Code::ColumnLost.number();
        assert!(told.iter().all(lost), "seed {seed}: {told:?}");
        assert_eq!(walk.here(), walk.wanted(), "the remote, seed {seed}");
        assert_eq!(walk.there(), walk.wanted(), "the centre, seed {seed}");
        assert_eq!(walk.site.remote.pending().unwrap(), []);
    }
}

// S3, S11, Trap 24: a server that wants the new tables first. What a renaming loses is reported.
#[test]
fn both_ends_agree_and_nothing_is_lost_in_silence_with_a_server_of_before() {
    for seed in 1..=SEEDS {
        let mut walk = Walk::new(seed, false);
        walk.go();
        assert_eq!(walk.here(), walk.there(), "seed {seed}");
        assert_eq!(walk.site.remote.pending().unwrap(), []);
        let told = walk.site.remote.rejects().unwrap();
        let key = |line: &String| line.split(", ").next().unwrap().to_owned();
        let (wanted, there) = (walk.wanted(), walk.there());
        let differs = |line: &&String| !(wanted.contains(line) && there.contains(line));
        for line in wanted.iter().chain(&there).filter(differs) {
            let key = format!("{{\"id\":{}}}", key(line));
            assert!(told.iter().any(|it| it.key == key), "seed {seed}: {line} is not told");
        }
    }
}
