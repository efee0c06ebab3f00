//! Whom a remote believes: what the options say, and otherwise what its file remembers.

use crate::args::TrustOptions;
use client::transport::Trust;
use model::{Code, Failure};
use std::path::{Path, PathBuf};

/// The options, over what the file remembers.
pub(super) fn of(options: &TrustOptions, remembered: Option<Trust>) -> Result<Trust, Failure> {
    let mut trust = remembered.filter(|_| !options.forget_trust).unwrap_or_default();
    // Both together say who is believed. A key that was pinned for one authority says nothing of
    // another, so each of them replaces both.
    if options.ca_file.is_some() || options.pin.is_some() {
        trust.ca_file = options.ca_file.as_deref().map(absolute).transpose()?;
        trust.pin = options.pin;
    }
    if let (Some(chain), Some(key)) = (&options.client_certificate, &options.client_key) {
        trust.own = Some((absolute(chain)?, absolute(key)?));
    }
    trust.require_tls |= options.require_tls;
    Ok(trust)
}

/// The next command may run in another folder.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| {
        let message = format!("`{}` is no path of a file", path.display());
        Failure::new(Code::CertificateUnusable, message).source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> TrustOptions {
        TrustOptions {
            ca_file: None,
            pin: None,
            client_certificate: None,
            client_key: None,
            require_tls: false,
            forget_trust: false,
        }
    }

    #[test]
    fn options_replace_what_they_are_about_and_nothing_else() {
        let pin = format!("sha256:{}", "5a".repeat(32)).parse().ok();
        let own = Some(("/own.pem".into(), "/own.key".into()));
        let known = Trust { ca_file: Some("/ca".into()), pin: None, own, require_tls: true };
        let with = |options: TrustOptions| of(&options, Some(known.clone())).unwrap();
        assert_eq!(with(options()), known);
        let pinned = with(TrustOptions { pin, ..options() });
        assert_eq!(pinned, Trust { ca_file: None, pin, ..known.clone() });
        let other = with(TrustOptions { ca_file: Some("/b".into()), ..options() });
        assert_eq!(other, Trust { ca_file: Some("/b".into()), ..known.clone() });
        let (client_certificate, client_key) = (Some("/x".into()), Some("/y".into()));
        let shown = with(TrustOptions { client_certificate, client_key, ..options() });
        assert_eq!(shown, Trust { own: Some(("/x".into(), "/y".into())), ..known.clone() });
        let forgotten = with(TrustOptions { forget_trust: true, pin, ..options() });
        assert_eq!(forgotten, Trust { pin, ..Trust::default() });
    }

    #[test]
    fn paths_are_remembered_as_they_are_found_from_anywhere() {
        let relative = TrustOptions { ca_file: Some("certificates/ca.pem".into()), ..options() };
        let path = of(&relative, None).unwrap().ca_file.unwrap();
        assert!(path.is_absolute() && path.ends_with("certificates/ca.pem"), "{path:?}");
    }
}
