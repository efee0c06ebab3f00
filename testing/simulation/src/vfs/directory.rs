//! The names of files, and which of them a power cut would change.

use model::Random;
use std::collections::BTreeMap;

/// Which file a name stands for.
pub(super) type Number = u64;

/// The names of a disk. All of them are in one folder.
#[derive(Debug, Default)]
pub(super) struct Directory {
    names: BTreeMap<String, Number>,
    /// What a name has stood for since it was synced, the synced state first.
    unsynced: BTreeMap<String, Vec<Option<Number>>>,
}

impl Directory {
    pub(super) fn find(&self, name: &str) -> Option<Number> {
        self.names.get(name).copied()
    }

    pub(super) fn names(&self) -> &BTreeMap<String, Number> {
        &self.names
    }

    /// From now on the name stands for this file, or for none.
    pub(super) fn set(&mut self, name: &str, number: Option<Number>) {
        let before = self.find(name);
        let states = self.unsynced.entry(name.to_owned()).or_insert_with(|| vec![before]);
        states.push(number);
        self.put(name, number);
    }

    fn put(&mut self, name: &str, number: Option<Number>) {
        match number {
            Some(number) => self.names.insert(name.to_owned(), number),
            None => self.names.remove(name),
        };
    }

    /// Brings one name to the disk.
    pub(super) fn sync_name(&mut self, name: &str) {
        self.unsynced.remove(name);
    }

    /// Brings all of them to the disk.
    pub(super) fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// Whether a name stands for the file, or would after some power cut.
    pub(super) fn needs(&self, number: Number) -> bool {
        self.names.values().any(|it| *it == number)
            || self.unsynced.values().flatten().any(|it| *it == Some(number))
    }

    /// What a power cut leaves: each name is in one of its states since the last sync.
    pub(super) fn cut(&mut self, random: &mut Random) {
        for (name, states) in std::mem::take(&mut self.unsynced) {
            let chosen = random.next_u64() % states.len() as u64;
            self.put(&name, states[chosen as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_not_synced_may_vanish_and_a_deleted_one_may_come_back() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut directory = Directory::default();
            directory.set("a", Some(1));
            directory.set("c", Some(3));
            directory.sync();
            directory.set("a", None);
            directory.set("b", Some(2));
            directory.cut(&mut Random::from_seed([seed; 32]));
            assert_eq!(directory.find("c"), Some(3));
            seen.insert((directory.find("a"), directory.find("b")));
        }
        assert_eq!(seen.len(), 4);
    }
}
