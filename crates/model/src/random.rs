//! A random generator as a value: all random numbers of `server` and `client` follow from one seed.

use crate::hex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// A cryptographically strong generator. The programs seed it from the operating system,
/// a simulation from a number.
#[derive(Debug, Clone)]
pub struct Random(StdRng);

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Random {
        Random(StdRng::from_seed(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Sixteen random bytes.
    pub fn next_bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A random (version 4) UUID in its usual lower-case text form.
    pub fn next_uuid(&mut self) -> String {
        let mut b = self.next_bytes();
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex = hex(&b);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_version_four_and_its_variant() {
        let uuid = Random::from_seed([7; 32]).next_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
