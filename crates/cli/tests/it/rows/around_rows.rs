//! Scripts around the rows of a synchronization, as operators see them in the log.

use harness::{Server, Share, World, sql};
use std::fs;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13));
    CREATE TABLE line (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item);
    CREATE TABLE audit (who TEXT, event TEXT, ok INTEGER);
    CREATE TABLE gone (n INTEGER);";

const MODEL: &str = "script_version = \"v1\"\n[table.item]\n[table.line]\n";

const OF_BOTH: [&str; 10] = [
    "begin_synchronization",
    "begin_upload",
    "end_upload",
    "upload_statistics",
    "begin_download",
    "end_download",
    "download_statistics",
    "end_synchronization",
    "synchronization_statistics",
    "time_statistics",
];

const OF_TABLES: [&str; 8] = [
    "begin_upload_rows",
    "end_upload_rows",
    "begin_upload_deletes",
    "end_upload_deletes",
    "begin_download_deletes",
    "end_download_deletes",
    "begin_download_rows",
    "end_download_rows",
];

const OF_VERSIONS: [&str; 3] = ["begin_publication", "prepare_for_download", "end_publication"];

/// Those that say a time.
const OF_TIMES: [&str; 3] = [
    "generate_next_last_download_timestamp",
    "modify_last_download_timestamp",
    "modify_next_last_download_timestamp",
];

/// A center on SQLite and one on PostgreSQL, with a script of one line at every event and a remote
/// of ann.
fn worlds() -> [World; 2] {
    World::on_each(PROGRAM, TABLES).map(|world| {
        fs::write(world.path("model.toml"), MODEL).unwrap();
        let write = |folder: &str, event: &str| {
            let ok = match (folder, event) {
                ("v1", "end_synchronization") => "{s.synchronization_ok}",
                _ => "NULL",
            };
            let text = format!("INSERT INTO audit VALUES ({{s.username}}, '{event}', {ok})");
            script(&world, folder, event, &text);
        };
        OF_BOTH.iter().chain(&OF_VERSIONS).for_each(|event| write("v1", event));
        let time = "SELECT NULL AS last_download, NULL AS next_last_download";
        OF_TIMES.iter().for_each(|event| script(&world, "v1", event, time));
        for table in ["v1/item", "v1/line"] {
            OF_BOTH.iter().chain(&OF_TABLES).for_each(|event| write(table, event));
        }
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        world
    })
}

fn script(world: &World, folder: &str, event: &str, text: &str) {
    let folder = world.path(&format!("scripts/{folder}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{event}.sql")), text).unwrap();
}

/// What the log has shown of scripts since it was read last.
struct Trace<'s> {
    server: &'s Server,
    read: usize,
}

impl Trace<'_> {
    fn of(server: &Server) -> Trace<'_> {
        Trace { server, read: server.log().len() }
    }

    /// Waits for the scripts at the end, of so many failures by then.
    fn await_end(&self, world: &World, failed: i64) {
        harness::until("the end of the synchronization", || {
            self.has_ended() && ended(world, 0) == failed
        });
    }

    fn has_ended(&self) -> bool {
        self.server.log()[self.read..].contains("transaction=\"T6\" end=")
    }

    /// Each line as transaction, event, table and rows, or as transaction and end. A script that
    /// hears of one event after the other has one line.
    fn lines(&mut self) -> Vec<String> {
        let log = self.server.log();
        let new = log[self.read..].to_owned();
        self.read = log.len();
        let mut lines: Vec<String> = new.lines().filter_map(told).collect();
        lines.dedup_by(|next, line| next == line && line.contains("time_statistics"));
        lines
    }
}

fn told(line: &str) -> Option<String> {
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        Some(rest.split_whitespace().next()?.trim_matches('"'))
    };
    let transaction = value("transaction")?;
    if let Some(end) = value("end") {
        return Some(format!("{transaction} {end}"));
    }
    let event = value("event")?;
    assert!(value("us").is_some(), "{line}");
    let rows = value("rows").map(|rows| format!(" {rows}")).unwrap_or_default();
    let table = value("table").map(|table| format!(" {table}")).unwrap_or_default();
    Some(format!("{transaction} {event}{table}{rows}"))
}

const T1: [&str; 4] =
    ["T1 authenticate_user", "T1 authenticate_parameters", "T1 modify_user", "T1 commit"];

const REFUSED: [&str; 3] = ["T1 authenticate_user", "T1 authenticate_parameters", "T1 commit"];

const DELETES: [&str; 10] = [
    "T3 begin_upload",
    "T3 begin_upload line",
    "T3 begin_upload_deletes line",
    "T3 upload_delete line 1",
    "T3 end_upload_deletes line",
    "T3 end_upload line",
    "T3 end_upload",
    "T3 upload_statistics line",
    "T3 upload_statistics",
    "T3 commit",
];

const T2: [&str; 5] = [
    "T2 begin_synchronization",
    "T2 begin_synchronization item",
    "T2 begin_synchronization line",
    "T2 begin_publication",
    "T2 commit",
];

const T4: [&str; 4] = [
    "T4 generate_next_last_download_timestamp",
    "T4 modify_last_download_timestamp",
    "T4 prepare_for_download",
    "T4 commit",
];

const T6: [&str; 11] = [
    "T6 end_publication",
    "T6 end_synchronization item",
    "T6 end_synchronization line",
    "T6 end_synchronization",
    "T6 synchronization_statistics item",
    "T6 synchronization_statistics line",
    "T6 synchronization_statistics",
    "T6 time_statistics item",
    "T6 time_statistics line",
    "T6 time_statistics",
    "T6 commit",
];

const T5: [&str; 20] = [
    "T5 begin_download",
    "T5 begin_download item",
    "T5 begin_download line",
    "T5 begin_download_deletes item",
    "T5 end_download_deletes item",
    "T5 begin_download_rows item",
    "T5 download_cursor item 2",
    "T5 end_download_rows item",
    "T5 begin_download_deletes line",
    "T5 end_download_deletes line",
    "T5 begin_download_rows line",
    "T5 download_cursor line 1",
    "T5 end_download_rows line",
    "T5 modify_next_last_download_timestamp",
    "T5 end_download item",
    "T5 end_download line",
    "T5 end_download",
    "T5 download_statistics item",
    "T5 download_statistics line",
    "T5 download_statistics",
];

const COMMIT: [&str; 1] = ["T5 commit"];

const NO_ROWS: [&str; 4] =
    ["T3 begin_upload", "T3 end_upload", "T3 upload_statistics", "T3 commit"];

const ROWS: [&str; 16] = [
    "T3 begin_upload",
    "T3 begin_upload item",
    "T3 begin_upload line",
    "T3 begin_upload_rows item",
    "T3 upload_insert item 2",
    "T3 end_upload_rows item",
    "T3 begin_upload_rows line",
    "T3 upload_insert line 1",
    "T3 end_upload_rows line",
    "T3 end_upload item",
    "T3 end_upload line",
    "T3 end_upload",
    "T3 upload_statistics item",
    "T3 upload_statistics line",
    "T3 upload_statistics",
    "T3 commit",
];

fn together(parts: &[&[&str]]) -> Vec<String> {
    let parts = parts.iter().flat_map(|part| part.iter());
    parts.filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect()
}

fn assert_converged(world: &World) {
    let shares = ["item", "line"].map(Share::whole);
    assert_eq!(world.differences_in("ann", &shares), Vec::<String>::new());
}

fn ended(world: &World, ok: i64) -> i64 {
    world.center_count(&format!(
        "SELECT count(*) FROM audit WHERE event = 'end_synchronization' AND ok = {ok}"
    ))
}

fn audited(world: &World, event: &str) -> i64 {
    world.center_count(&format!("SELECT count(*) FROM audit WHERE event = '{event}'"))
}

/// Events around rows of this page, whose scripts users write.
fn events_of_the_page() -> Vec<&'static str> {
    let page = include_str!("../../../../../docs/reference/events.md");
    let around = |line: &&str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let transaction = cells.get(2).is_some_and(|cell| cell.len() == 2 && cell.starts_with('T'));
        transaction && cells[4].is_empty() && cells[5] == "you"
    };
    page.lines().filter(around).map(|line| line.split('`').nth(1).unwrap()).collect()
}

#[test]
fn the_log_shows_every_script_in_its_transaction() {
    for world in worlds() {
        let status = "CASE {s.password} WHEN 'ann-password' THEN 1000 ELSE 4000 END";
        let checks = format!("SELECT {status} AS authentication_status");
        script(&world, "v1", "authenticate_user", &checks);
        let passes = "SELECT 1000 AS authentication_status";
        script(&world, "v1", "authenticate_parameters", passes);
        script(&world, "v1", "modify_user", "SELECT {s.username} AS username");
        world.syncline.ok(&["deploy"]);
        let server = world.serve_with(&["--trace-events"], None);
        let mut trace = Trace::of(&server);
        let sync = |more: &[&str]| {
            let mut arguments = world.sync_arguments("ann", &server);
            arguments.extend(more.iter().map(|it| (*it).to_owned()));
            world.syncline.ok(&arguments);
        };
        let mut nothing = T5.to_vec();
        nothing.retain(|line| !line.contains("cursor"));
        let nothing = [&nothing[..], &COMMIT].concat();
        let mut seen = Vec::new();
        let mut expect = |parts: &[&[&str]], what: &str| {
            if parts.contains(&&T6[..]) {
                // A remote that downloads nothing does not wait for it.
                harness::until("the end of the synchronization", || trace.has_ended());
            }
            let lines = trace.lines();
            assert_eq!(lines, together(parts), "{what}");
            seen.extend(lines);
        };
        let nothing_to_do: [&[&str]; 6] = [&T1, &T2, &NO_ROWS, &T4, &nothing, &T6];
        sync(&[]);
        expect(&nothing_to_do, "the first one, which downloads the tables");
        sync(&[]);
        expect(&nothing_to_do, "nothing to do");
        sync(&["--ping"]);
        expect(&[&T1], "ping");
        sync(&["--download-only"]);
        expect(&[&T1, &T2, &["T3 commit"], &T4, &nothing, &T6], "download only");
        let remote = world.remote("ann");
        sql(&remote, "INSERT INTO item VALUES (1, 1), (2, 2); INSERT INTO line VALUES (1, 1)");
        sync(&["--upload-only"]);
        expect(&[&T1, &T2, &ROWS, &T6], "upload only");
        sql(&remote, "INSERT INTO item VALUES (3, 1), (4, 2); INSERT INTO line VALUES (3, 3)");
        sync(&[]);
        expect(&[&T1, &T2, &ROWS, &T4, &T5, &COMMIT, &T6], "full");
        sql(&remote, "DELETE FROM line WHERE id = 3");
        sync(&["--upload-only"]);
        expect(&[&T1, &T2, &DELETES, &T6], "deletes");
        let missing =
            |event: &&str| !seen.iter().any(|line| line.split(' ').nth(1) == Some(*event));
        let missing: Vec<_> = events_of_the_page().into_iter().filter(missing).collect();
        assert_eq!(missing, Vec::<&str>::new(), "of docs/reference/events.md");
        world.write_secret("ann.password", "wrong\n");
        let mut trace = Trace::of(&server);
        world.sync_fails("ann", &server, "E2101");
        assert_eq!(trace.lines(), REFUSED, "a failed T1");
        assert_converged(&world);
        assert_eq!(ended(&world, 0), 0);
    }
}

/// T5 fails: nothing is sent.
fn assert_nothing_is_left_of_a_failed_download(world: &World, server: &Server) {
    script(world, "v1", "end_download", "INSERT INTO audit\nSELECT 'x', n, 1 FROM gone");
    world.syncline.ok(&["deploy"]);
    world.center_sql("ALTER TABLE gone RENAME COLUMN n TO m; INSERT INTO item VALUES (6, 6)");
    let mut trace = Trace::of(server);
    let (failed, begun) = (ended(world, 0), audited(world, "begin_download"));
    world.sync_fails("ann", server, "E3006");
    assert!(server.log().contains("scripts/v1/end_download.sql:2:"), "{}", server.log());
    // Nobody waits for the end of what has failed.
    trace.await_end(world, failed + 1);
    let lines = trace.lines();
    let end = lines.iter().position(|line| line == "T5 rollback").unwrap();
    assert_eq!(lines[end + 1..], T6);
    assert_eq!((ended(world, 0), audited(world, "begin_download")), (failed + 1, begun));
    fs::remove_file(world.path("scripts/v1/end_download.sql")).unwrap();
    world.syncline.ok(&["deploy"]);
    world.center_sql("ALTER TABLE gone RENAME COLUMN m TO n");
    world.sync("ann", server);
    assert_converged(world);
}

#[test]
fn scripts_end_a_synchronization_that_fails() {
    for world in worlds() {
        let server = world.serve_with(&["--trace-events"], None);
        world.sync("ann", &server);
        // T3 fails.
        script(&world, "v1", "end_upload", "INSERT INTO audit\nSELECT 'x', n, 1 FROM gone");
        world.syncline.ok(&["deploy"]);
        world.center_sql("ALTER TABLE gone RENAME COLUMN n TO m");
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 1)");
        let mut trace = Trace::of(&server);
        world.sync_fails("ann", &server, "E3006");
        assert!(server.log().contains("scripts/v1/end_upload.sql:2:"), "{}", server.log());
        trace.await_end(&world, 1);
        let lines = trace.lines();
        assert_eq!(lines[..5], T2);
        let end = lines.iter().position(|line| line == "T3 rollback").unwrap();
        assert_eq!(lines[end + 1..], T6);
        assert_eq!((ended(&world, 0), world.center_count("SELECT count(*) FROM item")), (1, 0));
        fs::remove_file(world.path("scripts/v1/end_upload.sql")).unwrap();

        // T4 fails, and the upload is committed. The remote knows.
        script(
            &world,
            "v1",
            "prepare_for_download",
            "INSERT INTO audit\nSELECT 'x', m, 1 FROM gone",
        );
        world.syncline.ok(&["deploy"]);
        world.center_sql("ALTER TABLE gone RENAME COLUMN m TO n");
        world.sync_fails("ann", &server, "E3006");
        trace.await_end(&world, 2);
        assert_eq!((ended(&world, 0), world.center_count("SELECT count(*) FROM item")), (2, 1));
        fs::remove_file(world.path("scripts/v1/prepare_for_download.sql")).unwrap();
        world.syncline.ok(&["deploy"]);
        assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 0);

        assert_nothing_is_left_of_a_failed_download(&world, &server);

        // T6 fails: the download is not sent, and comes with the next one.
        world.center_sql("INSERT INTO item VALUES (7, 7)");
        script(
            &world,
            "v1",
            "end_synchronization",
            "INSERT INTO audit\nSELECT 'x', n, 1 FROM gone",
        );
        world.syncline.ok(&["deploy"]);
        world.center_sql("ALTER TABLE gone RENAME COLUMN n TO m");
        world.sync_fails("ann", &server, "E3006");
        fs::remove_file(world.path("scripts/v1/end_synchronization.sql")).unwrap();
        world.syncline.ok(&["deploy"]);
        world.sync("ann", &server);
        assert_converged(&world);
    }
}

// S10, S11: a remote that goes away is no reason for a script not to run.
#[test]
fn scripts_end_a_synchronization_whose_remote_is_gone() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 1)");
        let before = ended(&world, 0) + ended(&world, 1);
        for point in ["client-upload-sent", "client-upload-committed"] {
            let outcome = world.try_sync("ann", &server, Some(&format!("{point}=return")));
            assert_eq!(outcome.code, None, "{point}");
        }
        let begun = || {
            let begun = "SELECT count(*) FROM audit WHERE event = 'begin_publication'";
            world.center_count(begun)
        };
        harness::until("both have ended", || {
            std::thread::sleep(Duration::from_millis(20));
            ended(&world, 0) + ended(&world, 1) > before
                && begun() == ended(&world, 0) + ended(&world, 1)
        });
        world.sync("ann", &server);
        assert_eq!(begun(), ended(&world, 0) + ended(&world, 1));
        assert_converged(&world);
    }
}
