//! What the server needs to accept the JWTs of an identity provider.

use std::path::{Path, PathBuf};

/// The JWTs that are accepted in place of passwords. Without keys there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtOptions {
    /// The public keys of the provider, a JSON Web Key Set: a file, or an `https://` URL.
    pub keys: Option<JwtKeys>,
    /// A file with a secret that the provider shares with the server, for HS256.
    pub secret_file: Option<PathBuf>,
    /// The algorithms of published keys: RS256, ES256, EdDSA.
    pub algorithms: Vec<String>,
    /// Who must have issued them.
    pub issuer: String,
    /// For whom they must be.
    pub audience: String,
    /// The claim with the name of the user.
    pub user_claim: String,
    /// The claims that become claims of the user. The provider alone says them.
    pub claims: Vec<String>,
    /// Whether users are added that the provider knows and the database does not.
    pub register: bool,
}

/// Where public keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtKeys {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(String),
}

impl Default for JwtOptions {
    fn default() -> JwtOptions {
        JwtOptions {
            keys: None,
            secret_file: None,
            algorithms: ["RS256", "ES256", "EdDSA"].map(str::to_owned).to_vec(),
            issuer: String::new(),
            audience: String::new(),
            user_claim: "sub".into(),
            claims: Vec::new(),
            register: false,
        }
    }
}

impl JwtOptions {
    /// Whether any JWT can be accepted.
    pub fn enabled(&self) -> bool {
        self.keys.is_some() || self.secret_file.is_some()
    }

    /// Understands its paths from `dir`.
    pub fn resolve(&mut self, dir: &Path) {
        if let Some(JwtKeys::File(path)) = &mut self.keys {
            *path = dir.join(&path);
        }
        if let Some(path) = &mut self.secret_file {
            *path = dir.join(&path);
        }
    }
}
