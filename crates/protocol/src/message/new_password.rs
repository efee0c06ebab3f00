//! The password that a user wants to have from now on.

use model::{Code, Failure};
use serde::{Deserialize, Serialize};

/// Most bytes of a new password. Hello has to fit into what a server reads of strangers.
const NEW_PASSWORD_BYTES_MAX: usize = 4 << 10;

/// A new password: not empty, and not too long.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewPassword(String);

impl NewPassword {
    /// This one, if it may be one.
    pub fn new(text: String) -> Result<NewPassword, Failure> {
        let password = NewPassword(text);
        password.check()?;
        Ok(password)
    }

    /// The password itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses one that came over the network.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refused = |why| Err(Failure::new(Code::NewPasswordRefused, why));
        match self.0.len() {
            0 => refused("the new password is empty".to_owned()),
            length if length > NEW_PASSWORD_BYTES_MAX => refused(format!(
                "the new password has {length} bytes; it may have {NEW_PASSWORD_BYTES_MAX}"
            )),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets never reach a log.
        f.write_str("NewPassword(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9
    #[test]
    fn new_passwords_are_bounded_and_never_shown() {
        let fits = NewPassword::new("open sesame".into()).unwrap();
        assert_eq!(format!("{fits:?}"), "NewPassword(…)");
        assert!(NewPassword::new("x".repeat(NEW_PASSWORD_BYTES_MAX)).is_ok());
        for text in [String::new(), "sesame".repeat(NEW_PASSWORD_BYTES_MAX)] {
            let refused = NewPassword::new(text).unwrap_err();
            assert_eq!(refused.code(), Code::NewPasswordRefused);
            assert!(!refused.full_message().contains("sesame"));
        }
    }
}
