//! JWTs of a provider with keys of each kind.

use super::*;
use crate::config::JwtKeys;
use ::ring::hmac;
use ::ring::rand::SystemRandom;
use ::ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::Code;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use tempfile::TempDir;

const ISSUER: &str = "https://login.test";
const AUDIENCE: &str = "syncline";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// The modulus of an RSA key of 2048 bits, and a JWT that it signed: ann's, good until 1000.
const RSA_MODULUS: &str = "\
    1NwNC9O5kFORv3q8yLFQADkdCRKqki_Wbp7gZTYJTGVqgKaYktKYNWG5g_TmkuJmmtNfSyQQBIuHe4BRRWhcMXl2\
    3wgUQGcpmVDy2YsmylxFiHOEPFuli1CqCDapOi7oSvY4dJula2KufPcnDtyZTsOjtNx9jX8sZhYEcLzSyKyHguFn\
    XhMkThcSz4rt7XxWrZchv5phgKV735Gv_TDQK7NCwEsJkVmH73_yF66KUTPpG4V64jp7iTKnzJ9hDflGgiWEPVLF\
    1Yq5CEMPA5i9311RmPcrxvxrXjnt-OF0PAWnRQixpL2ZzH5ptoEyyYPtnktq_9z0e2WRPiYfK1olOQ";
const RSA_JWT: &str = "\
    eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLnRlc3QiLCJhdWQiOiJzeW5jb\
    GluZSIsInN1YiI6ImFubiIsImV4cCI6MTAwMH0.yKYVpU0BV4mi68AOvKvbeHpZ84GuJleZLvaoxtdRz_7UhocO0\
    igeRjKG1vxx-fsLkdFDuE6lPpquZiReP6EW-HyJb_qY-Q8EOQTm7VIIBkUdbkH_j40WgunHkvI8RX95OQSNRiwPf\
    0JSzgbP1zjI0IAxYGFoy0gDWb8yFoGR-8aqu-qGej1K_Dub9aeUdbRLUqR64YDbYCRaAUWBGai9n9Vv1IQDsiiBy\
    i-A9A8mPk_dY8IxY2VTRvmgKHTgQD5-lKpA0ebDcE-3-w8kI6EUNrxfOtuztzpsLE3Aae6w6l6a8sKLmoWl-o_eI\
    FNCBHmiSYp2K6DwIvurih-yxWkZdQ";

#[derive(Default)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn unix_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// A provider with keys of each kind, and a server that accepts them.
struct Login {
    folder: TempDir,
    elliptic: EcdsaKeyPair,
    edwards: Ed25519KeyPair,
    clock: Arc<Hands>,
}

impl Login {
    fn new() -> Login {
        let random = SystemRandom::new();
        let elliptic = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(elliptic, &random).unwrap();
        let elliptic = EcdsaKeyPair::from_pkcs8(elliptic, document.as_ref(), &random).unwrap();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let edwards = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let login = Login {
            folder: TempDir::new().unwrap(),
            elliptic,
            edwards,
            clock: Arc::new(Hands::default()),
        };
        login.publish(&["r", "e", "d"]);
        fs::write(login.path("secret"), SECRET).unwrap();
        fs::set_permissions(login.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        login
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Publishes the keys with these IDs.
    fn publish(&self, ids: &[&str]) {
        let point = self.elliptic.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        let d = encoded(self.edwards.public_key().as_ref());
        let keys = [
            json!({"kid": "r", "kty": "RSA", "use": "sig", "n": RSA_MODULUS, "e": "AQAB"}),
            json!({"kid": "e", "kty": "EC", "crv": "P-256", "alg": "ES256", "x": x, "y": y}),
            json!({"kid": "d", "kty": "OKP", "crv": "Ed25519", "x": d}),
            json!({"kid": "s", "kty": "oct", "k": encoded(SECRET)}),
            json!({"kid": "enc", "kty": "EC", "use": "enc", "crv": "P-256", "x": x, "y": y}),
        ];
        let published = |key: &&Value| {
            let always = key["kty"] == "oct" || key["use"] == "enc";
            always || ids.contains(&key["kid"].as_str().unwrap())
        };
        let set = json!({"keys": keys.iter().filter(published).collect::<Vec<_>>()});
        fs::write(self.path("keys.json"), set.to_string()).unwrap();
    }

    fn options(&self) -> JwtOptions {
        JwtOptions {
            keys: Some(JwtKeys::File(self.path("keys.json"))),
            secret_file: Some(self.path("secret")),
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            claims: ["region", "regions", "team"].map(str::to_owned).to_vec(),
            ..JwtOptions::default()
        }
    }

    fn server(&self) -> Jwts {
        Jwts::start(&self.options(), self.clock.clone()).unwrap().unwrap()
    }

    /// A JWT with this header and these claims, signed as the header says.
    fn jwt(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match header["alg"].as_str().unwrap() {
            "ES256" => {
                let signature = self.elliptic.sign(&SystemRandom::new(), text.as_bytes());
                signature.unwrap().as_ref().to_vec()
            }
            "EdDSA" => self.edwards.sign(text.as_bytes()).as_ref().to_vec(),
            "HS256" => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes())
                .as_ref()
                .to_vec(),
            _ => Vec::new(),
        };
        format!("{text}.{}", encoded(signature))
    }

    /// As the provider issues them to ann, signed by the key `e`.
    fn with(&self, more: &Value) -> String {
        let mut claims = claims();
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.jwt(&json!({"alg": "ES256", "kid": "e"}), &claims)
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": 1000})
}

fn ann() -> UserName {
    UserName::new("ann").unwrap()
}

fn verify(server: &Jwts, token: &str) -> Result<Granted, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(server.verify(token, &ann()))
}

fn refusal(server: &Jwts, token: &str) -> String {
    let failure = verify(server, token).expect_err(token);
    assert_eq!(failure.code(), Code::TokenRefused, "{failure:?}");
    failure.message().to_owned()
}

#[test]
fn every_configured_algorithm_is_verified_by_its_key() {
    let login = Login::new();
    let server = login.server();
    verify(&server, RSA_JWT).unwrap();
    for (algorithm, id) in [("ES256", "e"), ("EdDSA", "d"), ("HS256", "s")] {
        let good = login.jwt(&json!({"alg": algorithm, "kid": id}), &claims());
        verify(&server, &good).unwrap();
        let unnamed = login.jwt(&json!({"alg": algorithm}), &claims());
        verify(&server, &unnamed).unwrap();
        let (text, signature) = good.rsplit_once('.').unwrap();
        let other = encoded(json!({"sub": "ann", "exp": 1001}).to_string());
        let header = text.split_once('.').unwrap().0;
        assert!(refusal(&server, &format!("{header}.{other}.{signature}")).contains("signature"));
        refusal(&server, &format!("{text}."));
    }
    let narrow = JwtOptions { algorithms: vec!["EdDSA".into()], ..login.options() };
    let narrow = Jwts::start(&narrow, login.clock.clone()).unwrap().unwrap();
    refusal(&narrow, RSA_JWT);
    refusal(&narrow, &login.with(&json!({})));
}

// A public key is known to everybody, so it is no secret of HS256.
#[test]
fn the_header_never_chooses_how_a_signature_is_checked() {
    let login = Login::new();
    let server = login.server();
    let none = login.jwt(&json!({"alg": "none"}), &claims());
    refusal(&server, &none);
    let text = format!(
        "{}.{}",
        encoded(json!({"alg": "HS256", "kid": "e"}).to_string()),
        encoded(claims().to_string())
    );
    let public = hmac::Key::new(hmac::HMAC_SHA256, login.elliptic.public_key().as_ref());
    let signature = encoded(hmac::sign(&public, text.as_bytes()));
    refusal(&server, &format!("{text}.{signature}"));
    let mut foreign = vec![json!({"alg": "ES256", "kid": "e", "crit": ["b64"]})];
    for (name, value) in [
        ("jku", json!("https://evil.test/keys")),
        ("x5u", json!("https://evil.test/chain")),
        ("jwk", json!({"kty": "OKP", "crv": "Ed25519", "x": encoded([0; 32])})),
    ] {
        let mut header = json!({"alg": "ES256", "kid": "e"});
        header[name] = value;
        foreign.push(header);
    }
    for header in foreign {
        refusal(&server, &login.jwt(&header, &claims()));
    }
}

#[test]
fn time_issuer_audience_and_user_must_fit() {
    let login = Login::new();
    let server = login.server();
    for (more, why) in [
        (json!({"iss": "https://other.test"}), "issuer"),
        (json!({"aud": "others"}), "audience"),
        (json!({"sub": "ben"}), "another user"),
        (json!({"sub": 7}), "no claim sub"),
        (json!({"exp": "never"}), "exp"),
        (json!({"exp": null}), "exp"),
        (json!({"nbf": 100}), "not valid yet"),
        (json!({"nbf": "now"}), "nbf"),
    ] {
        let message = refusal(&server, &login.with(&more));
        assert!(message.contains(why), "{more}: {message}");
    }
    verify(&server, &login.with(&json!({"aud": ["others", AUDIENCE], "nbf": 59}))).unwrap();
    for missing in ["iss", "aud", "exp", "sub"] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(missing);
        let without = login.jwt(&json!({"alg": "ES256", "kid": "e"}), &claims);
        let failure = verify(&server, &without).unwrap_err();
        let named = format!("has no claim {missing}");
        assert!(failure.message().contains(&named), "{}", failure.message());
        assert!(failure.hint_text().contains("jwt_claims"), "{}", failure.hint_text());
    }
    login.clock.0.store(1_059_999, Ordering::Relaxed);
    verify(&server, RSA_JWT).unwrap();
    login.clock.0.store(1_060_000, Ordering::Relaxed);
    assert!(refusal(&server, RSA_JWT).contains("expired"));
}

#[test]
fn only_configured_claims_count_and_no_entry_of_a_list_is_two() {
    let login = Login::new();
    let server = login.server();
    let stored = || -> BTreeMap<String, String> {
        [("region", "old"), ("team", "old"), ("rank", "7")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    };
    let more = json!({"region": "north", "regions": ["a b", 2], "rank": 1, "team": null});
    let granted = verify(&server, &login.with(&more)).unwrap();
    let expected = [("rank", "7"), ("region", "north"), ("regions", "a b,2")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(granted.over(stored()), expected, "what the provider does not say is no claim");
    for odd in [json!(["a,b"]), json!([" a"]), json!([""]), json!([["a"]]), json!({"a": 1})] {
        let message = refusal(&server, &login.with(&json!({"regions": odd})));
        assert!(message.contains("claim regions that is"), "{message}");
    }
}

#[test]
fn an_unknown_key_is_looked_up_once_a_minute() {
    let login = Login::new();
    login.publish(&["d"]);
    let server = login.server();
    let token = login.with(&json!({}));
    login.publish(&["d", "e"]);
    refusal(&server, &token);
    login.clock.0.store(59_999, Ordering::Relaxed);
    refusal(&server, &token);
    login.clock.0.store(60_000, Ordering::Relaxed);
    verify(&server, &token).unwrap();

    fs::write(login.path("keys.json"), "rubbish").unwrap();
    login.clock.0.store(130_000, Ordering::Relaxed);
    refusal(&server, &login.jwt(&json!({"alg": "ES256", "kid": "new"}), &claims()));
    verify(&server, &token).unwrap();
}

#[test]
fn a_provider_that_cannot_be_used_is_refused_at_the_start() {
    let login = Login::new();
    let start = |options: JwtOptions| {
        Jwts::start(&options, login.clock.clone()).map(|_| ()).expect_err("refused").code()
    };
    let options = || login.options();
    assert_eq!(start(JwtOptions { issuer: String::new(), ..options() }), Code::ConfigInvalid);
    assert_eq!(start(JwtOptions { audience: String::new(), ..options() }), Code::ConfigInvalid);
    let none = JwtOptions { algorithms: vec!["none".into()], ..options() };
    assert_eq!(start(none), Code::ConfigInvalid);
    let clear = Some(JwtKeys::Url("http://login.test/keys".into()));
    let clear = JwtOptions { keys: clear, ..options() };
    assert_eq!(start(clear), Code::ConfigInvalid);
    let missing = JwtOptions { keys: Some(JwtKeys::File(login.path("none"))), ..options() };
    assert_eq!(start(missing), Code::JwtKeysUnusable);
    fs::write(login.path("short"), b"short").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(&login.path("short"), 0o600).unwrap();
    let short = JwtOptions { secret_file: Some(login.path("short")), ..options() };
    assert_eq!(start(short), Code::JwtKeysUnusable);
    mode(&login.path("secret"), 0o644).unwrap();
    assert_eq!(start(options()), Code::SecretExposed);
    assert!(Jwts::start(&JwtOptions::default(), login.clock.clone()).unwrap().is_none());
}
