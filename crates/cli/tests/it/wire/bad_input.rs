//! Bad input and a bad environment are reported in one line with a code, and change nothing.
//!
//! One table: the case, the code, the command. Before and after each case both databases are read,
//! and must be equal.

#![allow(clippy::print_stdout, reason = "tells which case failed")]

use harness::{ForeignTool, Outcome, Server, World, count, query, sql, until};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, photo BLOB);
    CREATE TABLE purchase (id TEXT PRIMARY KEY NOT NULL, customer INTEGER REFERENCES customer);
    CREATE TABLE note (text TEXT);
    INSERT INTO customer VALUES (1, 'One', x'01'), (2, 'Two', NULL);
    INSERT INTO purchase VALUES ('a', 1); INSERT INTO note VALUES ('left out')";

/// What is done.
#[derive(Clone, Copy)]
enum Input {
    /// A command; `{url}` is the server's, `{ann}` the user, `{sync}` what synchronizes ann.
    Line(&'static str),
    /// A command after preparations, which are undone again.
    Staged(fn(&Bench) -> Outcome),
}
use Input::{Line, Staged};

/// A shop with a server, and the remote `ann.db`, where a change waits.
struct Bench {
    world: World,
    server: Server,
}

const SYNC: &str = "sync ann.db --server {url} {ann}";
const ANN: &str = "--user ann --password-file ann.password";

/// The answer to a command: exit code 1 and this code, or wrong usage.
const USAGE: &str = "";

const CASES: &[(&str, &str, Input)] = &[
    // The command line.
    ("no command", USAGE, Line("--log info")),
    ("an unknown command", USAGE, Line("synchronize ann.db")),
    ("an unknown option", USAGE, Line("sync ann.db --password secret")),
    ("parts that exclude each other", USAGE, Line("{sync} --ping --upload-only")),
    ("a name with control characters", USAGE, Line("sync ann.db --user a\u{7}")),
    // The addresses and what is behind them.
    ("a URL of another kind", "E6006", Line("sync ann.db --server ftp://x {ann}")),
    ("a URL without a host", "E6006", Line("sync ann.db --server tcp:// {ann}")),
    ("a URL with a port too large", "E6006", Line("sync ann.db --server tcp://a:70000 {ann}")),
    (
        "a name that does not resolve",
        "E1008",
        Line("sync ann.db --server tcp://name.invalid {ann}"),
    ),
    ("a port where nobody listens", "E1008", Line("sync ann.db --server tcp://127.0.0.1:1 {ann}")),
    ("a port that says nothing Syncline", "E1001", Staged(another_service)),
    ("a port that hangs up", "E1006", Staged(a_service_that_hangs_up)),
    ("a database URL of another kind", "E6006", Line("init new --consolidated mysql://x")),
    // Users, and what they ask for.
    ("a wrong password", "E2101", Staged(wrong_password)),
    (
        "an unknown user",
        "E2101",
        Line("sync bobs.db --server {url} --user bob --password-file ann.password"),
    ),
    (
        "an unknown script version",
        "E2103",
        Line("sync other.db --server {url} {ann} --script-version v9"),
    ),
    (
        "an unknown publication",
        "E2104",
        Line("sync another.db --server {url} {ann} --publication nothing"),
    ),
    ("another remote ID", "E5012", Line("{sync} --remote-id other")),
    ("a password file for everybody", "E2111", Staged(exposed_password)),
    ("a password file that is missing", "E2112", Line("sync ann.db --password-file missing")),
    ("no password", "E2112", Line("sync ann.db")),
    ("a token of another server", "E2102", Staged(wrong_token)),
    ("a user twice", "E6007", Line("user add ann --password-file ann.password")),
    ("a user who is not there", "E6008", Line("user remove bob")),
    // The remote file.
    ("a remote that is no database", "E5001", Line("sync ann.password --server {url} {ann}")),
    ("a remote that is a folder", "E5001", Line("sync folder --server {url} {ann}")),
    (
        "a remote in a folder that is not there",
        "E5001",
        Line("sync no/ann.db --server {url} {ann}"),
    ),
    ("a remote that was cut off", "E5001", Staged(truncated_remote)),
    ("a new remote without a server", "E5011", Line("sync new.db --password-file ann.password")),
    ("status of a consolidated database", "E5013", Line("remote status consolidated.db")),
    ("status of a file that is not there", "E5007", Line("remote status nothing.db")),
    ("reset while changes wait", "E5008", Line("remote reset ann.db")),
    ("a remote that another process locks", "E5003", Staged(locked_remote)),
    ("a remote that another process synchronizes", "E5002", Staged(remote_in_use)),
    ("a table that is another one here", "E5005", Staged(other_table_at_the_remote)),
    ("a disk that fills up at the remote", "E5004", Staged(full_disk_at_the_remote)),
    ("a first download that is larger than the disk", "E5004", Staged(more_than_the_disk_takes)),
    ("a limit on the size of the remote", "E5004", Staged(file_size_limit_at_the_remote)),
    // The consolidated database.
    (
        "a consolidated database that is not there",
        "E3001",
        Line("init new --consolidated sqlite:missing.db"),
    ),
    (
        "a consolidated database that is a folder",
        "E3001",
        Line("init new --consolidated sqlite:folder"),
    ),
    (
        "a consolidated database that is none",
        "E3010",
        Line("init new --consolidated sqlite:ann.password"),
    ),
    ("a consolidated database that another process locks", "E3002", Staged(locked_center)),
    ("deploy while another process locks", "E3002", Staged(locked_deploy)),
    ("a disk that fills up at the center", "E3007", Staged(full_disk_at_the_center)),
    ("a second server", "E3009", Line("serve --listen tcp://127.0.0.1:0")),
    ("a server of a database that is not deployed", "E3003", Staged(not_deployed)),
    ("users of a database that is not deployed", "E3003", Line("user list --dir fresh")),
    ("a server where another listens", "E4005", Staged(port_in_use)),
    (
        "a server on an address that is not ours",
        "E4005",
        Line("serve --dir fresh-deployed --listen tcp://192.0.2.1:1"),
    ),
    ("a server that speaks another protocol", "E6006", Line("serve --listen quic://127.0.0.1:0")),
    // Configuration and model.
    ("a folder without a configuration", "E6001", Line("deploy --dir folder")),
    ("a key that is not known", "E6002", Staged(unknown_key)),
    ("a number out of bounds", "E6002", Staged(number_out_of_bounds)),
    ("a configuration that is no TOML", "E6002", Staged(no_toml)),
    ("a key of the model that is not known", "E6002", Staged(unknown_model_key)),
    ("a model with a table that is not there", "E6003", Staged(unknown_table)),
    ("a model with a column that is not there", "E6003", Staged(unknown_column)),
    ("a publication of a table that is not there", "E6003", Staged(unknown_published_table)),
    (
        "init of a table that is not there",
        "E6003",
        Line("init new --consolidated sqlite:consolidated.db --table nothing"),
    ),
    (
        "init of a table without a primary key",
        "E6004",
        Line("init new --consolidated sqlite:consolidated.db --table note"),
    ),
    ("a model with a table without a primary key", "E6004", Staged(table_without_key)),
    ("init over files that exist", "E6005", Line("init . --consolidated sqlite:consolidated.db")),
    (
        "init below a file",
        "E6010",
        Line("init ann.password/new --consolidated sqlite:consolidated.db"),
    ),
    (
        "init where nobody may write",
        "E6010",
        Line("init /proc/new --consolidated sqlite:consolidated.db"),
    ),
    ("a demo in a folder of somebody else", "E6005", Line("demo --dir .")),
];

// S11, S4
#[test]
fn bad_input_is_told_with_its_number_and_changes_nothing() {
    let bench = Bench::new();
    let mut faults = Vec::new();
    for (name, code, input) in CASES {
        let before = bench.dump();
        let outcome = match input {
            Line(line) => bench.run(line),
            Staged(stage) => stage(&bench),
        };
        println!("{name}: {}", outcome.stderr);
        let mut fault = |what: &str| faults.push(format!("{name}: {what}: {outcome:?}"));
        told_wrongly(&outcome, code).into_iter().for_each(&mut fault);
        let after = bench.dump();
        if after != before {
            let changed = after.iter().filter(|row| !before.contains(row));
            fault(&format!("changes {:?}", changed.collect::<Vec<_>>()));
        }
        let left = ["new", "new.db", "no"].map(|file| bench.world.path(file));
        left.iter().filter(|file| file.exists()).for_each(|_| fault("leaves a file behind"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Afterwards the pending change arrives, and both databases agree.
    let Bench { world, server } = bench;
    assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 1);
    assert_eq!(count(&world.consolidated(), "SELECT count(*) FROM purchase WHERE id = 'w'"), 1);
    let published = ["customer".to_owned(), "purchase".to_owned()];
    let lines = harness::differences(&world.consolidated(), &world.remote("ann"), &published);
    assert!(lines.is_empty(), "{lines:?}");
}

/// What is wrong with how a failure is reported.
fn told_wrongly(outcome: &Outcome, code: &str) -> Vec<&'static str> {
    let exit = if code.is_empty() { 2 } else { 1 };
    let mut faults = Vec::new();
    if outcome.code != Some(exit) {
        faults.push("another exit code");
    }
    if outcome.stderr.contains("panicked") || outcome.stderr.contains('\u{1b}') {
        faults.push("not fit for a terminal");
    }
    if code.is_empty() {
        if !outcome.stderr.contains("--help") {
            faults.push("no way out");
        }
        return faults;
    }
    let log = |line: &&str| {
        line.contains(" INFO ") || line.contains(" WARN ") || line.starts_with("warning: ")
    };
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !log(line)).collect();
    let error = format!("error {code}: ");
    match lines.as_slice() {
        [first, second]
            if first.len() > error.len() + 10
                && first.starts_with(&error)
                && second.starts_with("hint: ") => {}
        _ => faults.push("not one error and one hint"),
    }
    faults
}

impl Bench {
    fn new() -> Bench {
        let world = World::new(PROGRAM, SHOP);
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO purchase VALUES ('w', 2)");
        fs::create_dir(world.path("folder")).unwrap();
        for folder in ["fresh", "fresh-deployed"] {
            let database = format!("{folder}.db");
            sql(&world.path(&database), SHOP);
            let url = format!("sqlite:{database}");
            world.syncline.ok(&["init", folder, "--consolidated", &url]);
        }
        world.syncline.ok(&["deploy", "--dir", "fresh-deployed"]);
        Bench { world, server }
    }

    fn arguments(&self, line: &str) -> Vec<String> {
        let line =
            line.replace("{sync}", SYNC).replace("{ann}", ANN).replace("{url}", &self.server.url);
        line.split(' ').map(str::to_owned).collect()
    }

    fn run(&self, line: &str) -> Outcome {
        self.world.syncline.run(&self.arguments(line))
    }

    /// Everything that must not change: both databases with all their tables, and what waits.
    /// What both ends note about attempts is left out; taking notes is no change.
    fn dump(&self) -> Vec<Vec<String>> {
        let mut rows = dump(&self.world.consolidated(), &NOTED);
        let attempts = ["syncline_state", "syncline_generation", "syncline_change_purchase"];
        rows.extend(dump(&self.world.remote("ann"), &attempts));
        let waiting = self.world.syncline.ok(&["remote", "pending", "ann.db", "--json"]);
        rows.push(vec![waiting]);
        rows
    }

    /// Runs with the folder `stage` as configuration, whose files are given.
    fn with_files(&self, config: &str, model: &str, line: &str) -> Outcome {
        let stage = self.world.path("stage");
        fs::create_dir_all(&stage).unwrap();
        let url = format!("sqlite:{}", self.world.path("fresh.db").display());
        let config = config.replace("{database}", &format!("consolidated = \"{url}\""));
        fs::write(stage.join("syncline.toml"), config).unwrap();
        fs::write(stage.join("model.toml"), model).unwrap();
        let before = dump(&self.world.path("fresh.db"), &[]);
        let outcome = self.run(line);
        assert_eq!(dump(&self.world.path("fresh.db"), &[]), before);
        outcome
    }
}

/// What the center notes of attempts.
const NOTED: [&str; 2] = ["syncline_remote", "syncline_synchronization"];

/// The schema and every row, SQLite's and Syncline's own tables included.
fn dump(path: &Path, but: &[&str]) -> Vec<Vec<String>> {
    let mut rows = query(path, "SELECT type, name, sql FROM sqlite_schema ORDER BY name");
    let all = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    for name in query(path, all).concat() {
        let name = name.trim_matches('\'');
        if !but.contains(&name) {
            rows.extend(query(path, &format!("SELECT '{name}', * FROM \"{name}\"")));
        }
    }
    rows
}

// === the stages ===

/// Answers the first connection and goes.
fn service(answer: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || answer(listener.accept().unwrap().0));
    format!("tcp://{address}")
}

fn sync_with(bench: &Bench, url: &str) -> Outcome {
    bench.run(&SYNC.replace("{url}", url))
}

fn another_service(bench: &Bench) -> Outcome {
    let url = service(|mut peer| {
        let _ = peer.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = peer.read_to_end(&mut Vec::new());
    });
    sync_with(bench, &url)
}

fn a_service_that_hangs_up(bench: &Bench) -> Outcome {
    let url = service(|mut peer| {
        let _ = peer.read(&mut [0; 1000]);
    });
    sync_with(bench, &url)
}

fn wrong_password(bench: &Bench) -> Outcome {
    bench.world.write_secret("wrong.password", "wrong\n");
    bench.run("sync ann.db --server {url} --user ann --password-file wrong.password")
}

fn exposed_password(bench: &Bench) -> Outcome {
    bench.world.write_secret("shown.password", "ann-password\n");
    let path = bench.world.path("shown.password");
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    bench.run("sync ann.db --server {url} --user ann --password-file shown.password")
}

fn wrong_token(bench: &Bench) -> Outcome {
    bench.world.write_secret("ann.token", "abc.def\n");
    bench.run("sync ann.db --server {url} --user ann --token-file ann.token")
}

fn truncated_remote(bench: &Bench) -> Outcome {
    let bytes = fs::read(bench.world.remote("ann")).unwrap();
    fs::write(bench.world.path("cut.db"), &bytes[..bytes.len() / 2]).unwrap();
    bench.run("sync cut.db --server {url} {ann}")
}

/// Another process that holds a lock until it is killed.
struct Locker(Child);

impl Locker {
    fn new(path: &Path, begin: &str) -> Locker {
        let mut child = Command::new("sqlite3")
            .args(["-batch", "-bail"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!(".timeout 10000\n{begin};\nSELECT 'locked';\n");
        child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        let mut answer = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        Locker(child)
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn locked_remote(bench: &Bench) -> Outcome {
    let _locker = Locker::new(&bench.world.remote("ann"), "BEGIN IMMEDIATE");
    bench.run("{sync}")
}

fn locked_center(bench: &Bench) -> Outcome {
    let _locker = Locker::new(&bench.world.consolidated(), "BEGIN EXCLUSIVE");
    bench.run("{sync}")
}

fn locked_deploy(bench: &Bench) -> Outcome {
    let _locker = Locker::new(&bench.world.path("fresh.db"), "BEGIN IMMEDIATE");
    bench.run("deploy --dir fresh")
}

fn remote_in_use(bench: &Bench) -> Outcome {
    let (arrived, arrives) = std::sync::mpsc::sync_channel(1);
    let url = service(move |mut peer| {
        let _ = peer.read(&mut [0; 1]);
        let _ = arrived.send(());
        let _ = peer.read_to_end(&mut Vec::new());
    });
    let first = bench.arguments(&SYNC.replace("{url}", &url));
    let mut first = bench.world.syncline.command(&first).spawn().unwrap();
    arrives.recv_timeout(Duration::from_secs(20)).unwrap();
    let outcome = bench.run("{sync}");
    first.kill().unwrap();
    first.wait().unwrap();
    outcome
}

fn other_table_at_the_remote(bench: &Bench) -> Outcome {
    let path = bench.world.path("differs.db");
    sql(&path, "CREATE TABLE customer (id INTEGER PRIMARY KEY, surname TEXT)");
    let before = query(&path, "SELECT sql FROM sqlite_schema WHERE name = 'customer'");
    let outcome = bench.run("sync differs.db --server {url} {ann}");
    assert_eq!(query(&path, "SELECT sql FROM sqlite_schema WHERE name = 'customer'"), before);
    outcome
}

fn not_deployed(bench: &Bench) -> Outcome {
    bench.run("serve --dir fresh --listen tcp://127.0.0.1:0")
}

fn port_in_use(bench: &Bench) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    bench.run(&format!("serve --dir fresh-deployed --listen tcp://{address}"))
}

const MODEL: &str = "script_version = \"v1\"\n[table.customer]\n";

fn unknown_key(bench: &Bench) -> Outcome {
    let config = "{database}\n\n[server]\nidle_timeout = 3\n";
    let outcome = bench.with_files(config, MODEL, "deploy --dir stage");
    assert!(outcome.stderr.contains("syncline.toml:4: "), "{outcome:?}");
    assert!(outcome.stderr.contains("did you mean `idle_timeout_s`?"), "{outcome:?}");
    outcome
}

fn number_out_of_bounds(bench: &Bench) -> Outcome {
    let config = "{database}\n[server]\nsessions_max = -1\n";
    let outcome = bench.with_files(config, MODEL, "serve --dir stage");
    assert!(outcome.stderr.contains("syncline.toml:3: `sessions_max` must be"), "{outcome:?}");
    outcome
}

fn no_toml(bench: &Bench) -> Outcome {
    bench.with_files("{database}\n\0\u{1b}[2J", MODEL, "deploy --dir stage")
}

fn unknown_model_key(bench: &Bench) -> Outcome {
    let model = format!("{MODEL}colums = [\"id\"]\n");
    let outcome = bench.with_files("{database}\n", &model, "deploy --dir stage");
    assert!(outcome.stderr.contains("line 3: unknown field `colums`"), "{outcome:?}");
    outcome
}

fn unknown_table(bench: &Bench) -> Outcome {
    let outcome = bench.with_files(
        "{database}\n",
        &format!("{MODEL}[table.custommer]\n"),
        "deploy --dir stage",
    );
    assert!(outcome.stderr.contains("custommer"), "{outcome:?}");
    outcome
}

fn unknown_column(bench: &Bench) -> Outcome {
    let model = format!("{MODEL}columns = [\"id\", \"nam\"]\n");
    bench.with_files("{database}\n", &model, "deploy --dir stage")
}

fn unknown_published_table(bench: &Bench) -> Outcome {
    let model = format!("{MODEL}[publication.all]\ntables = [\"customer\", \"nothing\"]\n");
    bench.with_files("{database}\n", &model, "deploy --dir stage")
}

fn table_without_key(bench: &Bench) -> Outcome {
    bench.with_files("{database}\n", &format!("{MODEL}[table.note]\n"), "deploy --dir stage")
}

// === disks that are full ===

/// A small disk of its own, mounted where only the commands run through it see it.
struct SmallDisk {
    /// Keeps the mount, which ends with it.
    keeper: Child,
}

impl SmallDisk {
    /// None where this test may not mount.
    fn new(folder: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(folder).unwrap();
        let script = "mount -t tmpfs -o size=1m tmpfs \"$0\" && echo mounted && exec sleep 600";
        let mut keeper = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut answer = String::new();
        let mut stdout = std::io::BufReader::new(keeper.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut answer).unwrap();
        let disk = SmallDisk { keeper };
        (answer == "mounted\n").then_some(disk)
    }

    /// A command that sees the disk.
    fn command(&self, folder: &Path, program: &str, arguments: &[String]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", &format!("--target={}", self.keeper.id())])
            // Not --wd, which is the folder below the mount.
            .args(["--", "sh", "-c", "cd \"$0\" && exec \"$@\""])
            .arg(folder)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, folder: &Path, program: &str, arguments: &[&str]) -> Outcome {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        let output = self.command(folder, program, &arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Outcome { code: output.status.code(), stdout, stderr }
    }

    fn ok(&self, folder: &Path, program: &str, arguments: &[&str]) {
        let outcome = self.run(folder, program, arguments);
        assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {outcome:?}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

const PUBLISHED: &str = "SELECT id, name, hex(photo), NULL FROM customer
    UNION ALL SELECT id, customer, NULL, NULL FROM purchase ORDER BY 1";

/// A world of its own with rows at the center that do not fit onto a small disk.
fn world_with_large_rows() -> (World, Server) {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    sql(&world.remote("ann"), "INSERT INTO purchase VALUES ('small', 1)");
    let large = "INSERT INTO customer SELECT value, 'large', randomblob(400000)
        FROM json_each('[10,11,12,13,14]'); UPDATE customer SET name = 'new' WHERE id = 1";
    sql(&world.consolidated(), large);
    (world, server)
}

/// After a failure that room is made for: nothing was changed, and the next time succeeds.
fn assert_survived(world: &World, server: &Server, before: &[Vec<String>]) {
    assert_eq!(query(&world.remote("ann"), PUBLISHED), before);
    world.sync("ann", server);
    world.sync("ann", server);
    let (here, there) = (world.remote("ann"), world.consolidated());
    assert_eq!(query(&here, PUBLISHED), query(&there, PUBLISHED));
    assert_eq!(count(&there, "SELECT count(*) FROM purchase WHERE id = 'small'"), 1);
}

fn full_disk_at_the_remote(bench: &Bench) -> Outcome {
    let (world, server) = world_with_large_rows();
    let disk = world.path("disk");
    let Some(small) = SmallDisk::new(&disk) else {
        println!("no right to mount: only the limit on the file's size is tried");
        return file_size_limit_at_the_remote(bench);
    };
    let file = world.remote("ann").display().to_string();
    let before = query(&world.remote("ann"), PUBLISHED);
    small.ok(&disk, "cp", &[&file, "ann.db"]);
    let password = world.path("ann.password").display().to_string();
    let sync = ["sync", "ann.db", "--server", &server.url, "--user", "ann", "--password-file"];
    let outcome = small.run(&disk, PROGRAM, &[&sync[..], &[&password]].concat());
    // Out of the disk with it, together with whatever lies beside the file.
    small.ok(&disk, "sh", &["-c", "cp ann.db* .."]);
    assert_survived(&world, &server, &before);
    outcome
}

/// It is said before the rows are written, and the next time succeeds.
fn more_than_the_disk_takes(bench: &Bench) -> Outcome {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    let server = world.serve();
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
        INSERT INTO purchase SELECT printf('%0200d', i), 1 FROM n";
    sql(&world.consolidated(), many);
    let disk = world.path("disk");
    let Some(small) = SmallDisk::new(&disk) else {
        println!("no right to mount: only the limit on the file's size is tried");
        return file_size_limit_at_the_remote(bench);
    };
    let password = world.path("ann.password").display().to_string();
    let sync = ["sync", "ann.db", "--server", &server.url, "--user", "ann", "--password-file"];
    let outcome = small.run(&disk, PROGRAM, &[&sync[..], &[&password]].concat());
    let numbers = "2.4 MB of rows have come, and 0.";
    assert!(outcome.stderr.contains(numbers), "{outcome:?}");
    world.sync("ann", &server);
    let (here, there) = (world.remote("ann"), world.consolidated());
    assert_eq!(query(&here, PUBLISHED), query(&there, PUBLISHED));
    outcome
}

fn file_size_limit_at_the_remote(_: &Bench) -> Outcome {
    let (world, server) = world_with_large_rows();
    let before = query(&world.remote("ann"), PUBLISHED);
    let arguments = world.sync_arguments("ann", &server);
    // The limit counts blocks of 512 or 1024 bytes; the signal would kill, the error is reported.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"", PROGRAM])
        .args(arguments)
        .current_dir(world.path("."))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    assert_survived(&world, &server, &before);
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Outcome { code: output.status.code(), stdout, stderr }
}

/// The consolidated database on a disk that the upload fills. Where this test may not mount, a
/// server whose files may not grow.
fn full_disk_at_the_center(_: &Bench) -> Outcome {
    let (world, server) = world_with_large_rows();
    server.stop();
    ForeignTool::Shell.sql(&world.consolidated(), "DELETE FROM customer WHERE id > 2; VACUUM;");
    let large = "INSERT INTO customer SELECT value, 'large', randomblob(400000)
        FROM json_each('[20,21,22,23,24]')";
    sql(&world.remote("ann"), large);
    let before = dump(&world.consolidated(), &NOTED);
    let limit = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" serve --listen tcp://127.0.0.1:0";
    let mut limited = Command::new("sh");
    limited.args(["-c", limit, PROGRAM]).current_dir(world.path("."));
    let disk = world.path("disk");
    let small = SmallDisk::new(&disk);
    let mut command = match &small {
        None => limited,
        Some(small) => {
            let copy = "cp ../consolidated.db* ../model.toml . &&
                sed 's|/consolidated.db|/disk/consolidated.db|' ../syncline.toml > syncline.toml";
            small.ok(&disk, "sh", &["-c", copy]);
            let serve = ["serve", "--listen", "tcp://127.0.0.1:0"].map(str::to_owned);
            small.command(&disk, PROGRAM, &serve)
        }
    };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let url = line.trim_end().trim_start_matches("listening on ").to_owned();
    let password = ["--user", "ann", "--password-file", "ann.password"];
    let outcome =
        world.syncline.run(&[&["sync", "ann.db", "--server", &url][..], &password].concat());
    child.kill().unwrap();
    child.wait().unwrap();
    if let Some(small) = &small {
        small.ok(&disk, "sh", &["-c", "rm -f ../consolidated.db*; cp consolidated.db* .."]);
    }
    let after = dump(&world.consolidated(), &NOTED);
    // A server that finds the file in another place takes it for a copy, and notes its start.
    let uploaded = |mut rows: Vec<Vec<String>>| {
        rows.retain(|row| row[0] != "'syncline_remote'" && row[0] != "'syncline_system'");
        rows
    };
    let (after, before) = (uploaded(after), uploaded(before));
    assert_eq!(after, before, "nothing of the upload is left at the center");
    let again = world.serve();
    world.sync("ann", &again);
    assert_eq!(count(&world.consolidated(), "SELECT count(*) FROM customer"), 7);
    outcome
}

// === rubbish on the port ===

/// What a real client sends first: all bytes up to the first pause.
fn recorded_hello(world: &World) -> Vec<u8> {
    let (sent, hello) = std::sync::mpsc::sync_channel(1);
    let url = service(move |mut peer| {
        peer.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = peer.read(&mut buffer) {
            bytes.extend(&buffer[..count]);
        }
        sent.send(bytes).unwrap();
    });
    let given = ["sync", "ann.db", "--server", &url, "--user", "ann", "--password-file"];
    world.syncline.fails("E1006", &[&given[..], &["ann.password"]].concat());
    hello.recv().unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let peer = TcpStream::connect(server.url.strip_prefix("tcp://").unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    peer
}

/// Says this and nothing more, and waits until the server has hung up.
fn say(server: &Server, bytes: &[u8], close: bool) -> Vec<u8> {
    let mut peer = connect(server);
    // The server may hang up while it is still being talked to.
    let _ = peer.write_all(bytes);
    if close {
        let _ = peer.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    if let Err(error) = peer.read_to_end(&mut answer) {
        let reset = error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(reset, "the server neither answers nor hangs up: {error}");
    }
    answer
}

// S9, S11: whatever comes in on the port, the server hangs up in time and goes on serving.
#[test]
fn rubbish_on_the_port_disturbs_nobody() {
    let world = World::new(PROGRAM, SHOP);
    let config = world.path("syncline.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "hello_timeout_s = 1\nidle_timeout_s = 2\n").unwrap();
    for name in ["ann", "ben"] {
        world.add_user(name);
    }
    let server = world.serve();
    world.sync("ann", &server);
    let hello = recorded_hello(&world);
    world.sync("ann", &server);
    let rows = || query(&world.consolidated(), PUBLISHED);
    let before = rows();
    // Half a Hello, and then silence until the server has had enough.
    let silent: Vec<TcpStream> = [0, 1, hello.len() / 2]
        .map(|end| {
            let mut peer = connect(&server);
            peer.write_all(&hello[..end]).unwrap();
            peer
        })
        .into();
    let magic = &hello[..8];
    let huge = [magic, &[0xff; 64]].concat();
    let zeros = [magic, &[0; 4096]].concat();
    let endless = vec![b'x'; 1 << 20];
    let get: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let tls: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [b"".as_slice(), b"\n", get, tls, &endless, magic, &huge, &zeros] {
        say(&server, bytes, true);
        say(&server, bytes, false);
    }
    for end in (1..hello.len()).step_by(7) {
        say(&server, &hello[..end], true);
    }
    for position in 0..hello.len() {
        let mut bent = hello.clone();
        bent[position] ^= 1 << (position % 8);
        say(&server, &bent, true);
    }
    // A whole Hello and then silence: answered, and given up in time.
    assert!(!say(&server, &hello, false).is_empty());
    for mut peer in silent {
        let _ = peer.read_to_end(&mut Vec::new());
    }
    assert_eq!(rows(), before);
    until("a synchronization", || world.try_sync("ben", &server, None).code == Some(0));
    until("the predecessors to be given up", || {
        world.try_sync("ann", &server, None).code == Some(0)
    });
    let published = ["customer".to_owned(), "purchase".to_owned()];
    for name in ["ann", "ben"] {
        let lines = harness::differences(&world.consolidated(), &world.remote(name), &published);
        assert!(lines.is_empty(), "{lines:?}");
    }
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("E9001"), "{log}");
    server.stop();
}
