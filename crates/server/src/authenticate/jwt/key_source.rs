//! Where the keys of JWTs come from.

use super::keys::{Keys, algorithms};
use crate::authenticate::{outside, secret_file};
use crate::config::{JwtKeys, JwtOptions};
use jsonwebtoken::Algorithm;
use model::{Code, Failure};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file or answer with keys.
const KEYS_BYTES_MAX: u64 = 1 << 20;

/// Reads keys, as often as it is asked to.
#[derive(Debug)]
pub(super) struct KeySource {
    keys: Option<JwtKeys>,
    secret_file: Option<PathBuf>,
    algorithms: Vec<Algorithm>,
}

impl KeySource {
    pub(super) fn new(options: &JwtOptions) -> Result<KeySource, Failure> {
        let required = [("jwt_issuer", &options.issuer), ("jwt_audience", &options.audience)];
        for (name, value) in required {
            if value.is_empty() {
                let message = format!("JWTs need the option {name}");
                return Err(Failure::new(Code::ConfigInvalid, message));
            }
        }
        if let Some(JwtKeys::Url(url)) = &options.keys {
            require_encrypted(url)?;
        }
        Ok(KeySource {
            keys: options.keys.clone(),
            secret_file: options.secret_file.clone(),
            algorithms: algorithms(&options.algorithms)?,
        })
    }

    /// Every key, as it is now.
    pub(super) fn read(&self) -> Result<Keys, Failure> {
        let published = match &self.keys {
            None => Keys::default(),
            Some(JwtKeys::File(path)) => {
                Keys::of_set(&read(path, false)?, &path.display().to_string(), &self.algorithms)?
            }
            Some(JwtKeys::Url(url)) => Keys::of_set(&fetch(url)?, url, &self.algorithms)?,
        };
        match &self.secret_file {
            None => Ok(published),
            Some(path) => {
                let secret = read(path, true)?;
                let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
                Ok(published.and(Keys::of_secret(secret, &path.display().to_string())?))
            }
        }
    }
}

fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot read the keys of JWTs in {}", path.display());
        Failure::new(Code::JwtKeysUnusable, message).source(error)
    };
    let file = File::open(path).map_err(unreadable)?;
    if is_secret {
        secret_file::require_owned(&file, path, "the secret of JWTs")?;
    }
    let mut bytes = Vec::new();
    file.take(KEYS_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Asks the provider for its keys.
fn fetch(url: &str) -> Result<Vec<u8>, Failure> {
    outside::fetch(url, KEYS_BYTES_MAX).map_err(|error| {
        let message = format!("cannot get the keys of JWTs from {url}");
        Failure::new(Code::JwtKeysUnusable, message).source(error)
    })
}

/// Keys that others could change on their way are none.
fn require_encrypted(url: &str) -> Result<(), Failure> {
    let local = ["http://127.0.0.1:", "http://[::1]:", "http://localhost:"];
    if url.starts_with("https://") || local.iter().any(|start| url.starts_with(start)) {
        return Ok(());
    }
    let message = format!("jwt_keys {url} is no https:// URL");
    Err(Failure::new(Code::ConfigInvalid, message))
}
