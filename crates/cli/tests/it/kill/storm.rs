//! All remotes write and synchronize at once while clients and server are killed at random.

use super::owner::Owner;
use super::shop::{REMOTES, Site, assert_nothing_lost_or_doubled};
use super::{CLIENT_POINTS, LARGE, SERVER_POINTS};
use super::{assert_passing, sync, sync_arguments, was_killed};
use harness::{Chance, World, full, until};
use std::io::Read;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// So many times longer is a storm where longer runs are wanted.
const LONGER: u64 = 80;

/// How often the tables change in a storm. A center keeps 32 shapes of a table.
const CHANGES_OF_TABLES: u64 = 12;

/// Longest life of a client, and of a server, before it is killed.
const CLIENT_LIFE_MS_MAX: u64 = 150;
const SERVER_LIFE_MS_MAX: u64 = 1200;

/// A writer's pause between two transactions: time for others, not for correctness.
const WRITER_PAUSE_MS_MAX: u64 = 60;

struct Storm<'a> {
    world: &'a World,
    /// Where the server listens now.
    url: Mutex<String>,
    kills: AtomicU64,
    kills_wanted: u64,
    /// A thread panicked. The others must end too.
    broken: AtomicBool,
}

/// Blows over this shop, with so many kills of clients and servers.
pub(crate) fn run(world: &World, kills: u64) {
    let mut chance = Chance::from_environment();
    let server = world.serve();
    for name in REMOTES {
        sync(world, name, &server);
    }
    let identities = identities(world);
    server.stop();
    let storm = Storm {
        world,
        url: Mutex::default(),
        kills: AtomicU64::new(0),
        kills_wanted: if full() { LONGER * kills } else { kills },
        broken: AtomicBool::new(false),
    };
    let sites = storm.blow(&mut chance);

    let server = world.serve();
    for name in REMOTES.iter().chain(REMOTES) {
        sync(world, name, &server);
    }
    server.stop();
    assert_nothing_lost_or_doubled(world, REMOTES, &sites.iter().collect::<Vec<_>>());
    assert_eq!(self::identities(world), identities, "a lost answer is no copied file");
}

fn identities(world: &World) -> Vec<serde_json::Value> {
    let identity = |name: &&str| {
        let file = format!("{name}.db");
        world.syncline.json(&["remote", "status", &file, "--json"])["remote_id"].clone()
    };
    REMOTES.iter().map(identity).collect()
}

impl Storm<'_> {
    /// Runs all writers until there were enough kills. Returns what each wrote.
    fn blow(&self, chance: &mut Chance) -> Vec<Site> {
        scope(|scope| {
            let chance_of_server = chance.split();
            scope.spawn(|| self.guarded(|| self.kill_servers(chance_of_server)));
            for name in REMOTES {
                let chance = chance.split();
                scope.spawn(move || self.guarded(|| self.kill_clients(name, chance)));
            }
            let owner = Owner::new(chance.split());
            scope.spawn(|| self.guarded(|| self.change_tables(owner)));
            let mut writers = Vec::new();
            for number in 0..=REMOTES.len() {
                let site = Site::new(self.world, number, chance.split());
                let (chance, mut site) = (chance.split(), site);
                writers.push(scope.spawn(move || {
                    self.guarded(|| {
                        let mut chance = chance;
                        while !self.is_over() {
                            match chance.below(16) {
                                0 => site.write_rows(LARGE.0, LARGE.1),
                                _ => site.write(),
                            }
                            site.assert_atomic();
                            pause(&mut chance, WRITER_PAUSE_MS_MAX);
                        }
                    });
                    site
                }));
            }
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        })
    }

    fn is_over(&self) -> bool {
        self.broken.load(Ordering::SeqCst) || self.kills.load(Ordering::SeqCst) >= self.kills_wanted
    }

    /// Does the work. If it panics, all others are stopped.
    fn guarded(&self, work: impl FnOnce()) {
        struct Alarm<'a>(&'a AtomicBool);
        impl Drop for Alarm<'_> {
            fn drop(&mut self) {
                self.0.fetch_or(std::thread::panicking(), Ordering::SeqCst);
            }
        }
        let _alarm = Alarm(&self.broken);
        work();
    }

    /// Changes the tables now and then, deployments behind each.
    fn change_tables(&self, mut owner: Owner) {
        for number in 1..=CHANGES_OF_TABLES {
            while self.kills.load(Ordering::SeqCst) * (CHANGES_OF_TABLES + 1)
                < self.kills_wanted * number
            {
                if self.is_over() {
                    return;
                }
                sleep(LOOK_INTERVAL);
            }
            owner.change(self.world);
        }
    }

    /// Starts servers one after the other; each dies at a place or a moment.
    fn kill_servers(&self, mut chance: Chance) {
        while !self.is_over() {
            let point = chance.choose(SERVER_POINTS);
            let passages = chance.below(8);
            let fail_points =
                (chance.below(2) == 0).then(|| format!("{point}={passages}*off->return"));
            let mut server = self.world.serve_with(&[], fail_points.as_deref());
            server.url.clone_into(&mut self.url.lock().unwrap());
            let life = lifetime(&mut chance, SERVER_LIFE_MS_MAX);
            let mut lived = Duration::ZERO;
            while lived < life && !server.has_ended() {
                sleep(LOOK_INTERVAL);
                lived += LOOK_INTERVAL;
            }
            if server.has_ended() {
                let status = server.wait();
                assert!(was_killed(status), "{status}: {}", server.log());
            } else {
                server.kill();
            }
            self.kills.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Synchronizes a remote again and again; most of its clients die at a place or a moment.
    fn kill_clients(&self, name: &str, mut chance: Chance) {
        while !self.is_over() {
            let url = self.url.lock().unwrap().clone();
            if url.is_empty() {
                sleep(LOOK_INTERVAL);
                continue;
            }
            let mut command = self.world.syncline.command(&sync_arguments(name, &url));
            let way = chance.below(5);
            if way < 2 {
                command.env("FAILPOINTS", format!("{}=return", chance.choose(CLIENT_POINTS)));
            }
            let mut client = command.spawn().unwrap();
            if way == 2 || way == 3 {
                sleep(lifetime(&mut chance, CLIENT_LIFE_MS_MAX));
                // It may have ended by itself.
                let _ = client.kill();
            }
            let (status, stderr) = end_of(client);
            if was_killed(status) {
                self.kills.fetch_add(1, Ordering::SeqCst);
            } else if !status.success() && !stderr.lines().any(says_that_the_owner_is_at_work) {
                assert_passing(&stderr);
            }
        }
    }
}

/// The tables have changed, and the deployment comes.
fn says_that_the_owner_is_at_work(line: &str) -> bool {
    ["error E3005", "error E3006"].iter().any(|told| line.starts_with(told))
}

const LOOK_INTERVAL: Duration = Duration::from_millis(5);

fn lifetime(chance: &mut Chance, ms_max: u64) -> Duration {
    Duration::from_micros(chance.below(ms_max * 1000))
}

fn pause(chance: &mut Chance, ms_max: u64) {
    sleep(lifetime(chance, ms_max));
}

fn end_of(mut client: Child) -> (ExitStatus, String) {
    let mut status = None;
    until("the end of a client", || {
        status = client.try_wait().unwrap();
        status.is_some()
    });
    let mut stderr = String::new();
    client.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (status.unwrap(), stderr)
}
