//! `sync --watch` of a user whom the server refuses for a while.

use harness::{Server, World, sql, until};
use std::fs::{self, File};
use std::process::Child;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// A remote that is watched. What the program says is in a file.
struct Watched {
    world: World,
    watch: Child,
    rows: i64,
}

impl Watched {
    /// Once it has synchronized for the first time.
    fn with(world: World, server: &Server, secrets: &[&str]) -> Watched {
        let remote = ["--server", &server.url, "--user", "ann"];
        let watched = Watched::started(world, &[&remote[..], secrets].concat());
        watched.until_synchronized();
        watched
    }

    fn started(world: World, options: &[&str]) -> Watched {
        let mut command =
            world.syncline.command(&[&["sync", "ann.db", "--watch"], options].concat());
        command.stdout(File::create(world.path("watch.out")).unwrap());
        command.stderr(File::create(world.path("watch.log")).unwrap());
        Watched { watch: command.spawn().unwrap(), world, rows: 0 }
    }

    fn until_synchronized(&self) {
        until("the first synchronization", || {
            fs::read_to_string(self.world.path("watch.out")).unwrap().contains("synchronized")
        });
    }

    /// How often it has said this.
    fn said(&self, text: &str) -> usize {
        fs::read_to_string(self.world.path("watch.log")).unwrap().matches(text).count()
    }

    /// After these commands it says that it waits, and after `let_in` the rows arrive.
    fn is_refused_and_goes_on(&mut self, code: &str, refuse: &[&str], let_in: impl Fn(&World)) {
        self.world.syncline.ok(refuse);
        self.rows += 1;
        let rows = self.rows;
        sql(&self.world.remote("ann"), &format!("INSERT INTO note VALUES ({rows}, 'new')"));
        let waits = format!("error {code}: ");
        until("that it waits", || self.said(&waits) == 1);
        assert_eq!(self.said("; waiting until the server accepts the user, and"), rows as usize);
        let_in(&self.world);
        until("the upload", || self.world.center_count("SELECT count(*) FROM note") == rows);
        let goes_on = "the server accepts user ann again; going on\n";
        until("that it goes on", || self.said(goes_on) == rows as usize);
        assert_eq!(self.said(&waits), 1, "told once, however often it was tried");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.kill().unwrap();
        self.watch.wait().unwrap();
    }
}

fn notes() -> World {
    let world = World::new(PROGRAM, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)");
    world.add_user("ann");
    world.write_secret("next.password", "close sesame\n");
    world
}

/// It ended with E2101, and whoever unlocked the user had to start it again at each remote.
#[test]
fn a_watch_waits_for_a_locked_user_and_for_a_changed_password() {
    let world = notes();
    let server = world.serve();
    let mut watched = Watched::with(world, &server, &["--password-file", "ann.password"]);
    watched.is_refused_and_goes_on("E2101", &["user", "lock", "ann"], |world| {
        world.syncline.ok(&["user", "unlock", "ann"]);
    });
    let expire = ["user", "set", "ann", "--password-expires", "now"];
    watched.is_refused_and_goes_on("E6032", &expire, |world| {
        world.syncline.ok(&["user", "set", "ann", "--password-expires", "never"]);
    });
}

/// It ended with E2102, although somebody was about to write another token.
#[test]
fn a_watch_reads_the_token_and_the_password_again_that_were_replaced() {
    let world = notes();
    let server = world.serve();
    let first = ["sync", "first.db", "--server", &server.url, "--user", "ann", "--token-file"];
    let fetch = |world: &World, token: &str, password: &str| {
        let secrets = [token, "--password-file", password];
        world.syncline.ok(&[&first[..], &secrets].concat());
    };
    fetch(&world, "ann.token", "ann.password");
    let mut watched = Watched::with(world, &server, &["--token-file", "ann.token"]);
    let change = ["user", "password", "ann", "--password-file", "next.password"];
    watched.is_refused_and_goes_on("E2102", &change, |world| {
        fs::remove_file(world.path("ann.token")).unwrap();
        fetch(world, "ann.token", "next.password");
    });
    drop(watched);

    let world = notes();
    let server = world.serve();
    let mut watched = Watched::with(world, &server, &["--password-file", "ann.password"]);
    watched.is_refused_and_goes_on("E2101", &change, |world| {
        world.write_secret("ann.password", "close sesame\n");
    });
}

/// A new password is told once, and its file may be gone by the time that others are read again.
#[test]
fn a_watch_that_has_changed_the_password_waits_too() {
    let world = notes();
    let server = world.serve();
    let secrets = ["--password-file", "ann.password", "--new-password-file", "next.password"];
    let mut watched = Watched::with(world, &server, &secrets);
    let path = |name: &str| watched.world.path(name);
    fs::rename(path("next.password"), path("ann.password")).unwrap();
    watched.is_refused_and_goes_on("E2101", &["user", "lock", "ann"], |world| {
        world.syncline.ok(&["user", "unlock", "ann"]);
    });
}

/// It ended at once, as after a restart of the machine, and nobody started it again.
#[test]
fn a_watch_that_starts_while_the_user_is_locked_waits_too() {
    let world = notes();
    let server = world.serve();
    world.sync("ann", &server);
    world.syncline.ok(&["user", "lock", "ann"]);
    let watched = Watched::started(world, &["--password-file", "ann.password"]);
    let waits = "error E2101: unknown user or wrong password; waiting until the server accepts";
    until("that it waits", || watched.said(waits) == 1);
    watched.world.syncline.ok(&["user", "unlock", "ann"]);
    watched.until_synchronized();
    assert_eq!(watched.said("the server accepts user ann again; going on\n"), 1);
}

#[test]
fn a_wrong_password_at_the_start_ends_a_watch() {
    let world = notes();
    let server = world.serve();
    world.write_secret("ann.password", "mistyped\n");
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.push("--watch".to_owned());
    world.syncline.fails("E2101", &arguments);
}
