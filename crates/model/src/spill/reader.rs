//! Places in a spill, and what is read there.

use super::{Block, LEN_BYTES, Spill, cannot_read};
use crate::code::Code;
use crate::failure::Failure;
use crate::memory::Hold;
use std::borrow::Cow;

/// A place in a [`Spill`].
#[derive(Debug, Clone, Copy, Default)]
pub struct SpillPosition {
    /// Chunks before it.
    chunk: usize,
    block: usize,
    /// In the block, or in the file.
    offset: u64,
    /// Bytes of a chunk of which some were read.
    left: u32,
}

impl SpillPosition {
    /// Chunks that were read whole.
    pub fn chunks(&self) -> usize {
        self.chunk
    }

    /// True where no part of the next chunk was read.
    pub fn is_between_chunks(&self) -> bool {
        self.left == 0
    }
}

/// Goes through the chunks of a [`Spill`] once.
#[derive(Debug)]
pub struct SpillReader<'a> {
    spill: &'a Spill,
    position: SpillPosition,
    /// The chunk in hand, where it came from disk.
    held: Hold,
}

impl<'a> SpillReader<'a> {
    /// The next chunk, `None` after the last.
    pub fn next_chunk(&mut self) -> Result<Option<Cow<'a, [u8]>>, Failure> {
        self.held.release();
        let chunk = self.spill.read_at(&mut self.position)?;
        if let Some(Cow::Owned(chunk)) = &chunk {
            self.held.grow(chunk.len() as u64);
        }
        Ok(chunk)
    }
}

/// Takes the chunks out of a [`Spill`], one after the other.
#[derive(Debug)]
pub struct SpillDrain {
    spill: Spill,
    position: SpillPosition,
    /// The chunk that was handed over last, until the next one is.
    in_hand: Hold,
}

impl SpillDrain {
    /// Every chunk was handed over.
    pub fn is_at_end(&self) -> bool {
        self.position.chunk == self.spill.chunks
    }

    /// The next chunk, `None` after the last. A large one is not copied.
    pub fn next_chunk(&mut self) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        self.in_hand.release();
        let position = &mut self.position;
        if let Some(Block::Shared(block)) = self.spill.blocks.get_mut(position.block)
            && position.offset as usize >= block.len()
        {
            self.spill.held.shrink(std::mem::take(block).capacity() as u64);
            (position.block, position.offset) = (position.block + 1, 0);
        }
        if let Some(Block::Whole(chunk)) = self.spill.blocks.get_mut(position.block) {
            let chunk = std::mem::take(chunk);
            (position.block, position.chunk) = (position.block + 1, position.chunk + 1);
            self.spill.held.shrink(chunk.capacity() as u64);
            self.in_hand.grow(chunk.capacity() as u64);
            return Ok(Some(Cow::Owned(chunk)));
        }
        let chunk = self.spill.read_at(&mut self.position)?;
        if let Some(Cow::Owned(chunk)) = &chunk {
            self.in_hand.grow(chunk.len() as u64);
        }
        Ok(chunk)
    }
}

impl Spill {
    /// Where the next chunk will be.
    pub(crate) fn end(&self) -> SpillPosition {
        let (block, offset) = match (self.file, self.blocks.last()) {
            (Some(_), _) => (self.blocks.len(), self.file_bytes),
            (None, Some(Block::Shared(block))) => (self.blocks.len() - 1, block.len() as u64),
            (None, _) => (self.blocks.len(), 0),
        };
        SpillPosition { chunk: self.chunks, block, offset, left: 0 }
    }

    /// Reads all chunks from the first one.
    pub fn reader(&self) -> SpillReader<'_> {
        let held = self.spills.memory.hold();
        SpillReader { spill: self, position: SpillPosition::default(), held }
    }

    /// Hands over all chunks from the first one. The memory of a large chunk is free once the chunk
    /// is handed over.
    pub fn drain(self) -> SpillDrain {
        let in_hand = self.spills.memory.hold();
        SpillDrain { spill: self, position: SpillPosition::default(), in_hand }
    }

    /// The chunk at `position`, which moves on to the next; `None` after the last.
    ///
    /// For readers that cannot hold a borrow of the spill while they wait.
    pub fn read_at(&self, position: &mut SpillPosition) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        self.read_piece_at(position, usize::MAX)
    }

    /// The same of a chunk in memory. Of one on disk at most `bytes_max` bytes, and the next ones
    /// with the next call.
    pub fn read_piece_at(
        &self,
        position: &mut SpillPosition,
        bytes_max: usize,
    ) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        while position.chunk < self.chunks {
            let chunk = match self.blocks.get(position.block) {
                None => return self.read_from_file(position, bytes_max).map(Some),
                Some(Block::Whole(chunk)) => {
                    position.block += 1;
                    chunk.as_slice()
                }
                Some(Block::Shared(block)) => {
                    // Nothing follows it in this block: the next chunk is in the next block.
                    let Some(chunk) = chunk_at(block, position.offset as usize) else {
                        (position.block, position.offset) = (position.block + 1, 0);
                        continue;
                    };
                    position.offset += (LEN_BYTES + chunk.len()) as u64;
                    chunk
                }
            };
            position.chunk += 1;
            return Ok(Some(Cow::Borrowed(chunk)));
        }
        Ok(None)
    }

    fn read_from_file(
        &self,
        position: &mut SpillPosition,
        bytes_max: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let Some(file) = self.file else {
            return Err(Failure::new(Code::Bug, "a chunk is neither in memory nor on disk"));
        };
        if position.left == 0 {
            let mut len = [0; LEN_BYTES];
            self.spills
                .files
                .read_exact_at(file, position.offset, &mut len)
                .map_err(cannot_read)?;
            position.offset += LEN_BYTES as u64;
            position.left = u32::from_le_bytes(len);
        }
        let len = (position.left as usize).min(bytes_max);
        let mut piece = vec![0; len];
        self.spills.files.read_exact_at(file, position.offset, &mut piece).map_err(cannot_read)?;
        position.offset += len as u64;
        position.left -= len as u32;
        position.chunk += usize::from(position.left == 0);
        Ok(Cow::Owned(piece))
    }
}

/// The chunk whose length is at `offset` of a block.
fn chunk_at(block: &[u8], offset: usize) -> Option<&[u8]> {
    let (len, rest) = block.get(offset..)?.split_first_chunk::<LEN_BYTES>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
}
