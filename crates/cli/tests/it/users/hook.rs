//! Users whom a service of the company knows: it is asked about each password.

use harness::{Authority, Peer, Server, World, hello, regions};
use protocol::{Hello, Parameters};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// The service, in the folder of a world.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    /// With the names of the files of a certificate and its key it speaks TLS.
    fn start(world: &World, certificate: &[&str]) -> Service {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/users/hook/service.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args(certificate)
            .current_dir(world.path("."))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Service { child, url: url.trim().to_owned() }
    }

    /// Configures the server to ask it.
    fn configure(&self, world: &World, more: &str) {
        world.configure(&format!("authenticate_user_url = \"{}\"\n{more}", self.url));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It fails where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn visits(postgres: bool) -> World {
    let world = harness::visits(PROGRAM, postgres);
    world.write_secret("ann.password", "open sesame\n");
    world
}

const ANYBODY: &str = "authenticate_user_claims = [\"regions\"]\nauthenticate_user_register = true";

/// From now on the service says this.
fn answer(world: &World, answer: &Value) {
    fs::write(world.path("answer.json"), answer.to_string()).unwrap();
}

fn accept(world: &World, more: &Value) {
    let mut body = json!({"accept": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer(world, &json!({ "body": body }));
}

fn asked(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.path("asked.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Tries with a token, or with the password where there is none yet.
fn sync_with_token(world: &World, server: &Server) -> harness::Outcome {
    let mut arguments = world.sync_arguments("ann", server);
    arguments.extend(["--token-file".to_owned(), "ann.token".to_owned()]);
    world.syncline.run(&arguments)
}

// S6, S7
#[test]
fn the_service_decides_who_a_user_is_and_which_rows_the_user_gets() {
    for postgres in [false, true] {
        let world = visits(postgres);
        let service = Service::start(&world, &[]);
        service.configure(&world, ANYBODY);
        let server = world.serve();
        let claims = json!({"claims": {"regions": ["north", "south"], "role": "chief"}});
        accept(&world, &claims);
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"]);
        world.syncline.run(&["user", "set", "ann", "--claim", "regions=west"]);
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["north", "south"], "the service alone decides");
        accept(&world, &json!({"claims": {"regions": "west"}}));
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), ["west"]);
        // An entry with a comma would become two, and give rows of others.
        accept(&world, &json!({"claims": {"regions": ["north,west"]}}));
        world.sync_fails("ann", &server, "E6031");
        accept(&world, &json!({}));
        world.sync("ann", &server);
        assert_eq!(regions(&world, "ann"), [""; 0], "without the claim there are no rows");
        let users = world.syncline.json(&["user", "list", "--json"]);
        assert_eq!(users[0]["claims"], json!({"regions": "west"}), "nothing is stored");
        world.syncline.ok(&["user", "lock", "ann"]);
        let error = world.sync_fails("ann", &server, "E2101");
        assert!(error["message"].as_str().unwrap().contains("is locked"), "{error}");
    }
}

#[test]
fn a_user_whom_only_the_service_knows_is_added_where_that_is_wanted() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, "");
    let server = world.serve();
    accept(&world, &json!({}));
    let error = world.sync_fails("ann", &server, "E2101");
    assert!(error["message"].as_str().unwrap().contains("is not known here"), "{error}");
    assert_eq!(world.syncline.json(&["user", "list", "--json"]), json!([]));
    world.configure("authenticate_user_register = true");
    server.reload();
    world.sync("ann", &server);
    assert_eq!(world.syncline.json(&["user", "list", "--json"])[0]["name"], "ann");
}

#[test]
fn the_service_learns_who_asks_and_no_log_has_a_password() {
    let world = visits(false);
    world.write_secret("service.secret", "known by both\n");
    let service = Service::start(&world, &[]);
    let secret = "authenticate_user_secret_file = \"service.secret\"";
    service.configure(&world, &format!("{ANYBODY}\n{secret}"));
    let server = world.serve_with(&["--log", "trace"], None);
    accept(&world, &json!({}));
    let said = ["--auth-parameter", "till 7", "--auth-parameter", "a secret after all"];
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.extend(said.map(str::to_owned));
    world.syncline.ok(&arguments);
    arguments.extend(["--auth-parameter".to_owned(), "x".repeat(9000)]);
    world.syncline.fails("E6033", &arguments);
    answer(&world, &json!({"body": {"accept": "open sesame"}}));
    world.sync_fails("ann", &server, "E6031");
    let refusal = json!({"accept": false, "status": 4000, "message": "no\nsuch user"});
    answer(&world, &json!({ "body": refusal }));
    let error = world.sync_fails("ann", &server, "E2101");
    let message = "unknown user or wrong password (status 4000): no such user";
    assert_eq!(error["message"], message);
    let refusal = json!({"accept": false, "status": 3000, "message": "see the portal"});
    answer(&world, &json!({ "body": refusal }));
    world.sync_fails("ann", &server, "E6032");
    let asked = asked(&world);
    let (first, id) = (&asked[0], &asked[0]["body"]["remote_id"]);
    assert_eq!(
        (&first["path"], &first["secret"]),
        (&json!("/who"), &json!("Bearer known by both"))
    );
    let expected = json!({"user": "ann", "password": "open sesame", "remote_id": id,
        "address": "127.0.0.1", "script_version": null, "publications": [],
        "parameters": ["till 7", "a secret after all"]});
    assert_eq!(asked[1]["body"]["parameters"], json!([]), "they are not remembered");
    assert_eq!(first["body"], expected);
    assert_eq!(id.as_str().unwrap().len(), 36);
    for secret in ["sesame", "known by both", "after all"] {
        assert!(!server.log().contains(secret), "{secret}");
    }
}

#[test]
fn a_service_that_gives_no_answer_makes_no_password_wrong() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, &format!("{ANYBODY}\nauthenticate_user_timeout_s = 1"));
    let server = world.serve();
    let elsewhere = json!({"Location": format!("{}/elsewhere", service.url)});
    let yes = json!({"accept": true});
    let silences = [
        json!({"body": yes, "code": 500}),
        json!({"body": yes, "code": 204}),
        json!({"body": yes, "code": 307, "headers": elsewhere}),
        json!({"body": yes, "delay_s": 3}),
        json!({"body": yes, "blanks": 20_000}),
    ];
    for silence in &silences {
        answer(&world, silence);
        let error = world.sync_fails("ann", &server, "E6030");
        assert_eq!(error["retry"], true);
        assert!(error["retry_after_s"].as_u64().unwrap() >= 10, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("127.0.0.1"), "{message}");
    }
    let bodies = [
        json!({"accept": 1}),
        json!({}),
        json!([]),
        json!({"accept": true, "status": 4000}),
        json!({"accept": false, "status": 1000}),
    ];
    for body in bodies {
        answer(&world, &json!({ "body": body }));
        world.sync_fails("ann", &server, "E6031");
    }
    assert!(asked(&world).iter().all(|it| it["path"] == "/who"), "no redirect is followed");
    drop(service);
    world.sync_fails("ann", &server, "E6030");
    assert!(server.log().contains("status 307"), "the operator learns why: {}", server.log());
}

// S9
#[test]
fn what_the_service_refuses_is_delayed_and_empty_passwords_do_not_reach_it() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, ANYBODY);
    let server = world.serve();
    answer(&world, &json!({"body": {"accept": false}}));
    for _ in 0..3 {
        world.sync_fails("ann", &server, "E2101");
    }
    world.sync_fails("ann", &server, "E4260");
    assert_eq!(asked(&world).len(), 3);
    world.write_secret("ben.password", "\n");
    let outcome = world.try_sync("ben", &server, None);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(asked(&world).len(), 3);
}

#[test]
fn a_word_of_the_service_stands_as_long_as_it_says() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, ANYBODY);
    let server = world.serve();
    accept(&world, &json!({"claims": {"regions": "north"}}));
    world.syncline.run(&["user", "list"]);
    assert_eq!(sync_with_token(&world, &server).code, Some(0));
    assert!(!world.path("ann.token").exists(), "it is asked each time");
    accept(&world, &json!({"claims": {"regions": "south"}, "expires_in_s": 3600}));
    assert_eq!(sync_with_token(&world, &server).code, Some(0));
    answer(&world, &json!({"body": {"accept": false}}));
    let by_token = ["sync", "ann.db", "--token-file", "ann.token"];
    world.syncline.ok(&by_token);
    assert_eq!(regions(&world, "ann"), ["south"], "the claims are in the token");
    assert_eq!(asked(&world).len(), 2);
    // It says nothing of a claim that is added later, and nothing where nobody asks it.
    let path = world.path("syncline.toml");
    let configured = fs::read_to_string(&path).unwrap();
    fs::write(&path, configured.replace("[\"regions\"]", "[\"regions\", \"role\"]")).unwrap();
    server.reload();
    world.syncline.fails("E2102", &by_token);
    fs::write(&path, configured.replace("authenticate_user_url", "#")).unwrap();
    server.reload();
    world.syncline.fails("E2102", &by_token);
    fs::write(&path, configured).unwrap();
    server.reload();
    world.syncline.ok(&by_token);
}

#[test]
fn the_certificate_of_the_service_is_checked() {
    let world = visits(false);
    let authority = Authority::new();
    authority.write(&world, "service-ca.pem");
    Authority::new().write(&world, "other-ca.pem");
    authority.server(&world, "service", |_| {});
    let service = Service::start(&world, &["service.pem", "service.key"]);
    accept(&world, &json!({}));
    service.configure(&world, ANYBODY);
    let server = world.serve();
    world.sync_fails("ann", &server, "E6030");
    world.configure("authenticate_user_ca_file = \"other-ca.pem\"");
    server.reload();
    world.sync_fails("ann", &server, "E6030");
    assert_eq!(asked(&world), [Value::Null; 0], "nothing was sent to a stranger");
    let path = world.path("syncline.toml");
    let text = fs::read_to_string(&path).unwrap().replace("other-ca.pem", "service-ca.pem");
    fs::write(&path, text).unwrap();
    server.reload();
    world.sync("ann", &server);
}

#[test]
fn a_server_that_would_give_passwords_away_does_not_start() {
    let refused = |lines: &str, code: &str| {
        let world = visits(false);
        world.write_secret("service.secret", "known\n");
        let exposed = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(world.path("service.secret"), exposed).unwrap();
        world.configure(lines);
        world.syncline.fails(code, &["serve", "--listen", "tcp://127.0.0.1:0"]);
    };
    for url in ["http://login.test/who", "http://localhost:x@login.test/", "login.test", "ftp://a/"]
    {
        refused(&format!("authenticate_user_url = \"{url}\""), "E6002");
    }
    let url = "authenticate_user_url = \"https://login.test/\"";
    refused(&format!("{url}\nauthenticate_user_secret_file = \"service.secret\""), "E2111");
    refused(&format!("{url}\nauthenticate_user_secret_file = \"nowhere\""), "E6002");
}

fn sync_with(world: &World, server: &Server, more: &[&str]) -> harness::Outcome {
    let mut arguments = world.sync_arguments("ann", server);
    arguments.extend(more.iter().map(ToString::to_string));
    world.syncline.run(&arguments)
}

#[test]
fn the_service_says_that_a_password_expires_or_that_its_user_is_busy() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, ANYBODY);
    let server = world.serve();
    accept(&world, &json!({"status": 2001, "message": "in a week,\nsee the portal"}));
    let outcome = sync_with(&world, &server, &["--json"]);
    let warned = "warning: the password expires soon: in a week, see the portal";
    assert!(outcome.stderr.contains(warned), "{outcome:?}");
    let told: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let expected = json!({"status": 2001, "message": "in a week, see the portal",
        "expires_in_s": null, "password_changed": false});
    assert_eq!(told["authentication"], expected);
    for (status, code) in [(3999, "E6032"), (4999, "E2101"), (5000, "E2463"), (6000, "E2101")] {
        answer(&world, &json!({"body": {"accept": false, "status": status}}));
        let error = world.sync_fails("ann", &server, code);
        assert!(error["message"].as_str().unwrap().contains(&status.to_string()), "{error}");
        assert_eq!(error["retry"], json!(code == "E2463"), "{error}");
    }
}

#[test]
fn the_service_changes_passwords_or_the_remote_learns_that_it_did_not() {
    let world = visits(false);
    world.write_secret("next.password", "close sesame\n");
    let service = Service::start(&world, &[]);
    service.configure(&world, ANYBODY);
    let server = world.serve_with(&["--log", "trace"], None);
    let change = ["--new-password-file", "next.password"];
    accept(&world, &json!({}));
    let outcome = sync_with(&world, &server, &change);
    assert!(outcome.stderr.contains("error E2461: "), "it did not confirm: {outcome:?}");
    assert_eq!(asked(&world)[0]["body"]["new_password"], "close sesame");
    accept(&world, &json!({"password_changed": true}));
    let outcome = sync_with(&world, &server, &change);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("changed the password"), "{outcome:?}");
    // The answer was lost: the old password is wrong, and the new one is the password.
    answer(&world, &json!({"of": {"close sesame": {"accept": true}}, "body": {"accept": false}}));
    let outcome = sync_with(&world, &server, &change);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let last = asked(&world).pop().unwrap();
    assert_eq!(last["body"]["password"], "close sesame");
    assert_eq!(last["body"]["new_password"], Value::Null);
    answer(&world, &json!({"body": {"accept": false}}));
    for _ in 0..2 {
        let outcome = sync_with(&world, &server, &change);
        assert!(outcome.stderr.contains("error E2101: "), "{outcome:?}");
    }
    world.sync_fails("ann", &server, "E4260");
    assert!(!server.log().contains("sesame"));
}

// S9: forged, past the checks of the client.
#[test]
fn odd_parameters_reach_nobody_and_no_log() {
    let world = visits(false);
    let service = Service::start(&world, &[]);
    service.configure(&world, ANYBODY);
    accept(&world, &json!({}));
    let server = world.serve_with(&["--log", "trace"], None);
    let odd = [json!(vec!["sesame"; 256]), json!(["sesame".repeat(1500)])];
    for values in odd {
        let parameters: Parameters = serde_json::from_value(values).unwrap();
        let mut peer = Peer::saying(&server.url, Hello { parameters, ..hello("ann", "r") });
        assert_eq!(peer.refusal(), Some(1003));
    }
    assert_eq!(asked(&world), [Value::Null; 0]);
    let parameters: Parameters = serde_json::from_value(json!(vec!["sesame"; 255])).unwrap();
    Peer::greeting(&server.url, Hello { parameters, ..hello("ann", "r") });
    assert_eq!(asked(&world)[0]["body"]["parameters"].as_array().unwrap().len(), 255);
    assert!(!server.log().contains("sesame"));
}
