//! Versions of the protocol, and how a client is refused for its version.

use model::{Code, Failure};

/// The newest protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 2;

/// The oldest one that a server still understands.
pub const PROTOCOL_VERSION_MIN: u16 = 2;

/// The failure of a server that does not speak the version of a client.
pub fn unsupported(version: u16) -> Failure {
    let message = format!(
        "the client speaks version {version} of the protocol; this server speaks \
         {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}"
    );
    let failure = Failure::new(Code::UnsupportedVersion, message)
        .versions(PROTOCOL_VERSION_MIN, PROTOCOL_VERSION);
    match version < PROTOCOL_VERSION_MIN {
        true => failure.hint("update the client"),
        false => failure.hint("update the server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 18
    #[test]
    fn a_refusal_names_both_sides_and_which_of_them_is_older() {
        for (version, hint) in [(1, "update the client"), (3, "update the server")] {
            let refused = unsupported(version);
            assert_eq!(refused.code(), Code::UnsupportedVersion);
            assert!(refused.full_message().contains(&format!("version {version} ")));
            assert_eq!(refused.spoken_versions(), Some((2, 2)));
            assert_eq!(refused.hint_text(), hint);
        }
    }
}
