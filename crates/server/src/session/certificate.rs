//! Whether the certificate that a remote has shown is that of its user.

use crate::config::{ClientCertificates, TlsFiles};
use certificates::{ends_unix_s, names};
use model::{Code, Failure};
use protocol::{Credential, Hello};
use rustls::pki_types::CertificateDer;

/// A certificate that is shown always names the user, also beside a password: it must not open the
/// door to another one.
pub(super) fn check(
    shown: Option<&CertificateDer<'_>>,
    hello: &Hello,
    wanted: &TlsFiles,
    now_unix_s: i64,
) -> Result<(), Failure> {
    let shown = shown.filter(|_| wanted.client != ClientCertificates::Off);
    let needed = |message: &str| Err(Failure::new(Code::ClientCertificateNeeded, message));
    let Some(shown) = shown else {
        return match (&hello.credential, wanted.client) {
            (_, ClientCertificates::Required) => needed("the remote has shown no certificate"),
            (Credential::Certificate, _) => needed("the server has seen no certificate"),
            _ => Ok(()),
        };
    };
    // A session that is resumed does not look at it again.
    if ends_unix_s(shown)? < now_unix_s {
        return needed("the certificate of the remote has ended");
    }
    let named = names(shown, wanted.client_user)?;
    if named.iter().any(|name| name == hello.user.as_str()) {
        return Ok(());
    }
    let message = format!("the certificate does not name the user {}", hello.user);
    Err(Failure::new(Code::CertificateOfAnother, message))
}
