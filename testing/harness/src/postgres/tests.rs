//! What the tests rely on when they use a cluster.

use super::*;

#[test]
fn every_test_has_a_database_of_its_own() {
    let (one, two) = (Cluster::shared().database(), Cluster::shared().database());
    one.sql("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, E'a\\nb'), (2, NULL)");
    assert_eq!(one.query("SELECT * FROM t ORDER BY id"), [["1", "a\nb"], ["2", "NULL"]]);
    assert_eq!(one.count("SELECT count(*) FROM t"), 2);
    assert!(one.query("SELECT 1 WHERE false").is_empty());
    assert_ne!(two.try_sql("SELECT * FROM t").code, Some(0));
    assert!(one.try_sql("CREATE ROLE other").stderr.contains("permission denied"));
    assert_eq!(one.as_role(SUPERUSER).text("SELECT current_user"), "postgres\n");
}

#[test]
fn over_tcp_a_password_is_needed_and_a_wrong_one_is_refused() {
    let database = Cluster::shared().database();
    let answer = |url: &str| {
        let mut psql = client_command("psql");
        psql.args(["-X", "-A", "-t", "-w", "-c", "SELECT 1", url]);
        psql.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(psql.spawn().unwrap())
    };
    assert_eq!(answer(&database.tcp_url(APP_PASSWORD)).stdout, "1\n");
    assert!(answer(&database.tcp_url("wrong")).stderr.contains("password authentication failed"));
    assert!(answer(&database.tcp_url("")).stderr.contains("no password supplied"));
    let root = Cluster::shared().root_certificate();
    let verified = format!("?sslmode=verify-full&sslrootcert={}", root.display());
    let url = database.tcp_url(APP_PASSWORD).replace("127.0.0.1", "localhost") + &verified;
    assert_eq!(answer(&url).stdout, "1\n", "{:?}", answer(&url));
}

#[test]
fn a_killed_cluster_starts_again_with_what_was_committed() {
    let cluster = Cluster::start();
    let database = cluster.database();
    database.sql("CREATE TABLE t (id int); INSERT INTO t VALUES (1)");
    let mut open = database.session();
    open.sql("BEGIN; INSERT INTO t VALUES (2)");
    cluster.kill();
    assert_ne!(database.try_sql("SELECT 1").code, Some(0));
    cluster.restart();
    assert_eq!(database.count("SELECT count(*) FROM t"), 1);
    cluster.stop();
    cluster.restart();
    assert_eq!(database.count("SELECT count(*) FROM t"), 1);
    let folder = cluster.socket_folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
}

#[test]
fn a_standby_follows_and_is_promoted() {
    let primary = Cluster::start();
    let database = primary.database();
    database.sql("CREATE TABLE t (id int)");
    let standby = primary.standby();
    database.sql("INSERT INTO t VALUES (1)");
    standby.wait_until_replayed(&primary);
    let copy = standby.database_named(&database.name);
    assert_eq!(copy.count("SELECT count(*) FROM t"), 1);
    assert!(copy.try_sql("INSERT INTO t VALUES (2)").stderr.contains("read-only"));
    primary.kill();
    standby.promote();
    copy.sql("INSERT INTO t VALUES (2)");
    assert_eq!(copy.count("SELECT count(*) FROM t"), 2);
}

// A cluster ends with the program that started it, even where that is killed.
#[test]
fn a_killed_program_leaves_nothing_behind() {
    const VARIABLE: &str = "SYNCLINE_TEST_HOLDS_A_CLUSTER";
    if let Some(answer) = std::env::var_os(VARIABLE) {
        // This is the program that gets killed.
        let cluster = Cluster::start();
        let unfinished = Path::new(&answer).with_extension("part");
        fs::write(&unfinished, cluster.socket_folder().to_str().unwrap()).unwrap();
        fs::rename(&unfinished, answer).unwrap();
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let answer = folder.path().join("answer");
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "postgres::tests::a_killed_program_leaves_nothing_behind"])
        .env(VARIABLE, &answer)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the cluster of the other program", || answer.exists());
    let cluster = PathBuf::from(fs::read_to_string(&answer).unwrap());
    let pid_file = fs::read_to_string(cluster.join("data/postmaster.pid")).unwrap();
    let server = PathBuf::from(format!("/proc/{}", pid_file.lines().next().unwrap()));
    assert!(server.exists());
    program.kill().unwrap();
    program.wait().unwrap();
    let is_running = || fs::read(server.join("cmdline")).is_ok_and(|line| !line.is_empty());
    until("the end of the cluster", || !cluster.exists() && !is_running());
}

#[test]
fn the_oracle_sees_every_difference_from_a_remote() {
    let database = Cluster::shared().database();
    database.sql(
        "CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN short AS int;
         CREATE TABLE t (id bigint PRIMARY KEY, flag bool, ratio float8, price numeric(10, 2),
             exact numeric, word char(3), raw bytea, at timestamp, zoned timestamptz,
             day date, span interval, mood mood, short short);
         INSERT INTO t VALUES
             (1, true, 0.1, 5.00, 1.50, 'a', '\\xff', '2024-02-29 08:30:00.5',
              '2024-01-01 00:00+02',
              '0044-03-15 BC', '1 day 2 hours', 'ok', 7),
             (2, false, 'NaN', 0.99, 'NaN', NULL, '', 'infinity', '0044-03-15 00:00:00+00 BC',
              NULL, NULL, NULL, NULL)",
    );
    let folder = tempfile::tempdir().unwrap();
    let remote = folder.path().join("remote.db");
    crate::sql(
        &remote,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, flag INTEGER, ratio REAL, price NUMERIC,
             exact TEXT, word TEXT, raw BLOB, at TEXT, zoned TEXT, day TEXT, span TEXT, mood TEXT,
             short TEXT);
         INSERT INTO t VALUES
             (1, 1, 0.1, 5, '1.50', 'a', x'ff', '2024-02-29 08:30:00.5',
              '2023-12-31 22:00:00', '0044-03-15 BC', 'P1DT2H', 'ok', '7'),
             (2, 0, 'NaN', 0.99, 'NaN', NULL, x'', 'infinity', '0044-03-15 00:00:00 BC',
              NULL, NULL, NULL, NULL)",
    );
    assert_eq!(database.tables(), ["t"]);
    let center = crate::Center::Postgres(database.clone());
    let check = |shares: &[crate::Share]| crate::differences_in(&center, &remote, shares);
    assert_eq!(check(&[crate::Share::whole("t")]), Vec::<String>::new());
    assert_eq!(check(&[crate::Share::of("t", "t.id = 1")]).len(), 1);
    database.sql("UPDATE t SET price = 5.01 WHERE id = 1");
    assert_eq!(check(&[crate::Share::whole("t")]).len(), 2);
}

#[test]
fn a_database_is_dropped_some_time_after_its_test() {
    let cluster = Cluster::start();
    let names = "SELECT datname FROM pg_database WHERE datname LIKE 'test%' ORDER BY datname";
    let held = std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            let database = cluster.database();
            cluster.database();
            cluster.database().sql("BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'never ends'");
            database
        });
        test.join().unwrap()
    });
    let next = cluster.database();
    let query = || next.query(names).concat();
    assert_eq!(query(), ["test1", "test3", "test4"]);
    drop(held);
    cluster.database();
    assert_eq!(query(), ["test3", "test4", "test5"]);
}
