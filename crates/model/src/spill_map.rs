//! Values by key, in the order of the keys, of which what does not fit in memory lies on disk.
//!
//! What is added is in memory first. When there is no more memory it becomes a run: sorted entries
//! in the chunks of a [`Spill`], with the first key of every chunk beside it. Runs of about one
//! size become one, so that there are few of them.
//!
//! A key has the value that was added last, but an empty one never takes the place of another.
//!
//! Bounds: the memory of the spills. Whatever is left of it, a map holds [`RECENT_BYTES_MIN`], of
//! each run the fronts of the first keys of its chunks, and of each run that is being read one
//! chunk. No call takes time that grows with the entries, but for those that show all of them: a
//! caller may have a transaction open in which the database must not wait for long. So each entry
//! that is added puts a few others together, and not the last one all of them.

mod merge;
mod run;

use crate::failure::Failure;
use crate::memory::Hold;
use crate::spill::Spills;
use merge::{Merge, least, take};
use run::{Cursor, RECENT_BYTES_MIN, RUNS_MAX, Run, Writing, entry_bytes};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Most bytes of entries that become a run at once.
const RECENT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of entries that each merge takes further for a byte that is added. It has come to its end
/// before there are enough runs for another one of its level.
const MERGED_TIMES: u64 = 8;

/// Values by key.
pub struct SpillMap {
    spills: Arc<Spills>,
    recent: BTreeMap<Vec<u8>, Vec<u8>>,
    held: Hold,
    /// The oldest first.
    runs: Vec<Run>,
    /// Each of neighbors among the runs, which stay until it is at its end.
    merges: Vec<Merge>,
    /// The number of the next run.
    next: u64,
}

impl SpillMap {
    /// An empty one.
    pub fn new(spills: &Arc<Spills>) -> SpillMap {
        let (recent, held) = (BTreeMap::new(), spills.memory().hold());
        let (runs, merges) = (Vec::new(), Vec::new());
        SpillMap { spills: spills.clone(), recent, held, runs, merges, next: 0 }
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.runs.is_empty()
    }

    /// Adds an entry.
    pub fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Failure> {
        let bytes = entry_bytes(&key, &value);
        let room = self.held.bytes() < RECENT_BYTES_MAX && self.held.try_grow(bytes);
        if !room {
            if self.held.bytes() >= RECENT_BYTES_MIN {
                self.end_run()?;
            }
            self.held.grow(bytes);
        }
        match self.recent.entry(key) {
            btree_map::Entry::Vacant(entry) => drop(entry.insert(value)),
            btree_map::Entry::Occupied(mut entry) => {
                let less = match value.is_empty() {
                    true => bytes,
                    false => entry_bytes(entry.key(), entry.get()),
                };
                if !value.is_empty() {
                    entry.insert(value);
                }
                self.held.shrink(less);
            }
        }
        self.merge(MERGED_TIMES * bytes)
    }

    /// Adds an entry, most likely of a key that is there: in memory it takes no new place.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let Some(held) = self.recent.get_mut(key).filter(|_| !value.is_empty()) else {
            return self.add(key.to_vec(), value.to_vec());
        };
        self.held.shrink(held.len() as u64);
        self.held.grow(value.len() as u64);
        held.clear();
        held.extend_from_slice(value);
        Ok(())
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        let mut found = self.recent.get(key).map(|value| Cow::Borrowed(value.as_slice()));
        for run in self.runs.iter().rev() {
            if found.as_ref().is_some_and(|value| !value.is_empty()) {
                break;
            }
            found = run.get(key)?.map(Cow::Owned).or(found);
        }
        Ok(found)
    }

    /// Shows all entries to `visit`, in the order of their keys.
    pub fn visit<E: From<Failure>>(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit_behind(None, |key, value| {
            visit(key, value)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Shows the entries behind a key to `visit`, or all of them, until it breaks off.
    pub fn visit_behind<E: From<Failure>>(
        &self,
        behind: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let begin = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut recent = self.recent.range::<[u8], _>((begin, Bound::Unbounded)).peekable();
        let mut cursors = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            cursors.push(Cursor::behind(&self.spills, run, behind)?);
        }
        loop {
            let oldest = least(&cursors);
            let (key, newest) = match (oldest, recent.peek()) {
                (None, None) => return Ok(()),
                (Some(key), Some((other, _))) if key < other.as_slice() => (key.to_vec(), None),
                (Some(key), None) => (key.to_vec(), None),
                (None, Some((key, value))) => {
                    let shown = visit(key, value)?;
                    recent.next();
                    if shown.is_break() {
                        return Ok(());
                    }
                    continue;
                }
                (_, Some((key, value))) => ((*key).clone(), Some(value.as_slice())),
            };
            if newest.is_some() {
                recent.next();
            }
            let older = take(&self.runs, &mut cursors, &key)?;
            let shown = match newest.filter(|value| !value.is_empty()) {
                Some(value) => visit(&key, value)?,
                None => visit(&key, &older)?,
            };
            if shown.is_break() {
                return Ok(());
            }
        }
    }

    /// Makes a run of what is in memory.
    fn end_run(&mut self) -> Result<(), Failure> {
        let recent = std::mem::take(&mut self.recent);
        self.next += 1;
        let mut run = Writing::new(&self.spills, self.next);
        // What an entry took is given back as it goes: its run may have it.
        for (key, value) in recent {
            self.held.shrink(entry_bytes(&key, &value));
            run.add(&key, &value)?;
        }
        self.held.release();
        self.runs.push(run.end()?);
        self.begin_merge()
    }

    /// Begins to put runs together, where as many as may be of one level are beside each other.
    fn begin_merge(&mut self) -> Result<(), Failure> {
        let is_merged = |run: &Run| self.merges.iter().any(|merge| merge.has(run));
        let alike = |one: &Run, next: &Run| {
            one.level() == next.level() && !is_merged(one) && !is_merged(next)
        };
        let number = self.next + 1;
        if let Some(sources) = self.runs.chunk_by(alike).find(|runs| runs.len() >= RUNS_MAX) {
            self.merges.push(Merge::new(&self.spills, number, sources)?);
            self.next = number;
        }
        Ok(())
    }

    /// Takes each merge further by entries of so many bytes.
    fn merge(&mut self, bytes: u64) -> Result<(), Failure> {
        let mut at = 0;
        while at < self.merges.len() {
            let merge = &mut self.merges[at];
            let sources = merge.among(&self.runs);
            if !merge.go_on(&self.runs[sources.clone()], bytes)? {
                at += 1;
                continue;
            }
            let run = self.merges.remove(at).end()?;
            self.runs.splice(sources, [run]);
            self.begin_merge()?;
        }
        Ok(())
    }
}

impl fmt::Debug for SpillMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillMap")
            .field("recent", &self.recent.len())
            .field("runs", &self.runs.len())
            .field("merges", &self.merges.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileId, Files};
    use crate::spill::tests::small_disk;
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A number that looks like no other's neighbor.
    fn scattered(n: u64) -> [u8; 8] {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
    }

    // S9: what became of a million rows took 110 MB until the upload was committed.
    #[test]
    fn what_does_not_fit_in_memory_is_found_and_in_order() {
        let spills = Spills::new(small_disk(1 << 30), 512 << 10, 1 << 30);
        let mut map = SpillMap::new(&spills);
        let count = 30_000;
        for n in 0..count {
            map.add(scattered(n).to_vec(), n.to_string().into_bytes()).unwrap();
            assert!(spills.memory_bytes() < (512 << 10) + 2 * RECENT_BYTES_MIN, "{n}");
        }
        assert!(map.runs.len() < 3 * RUNS_MAX, "{map:?}");
        assert!(map.runs.iter().any(|run| run.chunks.disk_bytes() > 0));
        for n in (0..count).step_by(7) {
            assert_eq!(*map.get(&scattered(n)).unwrap().unwrap(), *n.to_string().as_bytes());
        }
        assert!(map.get(&scattered(count)).unwrap().is_none());
        assert!(map.get(&[]).unwrap().is_none() && map.get(&[255; 9]).unwrap().is_none());
        let mut keys: Vec<[u8; 8]> = (0..count).map(scattered).collect();
        keys.sort_unstable();
        let mut wanted = keys.into_iter();
        map.visit(|key, _| {
            assert_eq!(wanted.next().unwrap(), key);
            Ok::<(), Failure>(())
        })
        .unwrap();
        assert_eq!(wanted.next(), None);
        drop(map);
        assert_eq!(spills.memory_bytes(), 0);
    }

    // S9: the first key of each chunk was in memory. Of keys that are as long as chunks these were
    // all.
    #[test]
    fn long_keys_lie_on_disk_and_are_found_whatever_they_have_in_common() {
        let spills = Spills::new(small_disk(1 << 30), 256 << 10, 1 << 30);
        let count = 600;
        for common in [0, 20_000] {
            let mut map = SpillMap::new(&spills);
            let key = |n: u64| {
                let mut key = vec![7; common];
                key.extend_from_slice(&scattered(n));
                key.resize(20_000 + 8, 9);
                key
            };
            for n in 0..count {
                map.add(key(n), n.to_string().into_bytes()).unwrap();
                assert!(spills.memory_bytes() < 4 * RECENT_BYTES_MIN, "{n}");
            }
            for n in 0..count {
                assert_eq!(*map.get(&key(n)).unwrap().unwrap(), *n.to_string().as_bytes());
            }
            assert!(map.get(&key(count)).unwrap().is_none());
            assert!(map.get(&key(0)[..50]).unwrap().is_none());
            let mut keys: Vec<Vec<u8>> = (0..count).map(key).collect();
            keys.sort_unstable();
            for at in [0, 1, 300, 598, 599] {
                let mut next = None;
                map.visit_behind(Some(&keys[at]), |key, _| {
                    next = Some(key.to_vec());
                    Ok::<_, Failure>(ControlFlow::Break(()))
                })
                .unwrap();
                assert_eq!(next.as_ref(), keys.get(at + 1));
            }
        }
    }

    #[test]
    fn the_last_value_counts_and_an_empty_one_only_alone() {
        for memory in [0, 1 << 30] {
            let spills = Spills::new(small_disk(1 << 30), memory, 1 << 30);
            let mut map = SpillMap::new(&spills);
            assert!(map.is_empty());
            for round in ["", "first", "", "second", ""] {
                for n in 0..5_000u64 {
                    let value = if n.is_multiple_of(3) { "" } else { round };
                    map.add(scattered(n).to_vec(), value.as_bytes().to_vec()).unwrap();
                }
            }
            assert_eq!(map.runs.is_empty(), memory > 0);
            let wanted = |n: u64| if n.is_multiple_of(3) { "" } else { "second" };
            for n in 0..5_000 {
                let value = map.get(&scattered(n)).unwrap().unwrap().into_owned();
                assert_eq!(value, wanted(n).as_bytes(), "{n}");
            }
            let mut seen = 0;
            map.visit(|_, value| {
                assert!(value.is_empty() || value == b"second");
                seen += 1;
                Ok::<(), Failure>(())
            })
            .unwrap();
            assert_eq!(seen, 5_000);
            drop(map);
            assert_eq!(spills.memory_bytes(), 0);
        }
    }

    #[test]
    fn what_is_behind_a_key_is_shown_until_it_is_enough() {
        for memory in [0, 1 << 30] {
            let spills = Spills::new(small_disk(1 << 30), memory, 1 << 30);
            let mut map = SpillMap::new(&spills);
            let (count, key) = (9_000_u32, |n: u32| (2 * n).to_be_bytes());
            for n in 0..count {
                map.add(key(n).to_vec(), vec![1]).unwrap();
            }
            for n in (0..count).step_by(3) {
                map.set(&key(n), &[2]).unwrap();
            }
            assert_eq!(map.runs.is_empty(), memory > 0);
            let seen = |behind: Option<[u8; 4]>, most: usize| {
                let mut seen = Vec::new();
                map.visit_behind(behind.as_ref().map(<[u8; 4]>::as_slice), |key, value| {
                    seen.push((u32::from_be_bytes(key.try_into().unwrap()) / 2, value[0]));
                    Ok::<_, Failure>(match seen.len() == most {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    })
                })
                .unwrap();
                seen
            };
            let wanted = |n: u32| (n, if n.is_multiple_of(3) { 2 } else { 1 });
            assert!(seen(None, 0).into_iter().eq((0..count).map(wanted)));
            for n in (0..count).step_by(997) {
                assert_eq!(seen(Some(key(n)), 2), [n + 1, n + 2].map(wanted));
                let between = (2 * n + 1).to_be_bytes();
                assert_eq!(seen(Some(between), 1), [wanted(n + 1)]);
            }
            assert_eq!(seen(Some(key(count - 2)), 0), [wanted(count - 1)]);
            assert!(seen(Some(key(count - 1)), 0).is_empty());
            drop(map);
            assert_eq!(spills.memory_bytes(), 0);
        }
    }

    /// Counts the bytes that are written to a disk and read from it.
    struct CountedDisk {
        disk: Arc<dyn Files>,
        bytes: AtomicUsize,
    }

    impl CountedDisk {
        fn count(&self, bytes: usize) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    impl Files for CountedDisk {
        fn create(&self) -> io::Result<FileId> {
            self.disk.create()
        }
        fn append(&self, file: FileId, bytes: &[u8]) -> io::Result<()> {
            self.count(bytes.len());
            self.disk.append(file, bytes)
        }
        fn read_exact_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.count(buffer.len());
            self.disk.read_exact_at(file, offset, buffer)
        }
        fn remove(&self, file: FileId) {
            self.disk.remove(file);
        }
    }

    // S9, S11: the entry behind which 512 runs were there put all entries together, and meanwhile
    // the database ended a transaction of which it heard nothing for so long (25P03).
    #[test]
    fn no_entry_waits_for_all_the_others() {
        let (disk, bytes) = (small_disk(1 << 30), AtomicUsize::new(0));
        let disk = Arc::new(CountedDisk { disk, bytes });
        let spills = Spills::new(disk.clone(), 0, 1 << 30);
        let mut map = SpillMap::new(&spills);
        let (count, mut most, mut all) = (160_000, 0, 0);
        for n in 0..count {
            map.add(scattered(n).to_vec(), vec![n as u8; 100]).unwrap();
            let moved = disk.bytes.swap(0, Ordering::Relaxed);
            (most, all) = (most.max(moved), all + moved);
        }
        assert!(map.runs.len() < 5 * RUNS_MAX && map.runs.iter().any(|run| run.level() == 2));
        assert!(most < 2 << 20, "{most} of {all} bytes for one entry, {map:?}");
    }
}
