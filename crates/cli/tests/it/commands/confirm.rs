//! Commands that take something away say so, and ask before.

use super::{PROGRAM, SHOP};
use harness::World;
use serde_json::{Value, json};

/// What the database says of everything that these commands take away.
fn state(world: &World) -> Vec<Vec<String>> {
    let tables =
        "SELECT count(*), '', '' FROM sqlite_schema WHERE name LIKE 'syncline\\_%' ESCAPE '\\'";
    let mut state = harness::query(&world.consolidated(), tables);
    if state[0][0] != "0" {
        let rows = "SELECT name, value, '' FROM syncline_system
                        WHERE name IN ('token_key', 'generation')
                    UNION ALL SELECT 'user', user_name, '' FROM syncline_user
                    UNION ALL SELECT 'remote', remote_id, coalesce(forgotten_at, '')
                        FROM syncline_remote
                    ORDER BY 1, 2";
        state.extend(harness::query(&world.consolidated(), rows));
    }
    state
}

/// They did it at once, also from the wrong folder and with a name that was mistyped.
#[test]
fn a_command_that_takes_something_away_asks_first() {
    let commands: [(&[&str], &[&str]); 5] = [
        (&["fleet", "forget", "till-7"], &["till-7 of ann", "0 rows"]),
        (&["user", "remove", "ann"], &["removes ann", "1 claim", "1 remote "]),
        (&["declare-restored"], &["1 remote will download"]),
        (&["rotate-keys"], &["every session token void"]),
        (&["undeploy"], &["/consolidated.db", " statements", "1 remote,"]),
    ];
    for (command, told) in commands {
        let world = World::new(PROGRAM, SHOP);
        let syncline = &world.syncline;
        world.write_secret("secret", "open sesame\n");
        let add = ["user", "add", "ann", "--password-file", "secret", "--claim", "a=b"];
        syncline.ok(&add);
        let server = world.serve();
        let sync = ["sync", "ann.db", "--user", "ann", "--password-file", "secret", "--remote-id"];
        syncline.ok(&[&sync[..], &["till-7", "--server", &server.url]].concat());
        server.stop();
        let before = state(&world);
        assert!(before.len() > 3, "{before:?}");

        let refused = syncline.run(command);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let message = refused.message("E6013");
        assert!(message.contains("--yes") && refused.stderr.contains("hint: give --yes"));
        assert!(told.iter().all(|told| message.contains(told)), "{message}");
        for no in ["\n", "n\n", "what?\n"] {
            let asked = syncline.on_terminal(command, "[y/N]", no);
            assert_eq!(asked.code, Some(0), "{asked:?}");
            assert!(told.iter().all(|told| asked.stdout.contains(told)), "{asked:?}");
            assert!(asked.stdout.contains("nothing was changed"), "{asked:?}");
        }
        let said = syncline.ok(&[command, &["--dry-run"]].concat());
        match command {
            ["undeploy"] => assert!(said.contains("DROP TABLE \"syncline_remote\";"), "{said}"),
            _ => assert!(told.iter().all(|told| said.contains(told)), "{said}"),
        }
        assert_eq!(state(&world), before, "{command:?}");

        let done = syncline.on_terminal(command, "[y/N]", "y\n");
        assert!(done.code == Some(0) && !done.stdout.contains("nothing was"), "{done:?}");
        assert_ne!(state(&world), before, "{command:?}");
    }
}

#[test]
fn with_json_the_refusal_is_json_and_yes_does_it() {
    let world = World::new(PROGRAM, SHOP);
    let before = state(&world);
    let refused = world.syncline.run(&["declare-restored", "--json"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let told: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(told["error"]["code"], "E6013");
    let planned = world.syncline.json(&["declare-restored", "--json", "--dry-run"]);
    assert!(planned["dry_run"].as_str().unwrap().contains("0 remotes"), "{planned}");
    assert_eq!(state(&world), before);
    world.syncline.json(&["declare-restored", "--json", "--yes"]);
    assert_ne!(state(&world), before);
}

#[test]
fn what_was_taken_away_is_json_where_that_is_wanted() {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    let commands: [(&[&str], &str, Value); 3] = [
        (&["user", "remove", "ann"], "user remove removes ann", json!({ "removed": "ann" })),
        (&["rotate-keys"], "rotate-keys makes every", json!({ "rotated": true })),
        (&["undeploy"], "undeploy removes from", json!({ "undeployed": true, "left": [] })),
    ];
    for (command, will, done) in commands {
        let json = |option| world.syncline.json(&[command, &["--json", option]].concat());
        let before = state(&world);
        let planned = json("--dry-run");
        assert!(planned["dry_run"].as_str().unwrap().starts_with(will), "{planned}");
        assert_eq!(state(&world), before);
        let mut told = json("--yes");
        assert_ne!(state(&world), before);
        // In the same words both times, and many.
        let statements = told.as_object_mut().unwrap().remove("statements");
        assert_eq!(statements.as_ref(), planned.get("statements"));
        assert_eq!(told, done);
    }
    let nothing = world.syncline.json(&["undeploy", "--json", "--yes"]);
    assert_eq!(nothing, json!({ "undeployed": true, "statements": [], "left": [] }));
    let nothing = world.syncline.json(&["undeploy", "--json", "--dry-run"]);
    assert!(nothing["dry_run"].as_str().unwrap().starts_with("nothing to do"), "{nothing}");
}
