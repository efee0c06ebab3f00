//! Short names for long texts: fingerprints of tables and schemas.

use sha2::{Digest, Sha256};

/// A digest of the parts, in 32 hexadecimal digits.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    model::hex(&hasher.finalize()[..16])
}

/// A digest of secret bytes, which does not reveal them.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    let mut number = [0; 16];
    number.copy_from_slice(&Sha256::digest(bytes)[..16]);
    u128::from_le_bytes(number)
}

/// A digest as it is stored.
pub(crate) fn hex(number: u128) -> String {
    format!("{number:032x}")
}

/// Understands [`hex`].
pub(crate) fn from_hex(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}
