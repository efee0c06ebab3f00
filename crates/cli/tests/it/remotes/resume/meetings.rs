//! Where a download that was cut meets other ideas.
//!
//! These are rows that are withheld, tables that are filled out of sight, files that are copied and
//! restored, and repairs.

use super::shop::{Shop, assert_same};
use super::{PROGRAM, cut_behind, kept_rows, rows_of, try_sync};
use harness::{
    ForeignTool, Outcome, Proxy, Side, Verdict, World, count, full, sql, sql_past_triggers,
};
use protocol::Message;
use std::fs;
use std::sync::Arc;

/// More than the smallest limit on frames takes.
const LARGE: usize = 70_000;

fn enlarge(world: &World, id: u32) {
    let text = "x".repeat(LARGE);
    world.center_sql(&format!("UPDATE customer SET note = '{text}' WHERE id = {id}"));
}

// S2, S3, S11: a row that is too large is told, and is not taken for gone, whether it was too large
// before the cut, or is so since, or is so no more.
#[test]
fn a_row_that_is_withheld_is_told_on_both_sides_of_a_cut() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        world.configure("frame_bytes_max = 65536");
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        try_sync(world, &server, &proxy).unwrap();
        // They are of ann, and early in the order of keys.
        let (stays, shrinks, grows) = (3, 6, 9);
        enlarge(world, stays);
        try_sync(world, &server, &proxy).unwrap();
        enlarge(world, shrinks);
        sql(&world.remote("ann"), "UPDATE syncline_table SET watermark = NULL");
        cut_behind(&proxy, 4);
        assert!(try_sync(world, &server, &proxy).is_none());
        assert!(kept_rows(world) > 20);
        world.center_sql(&format!("UPDATE customer SET note = '' WHERE id = {shrinks}"));
        enlarge(world, grows);
        proxy.pass_all();
        let report = try_sync(world, &server, &proxy).unwrap();
        assert!(!report["resumed"].is_null(), "{report}");
        let there = "SELECT count(*) FROM customer WHERE id IN (3, 6, 9) AND length(note) < 100";
        assert_eq!(count(&world.remote("ann"), there), 3, "what was there stays");
        let told = "SELECT count(DISTINCT key) FROM syncline_reject WHERE code = 7170";
        assert_eq!(count(&world.remote("ann"), told), 3);

        for id in [stays, grows] {
            world.center_sql(&format!("UPDATE customer SET note = 'short' WHERE id = {id}"));
        }
        try_sync(world, &server, &proxy).unwrap();
        assert_same(&shop, "no row is too large any more");
    }
}

/// One table, in frames of the usual size, that is filled out of sight.
fn large_worlds() -> [World; 2] {
    let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE label (id INTEGER PRIMARY KEY, item INTEGER REFERENCES item);";
    [World::new(PROGRAM, create), World::on_postgres(PROGRAM, create)].map(|world| {
        world.configure("batch_bytes = 16384\nbatch_rows = 1000");
        world.add_user("ann");
        let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
            WHERE i < 12000)";
        for insert in [
            "INSERT INTO item SELECT i, 'item ' || i FROM n",
            "INSERT INTO label SELECT i, i FROM n WHERE i % 4 = 0",
        ] {
            world.center_sql(&format!("{numbers} {insert}"));
        }
        world
    })
}

// S2, S3, S4: what has come of a first fill does not come again, although it is put into its table
// only when the rest is there. Rows that have come change and go meanwhile.
#[test]
fn a_large_table_that_is_filled_out_of_sight_comes_only_once() {
    for world in large_worlds() {
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        proxy.keep_rows();
        cut_behind(&proxy, 11);
        assert!(try_sync(&world, &server, &proxy).is_none());
        let kept = kept_rows(&world);
        assert!(kept > 5_000, "{kept}");
        world.center_sql("UPDATE item SET name = 'new' WHERE id IN (7, 11999)");
        world.center_sql("DELETE FROM item WHERE id IN (9, 11997)");
        proxy.pass_all();
        proxy.forget();
        let report = try_sync(&world, &server, &proxy).unwrap();
        assert_eq!(report["resumed"]["rows"], kept, "{report}");
        world.assert_converged(&["ann"]);
        let sent: u64 = proxy.heard().iter().map(rows_of).sum();
        // All that is there but what was kept and is, then a row of that again, and two deletes.
        assert_eq!(sent, 14_998 - (kept as u64 - 1) + 1 + 2, "{report}");
    }
}

// S1, S3, Trap 13, Trap 3: a copy of a file has what is kept, and another identity as soon as the
// file itself has gone on. A file that is set back has what was kept then.
#[test]
fn what_is_kept_is_of_one_file_and_of_its_time() {
    for shop in Shop::both(PROGRAM) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        let pasts = if full() { &[true, false][..] } else { &[true] };
        for (at, is_filled) in pasts.iter().copied().enumerate() {
            shop.forget("ann");
            if is_filled {
                try_sync(world, &server, &proxy).unwrap();
                shop.many_changes(at as u64);
            }
            for frames in [8, 14] {
                cut_behind(&proxy, frames);
                assert!(try_sync(world, &server, &proxy).is_none());
            }
            proxy.pass_all();
            assert!(kept_rows(world) > 0);
            let backup = world.path("backup.db");
            let _ = fs::remove_file(&backup);
            ForeignTool::Shell
                .sql(&world.remote("ann"), &format!("VACUUM INTO '{}'", backup.display()));
            let report = try_sync(world, &server, &proxy).unwrap();
            assert!(!report["resumed"].is_null(), "{report}");
            shop.changes(at as u64);
            if is_filled {
                sql(&world.remote("ann"), "UPDATE customer SET name = 'remote' WHERE id < 40");
            }
            try_sync(world, &server, &proxy).unwrap();
            assert_same(&shop, "the file itself");
            shop.changes(at as u64 + 10);

            shop.forget("ann");
            fs::copy(&backup, world.remote("ann")).unwrap();
            assert!(kept_rows(world) > 0);
            if is_filled {
                sql(&world.remote("ann"), "UPDATE customer SET name = 'other' WHERE id = 3");
            }
            // A new identity first, and what the remote lost in a conflict may need another one.
            for _ in 0..2 {
                try_sync(world, &server, &proxy).unwrap();
            }
            assert_same(&shop, &format!("what was copied before, filled: {is_filled}"));
        }
    }
}

fn repair(world: &World, url: &str) -> Outcome {
    let arguments = ["remote", "verify", "ann.db", "--server", url, "--password-file"];
    world.syncline.run(&[&arguments[..], &["ann.password", "--json", "--repair"]].concat())
}

// S2: a row that a repair asks for may come behind all others. It was taken for received where the
// download of the repair was cut before it, and the next one does not ask for it.
#[test]
fn a_row_that_a_repair_asks_for_is_not_received_until_it_is() {
    for shop in Shop::both(PROGRAM).map(Arc::new) {
        let world = &shop.world;
        let server = world.serve();
        let proxy = Proxy::new(&server.url);
        try_sync(world, &server, &proxy).unwrap();
        sql_past_triggers(&world.remote("ann"), "UPDATE customer SET name = 'x' WHERE id = 3");
        let center = shop.clone();
        proxy.obey(move |from, message| {
            match (from, message) {
                (Side::Server, Message::DownloadEnd(_)) => return Verdict::CutBefore,
                (Side::Client, Message::Hello(hello)) if !hello.wanted_rows.is_empty() => {
                    let change = "UPDATE customer SET name = 'new' WHERE id IN (3, 6)";
                    center.world.center_sql(change);
                }
                _ => {}
            }
            Verdict::Pass
        });
        let cut = repair(world, &proxy.url);
        assert!(cut.stderr.contains("E1006"), "{cut:?}");
        proxy.pass_all();
        try_sync(world, &server, &proxy).unwrap();
        assert_same(&shop, "what a repair had asked for");
    }
}
