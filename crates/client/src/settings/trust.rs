//! Whom a remote believes, as its file remembers it: one fact, so that it is replaced as a whole.

use crate::connection::{damaged, explain};
use crate::progress::facts;
use crate::transport::Trust;
use model::{Code, Failure};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Its name among the facts.
pub(super) const FACT: &str = "trust";

/// The fact, as JSON. Later programs may add fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    ca_file: Option<String>,
    pin: Option<String>,
    client_certificate: Option<String>,
    client_key: Option<String>,
    require_tls: bool,
}

/// What the file remembers; none where it was never told.
pub(crate) fn read(connection: &Connection) -> Result<Option<Trust>, Failure> {
    let text: Option<String> = facts::get(connection, FACT).map_err(explain)?;
    text.map(|text| parse(&text)).transpose()
}

fn parse(text: &str) -> Result<Trust, Failure> {
    let damage = || damaged("whom the remote believes does not read");
    let stored: Stored = serde_json::from_str(text).map_err(|error| damage().source(error))?;
    let own = stored.client_certificate.zip(stored.client_key);
    let pin = stored.pin.map(|pin| pin.parse()).transpose();
    Ok(Trust {
        ca_file: stored.ca_file.map(PathBuf::from),
        pin: pin.map_err(|failure: Failure| damage().source(failure))?,
        own: own.map(|(chain, key)| (chain.into(), key.into())),
        require_tls: stored.require_tls,
    })
}

/// The fact.
pub(super) fn text(trust: &Trust) -> Result<String, Failure> {
    let path = |path: &PathBuf| spelled(path).map(str::to_owned);
    let stored = Stored {
        ca_file: trust.ca_file.as_ref().map(path).transpose()?,
        pin: trust.pin.map(|pin| pin.to_string()),
        client_certificate: trust.own.as_ref().map(|(chain, _)| path(chain)).transpose()?,
        client_key: trust.own.as_ref().map(|(_, key)| path(key)).transpose()?,
        require_tls: trust.require_tls,
    };
    serde_json::to_string(&stored)
        .map_err(|error| Failure::new(Code::Bug, "a remote's trust does not write").source(error))
}

fn spelled(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        let message = format!("the path `{}` is no UTF-8 text", path.display());
        Failure::new(Code::PathNotRemembered, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use certificates::Pin;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn what_is_remembered_is_what_was_said() {
        let pin: Pin = format!("sha256:{}", "5a".repeat(32)).parse().unwrap();
        let own = Some(("/a/own.pem".into(), "/a/own.key".into()));
        let all = Trust { ca_file: Some("/ca".into()), pin: Some(pin), own, require_tls: true };
        for trust in [Trust::default(), all] {
            assert_eq!(parse(&text(&trust).unwrap()).unwrap(), trust);
        }
        let later = r#"{"ca_file":"/ca","something":[1]}"#;
        assert_eq!(parse(later).unwrap().ca_file, Some("/ca".into()));
    }

    // S11
    #[test]
    fn what_cannot_be_remembered_or_read_has_a_number() {
        let path = Path::new(OsStr::from_bytes(b"/ca-\xff.pem")).to_owned();
        let trust = Trust { ca_file: Some(path), ..Trust::default() };
        assert_eq!(text(&trust).unwrap_err().code(), Code::PathNotRemembered);
        for rubbish in ["", "7", "{\"pin\":\"x\"}", "{\"ca_file\":7}"] {
            assert_eq!(parse(rubbish).unwrap_err().code(), Code::RemoteTablesDamaged, "{rubbish}");
        }
    }
}
