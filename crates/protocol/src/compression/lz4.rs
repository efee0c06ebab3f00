//! Blocks of LZ4.

use super::failure::broken;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use model::{Code, Failure};

/// A byte of a block stands for at most so many.
const RATIO_MAX: usize = 255;

/// What a match has besides: its token and offset, and the bytes at the end.
const RATIO_REST: usize = 64;

#[derive(Default)]
pub(super) struct Packer(Option<CompressTable>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    /// Packs into the front of `packed`; yields how many bytes.
    pub(super) fn pack(&mut self, rows: &[u8], packed: &mut Vec<u8>) -> Result<usize, Failure> {
        let most = get_maximum_output_size(rows.len());
        if packed.len() < most {
            packed.resize(most, 0);
        }
        let table = self.0.get_or_insert_default();
        compress_into_with_table(rows, packed, table)
            .map_err(|error| Failure::new(Code::Bug, "rows do not compress").source(error))
    }
}

/// Refuses what cannot become `len` bytes, before room is made for them.
pub(super) fn check(packed: &[u8], len: usize) -> Result<(), Failure> {
    match len > packed.len().saturating_mul(RATIO_MAX).saturating_add(RATIO_REST) {
        true => Err(broken("no block of LZ4 has so many bytes")),
        false => Ok(()),
    }
}

pub(super) fn unpack(packed: &[u8], place: &mut [u8]) -> Result<(), Failure> {
    let len = decompress_into(packed, place).map_err(|error| broken(&error.to_string()))?;
    match len == place.len() {
        true => Ok(()),
        false => Err(broken("there are fewer bytes than were announced")),
    }
}
