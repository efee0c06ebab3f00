//! Every form of a URL, there and back.

use super::*;
use model::Code;

fn nothing(_: &str) -> Option<String> {
    None
}

#[track_caller]
fn check(text: &str, shown: &str) -> PostgresUrl {
    let url = parse(text, &nothing).unwrap();
    assert_eq!(url.to_string(), shown, "{text}");
    let again = parse(shown.strip_prefix("postgres://").unwrap(), &nothing).unwrap();
    let forgotten = PostgresUrl { password: None, password_in_text: false, ..url.clone() };
    assert_eq!(again, forgotten, "{text}");
    url
}

#[test]
fn every_form_is_understood_and_shown_in_its_shortest() {
    check("ann@h/db", "postgres://ann@h:5432/db");
    check("ann@h", "postgres://ann@h:5432/ann");
    check("h:1/db?user=ann", "postgres://ann@h:1/db");
    check("ann@[::1]:7/db", "postgres://ann@[::1]:7/db");
    check("ann@a:1,b:2,c/db", "postgres://ann@a:1,b:2,c:5432/db");
    check("ann@a,b/db?port=9", "postgres://ann@a:9,b:9/db");
    let url = check("/db?host=/run/pg&port=9&user=U", "postgres:///db?host=/run/pg&port=9&user=U");
    assert_eq!(url.hosts, [Host::Socket(PathBuf::from("/run/pg"), 9)]);
    check(
        "ann@%2Frun%2Fa%20b/db?sslmode=require&application_name=a%26b&connect_timeout=3",
        "postgres:///db?host=/run/a%20b&port=5432&user=ann&sslmode=require&connect_timeout=3\
         &application_name=a%26b",
    );
    let url = check(
        "%C3%A4:p%40%3A%2F@h/d%3Fb?sslmode=verify-full&sslrootcert=/a.crt",
        "postgres://%C3%A4@h:5432/d%3Fb?sslmode=verify-full&sslrootcert=/a.crt",
    );
    assert_eq!((url.user.as_str(), url.database.as_str()), ("ä", "d?b"));
    assert_eq!(url.password.unwrap().reveal(), "p@:/");
    assert_eq!(url.sslmode, SslMode::VerifyFull);
    assert!(check("ann@h/db?password=x", "postgres://ann@h:5432/db").password_in_text);
    assert!(
        check("ann@h/db?connect_timeout=0", "postgres://ann@h:5432/db").connect_timeout.is_none()
    );
}

#[test]
fn what_the_url_leaves_out_comes_from_the_environment_and_stays() {
    let variable = |name: &str| {
        let value = match name {
            "PGHOST" => "/run/x,b",
            "PGPORT" => "1,2",
            "PGUSER" => "ann",
            "PGDATABASE" => "shop",
            "PGSSLMODE" => "require",
            "PGAPPNAME" => "till",
            "PGCONNECT_TIMEOUT" => "7",
            "PGOPTIONS" => "-c a=b",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let url = parse("", &variable).unwrap();
    let shown = "postgres:///shop?host=/run/x,b&port=1,2&user=ann&sslmode=require\
                 &connect_timeout=7&application_name=till&options=-c%20a%3Db";
    assert_eq!(url.to_string(), shown);
    let url = parse("bob@h:9/db?sslmode=disable", &variable).unwrap();
    assert_eq!(url.hosts, [Host::Tcp("h".to_owned(), 9)]);
    assert_eq!((url.user.as_str(), url.database.as_str()), ("bob", "db"));
    assert_eq!(url.sslmode, SslMode::Disable);
}

#[test]
fn proofs_are_as_libpq_calls_them() {
    use crate::url::{ChannelBinding, Method};
    let url = check(
        "ann@h/db?channel_binding=require&require_auth=scram-sha-256,none\
         &sslcert=/a b.crt&sslkey=/k",
        "postgres://ann@h:5432/db?channel_binding=require&require_auth=scram-sha-256%2Cnone\
         &sslcert=/a%20b.crt&sslkey=/k",
    );
    assert_eq!(url.proof.channel_binding, ChannelBinding::Require);
    let methods = url.proof.require_auth.unwrap();
    assert!(methods.admit(Method::ScramSha256) && methods.admit(Method::None));
    assert!(!methods.admit(Method::Password) && !methods.admit(Method::Md5));
    let url = check(
        "ann@h/db?require_auth=!password,!md5&channel_binding=prefer",
        "postgres://ann@h:5432/db?require_auth=%21password%2C%21md5",
    );
    let methods = url.proof.require_auth.unwrap();
    assert!(methods.admit(Method::ScramSha256) && methods.admit(Method::None));
    assert!(!methods.admit(Method::Password) && !methods.admit(Method::Md5));
    let variable = |name: &str| {
        let value = match name {
            "PGCHANNELBINDING" => "disable",
            "PGREQUIREAUTH" => "md5",
            "PGSSLCERT" => "/c",
            "PGSSLKEY" => "/k",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let shown = "postgres://ann@h:5432/db?channel_binding=disable&require_auth=md5\
                 &sslcert=/c&sslkey=/k";
    assert_eq!(parse("ann@h/db", &variable).unwrap().to_string(), shown);
}

#[test]
fn mistakes_are_told() {
    for text in [
        "ann@h/db?channel_binding=maybe",
        "ann@h/db?require_auth=scram",
        "ann@h/db?require_auth=!md5,password",
        "ann@h/db?require_auth=md5,!password",
        "ann@h/db?require_auth=md5,md5",
        "ann@h/db?require_auth=md5,",
        "ann@h/db?sslcert=/c",
        "ann@h/db?sslkey=/k",
        "/db",
        "ann@h/db?sslmod=require",
        "ann@h/db?sslmode=allow",
        "ann@h/db?service=shop",
        "ann@h:0/db",
        "ann@h:65536/db",
        "ann@[::1/db",
        "ann@a,b,c/db?port=1,2",
        "ann@h/db?connect_timeout=soon",
        "ann@h/d%b",
    ] {
        assert_eq!(parse(text, &nothing).unwrap_err().code(), Code::BadUrl, "{text}");
    }
    let failure = parse("ann@h/db?sslmod=require", &nothing).unwrap_err();
    assert!(failure.message().contains("`sslmod`"));
    assert!(failure.hint_text().contains("sslmode"));
}
