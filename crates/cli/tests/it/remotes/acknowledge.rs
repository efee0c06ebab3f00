//! Acknowledgements: the center learns what its remotes have applied, and nothing waits for it.

#![cfg(feature = "fail-points")]

use harness::{Proxy, Server, Side, Verdict, World, until};
use protocol::Message;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const CREATE: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'a')";

fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, CREATE), World::on_postgres(PROGRAM, CREATE)];
    for world in &worlds {
        world.add_user("ann");
        acknowledge(world);
    }
    worlds
}

/// Remotes are to acknowledge downloads at once.
fn acknowledge(world: &World) {
    let path = world.path("model.toml");
    let model = std::fs::read_to_string(&path).unwrap();
    let version = "script_version = \"v1\"\n";
    assert!(model.contains(version), "{model}");
    let wanted = format!("{version}acknowledge = true\n");
    std::fs::write(path, model.replace(version, &wanted)).unwrap();
    world.syncline.ok(&["deploy"]);
}

/// What the center knows of the only remote.
fn known(world: &World) -> Value {
    world.syncline.json(&["fleet", "list", "--json"])[0].clone()
}

/// The last download, and the last one that it is known to have applied.
fn noted(world: &World) -> [i64; 2] {
    let remote = known(world);
    assert_eq!(remote["acknowledged_at"].is_null(), remote["acknowledged"] == 0, "{remote}");
    ["counter", "acknowledged"].map(|name| remote[name].as_i64().unwrap())
}

fn sync_through(world: &World, proxy: &Proxy) {
    let outcome = harness::finish(world.sync_through("ann", &proxy.url));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// The center has taken note of everything by then: the server writes its line about a
/// synchronization last.
fn until_told(server: &Server, synchronizations: usize) {
    let lines = || server.log().lines().filter(|line| line.contains("acknowledging_ms")).count();
    until("the line of a synchronization", || lines() >= synchronizations);
}

// S10, S11: told at once where a connection goes both ways, else with the next synchronization.
#[test]
fn what_a_remote_has_applied_is_known_over_every_transport() {
    for world in worlds() {
        world.syncline.ok(&["cert", "dev"]);
        world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
        let mut counter = 0;
        for scheme in ["tcp", "tls", "ws", "wss", "http", "https"] {
            let server = world.serve_at(&format!("{scheme}://127.0.0.1:0"));
            let mut arguments = world.sync_arguments("ann", &server);
            arguments.extend(["--ca-file", "ca.pem"].map(str::to_owned));
            world.syncline.ok(&arguments);
            counter += 1;
            until_told(&server, 1);
            let told = if scheme.starts_with("http") { counter - 1 } else { counter };
            assert_eq!(noted(&world), [counter, told], "{scheme}");
            server.stop();
        }
        let id = known(&world)["remote_id"].as_str().unwrap().to_owned();
        let shown = world.syncline.ok(&["fleet", "show", &id]);
        assert!(shown.contains("acknowledged    all but 1, 20"), "{shown}");
    }
}

// S1, S10: an acknowledgement that is lost costs nothing, and the next Hello says the same.
#[test]
fn a_lost_acknowledgement_comes_with_the_next_hello() {
    for world in worlds() {
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let lose = |_: Side, message: &Message| match message {
            Message::Acknowledgement(_) => Verdict::CutBefore,
            _ => Verdict::Pass,
        };
        proxy.obey(lose);
        sync_through(&world, &proxy);
        until_told(&server, 1);
        assert_eq!(noted(&world), [1, 0]);
        // The remote dies before it can say it.
        proxy.pass_all();
        let died = world.try_sync("ann", &server, Some("client-apply-committed=return"));
        assert_ne!(died.code, Some(0), "{died:?}");
        until_told(&server, 2);
        assert_eq!(noted(&world), [2, 1]);
        // It has nothing to say behind an upload.
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.push("--upload-only".to_owned());
        world.syncline.ok(&arguments);
        assert_eq!(noted(&world), [2, 2]);
        world.sync("ann", &server);
        until_told(&server, 4);
        assert_eq!(noted(&world), [3, 3]);
        server.stop();
    }
}

// Trap 30: what is forged, of another life, or late changes nothing.
#[test]
fn only_the_download_that_was_sent_is_acknowledged() {
    for world in worlds() {
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        for (before, counter) in [0, 4711, i64::MAX].into_iter().enumerate() {
            proxy.forge(move |_, message| {
                if let Message::Acknowledgement(said) = message {
                    said.counter = model::Counter(counter);
                }
            });
            sync_through(&world, &proxy);
            let refused = || server.log().matches("code=\"E1005\"").count();
            until("the refusal", || refused() == before + 1);
            let [made, told] = noted(&world);
            assert_eq!(told, made - 1, "{counter}");
        }
        server.stop();
    }
}

// Trap 3, Trap 30
#[test]
fn what_was_downloaded_in_another_life_is_not_acknowledged() {
    for world in worlds() {
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let syncline = world.syncline.clone();
        proxy.forge(move |_, message| {
            if let Message::Acknowledgement(_) = message {
                syncline.ok(&["declare-restored", "--yes"]);
            }
        });
        sync_through(&world, &proxy);
        until_told(&server, 1);
        assert_eq!(noted(&world), [1, 0]);
        proxy.forge(|_, _| {});
        world.sync("ann", &server);
        until_told(&server, 2);
        assert_eq!(noted(&world), [2, 2]);
        server.stop();
    }
}

// S8: who has everything but this to say holds up no other synchronization of the same remote.
#[test]
fn a_late_acknowledgement_holds_up_nobody_and_changes_nothing() {
    for world in worlds() {
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let (syncline, arguments) = (world.syncline.clone(), world.sync_arguments("ann", &server));
        let mut others = 0;
        proxy.forge(move |_, message| {
            if let Message::Acknowledgement(said) = message
                && others == 0
            {
                assert_eq!(said.counter.0, 1);
                // The program that said it has the file for a moment still.
                until("another synchronization", || syncline.run(&arguments).code == Some(0));
                others += 1;
            }
        });
        sync_through(&world, &proxy);
        until_told(&server, 2);
        assert_eq!(noted(&world), [2, 2]);
        // A new file under the same name has applied nothing.
        let remote_id = known(&world)["remote_id"].as_str().unwrap().to_owned();
        std::fs::remove_file(world.remote("ann")).unwrap();
        proxy.obey(|_, message| match message {
            Message::Acknowledgement(_) => Verdict::CutBefore,
            _ => Verdict::Pass,
        });
        let mut arguments = world.sync_arguments("ann", &server);
        let url = arguments.iter().position(|argument| *argument == server.url).unwrap();
        arguments[url].clone_from(&proxy.url);
        arguments.extend(["--remote-id".to_owned(), remote_id]);
        world.syncline.ok(&arguments);
        until_told(&server, 3);
        assert_eq!(noted(&world), [3, 0]);
        server.stop();
    }
}
