//! A machine with its disk: files, the programs' handles of them, and what goes wrong.

use super::contents::{Contents, SECTOR_BYTES};
use super::directory::{Directory, Number};
use super::faults::{Fate, Faults};
use super::locks::{self, Answer, Level, Slots};
use super::memory::{Memory, Region};
use super::operation::{Digest, Operation, Outcome};
use model::Random;
use rusqlite::ffi;
use std::collections::BTreeMap;

/// A handle of a program. One that the machine does not know is of a program that is dead.
pub(super) type HandleId = u64;

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Opening {
    pub(super) may_create: bool,
    pub(super) must_create: bool,
    pub(super) delete_on_close: bool,
    /// The first sync of the file syncs its name and those of all others: a journal is opened so.
    pub(super) syncs_names: bool,
}

#[derive(Debug)]
struct Handle {
    number: Number,
    /// None for a file that never had one.
    name: Option<String>,
    opening: Opening,
    level: Level,
    slots: Slots,
    maps_memory: bool,
}

/// Everything a machine has.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) files: BTreeMap<Number, Contents>,
    pub(super) directory: Directory,
    next_number: Number,
    handles: BTreeMap<HandleId, Handle>,
    next_handle: HandleId,
    memories: BTreeMap<Number, Memory>,
    pub(super) faults: Faults,
    pub(super) capacity_bytes: Option<u64>,
    /// How often files or names have changed.
    pub(super) changes: u64,
    pub(super) digest: Digest,
    pub(super) cuts: Random,
    chance: Random,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Machine {
        let mut seeds = [seed, 1].map(|part| part.to_le_bytes()).concat();
        seeds.resize(32, 0);
        let mut random = Random::from_seed(std::array::from_fn(|at| seeds[at]));
        let mut fork =
            || {
                let (low, high) = (random.next_bytes(), random.next_bytes());
                Random::from_seed(std::array::from_fn(|at| {
                    if at < 16 { low[at] } else { high[at - 16] }
                }))
            };
        let (faults, cuts, mut chance) = (Faults::new(fork()), fork(), fork());
        Machine {
            files: BTreeMap::new(),
            directory: Directory::default(),
            // Files of two machines have different numbers.
            next_number: chance.next_u64() >> 16,
            handles: BTreeMap::new(),
            next_handle: 0,
            memories: BTreeMap::new(),
            faults,
            capacity_bytes: None,
            changes: 0,
            digest: Digest::new(),
            cuts,
            chance,
        }
    }

    pub(super) fn new_file(&mut self, contents: Contents) -> Number {
        self.changes += 1;
        self.next_number += 1;
        self.files.insert(self.next_number, contents);
        self.next_number
    }

    /// Decides what becomes of an operation.
    pub(super) fn begin(&mut self, operation: Operation) -> Fate {
        let fate = self.faults.next(operation.is_change());
        self.digest.add(&[operation as u8, fate as u8]);
        fate
    }

    /// The same for operations that are done or are not.
    pub(super) fn attempt(&mut self, operation: Operation) -> Outcome<()> {
        match self.begin(operation) {
            Fate::Done => Ok(()),
            Fate::Failed | Fate::Dead => Err(operation.error()),
        }
    }

    fn handle(&mut self, id: HandleId, operation: Operation) -> Outcome<&mut Handle> {
        self.handles.get_mut(&id).ok_or(operation.error())
    }

    fn contents(&mut self, id: HandleId, operation: Operation) -> Outcome<&mut Contents> {
        let number = self.handle(id, operation)?.number;
        self.files.get_mut(&number).ok_or(operation.error())
    }

    pub(super) fn open(&mut self, name: Option<&str>, opening: Opening) -> Outcome<HandleId> {
        let found = name.and_then(|name| self.directory.find(name));
        let operation = if found.is_some() { Operation::Open } else { Operation::Create };
        self.attempt(operation)?;
        self.digest.add(name.unwrap_or_default().as_bytes());
        let number = match found {
            Some(_) if opening.must_create => return Err(operation.error()),
            Some(number) => number,
            None if !opening.may_create => return Err(operation.error()),
            None => {
                let number = self.new_file(Contents::default());
                if let Some(name) = name {
                    self.directory.set(name, Some(number));
                }
                number
            }
        };
        self.next_handle += 1;
        let handle = Handle {
            number,
            name: name.map(str::to_owned),
            opening,
            level: Level::None,
            slots: Slots::default(),
            maps_memory: false,
        };
        self.handles.insert(self.next_handle, handle);
        Ok(self.next_handle)
    }

    /// Never fails, and is not counted: a program that is killed closes its files too.
    pub(super) fn close(&mut self, id: HandleId) {
        self.unmap_memory(id);
        let Some(handle) = self.handles.remove(&id) else { return };
        if let Some(name) = handle.name.filter(|_| handle.opening.delete_on_close)
            && self.directory.find(&name) == Some(handle.number)
        {
            self.changes += 1;
            self.directory.set(&name, None);
        }
        self.forget_files();
    }

    /// Forgets files that nothing leads to any more.
    pub(super) fn forget_files(&mut self) {
        let Machine { files, directory, handles, .. } = self;
        files.retain(|number, _| {
            directory.needs(*number) || handles.values().any(|it| it.number == *number)
        });
    }

    /// Forgets what the programs held, when all of them end.
    pub(super) fn end_programs(&mut self) {
        self.handles.clear();
        self.memories.clear();
        self.forget_files();
    }

    /// Fills `buffer`, with zeros where the file has nothing; returns how much it has.
    pub(super) fn read(
        &mut self,
        id: HandleId,
        offset: usize,
        buffer: &mut [u8],
    ) -> Outcome<usize> {
        self.handle(id, Operation::Read)?;
        self.attempt(Operation::Read)?;
        let len = self.contents(id, Operation::Read)?.read(offset, buffer);
        buffer[len..].fill(0);
        Ok(len)
    }

    pub(super) fn write(&mut self, id: HandleId, offset: usize, bytes: &[u8]) -> Outcome<()> {
        self.handle(id, Operation::Write)?;
        let fate = self.begin(Operation::Write);
        self.digest.add(&(offset as u64).to_le_bytes());
        self.digest.add(bytes);
        if fate == Fate::Dead {
            return Err(Operation::Write.error());
        }
        self.changes += 1;
        let room = self.room_bytes();
        let sectors = bytes.len().div_ceil(SECTOR_BYTES) as u64;
        let came = self.faults.draw(sectors + 1) as usize * SECTOR_BYTES;
        let contents = self.contents(id, Operation::Write)?;
        let fits = contents.len().saturating_add(room).saturating_sub(offset).min(bytes.len());
        match fate {
            // As far as it came.
            Fate::Failed => {
                contents.write(offset, &bytes[..came.min(fits)]);
                Err(Operation::Write.error())
            }
            _ if fits < bytes.len() => {
                contents.write(offset, &bytes[..fits]);
                Err(ffi::SQLITE_FULL)
            }
            _ => {
                contents.write(offset, bytes);
                Ok(())
            }
        }
    }

    /// How much the files can still grow.
    fn room_bytes(&self) -> usize {
        let Some(capacity) = self.capacity_bytes else { return usize::MAX };
        usize::try_from(capacity.saturating_sub(self.used_bytes())).unwrap_or(usize::MAX)
    }

    /// What the files take up.
    pub(super) fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.len() as u64).sum()
    }

    pub(super) fn truncate(&mut self, id: HandleId, len: usize) -> Outcome<()> {
        self.handle(id, Operation::Truncate)?;
        self.attempt(Operation::Truncate)?;
        self.changes += 1;
        self.contents(id, Operation::Truncate)?.resize(len);
        Ok(())
    }

    pub(super) fn sync(&mut self, id: HandleId) -> Outcome<()> {
        self.handle(id, Operation::Sync)?;
        self.attempt(Operation::Sync)?;
        self.contents(id, Operation::Sync)?.sync();
        let handle = self.handle(id, Operation::Sync)?;
        let syncs_names = std::mem::take(&mut handle.opening.syncs_names);
        let name = handle.name.clone();
        match name {
            _ if syncs_names => self.directory.sync(),
            Some(name) => self.directory.sync_name(&name),
            None => {}
        }
        Ok(())
    }

    /// Brings all names to the disk.
    pub(super) fn sync_names(&mut self) -> Outcome<()> {
        self.attempt(Operation::Sync)?;
        self.directory.sync();
        Ok(())
    }

    pub(super) fn size(&mut self, id: HandleId) -> Outcome<usize> {
        self.handle(id, Operation::Size)?;
        self.attempt(Operation::Size)?;
        Ok(self.contents(id, Operation::Size)?.len())
    }

    pub(super) fn delete(&mut self, name: &str, syncs_names: bool) -> Outcome<()> {
        self.attempt(Operation::Delete)?;
        self.digest.add(name.as_bytes());
        if self.directory.find(name).is_none() {
            return Err(ffi::SQLITE_IOERR_DELETE_NOENT);
        }
        self.changes += 1;
        self.directory.set(name, None);
        if syncs_names {
            self.directory.sync();
        }
        self.forget_files();
        Ok(())
    }

    /// Whether there is a file of this name, and `needs_content` in it.
    pub(super) fn exists(&mut self, name: &str, needs_content: bool) -> Outcome<bool> {
        self.attempt(Operation::Access)?;
        let found = self.directory.find(name).and_then(|number| self.files.get(&number));
        Ok(found.is_some_and(|file| !needs_content || file.len() > 0))
    }

    pub(super) fn lock(&mut self, id: HandleId, wanted: Level) -> Outcome<()> {
        let Handle { number, level: own, .. } = *self.handle(id, Operation::Lock)?;
        self.attempt(Operation::Lock)?;
        let others = self.others(id, number).map(|handle| handle.level);
        let (level, outcome) = match locks::ask(own, wanted, others) {
            Answer::Granted => (own.max(wanted), Ok(())),
            Answer::Busy(level) => (own.max(level), Err(ffi::SQLITE_BUSY)),
        };
        self.handle(id, Operation::Lock)?.level = level;
        outcome
    }

    fn others(&self, id: HandleId, number: Number) -> impl Iterator<Item = &Handle> {
        self.handles
            .iter()
            .filter(move |(it, _)| **it != id)
            .map(|(_, it)| it)
            .filter(move |it| it.number == number)
    }

    /// Gives locks back; never fails.
    pub(super) fn unlock(&mut self, id: HandleId, to: Level) {
        if let Some(handle) = self.handles.get_mut(&id) {
            handle.level = handle.level.min(to);
        }
    }

    pub(super) fn level(&self, id: HandleId) -> Level {
        self.handles.get(&id).map_or(Level::None, |handle| handle.level)
    }

    /// Whether anybody is about to write.
    pub(super) fn is_reserved(&mut self, id: HandleId) -> Outcome<bool> {
        let number = self.handle(id, Operation::CheckLock)?.number;
        self.attempt(Operation::CheckLock)?;
        let all = self.handles.values().filter(|it| it.number == number);
        Ok(all.map(|it| it.level).any(|level| level >= Level::Reserved))
    }

    pub(super) fn map_memory(
        &mut self,
        id: HandleId,
        region: usize,
        bytes: usize,
        make: bool,
    ) -> Outcome<Option<Region>> {
        self.handle(id, Operation::MapMemory)?;
        self.attempt(Operation::MapMemory)?;
        let handle = self.handle(id, Operation::MapMemory)?;
        handle.maps_memory = true;
        let number = handle.number;
        Ok(self.memories.entry(number).or_default().region(region, bytes, make))
    }

    pub(super) fn lock_memory(
        &mut self,
        id: HandleId,
        mask: u32,
        is_exclusive: bool,
    ) -> Outcome<()> {
        let Handle { number, mut slots, .. } = *self.handle(id, Operation::LockMemory)?;
        self.attempt(Operation::LockMemory)?;
        let others = self.others(id, number).map(|handle| handle.slots);
        if !slots.take(mask, is_exclusive, others) {
            return Err(ffi::SQLITE_BUSY);
        }
        self.handle(id, Operation::LockMemory)?.slots = slots;
        Ok(())
    }

    pub(super) fn unlock_memory(&mut self, id: HandleId, mask: u32) {
        if let Some(handle) = self.handles.get_mut(&id) {
            handle.slots.give(mask);
        }
    }

    /// The memory ends with the last who has it.
    pub(super) fn unmap_memory(&mut self, id: HandleId) {
        let Some(handle) = self.handles.get_mut(&id) else { return };
        (handle.maps_memory, handle.slots) = (false, Slots::default());
        let number = handle.number;
        if !self.handles.values().any(|it| it.number == number && it.maps_memory) {
            self.memories.remove(&number);
        }
    }

    /// Fills `buffer` with what SQLite takes for chance.
    pub(super) fn draw(&mut self, buffer: &mut [u8]) {
        for part in buffer.chunks_mut(16) {
            part.copy_from_slice(&self.chance.next_bytes()[..part.len()]);
        }
    }
}
