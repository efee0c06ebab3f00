//! Versions of the protocol, and what a client does that is refused for its version.

use model::{Code, Failure};

/// The newest protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 2;

/// The oldest one. A client falls back to it, and a server still understands it.
pub const PROTOCOL_VERSION_MIN: u16 = 1;

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

/// The version that a client speaks next whose `spoken` one was refused; none where there is none
/// that both speak.
pub fn fallback(spoken: u16, refusal: &Failure) -> Option<u16> {
    if refusal.code() != Code::UnsupportedVersion {
        return None;
    }
    // Servers of version 1 do not say what they speak, and speak nothing else.
    let (least, most) = refusal.spoken_versions().unwrap_or((1, 1));
    let version = most.min(PROTOCOL_VERSION);
    (version != spoken && version >= least.max(PROTOCOL_VERSION_MIN)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 18
    #[test]
    fn a_client_goes_on_with_the_newest_version_that_both_speak() {
        let refused = |versions: Option<(u16, u16)>| {
            let failure = Failure::new(Code::UnsupportedVersion, "");
            match versions {
                Some((least, most)) => failure.versions(least, most),
                None => failure,
            }
        };
        assert_eq!(fallback(2, &refused(None)), Some(1), "an old server says nothing");
        assert_eq!(fallback(2, &refused(Some((1, 1)))), Some(1));
        assert_eq!(fallback(1, &refused(Some((2, 3)))), Some(2), "the server was updated");
        assert_eq!(fallback(2, &refused(Some((3, 4)))), None, "it is too new");
        assert_eq!(fallback(2, &refused(Some((0, 0)))), None, "it is too old");
        assert_eq!(fallback(2, &refused(Some((1, 2)))), None, "it contradicts itself");
        assert_eq!(fallback(2, &refused(Some((9, 3)))), None, "there are none between");
        assert_eq!(fallback(1, &refused(None)), None);
        assert_eq!(fallback(2, &Failure::new(Code::ServerFull, "").versions(1, 1)), None);
    }
}
