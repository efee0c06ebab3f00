//! The options of `[server]` for the JWTs of an identity provider.

use super::spelled::SpelledOption;
use serde::{Deserialize, Serialize};
use server::{JwtKeys, JwtOptions};
use std::path::PathBuf;

/// The options, exactly as in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JwtFileOptions {
    /// A JSON Web Key Set: a file, relative to this one, or a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt_keys: Option<String>,
    /// A file with a shared secret, relative to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt_secret_file: Option<String>,
    jwt_algorithms: Vec<String>,
    jwt_issuer: String,
    jwt_audience: String,
    jwt_user_claim: String,
    jwt_claims: Vec<String>,
    jwt_register: bool,
}

/// The options in the order of the sample file.
pub(crate) const JWT_OPTIONS: &[SpelledOption] = &[
    SpelledOption {
        name: "jwt_keys",
        value: "\"https://login.example.com/jwks.json\"",
        why: "(a file, relative to this one, or an https:// URL): the public keys of an identity \
              provider, as a JSON Web Key Set. With them the server accepts its JWTs in place of \
              passwords. A key that is not known is looked up again, at most once a minute.",
    },
    SpelledOption {
        name: "jwt_secret_file",
        value: "\"jwt.secret\"",
        why: "(a file, relative to this one): a secret of at least 32 bytes that the provider \
              shares with the server, for the algorithm HS256. Only its owner may read it.",
    },
    SpelledOption {
        name: "jwt_algorithms",
        value: "[\"RS256\", \"ES256\", \"EdDSA\"]",
        why: "(RS256, ES256, EdDSA): the algorithms of published keys. What a JWT itself says \
              decides nothing.",
    },
    SpelledOption {
        name: "jwt_issuer",
        value: "\"https://login.example.com\"",
        why: "(text): the claim iss of accepted JWTs. Required where JWTs are accepted.",
    },
    SpelledOption {
        name: "jwt_audience",
        value: "\"syncline\"",
        why: "(text): what the claim aud of accepted JWTs must contain. Required where JWTs are \
              accepted.",
    },
    SpelledOption {
        name: "jwt_user_claim",
        value: "\"sub\"",
        why: "(a claim): the name of the user.",
    },
    SpelledOption {
        name: "jwt_claims",
        value: "[\"region\"]",
        why: "(claims): these become {u.NAME} in scripts and partitions. The provider alone says \
              them: what `syncline user` says of them does not count for a JWT. A list becomes a \
              list.",
    },
    SpelledOption {
        name: "jwt_register",
        value: "true",
        why: "(true or false): add users that the provider knows and the database does not. \
              Default: false.",
    },
];

impl Default for JwtFileOptions {
    fn default() -> JwtFileOptions {
        let JwtOptions { algorithms, issuer, audience, user_claim, claims, register, .. } =
            JwtOptions::default();
        JwtFileOptions {
            jwt_keys: None,
            jwt_secret_file: None,
            jwt_algorithms: algorithms,
            jwt_issuer: issuer,
            jwt_audience: audience,
            jwt_user_claim: user_claim,
            jwt_claims: claims,
            jwt_register: register,
        }
    }
}

impl JwtFileOptions {
    /// What the options mean to the server.
    pub(crate) fn meaning(&self) -> JwtOptions {
        let keys = self.jwt_keys.as_ref().map(|keys| match keys.contains("://") {
            true => JwtKeys::Url(keys.clone()),
            false => JwtKeys::File(PathBuf::from(keys)),
        });
        JwtOptions {
            keys,
            secret_file: self.jwt_secret_file.as_ref().map(PathBuf::from),
            algorithms: self.jwt_algorithms.clone(),
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            user_claim: self.jwt_user_claim.clone(),
            claims: self.jwt_claims.clone(),
            register: self.jwt_register,
        }
    }
}
