//! Users whom a directory of LDAP knows: a password is right where the directory takes it.

use harness::{Authority, Directory, Outcome, Peer, Server, World, hello, regions, until};
use model::Code;
use protocol::Credential;
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// Ann, a namesake elsewhere, and somebody who may read nothing.
const PEOPLE: &str = "dn: ou=people,dc=test
objectClass: organizationalUnit
ou: people

dn: uid=ann,ou=people,dc=test
objectClass: inetOrgPerson
cn: Ann
sn: A
uid: ann
l: north
l: south
employeeNumber: 1
userPassword: open sesame

dn: uid=ben,ou=people,dc=test
objectClass: inetOrgPerson
cn: Ben
sn: B
uid: ben
employeeNumber: 1
userPassword: ben-password

dn: cn=seeker,dc=test
objectClass: person
cn: seeker
sn: S
userPassword: let me search

dn: cn=blind,dc=test
objectClass: person
cn: blind
sn: B
userPassword: open sesame
";

const NAMED: &str = "ldap_user_dn = \"uid={s.username},ou=people,dc=test\"";
const SEARCHED: &str = "ldap_search_base = \"dc=test\"
ldap_bind_dn = \"cn=seeker,dc=test\"
ldap_bind_password_file = \"seeker.secret\"";
const ANYBODY: &str = "ldap_claims = [\"regions=l\"]\nldap_register = true";

fn visits(postgres: bool) -> World {
    let world = harness::visits(PROGRAM, postgres);
    world.write_secret("ann.password", "open sesame\n");
    world.write_secret("seeker.secret", "let me search\n");
    world
}

fn configure(world: &World, url: &str, more: &str) {
    world.configure(&format!("ldap_url = \"{url}\"\n{more}"));
}

/// Changes what was configured, and lets the server know.
fn reconfigure(world: &World, server: &Server, from: &str, to: &str) {
    let path = world.path("syncline.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(&path, text.replace(from, to)).unwrap();
    server.reload();
}

fn replace(directory: &Directory, attribute: &str, values: &[&str]) {
    let values: String = values.iter().map(|value| format!("{attribute}: {value}\n")).collect();
    let dn = "dn: uid=ann,ou=people,dc=test\nchangetype: modify";
    directory.modify(&format!("{dn}\nreplace: {attribute}\n{values}"));
}

/// The code with which a peer is refused that sends this password; none where it is welcome.
fn refusal(server: &Server, user: &str, password: &str) -> Option<u16> {
    let mut greeting = hello(user, &format!("remote of {user}"));
    greeting.credential = Credential::Password(password.to_owned());
    Peer::refused(&server.url, greeting)
}

// S6, S7
#[test]
fn the_directory_decides_who_a_user_is_and_which_rows_the_user_gets() {
    for (postgres, way) in [(false, NAMED), (true, SEARCHED)] {
        let world = visits(postgres);
        let directory = Directory::start(&world, PEOPLE);
        configure(&world, &directory.url, &format!("{way}\n{ANYBODY}"));
        let server = world.serve();
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"]);
        world.syncline.run(&["user", "set", "ann", "--claim", "regions=west"]);
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"], "the directory alone decides");
        replace(&directory, "l", &["west"]);
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["west"]);
        // A value with a comma would become two, and give rows of others.
        replace(&directory, "l", &["north,west"]);
        world.sync_fails("ann", &server, "E6031");
        replace(&directory, "l", &[]);
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), [""; 0], "without the attribute there are no rows");
        world.write_secret("ann.password", "guessed\n");
        world.sync_fails("ann", &server, "E2101");
        world.write_secret("ann.password", "open sesame\n");
        world.syncline.ok(&["user", "lock", "ann"]);
        let error = world.sync_fails("ann", &server, "E2101");
        assert!(error["message"].as_str().unwrap().contains("is locked"), "{error}");
    }
}

// S7: a directory takes other spellings for the same user, and an operator has locked one of them.
#[test]
fn a_user_is_spelled_as_in_the_directory_and_no_name_is_more_than_a_name() {
    for way in [NAMED, SEARCHED] {
        let world = visits(false);
        let directory = Directory::start(&world, PEOPLE);
        configure(&world, &directory.url, &format!("{way}\n{ANYBODY}"));
        let server = world.serve();
        assert_eq!(refusal(&server, "ann", "open sesame"), None);
        let strangers = [
            "ANN",
            " ann",
            "ann ",
            "nobody",
            "*",
            "an*",
            "ann)(uid=*",
            "*)(|(uid=*",
            "ann,ou=people,dc=test",
            "ann+cn=Ann",
            "\\61nn",
            "#616e6e",
            "ann\\",
            "cn=blind,dc=test",
            "{s.username}",
            "änn",
        ];
        for user in strangers {
            let code = refusal(&server, user, "open sesame");
            assert_eq!(code, Some(Code::AuthenticationFailed.number()), "{way}: {user:?}");
        }
        let users = world.syncline.json(&["user", "list", "--json"]);
        assert_eq!(users.as_array().unwrap().len(), 1, "{users}");
    }
}

#[test]
fn an_empty_password_never_reaches_the_directory() {
    let world = visits(false);
    let directory = Directory::start(&world, PEOPLE);
    configure(&world, &directory.url, &format!("{NAMED}\n{ANYBODY}"));
    let server = world.serve();
    let failed = Some(Code::AuthenticationFailed.number());
    assert_eq!(refusal(&server, "ann", ""), failed);
    drop(directory);
    assert_eq!(refusal(&server, "ann", ""), failed, "no directory is needed for that");
    assert_eq!(refusal(&server, "ann", "x"), Some(Code::LoginServiceSilent.number()));
}

#[test]
fn the_search_finds_one_entry_or_says_what_is_wrong() {
    let world = visits(false);
    let directory = Directory::start(&world, PEOPLE);
    configure(&world, &directory.url, &format!("{SEARCHED}\n{ANYBODY}"));
    world.configure("ldap_search_filter = \"(|(uid={s.username})(employeeNumber=1))\"");
    let server = world.serve();
    world.sync_fails("ann", &server, "E6031");
    let filter = "(&(objectClass=inetOrgPerson)(!(uid=ben))(uid={s.username}))";
    reconfigure(&world, &server, "(|(uid={s.username})(employeeNumber=1))", filter);
    world.sync("ann", &server);
    assert_eq!(refusal(&server, "ben", "ben-password"), Some(2101), "the filter leaves Ben out");
    // What is wrong here no user can correct, and no password is wrong for it.
    reconfigure(&world, &server, "cn=seeker", "cn=blind");
    world.sync_fails("ann", &server, "E6031");
    reconfigure(&world, &server, "cn=blind,dc=test", "cn=seeker,dc=test");
    reconfigure(&world, &server, "ldap_search_base = \"dc=test\"", "ldap_search_base = \"dc=no\"");
    world.sync_fails("ann", &server, "E6031");
    let log = server.log();
    for why in ["more than one entry", "the bind of ldap_bind_dn", "the search: result"] {
        assert!(log.contains(why), "{why}: {log}");
    }
}

#[test]
fn a_directory_is_believed_by_its_certificate_only() {
    let world = visits(false);
    let authority = Authority::new();
    authority.write(&world, "directory-ca.pem");
    Authority::new().write(&world, "other-ca.pem");
    authority.server(&world, "directory", |_| {});
    let directory = Directory::start(&world, PEOPLE);
    let more = "ldap_start_tls = false\nldap_ca_file = \"other-ca.pem\"";
    configure(&world, &directory.tls_url, &format!("{NAMED}\n{ANYBODY}\n{more}"));
    let server = world.serve();
    world.sync_fails("ann", &server, "E6030");
    reconfigure(&world, &server, "other-ca.pem", "directory-ca.pem");
    world.sync("ann", &server);
    // The same after StartTLS.
    reconfigure(&world, &server, &directory.tls_url, &directory.url);
    reconfigure(&world, &server, "ldap_start_tls = false", "ldap_start_tls = true");
    world.sync("ann", &server);
    world.write_secret("ann.password", "guessed\n");
    world.sync_fails("ann", &server, "E2101");
    reconfigure(&world, &server, "directory-ca.pem", "other-ca.pem");
    world.sync_fails("ann", &server, "E6030");
}

#[test]
fn a_server_that_would_give_passwords_away_or_find_nobody_does_not_start() {
    let refused = |lines: &str, code: &str, why: &str| {
        let world = visits(false);
        world.configure(lines);
        let said = world.syncline.fails(code, &["serve", "--listen", "tcp://127.0.0.1:0"]);
        assert!(said.contains(why), "{lines}: {said}");
    };
    let urls = [
        ("ldap://directory.test", "clear text"),
        ("ldap://u:p@localhost", "names a user"),
        ("ldaps://localhost/dc=test", "behind the server"),
        ("https://localhost", "no ldaps:// or ldap://"),
        ("directory", "no ldaps:// or ldap://"),
    ];
    for (url, why) in urls {
        refused(&format!("ldap_url = \"{url}\"\n{NAMED}"), "E6002", why);
    }
    let url = "ldap_url = \"ldap://localhost\"";
    let (_, account) = SEARCHED.split_once('\n').unwrap();
    let options = [
        ("", "either ldap_user_dn or ldap_search_base"),
        (&format!("{NAMED}\n{SEARCHED}"), "either ldap_user_dn or ldap_search_base"),
        (&format!("{NAMED}\n{account}"), "ldap_bind_dn is for"),
        ("ldap_user_dn = \"{s.username}@example.com\"", "no attribute before"),
        ("ldap_search_base = \"dc=test\"\nldap_search_filter = \"(cn=*)\"", "finds one user"),
        ("ldap_search_base = \"dc=test\"\nldap_search_filter = \"uid=x\"", "where `(`"),
        (&format!("{NAMED}\nldap_bind_dn = \"cn=x\""), "need each other"),
        (&format!("{NAMED}\nldap_claims = [\"a=b c\"]"), "CLAIM=ATTRIBUTE"),
        (&format!("{NAMED}\nldap_ca_file = \"none.pem\"\nldap_start_tls = true"), "none.pem"),
    ];
    for (lines, why) in options {
        let code = if why == "none.pem" { "E5020" } else { "E6002" };
        refused(&format!("{url}\n{lines}"), code, why);
    }
    let hook = "authenticate_user_url = \"http://localhost/\"";
    refused(&format!("{url}\n{NAMED}\n{hook}"), "E6002", "both say who");
    let world = visits(false);
    let exposed = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(world.path("seeker.secret"), exposed).unwrap();
    configure(&world, "ldap://localhost", SEARCHED);
    world.syncline.fails("E2111", &["serve", "--listen", "tcp://127.0.0.1:0"]);
}

// S9
#[test]
fn wrong_passwords_are_delayed_and_an_answer_stands_as_long_as_it_is_configured() {
    let world = visits(false);
    let directory = Directory::start(&world, PEOPLE);
    configure(&world, &directory.url, &format!("{NAMED}\n{ANYBODY}"));
    let server = world.serve();
    let with_token = || {
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(["--token-file".to_owned(), "ann.token".to_owned()]);
        world.syncline.ok(&arguments);
    };
    with_token();
    assert!(!world.path("ann.token").exists(), "the directory is asked each time");
    world.configure("ldap_answer_s = 3600");
    server.reload();
    with_token();
    let by_token = ["sync", "ann.db", "--token-file", "ann.token"];
    for _ in 0..3 {
        assert_eq!(refusal(&server, "ann", "guessed"), Some(2101));
    }
    let slowed = Some(Code::PasswordsSlowed.number());
    assert_eq!(refusal(&server, "ann", "open sesame"), slowed, "of whatever password");
    drop(directory);
    world.syncline.ok(&by_token);
    assert_eq!(regions(&world, "ann"), ["north", "south"], "the claims are in the token");
    // It says nothing of a claim that is added later.
    reconfigure(&world, &server, "[\"regions=l\"]", "[\"regions=l\", \"sn\"]");
    world.syncline.fails("E2102", &by_token);
}

/// A directory in name only: it does with each connection what it likes.
fn pretend(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || answer(connection.unwrap()));
        }
    });
    url
}

/// The end of the first request, with this code and these words.
fn bound(code: u8, words: &str) -> Vec<u8> {
    let rest = u8::try_from(words.len()).unwrap();
    let mut bytes = vec![0x30, rest + 12, 2, 1, 1, 0x61, rest + 7, 0x0a, 1, code, 4, 0, 4, rest];
    bytes.extend(words.as_bytes());
    bytes
}

// S9, S11
#[test]
fn a_directory_that_gives_no_answer_makes_no_password_wrong() {
    let (silent, unusable, wrong) = ("E6030", "E6031", "E2101");
    let notice = [0x30, 12, 2, 1, 0, 0x78, 7, 0x0a, 1, 52, 4, 0, 4, 0];
    let answers: Vec<(Vec<u8>, &str)> = vec![
        (bound(51, "busy"), silent),
        (bound(52, "down"), silent),
        (notice.to_vec(), silent),
        (Vec::new(), silent),
        (vec![0x30, 12, 2], silent),
        (bound(10, "ldap://elsewhere"), unusable),
        (bound(13, "use TLS"), unusable),
        (bound(80, "other"), unusable),
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), unusable),
        (vec![0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], unusable),
        (vec![0x30, 3, 2, 1, 1], unusable),
        ([bound(0, ""), bound(0, "")].concat(), unusable),
        (bound(49, "invalid"), wrong),
        (bound(32, "no such object"), wrong),
        (bound(53, "locked"), wrong),
    ];
    let world = visits(false);
    configure(&world, "ldap://127.0.0.1:1", &format!("{NAMED}\nldap_timeout_s = 1\n{ANYBODY}"));
    world.configure("password_delay_max_s = 0");
    let server = world.serve();
    let mut before = "ldap://127.0.0.1:1".to_owned();
    for (answer, code) in answers {
        let told = format!("{answer:02x?}");
        let url = pretend(move |mut stream| {
            let mut request = [0; 256];
            let _len = stream.read(&mut request).unwrap();
            stream.write_all(&answer).unwrap();
            // Whoever waits for more has to give up.
            let _until_closed = stream.read_to_end(&mut Vec::new());
        });
        reconfigure(&world, &server, &before, &url);
        before = url;
        let error = world.sync_fails("ann", &server, code);
        assert_eq!(error["retry"], json!(code != wrong), "{told}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("127.0.0.1") && !message.contains("elsewhere"), "{message}");
    }
    assert!(server.log().contains("referrals are not followed"), "{}", server.log());
}

// S9
#[test]
fn a_flood_of_passwords_takes_no_more_connections_than_are_configured() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (open.clone(), most.clone());
    let url = pretend(move |mut stream| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let mut request = [0; 256];
        let _len = stream.read(&mut request).unwrap();
        thread::sleep(std::time::Duration::from_millis(20));
        // Before the client can know, so that nobody is counted twice.
        now.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(&bound(49, "invalid")).unwrap();
    });
    let world = visits(false);
    configure(&world, &url, &format!("{NAMED}\nldap_requests_max = 3\n{ANYBODY}"));
    let server = Arc::new(world.serve());
    let flood = (0..40).map(|number| {
        let server = server.clone();
        thread::spawn(move || refusal(&server, &format!("user {number}"), "guessed"))
    });
    let flood: Vec<_> = flood.collect();
    let codes: Vec<_> = flood.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(codes.iter().all(|code| *code == Some(2101)), "{codes:?}");
    until("all to be let go", || open.load(Ordering::SeqCst) == 0);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn no_log_has_a_password() {
    let world = visits(false);
    let directory = Directory::start(&world, PEOPLE);
    configure(&world, &directory.url, &format!("{SEARCHED}\n{ANYBODY}"));
    let server = world.serve_with(&["--log", "trace"], None);
    world.sync("ann", &server);
    world.write_secret("ann.password", "guessed by chance\n");
    world.sync_fails("ann", &server, "E2101");
    reconfigure(&world, &server, "cn=seeker", "cn=nobody");
    let outcome: Outcome = world.try_sync("ann", &server, None);
    assert_ne!(outcome.code, Some(0));
    for secret in ["open sesame", "let me search", "by chance"] {
        assert!(!server.log().contains(secret), "{secret}");
    }
}

#[test]
fn a_directory_changes_no_password_of_its_users() {
    let world = visits(false);
    // Nobody is there, and nobody is asked.
    configure(&world, "ldap://127.0.0.1:1", &format!("{NAMED}\n{ANYBODY}"));
    let server = world.serve();
    world.write_secret("next.password", "close sesame\n");
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.extend(["--new-password-file", "next.password"].map(str::to_owned));
    world.syncline.fails("E2461", &arguments);
}
