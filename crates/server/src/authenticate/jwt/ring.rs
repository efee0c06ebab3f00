//! Signatures of JWTs, checked by the cryptography that TLS uses too.

use jsonwebtoken::Algorithm;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use signature::Verifier;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    // Only who makes keys calls them.
    key_utils: KeyUtils::new_unimplemented(),
};

/// From now on this process checks signatures here.
pub(super) fn install() {
    // A second server in the process has nothing to add.
    let _ = PROVIDER.install_default();
}

/// A server issues no JWTs.
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let fits = key.family() == algorithm.family()
        && matches!(
            algorithm,
            Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA
        );
    match fits {
        true => Ok(Box::new(KeyVerifier { algorithm: *algorithm, key: key.clone() })),
        false => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct KeyVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for KeyVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for KeyVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = |algorithm: &'static dyn VerificationAlgorithm| {
            let bytes = self.key.try_get_as_bytes().map_err(|_| signature::Error::new())?;
            let key = UnparsedPublicKey::new(algorithm, bytes);
            key.verify(message, signature).map_err(|_| signature::Error::new())
        };
        match (self.algorithm, self.key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::verify(&key, message, signature).map_err(|_| signature::Error::new())
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                    .map_err(|_| signature::Error::new())
            }
            (Algorithm::ES256, _) => key(&ECDSA_P256_SHA256_FIXED),
            (Algorithm::EdDSA, _) => key(&ED25519),
            _ => Err(signature::Error::new()),
        }
    }
}
