//! Script versions that have one connection for a whole synchronization.

use harness::{Network, Share, World, sql, time_of, until};
use std::fs;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, who TEXT, note TEXT);";

const MODEL: &str = "script_version = \"v1\"\n[table.item]\n";

/// Remotes that do not read.
fn stalled() -> usize {
    if harness::full() { 50 } else { 8 }
}

/// A temporary table has the user, and a cursor sends this user's rows.
fn worlds() -> [World; 2] {
    World::on_each(PROGRAM, TABLES).map(|world| {
        fs::write(world.path("model.toml"), MODEL).unwrap();
        let scripts = [
            ("begin_connection", "CREATE TEMPORARY TABLE me (who TEXT)"),
            ("begin_synchronization", "INSERT INTO me VALUES ({s.username})"),
            (
                "item/download_cursor",
                "SELECT id, item.who, note FROM item JOIN me ON me.who = item.who",
            ),
            ("item/download_delete_cursor", "--{ignore}"),
            ("end_synchronization", "DELETE FROM me"),
        ];
        for (event, text) in scripts {
            let path = world.path(&format!("scripts/v1/{event}.sql"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        world.syncline.ok(&["deploy"]);
        ["ann", "bob"].iter().for_each(|user| world.add_user(user));
        world
    })
}

#[test]
fn two_users_do_not_see_each_others_temporary_rows() {
    for world in worlds() {
        let server = world.serve();
        world.center_sql("INSERT INTO item VALUES (1, 'ann', 'a'), (2, 'bob', 'b')");
        for _ in 0..3 {
            for user in ["ann", "bob"] {
                world.sync(user, &server);
                let share = Share::of("item", &format!("who = '{user}'"));
                assert_eq!(world.differences_in(user, &[share]), Vec::<String>::new());
            }
            world.center_sql("UPDATE item SET note = note || '+'");
        }
        sql(&world.remote("ann"), "INSERT INTO item VALUES (5, 'ann', 'new')");
        assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 1);
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 3);
    }
}

// S10: a remote that stops reading holds neither a connection nor another remote.
#[test]
fn remotes_that_do_not_read_hold_no_connection() {
    for world in worlds() {
        world.configure("transfers_max = 100\nheartbeat_interval_s = 1\n");
        let server = world.serve();
        world.sync("ann", &server);
        // More than what lies in sockets.
        let insert = match world.path("consolidated.db").exists() {
            true => {
                "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 1509)
                 INSERT INTO item SELECT i, 'bob', hex(randomblob(4000)) FROM n"
            }
            false => {
                "INSERT INTO item SELECT i, 'bob',
                     (SELECT string_agg(md5(random()::text || i || j), '')
                      FROM generate_series(1, 250) AS j)
                 FROM generate_series(10, 1509) AS i"
            }
        };
        world.center_sql(insert);
        // Each stalls by itself, in the middle of its own download.
        let networks: Vec<_> = (0..stalled()).map(|_| Network::new(&server.url)).collect();
        networks.iter().for_each(|network| network.stall_download_after(200_000));
        let sync = |(number, network): (usize, &Network)| {
            let (file, url) = (format!("stalled{number}.db"), network.url_of(&server.url));
            let arguments = [
                "sync",
                &file,
                "--server",
                &url,
                "--user",
                "bob",
                "--password-file",
                "bob.password",
            ];
            world.syncline.command(&arguments).spawn().unwrap()
        };
        let mut stalled: Vec<_> = networks.iter().enumerate().map(sync).collect();
        until("all downloads to stall", || networks.iter().all(Network::is_stalled));
        let took = time_of(|| drop(world.sync("ann", &server)));
        assert!(took < Duration::from_secs(5), "{took:?}");
        if !world.path("consolidated.db").exists() {
            let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
            assert_eq!(world.center_count(open), 0);
        }
        for child in &mut stalled {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
