//! Names that must not be confused: a type for each.

use crate::code::Code;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest name of a user, remote, script version or publication, in bytes.
const NAME_BYTES_MAX: usize = 128;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Accepts 1 to 128 bytes without control characters.
            pub fn new(name: impl Into<String>) -> Result<$type, Failure> {
                let name = name.into();
                let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
                if !fits || name.chars().any(char::is_control) {
                    return Err(Failure::new(
                        Code::MalformedMessage,
                        concat!($what, " must be 1 to 128 bytes without control characters"),
                    ));
                }
                Ok($type(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Failure;
            fn try_from(name: String) -> Result<$type, Failure> {
                $type::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    };
}

name!(
    /// Identifies one remote database, not its user.
    RemoteId, "a remote ID"
);
name!(
    /// Who authenticates; not the remote.
    UserName, "a user name"
);
name!(
    /// The named set of scripts that a synchronization runs.
    ScriptVersion, "a script version"
);
name!(
    /// The name of a set of tables that a remote shares.
    PublicationName, "a publication name"
);
