//! The machine with the consolidated database, and its server.

use super::crew::Crew;
use super::site::{disk, open_database, random};
use super::time::Virtual;
use crate::history::{History, Model, Schema, USERS, claims};
use crate::vfs::{Disk, Image};
use consolidated::{Administration, Url, administer_on};
use harness::Chance;
use model::{Failure, UserName};
use server::password::{self, Costs};
use server::{Acceptor, Assembly, Components, Config, Execution};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// Where the database lies on its disk.
pub(super) const CENTER: &str = "/center.db";
/// Of every user.
pub(super) const PASSWORD: &str = "secret";

/// The center.
pub(super) struct Center {
    pub(super) disk: Arc<Disk>,
    pub(super) clock: Arc<Virtual>,
    /// The files as they were kept.
    pub(super) kept: Option<Image>,
    url: Url,
    /// For the mark of a start, and what does not fit in memory.
    folder: PathBuf,
    running: Option<Running>,
    chance: Chance,
}

struct Running {
    assembly: Assembly,
    crew: Arc<Crew>,
}

impl Center {
    pub(super) fn new(
        history: &History,
        folder: &Path,
        begun: Instant,
        mut chance: Chance,
    ) -> Center {
        let clock = Virtual::new(begun);
        let disk = disk(&clock, &mut chance);
        open_database(&disk, CENTER).execute_batch(&history.schema.create()).unwrap();
        let url = Url::parse(&format!("sqlite:{CENTER}")).unwrap();
        let hash = password::hash_with(PASSWORD, &mut random(&mut chance), Costs::LEAST).unwrap();
        let folder = folder.to_owned();
        let center = Center { disk, clock, kept: None, url, folder, running: None, chance };
        center.deploy(&history.model, &history.schema).unwrap();
        for (name, rep) in USERS {
            let mut admin = center.administer();
            admin.add_user(&UserName::new(name).unwrap(), &hash, &claims(rep)).unwrap();
        }
        center
    }

    pub(super) fn start(&mut self, acceptor: Box<dyn Acceptor>) {
        let config = Config {
            // Several frames a table, although there are few rows.
            batch_rows: 3,
            spill_dir: Some(self.folder.clone()),
            mark_dir: Some(self.folder.clone()),
            drain_timeout_s: self.chance.below(3),
            workers: 2,
            password_hashes_max: 2,
            ..Config::default()
        };
        let crew = Arc::new(Crew::new(self.chance.split()));
        let components = Components {
            clock: self.clock.clone(),
            random: random(&mut self.chance),
            disk: self.disk.clone(),
            execution: Execution::Tasks(crew.clone()),
            passwords: Costs::LEAST,
            ..Components::system(&config).unwrap()
        };
        let mut assembly = Assembly::new(config, &self.url, components).unwrap();
        assembly.listen(acceptor);
        self.running = Some(Running { assembly, crew });
    }

    /// Ends the server where it is.
    pub(super) async fn kill(&mut self) {
        if let Some(Running { assembly, crew }) = self.running.take() {
            crew.kill().await;
            drop(assembly);
        }
    }

    /// Ends the server as its owner does.
    pub(super) async fn stop(&mut self) {
        if let Some(Running { assembly, crew }) = self.running.take() {
            assembly.drain().await;
            crew.kill().await;
            drop(assembly);
        }
    }

    /// Fails where a task of the server has panicked.
    pub(super) async fn check(&mut self) {
        if let Some(Running { crew, .. }) = &self.running {
            crew.check().await;
        }
    }

    pub(super) fn deploy(&self, model: &Model, schema: &Schema) -> Result<(), Failure> {
        model.deploy(schema, &mut *self.administer())
    }

    pub(super) fn set_claims(&self, user: usize, rep: i64) {
        let name = UserName::new(USERS[user].0).unwrap();
        self.administer().set_claims(&name, &claims(rep)).unwrap();
    }

    fn administer(&self) -> Box<dyn Administration> {
        administer_on(&self.url, self.disk.clone()).unwrap()
    }
}
