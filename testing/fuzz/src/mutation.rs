//! Random changes of inputs, all of which follow from a seed.

use harness::Chance;

/// Bytes of one input.
const INPUT_BYTES_MAX: usize = 4096;
/// Changes of one input.
const CHANGES_MAX: u64 = 5;
/// Numbers at which lengths and types end.
const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Makes new inputs of known ones.
#[derive(Debug)]
pub struct Mutator {
    chance: Chance,
    known: Vec<Vec<u8>>,
    words: &'static [&'static str],
}

impl Mutator {
    /// Inputs like `known`, with `words` in them.
    pub fn new(seed: u64, known: Vec<Vec<u8>>, words: &'static [&'static str]) -> Mutator {
        Mutator { chance: Chance::from_seed(seed), known, words }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.some_known();
        for _ in 0..=self.chance.below(CHANGES_MAX) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn some_known(&mut self) -> Vec<u8> {
        match self.known.is_empty() {
            true => Vec::new(),
            false => self.chance.choose(&self.known).clone(),
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.chance.below(input.len() as u64 + 1) as usize;
        match self.chance.below(8) {
            0 => input.insert(at, self.chance.below(256) as u8),
            1 if !self.words.is_empty() => {
                let word = *self.chance.choose(self.words);
                input.splice(at..at, word.bytes());
            }
            2 => {
                let end = (at + self.chance.below(16) as usize).min(input.len());
                input.drain(at..end);
            }
            3 => {
                let end = (at + self.chance.below(64) as usize).min(input.len());
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            4 => {
                let edge = *self.chance.choose(&EDGES);
                let width = *self.chance.choose(&[1, 2, 4, 8]);
                let bytes = match self.chance.below(2) {
                    0 => edge.to_le_bytes()[..width].to_vec(),
                    _ => edge.to_be_bytes()[8 - width..].to_vec(),
                };
                let end = (at + width).min(input.len());
                input.splice(at..end, bytes);
            }
            5 => {
                let other = self.some_known();
                let from = self.chance.below(other.len() as u64 + 1) as usize;
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 => input.truncate(at),
            _ => {
                let bit = 1 << self.chance.below(8);
                input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
        }
    }
}
