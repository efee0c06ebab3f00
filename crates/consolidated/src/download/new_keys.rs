//! Rows of a download that have another key than the one by which the remote knows them.
//!
//! The center logs both keys of each change. The entries since the remote's last download show
//! which row the remote knows by which key. The old key is sent with the row, so that the remote's
//! own `ON UPDATE` acts and the row stays the same row.
//!
//! Invariants:
//! N1. No remote is sent an old key that it did not have (S7). The delete cursor names the key, or
//!     the remote receives another row under it. And the place of the row at that time is its
//!     present place, or one that the delete cursor covers. In every other case the row is sent
//!     like any row, and its old key is deleted like any key.
//! N2. The row that now has a sent old key is sent too, no matter who made it. So the remote has
//!     the same row there as the center, whatever it had before (S3).
//! N3. A key change that did not change the children is not sent as one: at a remote the children
//!     would follow.

use model::{Failure, Hold, Memory};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most key changes of a table that a download tells as what they are. Beyond it, as where the log
/// is too short, a row goes and another comes.
pub(crate) const KEY_CHANGES_MAX: usize = 100_000;

/// Bytes of the keys in them. The questions about them go to the database in one flight.
const KEY_BYTES_MAX: u64 = 16 << 20;

/// How often the keys of a change are in memory: as known, as given up and as sent, and in the
/// questions to the database and their answers.
const COPIES: u64 = 6;

/// Bytes that a change takes beside its keys.
const CHANGE_BYTES: u64 = 400;

/// Bytes of key changes that are told although there is no memory left: what a remote is told of a
/// few does not depend on what others hold.
const TOLD_BYTES_MIN: u64 = 256 << 10;

/// An entry of the log: a row got another key. Both keys are one where a remote has made a row of
/// its own under a key that another had left.
pub(crate) struct KeyChange {
    pub(crate) was: Vec<u8>,
    pub(crate) is: Vec<u8>,
    /// The remote itself changed the key, and uses the new one.
    pub(crate) own: bool,
    /// Foreign keys were not checked, so rows that refer to it may have stayed.
    pub(crate) unlinked: bool,
}

/// The keys by which a remote knows the rows of a table, followed from change to change.
///
/// The changes of one row come in their order, and so do those that concern one key. If there are
/// too many, or no memory for them, none is told.
pub(crate) struct Trail {
    /// By the key that a row has now, the one by which the remote knows it; none if the remote does
    /// not know it, or is not sent it.
    known_by: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// By the key that the remote knows, the one that the row has now.
    now: HashMap<Vec<u8>, Vec<u8>>,
    /// Keys that rows have left. A row that has such a key now came later.
    left: HashSet<Vec<u8>>,
    changes: usize,
    key_bytes: u64,
    too_many: bool,
    held: Hold,
}

impl Trail {
    /// Of no changes, with memory from `memory`.
    pub(crate) fn within(memory: &Arc<Memory>) -> Trail {
        let (known_by, now, left) = (HashMap::new(), HashMap::new(), HashSet::new());
        let (changes, key_bytes, held) = (0, 0, memory.hold());
        Trail { known_by, now, left, changes, key_bytes, too_many: true, held }
    }

    /// Follows another change.
    pub(crate) fn follow(&mut self, change: KeyChange) {
        if !self.too_many && !self.makes_room(&change) {
            let Trail { known_by, now, left, held, .. } = self;
            (*known_by, *now, *left) = (HashMap::new(), HashMap::new(), HashSet::new());
            held.release();
            self.too_many = true;
        }
        if !self.too_many {
            self.follow_it(change);
        }
    }

    /// Whether another change may be told.
    fn makes_room(&mut self, change: &KeyChange) -> bool {
        let keys = (change.was.len() + change.is.len()) as u64;
        (self.changes, self.key_bytes) = (self.changes + 1, self.key_bytes + keys);
        if self.changes > KEY_CHANGES_MAX || self.key_bytes > KEY_BYTES_MAX {
            return false;
        }
        let bytes = CHANGE_BYTES + COPIES * keys;
        let held = self.held.try_grow(bytes);
        if !held && self.held.bytes() + bytes <= TOLD_BYTES_MIN {
            self.held.grow(bytes);
            return true;
        }
        held
    }

    fn follow_it(&mut self, change: KeyChange) {
        let KeyChange { was, is, own, unlinked } = change;
        let mut known = None;
        if was != is {
            known = match self.known_by.remove(&was) {
                Some(known) => known,
                None => (!self.left.contains(&was)).then(|| was.clone()),
            };
            self.left.insert(was);
        }
        if let Some(key) = known.take_if(|_| own || unlinked) {
            self.now.remove(&key);
        }
        if own {
            // The row that it knew by this key it does not mean by it any more.
            if let Some(elsewhere) = self.now.remove(&is) {
                self.known_by.insert(elsewhere, None);
            }
            known = Some(is.clone());
        }
        // What was under the key before is gone.
        if let Some(Some(replaced)) = self.known_by.remove(&is)
            && self.now.get(&replaced) == Some(&is)
        {
            self.now.remove(&replaced);
        }
        if let Some(key) = &known {
            self.now.insert(key.clone(), is.clone());
        }
        self.known_by.insert(is, known);
    }

    /// The rows that are known by other keys than they have; none where too many were changed.
    pub(crate) fn end(self) -> NewKeys {
        let known_by = self.known_by.into_iter().filter_map(|(now, known)| Some((now, known?)));
        let known_by = known_by.filter(|(now, known)| now != known).collect();
        NewKeys::of(known_by, Some(self.held))
    }
}

/// What is known of a key that was given up, and of the row that gave it up.
pub(crate) struct Clues {
    /// The delete cursor names the key.
    pub(crate) is_named: bool,
    /// The remote receives another row under it.
    pub(crate) is_covered: bool,
    /// Where the row was at the remote's last download.
    pub(crate) then: Then,
    /// The place that it has now.
    pub(crate) now: Option<Vec<u8>>,
}

/// Finds the clues of a row by its old and its new key.
pub(crate) type Investigation<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Clues, Failure>;

/// The place of a row at a remote's last download.
pub(crate) enum Then {
    /// All remotes receive all rows.
    Everywhere,
    At {
        place: Vec<u8>,
        /// The row, or a later one, departed from another place later.
        went_on: bool,
    },
    /// The row did not exist yet, or the log lacks it.
    Unknown,
}

impl Clues {
    /// Whether the remote had the row under the old key (N1).
    fn had_it(self) -> bool {
        (self.is_named || self.is_covered)
            && match self.then {
                Then::Everywhere => true,
                Then::At { place, went_on } => {
                    self.now.is_some_and(|now| now == place) || self.is_named && !went_on
                }
                Then::Unknown => false,
            }
    }
}

/// The rows of a table that a remote knows by other keys.
#[derive(Default)]
pub(crate) struct NewKeys {
    /// By the key that a row has now, the one by which the remote knows it.
    known_by: HashMap<Vec<u8>, Vec<u8>>,
    /// The keys by which the remote knows them.
    given_up: HashSet<Vec<u8>>,
    /// Those of them that were sent.
    told: HashSet<Vec<u8>>,
    /// What all of it takes.
    held: Option<Hold>,
}

impl NewKeys {
    fn of(known_by: HashMap<Vec<u8>, Vec<u8>>, held: Option<Hold>) -> NewKeys {
        let given_up = known_by.values().cloned().collect();
        NewKeys { known_by, given_up, told: HashSet::new(), held }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known_by.is_empty()
    }

    /// New and old key of each row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.known_by.iter().map(|(new, old)| (new.as_slice(), old.as_slice()))
    }

    /// Whether the remote knows by this key a row that has another one now.
    pub(crate) fn are_given_up(&self, key: &[u8]) -> bool {
        self.given_up.contains(key)
    }

    /// The key by which the remote knows the row with this key, which is about to be sent.
    pub(crate) fn tell(&mut self, key: &[u8]) -> Option<&[u8]> {
        let old = self.known_by.get(key)?;
        if !self.told.contains(old) {
            self.told.insert(old.clone());
        }
        Some(old)
    }

    /// Whether the key was sent as the old one of a row.
    pub(crate) fn is_told(&self, key: &[u8]) -> bool {
        self.told.contains(key)
    }

    /// Forgets the rows whose old keys the remote did not have (N1).
    pub(crate) fn keep_known(&mut self, clues: Investigation<'_>) -> Result<(), Failure> {
        let mut known_by = HashMap::with_capacity(self.known_by.len());
        for (new, old) in std::mem::take(&mut self.known_by) {
            if clues(&old, &new)?.had_it() {
                known_by.insert(new, old);
            }
        }
        *self = NewKeys::of(known_by, self.held.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each change is `was`, `is` and who made it: `o` others, `r` the remote itself, `u` others,
    /// without foreign keys.
    fn check(changes: &[&str], expected: &[&str]) {
        let mut trail = Trail::within(&Arc::default());
        for change in changes {
            let bytes = change.as_bytes();
            let (own, unlinked) = (bytes[2] == b'r', bytes[2] == b'u');
            let (was, is) = (vec![bytes[0]], vec![bytes[1]]);
            trail.follow(KeyChange { was, is, own, unlinked });
        }
        let new_keys = trail.end();
        let pair = |(new, old): (&[u8], &[u8])| String::from_utf8([old, new].concat()).unwrap();
        let mut found: Vec<String> = new_keys.iter().map(pair).collect();
        found.sort();
        assert_eq!(found, expected, "{changes:?}");
    }

    // S3, Trap 10
    #[test]
    fn each_row_is_known_by_the_key_that_it_had_first() {
        check(&["abo", "bco"], &["ac"]);
        check(&["abo", "bao"], &[]);
        // Chains, swaps, rings.
        check(&["cdo", "bco", "abo"], &["ab", "bc", "cd"]);
        check(&["axo", "bao", "xbo"], &["ab", "ba"]);
        check(&["axo", "cao", "bco", "xbo"], &["ab", "bc", "ca"]);
        // It goes, comes back and goes again; another takes its first key.
        check(&["ago", "gao", "aho", "bao"], &["ah", "ba"]);
        // The row that had the key before was deleted.
        check(&["abo", "bco", "dbo"], &["ac", "db"]);
        check(&["abo", "dbo"], &["db"]);
        check(&["abo", "dbo", "beo"], &["de"]);
        // A row that took a key which another row had left is new.
        check(&["abo", "aco"], &["ab"]);
    }

    // S9: all keys that had changed were held, whatever they took.
    #[test]
    fn changes_that_take_too_much_are_not_told_and_give_the_memory_back() {
        let key = |kind: u8, n: u32| {
            let mut key = vec![kind; 1_000];
            key.extend_from_slice(&n.to_be_bytes());
            key
        };
        for (memory, changes, told) in
            [(0, 20, true), (0, 1_000, false), (1 << 20, 1_000, false), (1 << 30, 1_000, true)]
        {
            let memory = Memory::new(memory);
            let mut trail = Trail::within(&memory);
            for n in 0..changes {
                let (was, is) = (key(1, n), key(2, n));
                trail.follow(KeyChange { was, is, own: false, unlinked: false });
                assert!(told || memory.used_bytes() <= 1 << 20);
            }
            let new_keys = trail.end();
            assert_eq!(new_keys.iter().count(), if told { changes as usize } else { 0 });
            assert_eq!(memory.used_bytes() > 0, told);
            drop(new_keys);
            assert_eq!(memory.used_bytes(), 0);
        }
    }

    // S3, Trap 8
    #[test]
    fn what_the_remote_did_itself_it_knows() {
        check(&["abr"], &[]);
        check(&["abr", "bco"], &["bc"]);
        check(&["abo", "bcr"], &[]);
        // Its own row under a key that another left is the one that it means by that key.
        check(&["abo", "aar"], &[]);
        check(&["abo", "aar", "aco"], &["ac"]);
        check(&["abo", "car"], &[]);
        check(&["abo", "car", "ado"], &["ad"]);
        check(&["abo", "bcr", "car"], &[]);
    }

    // S3, Trap 26
    #[test]
    fn a_row_that_left_its_children_behind_is_not_told_as_the_same() {
        check(&["abu"], &[]);
        check(&["abu", "bco"], &[]);
        check(&["abo", "bcu"], &[]);
        check(&["abu", "cao"], &["ca"]);
        check(&["abu", "bar", "aco"], &["ac"]);
    }
}
