//! Short names for long texts: fingerprints of tables and schemas.

use sha2::{Digest, Sha256};

/// A digest of the parts, in 32 hexadecimal digits.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
