//! A world on one thread and in virtual time: the same seed takes the same course.
//!
//! The real server with a center in SQLite, real remotes, and between them a network that delays,
//! cuts and stands still. Everything that a part of it takes from outside follows from the seed:
//! time, chance, what runs next. Nothing else runs, so whatever happens happens again.

mod applications;
mod center;
mod crew;
mod habits;
mod met;
mod network;
mod site;
mod talk;
mod time;
mod trace;
mod wire;

pub use trace::Trace;

use crate::history::{Fault, History, Mode, Place, REMOTES, REMOTES_MAX, Schema, Step, Trouble};
use crate::vfs::{self, Count, Disk, Identity, Image};
use crate::world::{Outcome, World, application};
use applications::Applications;
use center::{CENTER, Center, PASSWORD};
use client::{Conversation, Credential, Remote, Request};
use habits::Habits;
use harness::Chance;
use met::Met;
use model::Code;
use network::Network;
use rusqlite::Connection;
use site::{REMOTE, Site};
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use talk::{Line, Reached, Talk};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use wire::{Cut, Socket};

/// The bytes of a synchronization here are so many times fewer than those of a fault.
const FEWER: usize = 4;
/// How long everybody waits in the end for what is still under way. A farewell takes a second.
const STILL: Duration = Duration::from_secs(5);
/// Operations after which a machine dies: as many as a synchronization has, more or less.
const OPERATIONS: u64 = 300;
/// Room that a full disk has still had for each of these operations, in bytes.
const ROOM_BYTES: u64 = 64;

/// A world in which nothing happens by itself.
pub struct Simulated {
    /// They end before the disks that they use.
    applications: Applications,
    habits: Habits,
    /// What each part of it holds ends before this.
    sites: Vec<Site>,
    /// Connections of remotes that have died.
    left: Vec<Socket>,
    center: Center,
    network: Arc<Network>,
    /// What is to happen in the next synchronization: whose machine dies, with its power, when.
    troubles: Vec<(Place, Trouble, u64)>,
    schema: Schema,
    chance: Chance,
    begun: Instant,
    trace: Trace,
    met: Met,
    folder: TempDir,
    runtime: Rc<Runtime>,
    _sqlite: vfs::Chance,
}

impl Simulated {
    /// The world at the beginning of a history.
    pub fn new(history: &History) -> Simulated {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let runtime = Rc::new(runtime);
        let entered = runtime.clone();
        let _inside = entered.enter();
        let mut chance = Chance::from_seed(history.seed ^ 0x51_4d_55_4c);
        let sqlite = vfs::Chance::seed(history.seed);
        let folder = tempfile::tempdir().unwrap();
        let (begun, trace) = (Instant::now(), Trace::default());
        let habits = Habits::of(history.seed);
        let center = Center::new(history, folder.path(), begun, chance.split());
        if habits.center_rolls_back {
            site::roll_back(&center.disk, CENTER);
        }
        let network = Network::new(center.disk.clone());
        let mut world = Simulated {
            applications: Applications::new(habits),
            habits,
            sites: Vec::new(),
            left: Vec::new(),
            center,
            network,
            troubles: Vec::new(),
            schema: history.schema.clone(),
            chance,
            begun,
            trace,
            met: Met::default(),
            folder,
            runtime,
            _sqlite: sqlite,
        };
        world.start();
        for user in REMOTES {
            world.add_site(user, None);
        }
        world
    }

    /// What has happened, line by line.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A number that follows from all files, and from every operation on them.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let disks = self.sites.iter().map(|site| &site.disk);
        for disk in disks.chain([&self.center.disk]) {
            hasher.write_u64(disk.fingerprint());
            hasher.write_u64(disk.image().fingerprint());
        }
        hasher.finish()
    }

    fn note(&self, line: &str) {
        let at_us = self.begun.elapsed().as_micros();
        self.trace.note(format!("{at_us} {line}"));
    }

    fn start(&mut self) {
        self.center.start(self.network.open());
    }

    /// Adds a machine, with these files.
    fn add_site(&mut self, user: usize, image: Option<Image>) {
        let folder = self.folder.path().to_owned();
        let mut site = Site::new(folder, user, (self.begun, self.habits), self.chance.split());
        let is_new = image.is_none();
        if let Some(image) = image {
            site.disk.put(&image, Identity::New);
        }
        site.open();
        if is_new && self.habits.remotes_roll_back {
            site.remote = None;
            site::roll_back(&site.disk, REMOTE);
            site.open();
        }
        self.sites.push(site);
    }

    /// Begins a synchronization; the remote with it, for it is driven by a task of its own.
    fn begin(
        &mut self,
        number: usize,
        mode: Mode,
        fault: Fault,
    ) -> Result<(Remote, Talk), Outcome> {
        let site = &mut self.sites[number];
        if site.stalled.is_some() {
            return Err(Outcome::Nothing);
        }
        let credential = match &site.token {
            Some(token) => Credential::Token(token.clone()),
            None => Credential::Password(PASSWORD.into()),
        };
        let mode = match mode {
            Mode::Full => client::Mode::Full,
            Mode::Up => client::Mode::UploadOnly,
            Mode::Down => client::Mode::DownloadOnly,
        };
        let request = Request { mode, credential, client: "simulation".into() };
        let Some(remote) = site.remote.take() else { return Err(Outcome::Nothing) };
        let begun = remote.claim().and_then(|claim| Conversation::begin(&remote, claim, request));
        let conversation = match begun {
            Ok(conversation) => conversation,
            Err(failure) => {
                site.remote = Some(remote);
                if site.disk.is_dead() {
                    self.revive(number);
                    return Err(Outcome::Died);
                }
                return Err(Outcome::Failed(failure));
            }
        };
        let cut = match fault {
            Fault::CutUp(bytes) => Cut { up: Some(bytes / FEWER), down: None },
            Fault::CutDown(bytes) => Cut { up: None, down: Some(bytes / FEWER) },
            _ => Cut::default(),
        };
        let (network, clock, disk) = (self.network.clone(), site.clock.clone(), site.disk.clone());
        let chance = self.chance.split();
        let line = Line::new(number, network, clock, disk, self.trace.clone(), chance, cut);
        Ok((remote, Talk::new(conversation, line)))
    }

    /// Lets synchronizations go on, all at the same time, and says what came of each. Meanwhile
    /// these steps happen, each so many milliseconds after the one before.
    fn go_on(
        &mut self,
        talks: Vec<(usize, Remote, Talk, Fault)>,
        meanwhile: &[(u64, Step)],
    ) -> Vec<Outcome> {
        let driven = talks.into_iter().map(|(number, mut remote, talk, fault)| {
            let stop = match fault {
                Fault::Kill(bytes) | Fault::Vanish(bytes) | Fault::Stall(bytes) => {
                    Some(bytes / FEWER)
                }
                Fault::None | Fault::CutUp(_) | Fault::CutDown(_) => None,
            };
            let task = self.runtime.spawn(async move {
                let reached = talk.go(&mut remote, stop).await;
                (remote, reached)
            });
            (number, fault, task)
        });
        let driven: Vec<_> = driven.collect();
        let runtime = self.runtime.clone();
        let ended = runtime.block_on(async {
            for (pause_ms, step) in meanwhile {
                tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
                self.happen(step).await;
            }
            let mut ended = Vec::new();
            for (number, fault, task) in driven {
                let (remote, reached) = match task.await {
                    Ok(ended) => ended,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
                ended.push((number, fault, remote, reached));
            }
            ended
        });
        ended
            .into_iter()
            .map(|(number, fault, remote, reached)| self.end(number, fault, remote, reached))
            .collect()
    }

    fn end(&mut self, number: usize, fault: Fault, remote: Remote, reached: Reached) -> Outcome {
        let site = &mut self.sites[number];
        if site.disk.is_dead() {
            drop((reached, remote));
            self.revive(number);
            return Outcome::Died;
        }
        // It has escaped: what follows is another program.
        site.disk.heal();
        site.disk.limit(None);
        let talk = match reached {
            Reached::End(met, result) => {
                site.remote = Some(remote);
                self.met.add(met);
                return match *result {
                    Ok(report) => {
                        if report.token.is_some() {
                            site.token.clone_from(&report.token);
                        }
                        Outcome::Synchronized(Box::new(report))
                    }
                    Err(failure) => {
                        if failure.code() == Code::TokenRefused {
                            // Then people type their password.
                            site.token = None;
                        }
                        Outcome::Failed(failure)
                    }
                };
            }
            Reached::Fault(talk) => talk,
        };
        match fault {
            Fault::Stall(_) => {
                site.remote = Some(remote);
                site.stalled = Some(talk);
                return Outcome::Stalled;
            }
            Fault::Vanish(_) => self.left.extend(talk.vanish()),
            _ => drop(talk),
        }
        drop(remote);
        site.open();
        Outcome::Died
    }

    /// What happens while remotes synchronize.
    async fn happen(&mut self, step: &Step) {
        let outcome = match step {
            Step::RestartServer => {
                self.restart().await;
                Outcome::Done
            }
            Step::WriteRemote { remote, writes } if self.has(step) => {
                application::write(&self.schema, &self.remote(*remote), writes)
            }
            Step::WriteCenter { writes } => {
                application::write(&self.schema, &self.center(), writes)
            }
            _ => Outcome::Nothing,
        };
        self.note(&format!("meanwhile {:?}: {outcome:?}", step.kind()));
    }

    /// Lets remotes synchronize at the same time, while these steps happen, each so many
    /// milliseconds after the one before. Says what came of each.
    pub fn together(
        &mut self,
        talks: &[(usize, Mode, Fault)],
        meanwhile: &[(u64, Step)],
    ) -> Vec<Outcome> {
        let runtime = self.runtime.clone();
        let _inside = runtime.enter();
        let mut begun = Vec::new();
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        for (number, mode, fault) in talks {
            if *number >= self.sites.len() {
                outcomes.push(Some(Outcome::Nothing));
                continue;
            }
            match self.begin(*number, *mode, *fault) {
                Ok((remote, talk)) => {
                    begun.push((*number, remote, talk, *fault));
                    outcomes.push(None);
                }
                Err(outcome) => outcomes.push(Some(outcome)),
            }
        }
        let mut ended = self.go_on(begun, meanwhile).into_iter();
        self.settle();
        outcomes.into_iter().map(|it| it.or_else(|| ended.next()).unwrap()).collect()
    }

    fn synchronize(&mut self, number: usize, mode: Mode, fault: Fault) -> Outcome {
        match self.begin(number, mode, fault) {
            Ok((remote, talk)) => self.go_on(vec![(number, remote, talk, fault)], &[]).remove(0),
            Err(outcome) => outcome,
        }
    }

    fn go_on_with(&mut self, number: usize) -> Outcome {
        let site = &mut self.sites[number];
        let Some(talk) = site.stalled.take() else { return Outcome::Nothing };
        let Some(remote) = site.remote.take() else { return Outcome::Nothing };
        self.go_on(vec![(number, remote, *talk, Fault::None)], &[]).remove(0)
    }

    fn disk(&self, place: Place) -> &Disk {
        match place {
            Place::Center => &self.center.disk,
            Place::Remote(number) => &self.sites[number].disk,
        }
    }

    /// A remote has died, and starts again.
    fn revive(&mut self, number: usize) {
        self.applications.end(Some(number));
        let cut =
            |it: &(Place, Trouble, u64)| (it.0, it.1) == (Place::Remote(number), Trouble::PowerCut);
        let with_power_cut = self.troubles.iter().any(cut);
        self.sites[number].revive(with_power_cut);
        self.met.remote_deaths += 1;
    }

    /// Who has not died does not any more, and a dead center starts again.
    fn end_troubles(&mut self) {
        for (place, trouble, _) in std::mem::take(&mut self.troubles) {
            self.disk(place).heal();
            self.disk(place).limit(None);
            let is_dead = self.disk(place).is_dead();
            // A server whose disk has failed may have given up.
            let is_bad = place == Place::Center && trouble.is_survived();
            if !is_dead && !is_bad {
                continue;
            }
            self.applications.end(None);
            let center = &mut self.center;
            self.runtime.block_on(center.kill());
            match trouble {
                Trouble::PowerCut => center.disk.cut_power(),
                Trouble::Crash => center.disk.restart(),
                Trouble::Full | Trouble::Error => {}
            }
            self.met.center_deaths += u64::from(is_dead);
            self.start();
        }
    }

    /// Waits until nothing moves any more but what stands still.
    fn settle(&mut self) {
        let center = &mut self.center;
        self.runtime.block_on(async {
            tokio::time::sleep(STILL).await;
            center.check().await;
        });
    }

    async fn restart(&mut self) {
        if self.chance.below(2) == 0 {
            self.center.kill().await;
            self.met.kills += 1;
        } else {
            self.center.stop().await;
            self.met.drains += 1;
        }
        self.start();
    }

    fn copy(&mut self, number: usize) -> Outcome {
        if self.sites.len() >= REMOTES_MAX {
            return Outcome::Nothing;
        }
        let site = &self.sites[number];
        let (image, user, token) = (site.disk.image(), site.user, site.token.clone());
        self.add_site(user, Some(image));
        if let Some(site) = self.sites.last_mut() {
            site.token = token;
        }
        Outcome::Done
    }

    fn restore_remote(&mut self, number: usize) -> Outcome {
        let site = &mut self.sites[number];
        let Some(image) = &site.kept else { return Outcome::Nothing };
        (site.stalled, site.remote) = (None, None);
        self.applications.end(Some(number));
        site.disk.put(image, Identity::New);
        site.open();
        Outcome::Done
    }

    fn restore_center(&mut self) -> Outcome {
        let Some(image) = self.center.kept.clone() else { return Outcome::Nothing };
        let center = &mut self.center;
        self.runtime.block_on(center.stop());
        self.applications.end(None);
        center.disk.put(&image, Identity::New);
        self.start();
        Outcome::Done
    }

    fn has(&self, step: &Step) -> bool {
        step.remote().is_none_or(|remote| remote < self.sites.len())
    }

    fn take(&mut self, step: &Step) -> Outcome {
        match step {
            Step::WriteRemote { remote, writes } => {
                application::write(&self.schema, &self.remote(*remote), writes)
            }
            Step::WriteCenter { writes } => {
                application::write(&self.schema, &self.center(), writes)
            }
            Step::Synchronize { remote, mode, fault } => self.synchronize(*remote, *mode, *fault),
            Step::Continue { remote } => self.go_on_with(*remote),
            Step::SetClaims { user, rep } => {
                self.center.set_claims(*user, *rep);
                Outcome::Done
            }
            Step::Deploy { model } => match self.center.deploy(model, &self.schema) {
                Ok(()) => Outcome::Done,
                Err(failure) => Outcome::Refused(format!("{failure:?}")),
            },
            Step::RestartServer => {
                let runtime = self.runtime.clone();
                runtime.block_on(self.restart());
                Outcome::Done
            }
            Step::StepClock { place, by_ms } => {
                match place {
                    Place::Center => self.center.clock.adjust(*by_ms),
                    Place::Remote(remote) => self.sites[*remote].clock.adjust(*by_ms),
                }
                Outcome::Done
            }
            Step::CopyRemote { remote } => self.copy(*remote),
            Step::KeepRemote { remote } => {
                let site = &mut self.sites[*remote];
                site.kept = Some(site.disk.image());
                Outcome::Done
            }
            Step::RestoreRemote { remote } => self.restore_remote(*remote),
            Step::KeepCenter => {
                self.center.kept = Some(self.center.disk.image());
                Outcome::Done
            }
            Step::RestoreCenter => self.restore_center(),
            Step::Disk { place, trouble, after } => {
                self.troubles.retain(|it| it.0 != *place);
                self.troubles.push((*place, *trouble, 1 + after % OPERATIONS));
                Outcome::Done
            }
            Step::Quiet => Outcome::Nothing,
        }
    }
}

impl World for Simulated {
    fn apply(&mut self, step: &Step) -> Outcome {
        let runtime = self.runtime.clone();
        let _inside = runtime.enter();
        if !self.has(step) {
            return Outcome::Nothing;
        }
        if step.synchronizes().is_none() {
            let outcome = self.take(step);
            self.note(&format!("{:?}: {outcome:?}", step.kind()));
            return outcome;
        }
        for (place, trouble, after) in &self.troubles {
            let disk = self.disk(*place);
            match trouble {
                Trouble::Crash | Trouble::PowerCut => disk.die_at(Count::Operations, *after),
                Trouble::Error => disk.fail_at(Count::Operations, *after),
                Trouble::Full => disk.limit(Some(disk.used_bytes() + after * ROOM_BYTES)),
            }
        }
        let outcome = self.take(step);
        if !matches!(outcome, Outcome::Nothing) {
            self.settle();
        }
        self.end_troubles();
        self.note(&format!("{:?}: {outcome:?}", step.kind()));
        outcome
    }

    fn calm(&mut self) {
        let runtime = self.runtime.clone();
        let _inside = runtime.enter();
        self.left.clear();
        self.troubles.clear();
    }

    fn remotes(&self) -> usize {
        self.sites.len()
    }

    fn center(&self) -> Rc<Connection> {
        self.applications.connection(None, &self.center.disk, CENTER)
    }

    fn remote(&self, number: usize) -> Rc<Connection> {
        self.applications.connection(Some(number), &self.sites[number].disk, REMOTE)
    }

    fn version(&self, remote: Option<usize>) -> Option<u64> {
        let disk = remote.map_or(&self.center.disk, |number| &self.sites[number].disk);
        Some(disk.changes())
    }

    fn knows(&self, _: &str) -> bool {
        true
    }

    fn met(&self) -> Vec<(&'static str, u64)> {
        self.met.all()
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let runtime = self.runtime.clone();
        let _inside = runtime.enter();
        self.left.clear();
        self.applications.end_all();
        self.sites.clear();
        if !std::thread::panicking() {
            let center = &mut self.center;
            self.runtime.block_on(center.kill());
        }
    }
}
