//! An identity provider that signs with a secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::World;
use ring::hmac;
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Who it is, and for whom its JWTs are.
pub(crate) const PROVIDER: &str =
    "jwt_issuer = \"https://login.test\"\njwt_audience = \"syncline\"";

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a signature signs: of this user, good for long.
pub(crate) fn unsigned(header: &Value, user: &str, more: &Value) -> String {
    let mut claims = json!({"iss": "https://login.test", "aud": "syncline", "sub": user,
        "exp": 4_102_444_800_u64});
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()))
}

/// Gives the user a JWT with these claims, signed by the secret.
pub(crate) fn issue(world: &World, user: &str, more: &Value) {
    let text = unsigned(&json!({"alg": "HS256"}), user, more);
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = hmac::sign(&key, text.as_bytes());
    world.write_secret(&format!("{user}.jwt"), &format!("{text}.{}\n", encoded(signature)));
}
