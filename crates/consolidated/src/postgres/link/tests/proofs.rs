//! How each side authenticates itself, against a real server with every method.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

/// A server that asks each of these roles in another way.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let rules = "
host    all clear     127.0.0.1/32 password
host    all digest    127.0.0.1/32 md5
host    all welcome   127.0.0.1/32 trust
hostssl all certified 127.0.0.1/32 cert
host    all certified 127.0.0.1/32 reject
";
    let cluster = Cluster::start_with_access("", rules);
    for role in ["clear", "welcome", "certified"] {
        cluster.superuser_sql(&format!("CREATE ROLE {role} LOGIN PASSWORD '{APP_PASSWORD}'"));
    }
    cluster.superuser_sql(&format!(
        "SET password_encryption = md5; CREATE ROLE digest LOGIN PASSWORD '{APP_PASSWORD}'"
    ));
    cluster
});

fn as_role(role: &str, options: &str) -> Result<Link, Failure> {
    let database = CLUSTER.database_named("postgres").as_role(role);
    open(&format!("{}?{options}", database.tcp_url(APP_PASSWORD)))
}

// A server of an attacker may ask for anything.
#[test]
fn only_the_methods_that_are_admitted_are_answered() {
    let admitted = |role: &str, methods: &str| {
        as_role(role, &format!("require_auth={methods}")).map(|_| ()).map_err(|f| f.code())
    };
    for (role, method) in
        [("clear", "password"), ("digest", "md5"), ("app", "scram-sha-256"), ("welcome", "none")]
    {
        assert_eq!(admitted(role, method), Ok(()), "{method}");
        assert_eq!(admitted(role, &format!("gss,{method}")), Ok(()), "{method}");
        assert_eq!(admitted(role, "!sspi"), Ok(()), "{method}");
        assert_eq!(admitted(role, "gss"), Err(Code::ProofRefused), "{method}");
        assert_eq!(admitted(role, &format!("!{method}")), Err(Code::ProofRefused), "{method}");
    }
}

#[test]
fn channel_binding_can_be_required() {
    let bound = |role: &str, options: &str| {
        let link = as_role(role, &format!("channel_binding=require&{options}"));
        link.map(|_| ()).map_err(|failure| failure.code())
    };
    assert_eq!(bound("app", "sslmode=require"), Ok(()));
    assert_eq!(bound("app", "sslmode=disable"), Err(Code::ProofRefused));
    for role in ["clear", "digest", "welcome"] {
        assert_eq!(bound(role, "sslmode=require"), Err(Code::ProofRefused), "{role}");
    }
    for choice in ["disable", "prefer"] {
        for mode in ["disable", "require"] {
            let options = format!("channel_binding={choice}&sslmode={mode}");
            assert!(as_role("app", &options).is_ok(), "{options}");
        }
    }
}

#[test]
fn a_client_shows_its_certificate() {
    let (chain, key) = CLUSTER.client_certificate("certified");
    let (_, other_key) = CLUSTER.client_certificate("other");
    let files = tempfile::tempdir().unwrap();
    let with = |key: &std::path::Path, mode: u32| {
        let copy = files.path().join(format!("{mode:o}.key"));
        std::fs::copy(key, &copy).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
        let (chain, key) = (chain.display(), copy.display());
        as_role("certified", &format!("sslmode=require&sslcert={chain}&sslkey={key}"))
            .map(|_| ())
            .map_err(|failure| failure.code())
    };
    assert_eq!(
        as_role("certified", "sslmode=require").map(|_| ()).unwrap_err().code(),
        Code::DatabaseUnavailable,
        "the server asks for one"
    );
    assert_eq!(with(&key, 0o600), Ok(()));
    assert_eq!(with(&key, 0o604), Err(Code::SecretExposed));
    assert_eq!(with(&key, 0o660), Err(Code::SecretExposed));
    assert_eq!(with(&other_key, 0o400), Err(Code::ConfigUnreadable), "of another certificate");
    assert_eq!(with(&chain, 0o600), Err(Code::ConfigUnreadable), "no key");
}
