//! Downloads that are cut go on where they were, on any server, and lose nothing.

mod meetings;
mod shop;

use harness::{Proxy, Road, Rules, Server, Side, Verdict, World, count, sql};
use protocol::Message;
use serde_json::Value;
use shop::{Shop, assert_same, differences};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// What synchronizes by way of this URL.
fn arguments_by(world: &World, server: &Server, name: &str, url: &str) -> Vec<String> {
    let mut arguments = world.sync_arguments(name, server);
    let at = arguments.iter().position(|argument| *argument == server.url).unwrap();
    arguments[at] = url.to_owned();
    arguments
}

/// Synchronizes through a proxy; none where the connection was cut.
fn try_sync(world: &World, server: &Server, proxy: &Proxy) -> Option<Value> {
    let mut arguments = arguments_by(world, server, "ann", &proxy.url);
    arguments.extend(["--json", "--no-retry"].map(str::to_owned));
    let outcome = world.syncline.run(&arguments);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    match report["error"]["code"].as_str() {
        None => Some(report),
        Some("E1006") => None,
        Some(_) => panic!("{outcome:?}"),
    }
}

/// The next connection ends behind so many frames of rows.
fn cut_behind(proxy: &Proxy, frames: usize) {
    let mut left = frames;
    proxy.obey(move |from, message| match (from, message) {
        (Side::Server, Message::Rows(_)) if left == 0 => Verdict::CutBefore,
        (Side::Server, Message::Rows(_)) => {
            left -= 1;
            Verdict::Pass
        }
        _ => Verdict::Pass,
    });
}

fn frames_of(proxy: &Proxy) -> usize {
    proxy.keep_rows();
    let heard = proxy.heard();
    heard.iter().filter(|it| matches!(it, (Side::Server, Message::Rows(_)))).count()
}

fn kept_rows(world: &World) -> i64 {
    let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
    status["partial_download"]["rows"].as_i64().unwrap()
}

// S2, S3, S4, S6: wherever a first download is cut, the next one brings only the rest, by another
// server, and what has happened at both ends in between.
#[test]
fn a_download_that_is_cut_behind_any_frame_goes_on_there() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        let mut server = world.serve();
        let proxy = Proxy::new(&server.url);
        proxy.keep_rows();
        let whole = try_sync(world, &server, &proxy).unwrap();
        let frames = frames_of(&proxy);
        assert!(frames > 30 && whole["resumed"].is_null(), "{frames} {whole}");
        let step = if harness::full() { 1 } else { frames / 4 };
        for (at, cut) in (1..frames).step_by(step).enumerate() {
            shop.forget("ann");
            cut_behind(&proxy, cut);
            if try_sync(world, &server, &proxy).is_some() {
                // Rows have gone, and so the download is shorter than the first one was.
                assert!(cut > frames / 2, "{cut} of {frames} frames");
                break;
            }
            assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM customer"), 0, "S4");
            let kept = kept_rows(world);
            let is_quiet = at % 2 == 1;
            if !is_quiet {
                shop.changes(cut as u64);
            }
            server.stop();
            server = world.serve();
            proxy.lead_to(&server.url);
            proxy.pass_all();
            proxy.forget();
            let rest = try_sync(world, &server, &proxy).unwrap();
            assert_same(&shop, &format!("cut behind {cut} of {frames} frames"));
            assert_eq!(kept_rows(world), 0);
            let spared = rest["resumed"]["rows"].as_i64().unwrap_or(0);
            assert_eq!(spared, kept, "{rest}");
            assert!(cut < 3 || spared > 0, "{cut} {rest}");
            let sent: u64 = proxy.heard().iter().map(rows_of).sum();
            let all = rest["downloaded"]["upserts"].as_u64().unwrap();
            assert!(
                !is_quiet || sent + spared as u64 == all,
                "{sent} of {all}, {spared} were kept"
            );
        }
    }
}

fn rows_of((from, message): &(Side, Message)) -> u64 {
    match (from, message) {
        (Side::Server, Message::Rows(frame)) => u64::from(frame.count),
        _ => 0,
    }
}

// S1, S2, S3, S6: random cuts at any byte, one after the other, also of changes, with writes at
// both ends in between.
#[test]
fn a_download_may_be_cut_again_and_again_at_any_byte() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let (mut cuts, mut resumed) = (0, 0);
        let mut chance = harness::Chance::from_seed(11);
        let (rounds, steps) = if harness::full() { (60, 12) } else { (3, 6) };
        for round in 0..rounds {
            if round % 3 == 0 {
                shop.forget("ann");
            } else {
                shop.many_changes(round);
            }
            for step in 0..steps {
                proxy.cut_after(Side::Server, 500 + chance.below(90_000) as usize);
                if let Some(report) = try_sync(world, &server, &proxy) {
                    resumed += u32::from(!report["resumed"].is_null());
                    proxy.pass_all();
                    break;
                }
                cuts += 1;
                shop.changes(chance.below(1 << 40));
                if step > 1 {
                    shop.changes_of_remote(chance.below(1 << 40));
                }
            }
            proxy.pass_all();
            // What the remote lost in a conflict may need a second one.
            let report = try_sync(world, &server, &proxy).unwrap();
            resumed += u32::from(!report["resumed"].is_null());
            try_sync(world, &server, &proxy).unwrap();
            assert_same(&shop, &format!("round {round}"));
        }
        assert!(cuts > 3 && resumed > 1, "{cuts} cuts, {resumed} resumed");
    }
}

// S3, S6, trap 4, trap 28: what was kept does not count any more.
#[test]
fn what_was_kept_is_dropped_where_anything_else_has_changed() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let cut = |shop: &Shop| {
            shop.forget("ann");
            cut_behind(&proxy, 12);
            assert!(try_sync(world, &server, &proxy).is_none());
            assert!(kept_rows(world) > 0);
            proxy.pass_all();
        };
        cut(&shop);
        world.syncline.ok(&["user", "set", "ann", "--claim", "rep=2"]);
        let report = try_sync(world, &server, &proxy).unwrap();
        assert_eq!(differences(&shop, 2), Vec::<String>::new(), "{report}");
        world.syncline.ok(&["user", "set", "ann", "--claim", "rep=1"]);

        cut(&shop);
        world.center_sql("ALTER TABLE visit ADD COLUMN mood TEXT");
        world.syncline.ok(&["deploy"]);
        let report = try_sync(world, &server, &proxy).unwrap();
        assert!(report["resumed"].is_null(), "{report}");
        assert_same(&shop, "another table");

        cut(&shop);
        world.syncline.ok(&["remote", "reset", "ann.db"]);
        assert_eq!(kept_rows(world), 0);
        let report = try_sync(world, &server, &proxy).unwrap();
        assert!(report["resumed"].is_null(), "{report}");
        assert_same(&shop, "a reset");
    }
}

// S3, S4: rows that the remote changes while they are kept are uploaded first, and come back,
// whether the upload is a synchronization of its own or the one that goes on.
#[test]
fn a_row_that_is_uploaded_since_is_not_overwritten_by_what_was_kept() {
    for (shop, alone) in Shop::both(PROGRAM).iter().flat_map(|shop| [(shop, false), (shop, true)]) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        try_sync(world, &server, &proxy).unwrap();
        world.center_sql(&format!("UPDATE customer SET name = 'center {alone}' WHERE rep = 1"));
        // One that is cut is followed by one whose rows are in order.
        for frames in [2, 4] {
            cut_behind(&proxy, frames);
            assert!(try_sync(world, &server, &proxy).is_none());
        }
        assert!(kept_rows(world) > 0);
        let gone = if alone { 102 } else { 105 };
        let edit = format!(
            "UPDATE customer SET name = 'remote', note = '' WHERE id < 100 AND rep = 1;
             DELETE FROM visit WHERE customer = {gone}; DELETE FROM customer WHERE id = {gone}"
        );
        sql(&world.remote("ann"), &edit);
        proxy.pass_all();
        if alone {
            let upload = vec!["--upload-only".to_owned()];
            world.syncline.run(&[world.sync_arguments("ann", &server), upload].concat());
        }
        let report = try_sync(world, &server, &proxy).unwrap();
        assert!(!report["resumed"].is_null(), "{report}");
        assert_same(shop, &format!("an upload in between, alone: {alone}"));
    }
}

/// Synchronizes by a road with these rules. Gives the report, the bytes that the server has sent,
/// and how often it was cut.
fn sync_by_road(world: &World, server: &Server, name: &str, rules: Rules) -> (Value, usize, usize) {
    let road = Road::to(&server.url, rules);
    let mut arguments = arguments_by(world, server, name, &road.url_of(&server.url));
    arguments.push("--json".into());
    (world.syncline.json(&arguments), road.bytes(), road.cut())
}

/// A line that ends every connection behind so many bytes.
const LINE_BYTES: usize = 2 << 20;

// S1, S3: one command takes a download of 20 MB over a line that is cut every 2 MB, and hardly
// anything comes twice: a first fill, and changes beside an upload.
#[test]
fn a_synchronization_goes_on_by_itself_as_long_as_that_brings_something() {
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, note TEXT)";
    for (world, listen) in [
        (World::new(PROGRAM, schema), "tcp://127.0.0.1:0"),
        (World::new(PROGRAM, schema), "ws://127.0.0.1:0/base"),
        (World::on_postgres(PROGRAM, schema), "http://127.0.0.1:0/base"),
    ] {
        ["ann", "ben", "cat"].iter().for_each(|name| world.add_user(name));
        let server = world.serve_at(listen);
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO item VALUES (-1, 'of ann')");
        let text = "x".repeat(1000);
        world.center_sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO item SELECT i, i || '{text}' FROM n"
        ));
        let narrow = Rules { bytes_max: Some(LINE_BYTES), ..Rules::default() };
        let by = |name: &str, rules| sync_by_road(&world, &server, name, rules);
        let (_, whole, cuts) = by("cat", Rules::default());
        assert!(whole > 10 * (2_000_000) && cuts == 0, "{whole} bytes, {cuts} cuts");
        for (name, uploaded) in [("ben", 0), ("ann", 1)] {
            let (report, bytes, cuts) = by(name, narrow);
            assert_eq!(report["uploaded"]["inserts"], uploaded, "{report}");
            assert!(!report["resumed"].is_null(), "{report}");
            assert!(cuts > 8 && bytes < whole * 13 / 10, "{bytes} of {whole} bytes, {cuts} cuts");
        }
        by("ben", Rules::default());
        world.assert_converged(&["ann", "ben"]);
    }
}

// S3: so many keys of deleted rows do not pass the line at once.
#[test]
fn deleted_keys_do_not_come_again_behind_a_cut_either() {
    let schema = "CREATE TABLE tag (name TEXT PRIMARY KEY)";
    for world in [World::new(PROGRAM, schema), World::on_postgres(PROGRAM, schema)] {
        world.configure("batch_bytes = 8192");
        ["ann", "ben"].iter().for_each(|name| world.add_user(name));
        let server = world.serve();
        world.center_sql(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO tag SELECT 'a tag with a name of about forty letters ' || i FROM n",
        );
        ["ann", "ben"].iter().for_each(|name| drop(world.sync(name, &server)));
        world.center_sql("DELETE FROM tag WHERE name LIKE '%7%' OR name LIKE '%1%'");
        let by = |name: &str, rules| sync_by_road(&world, &server, name, rules);
        let (_, whole, _) = by("ben", Rules::default());
        let (report, bytes, cuts) =
            by("ann", Rules { bytes_max: Some(whole / 8), ..Rules::default() });
        assert!(report["downloaded"]["deletes"].as_i64().unwrap() > 10_000, "{report}");
        assert!(cuts > 7 && bytes < whole * 13 / 10, "{bytes} of {whole} bytes, {cuts} cuts");
        world.assert_converged(&["ann", "ben"]);
    }
}

// What brings nothing is not tried for ever, and not at all where it was not asked for.
#[test]
fn a_synchronization_gives_up_where_nothing_more_comes() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let arguments = arguments_by(world, &server, "ann", &proxy.url);
        for (option, hellos) in [(Some("--no-retry"), 1), (None, 1 + 5)] {
            shop.forget("ann");
            proxy.forget();
            cut_behind(&proxy, 12);
            let with = arguments.iter().map(String::as_str).chain(option);
            let outcome = world.syncline.run(&with.collect::<Vec<_>>());
            assert!(outcome.stderr.contains("E1006") && outcome.code == Some(1), "{outcome:?}");
            assert_eq!(proxy.hellos().len(), hellos, "{outcome:?}");
            let told = outcome.stderr.matches("synchronizing once more").count();
            assert_eq!(told, hellos - 1, "{outcome:?}");
            assert!(kept_rows(world) > 0);
        }
    }
}

/// Kills need programs that can kill themselves.
#[cfg(feature = "fail-points")]
mod killed {
    use super::*;

    // S1, S3, S4
    #[test]
    fn a_client_that_is_killed_has_kept_what_it_stored() {
        for shop in Shop::both(PROGRAM) {
            let world = &shop.world;
            let server = world.serve();
            let points = "client-stores-at-once=return;client-position-reached=12*off->return";
            world.try_sync("ann", &server, Some(points));
            assert!(kept_rows(world) > 0);
            shop.changes(7);
            world.try_sync("ann", &server, Some(&points.replace("12", "6")));
            shop.changes(8);
            let report = world.sync("ann", &server);
            assert!(!report["resumed"].is_null(), "{report}");
            assert_same(&shop, "killed twice");
        }
    }

    // S1, S3, S8
    #[test]
    fn a_server_that_is_killed_is_followed_by_another() {
        for shop in Shop::both(PROGRAM) {
            let world = &shop.world;
            let dying = world.serve_with(&[], Some("server-download-half-sent=40*off->return"));
            world.try_sync("ann", &dying, None);
            shop.changes(9);
            let server = world.serve();
            harness::until("a synchronization", || {
                world.try_sync("ann", &server, None).code == Some(0)
            });
            assert_same(&shop, "another server");
        }
    }
}
