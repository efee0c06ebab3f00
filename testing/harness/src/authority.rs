//! An authority whose certificates are as good or as bad as a test wants them.

use crate::World;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// A key of RSA, which is known to everybody and takes long to make.
const RSA_KEY: &[u8] = include_bytes!("../fixtures/rsa.der");

/// Signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new one, with a key of its own.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().unwrap();
        let pem = certificates::pem("CERTIFICATE", params.self_signed(&key).unwrap().der());
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Writes its own certificate to a file.
    pub fn write(&self, world: &World, name: &str) {
        world.write_secret(name, &self.pem);
    }

    /// Writes a certificate for the machine itself, and its key, to `NAME.pem` and `NAME.key`.
    pub fn server(&self, world: &World, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        self.issue(world, name, KeyPair::generate().unwrap(), change);
    }

    /// The same with a key of RSA.
    pub fn server_with_rsa(&self, world: &World, name: &str) {
        self.issue(world, name, KeyPair::try_from(RSA_KEY).unwrap(), |_| {});
    }

    /// The same for a user, who is the common name.
    pub fn user(
        &self,
        world: &World,
        name: &str,
        user: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        self.issue(world, name, KeyPair::generate().unwrap(), |params| {
            params.distinguished_name.push(DnType::CommonName, user);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            change(params);
        });
    }

    fn issue(
        &self,
        world: &World,
        name: &str,
        key: KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = certificates::pem("PRIVATE KEY", &key.serialize_der());
        world.write_secret(&format!("{name}.key"), &key);
        let certificate = certificates::pem("CERTIFICATE", certificate.der());
        world.write_secret(&format!("{name}.pem"), &certificate);
    }
}

/// Makes a certificate end on the first day of a year.
pub fn ends_in_year(year: i32) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.not_after = date_time_ymd(year, 1, 1)
}
