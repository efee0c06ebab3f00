//! The events of a walk, and what must hold after each.

use super::center::{Backend, Center};
use super::cut::{Cut, Meanwhile};
use super::oracle::{Records, assert_exact, key_at, texts_at};
use super::shape::SPECS;
use super::shop::{Mapping, Shop};
use super::site::{PASSWORD, Site, outcome};
use super::upheaval::Upheaval;
use super::writes::Author;
use client::Mode;
use consolidated::administer;
use harness::Chance;
use model::{Code, UserName};
use server::password::Costs;
use server::{Components, Config, Server};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of one fleet.
const STEPS: u64 = 240;
/// Where more happens, each takes longer.
const UPHEAVAL_STEPS: u64 = 120;
/// Between two pauses without writes.
const STEPS_UNTIL_QUIET: u64 = 60;
/// Attempts until a server has noticed that the connection before is gone.
const ATTEMPTS_MAX: usize = 20;
/// Most bytes after which a connection is cut; a synchronization has some thousand.
const CUT_BYTES_MAX: u64 = 3000;

/// Remote and user; two remotes are of one user.
const SITES: [(&str, &str); 3] = [("ann", "ann"), ("tablet", "ann"), ("ben", "ben")];

pub(crate) struct Walk {
    pub(crate) chance: Chance,
    pub(crate) shop: Shop,
    pub(crate) center: Center,
    pub(crate) author: Author,
    pub(crate) sites: Vec<Site>,
    claims: BTreeMap<&'static str, u64>,
    /// Texts that have arrived at the center, or of which there is a record.
    settled: BTreeSet<String>,
    pub(crate) server: Option<Server>,
    pub(crate) folder: tempfile::TempDir,
    /// What happens to some fleets only.
    upheaval: Option<Upheaval>,
}

impl Walk {
    pub(crate) fn new(backend: Backend, seed: u64) -> Walk {
        let mut chance = Chance::from_seed(seed);
        let mut upheaval = Upheaval::of_seed(seed);
        let mut shop = Shop::draw(&mut chance);
        if let Some(upheaval) = &mut upheaval {
            shop.add_measures(&mut upheaval.chance);
        }
        shop.add_own_scripts(seed);
        let create = shop.create();
        println!("{create}");
        let center = Center::new(backend, &create);
        let model = shop.model();
        println!("{model}");
        center.deploy(&model, &shop);
        let mut folder = tempfile::tempdir().unwrap();
        if std::env::var_os("SYNCLINE_TEST_KEEP").is_some() {
            folder.disable_cleanup(true);
            println!("the remotes stay in {}", folder.path().display());
        }
        let mut walk = Walk {
            author: Author::new("center", 0, center.is_sqlite(), chance.split()),
            sites: Vec::new(),
            claims: BTreeMap::new(),
            settled: BTreeSet::new(),
            server: None,
            shop,
            center,
            folder,
            chance,
            upheaval,
        };
        walk.add_users();
        walk.start_server();
        for (number, (name, user)) in (1..).zip(SITES) {
            let site = Site::new(walk.folder.path(), name, user, number, walk.chance.split());
            walk.sites.push(site);
        }
        walk
    }

    fn add_users(&mut self) {
        let hash = server::password::hash(PASSWORD, Costs::LEAST).unwrap();
        let mut admin = administer(&self.center.url).unwrap();
        for (rep, name) in [(1, "ann"), (2, "ben")] {
            let user = UserName::new(name).unwrap();
            admin.add_user(&user, &hash, &claims(rep)).unwrap();
            self.claims.insert(name, rep);
        }
    }

    pub(crate) fn start_server(&mut self) {
        let config = Config {
            listen: vec!["tcp://127.0.0.1:0".into()],
            // Several frames a table, although there are few rows.
            batch_rows: 3,
            spill_dir: Some(self.folder.path().to_owned()),
            ..Config::default()
        };
        let components = Components::system(&config).unwrap();
        self.server = Some(server::start(config, &self.center.url, components).unwrap());
    }

    pub(crate) fn go(mut self) {
        let steps = if self.upheaval.is_some() { UPHEAVAL_STEPS } else { STEPS };
        for step in 1..=steps {
            // It is taken out for the time in which it changes everything else.
            let mut upheaval = self.upheaval.take();
            let comes = upheaval.as_mut().is_some_and(Upheaval::comes);
            match &mut upheaval {
                Some(upheaval) if comes => upheaval.go(&mut self),
                _ => self.step(),
            }
            self.upheaval = upheaval;
            if step % STEPS_UNTIL_QUIET == 0 {
                self.quiet();
            }
        }
        self.server.take().unwrap().drain();
    }

    fn step(&mut self) {
        match self.chance.below(40) {
            0..=13 => self.write_at_a_remote(),
            14..=21 => self.write_at_the_center(),
            22..=32 => {
                let at = self.some_site();
                let (mode, cut) = (self.mode(), self.cut());
                self.synchronize(at, mode, cut, None);
            }
            33 => self.change_claims(),
            34 => self.change_members(),
            35 | 36 => self.bypass_foreign_keys(),
            37 => self.disturb(),
            _ => self.change_model(),
        }
    }

    pub(crate) fn some_site(&mut self) -> usize {
        self.chance.below(self.sites.len() as u64) as usize
    }

    pub(crate) fn mode(&mut self) -> Mode {
        match self.chance.below(6) {
            0 => Mode::UploadOnly,
            1 => Mode::DownloadOnly,
            _ => Mode::Full,
        }
    }

    pub(crate) fn cut(&mut self) -> Cut {
        let bytes = self.chance.below(CUT_BYTES_MAX) as usize;
        match self.chance.below(6) {
            0 => Cut { up: Some(bytes), down: None },
            1 => Cut { up: None, down: Some(bytes) },
            _ => Cut::default(),
        }
    }

    pub(crate) fn write_at_a_remote(&mut self) {
        let at = self.some_site();
        for _ in 0..=self.chance.below(3) {
            let what = self.sites[at].write();
            println!("{}: {what}", self.sites[at].name);
        }
    }

    /// A transaction of an application at the center, into any table.
    fn transaction(&mut self) -> Vec<String> {
        let spec = self.author.chance.choose(&SPECS);
        self.author.transaction(&self.shop.table(spec.name).now)
    }

    pub(crate) fn write_at_the_center(&mut self) {
        for _ in 0..=self.chance.below(3) {
            let statements = self.transaction();
            let done = self.center.write(&statements);
            println!("center: {}{}", statements.join("; "), outcome(done));
        }
    }

    /// Children before their parents, parents without their children.
    fn bypass_foreign_keys(&mut self) {
        let mut statements = self.transaction();
        for _ in 0..self.chance.below(3) {
            statements.extend(self.transaction());
        }
        let done = self.center.write_unchecked(&statements);
        println!("center, unchecked: {}{}", statements.join("; "), outcome(done));
    }

    /// What happens to whole tables.
    fn disturb(&mut self) {
        let tables = ["line", "comment", "product", "node"];
        let first = *self.chance.choose(&tables);
        let name = &self.shop.table(first).now.name;
        let table = &self.shop.table(self.chance.choose(&SPECS).name).now;
        let sql = match (self.center.is_sqlite(), self.chance.below(3)) {
            (true, 0) => format!("DELETE FROM {name}"),
            (true, 1) => "VACUUM".to_owned(),
            (false, 0) => format!("TRUNCATE {name}"),
            (false, 1) => {
                let (name, text) = (&table.name, &table.texts[0].name);
                format!("ALTER TABLE {name} ALTER COLUMN {text} TYPE text USING {text} || ''")
            }
            (false, _) => format!("VACUUM FULL {}", table.name),
            _ => format!("ANALYZE {name}"),
        };
        println!("center: {sql}");
        self.center.own(&sql);
    }

    pub(crate) fn change_claims(&mut self) {
        let user = *self.chance.choose(&["ann", "ben"]);
        let rep = 1 + self.chance.below(3);
        let mut admin = administer(&self.center.url).unwrap();
        admin.set_claims(&UserName::new(user).unwrap(), &claims(rep)).unwrap();
        self.claims.insert(user, rep);
        println!("claims: {user} is {rep}");
    }

    fn change_members(&mut self) {
        let (rep, what) = (1 + self.chance.below(3), *self.chance.choose(&["p", "q", "r"]));
        let Mapping { name, person, project } = &self.shop.mapping;
        let sql = match self.chance.below(3) {
            0 => format!("DELETE FROM {name} WHERE {person} = {rep} AND {project} = '{what}'"),
            _ => format!("INSERT INTO {name} VALUES ({rep}, '{what}')"),
        };
        let done = self.center.write(std::slice::from_ref(&sql));
        println!("center: {sql}{}", outcome(done));
    }

    pub(crate) fn change_model(&mut self) {
        for _ in 0..=self.chance.below(2) {
            match self.chance.below(3) {
                0 => println!("{}", self.shop.change_publication(&mut self.chance)),
                _ => {
                    let statements = self.shop.change_columns(&mut self.chance);
                    for sql in statements {
                        println!("center: {sql}");
                        self.center.own(&sql);
                    }
                }
            }
        }
        self.deploy();
    }

    pub(crate) fn deploy(&mut self) {
        let model = self.shop.model();
        println!("deploy: {}", model.replace('\n', "; "));
        self.center.deploy(&model, &self.shop);
    }

    /// Everything is published, and each remote synchronizes twice.
    fn quiet(&mut self) {
        self.shop.publish_all();
        self.deploy();
        for at in (0..self.sites.len()).chain(0..self.sites.len()) {
            self.synchronize_surely(at);
        }
    }

    pub(crate) fn synchronize_surely(&mut self, at: usize) {
        for _ in 0..ATTEMPTS_MAX {
            if self.synchronize(at, Mode::Full, Cut::default(), None) {
                return;
            }
        }
        panic!("{} cannot synchronize", self.sites[at].name);
    }

    /// Synchronizes, and looks at what has come of it. False where it has failed.
    pub(crate) fn synchronize(
        &mut self,
        at: usize,
        mode: Mode,
        cut: Cut,
        meanwhile: Option<&Meanwhile>,
    ) -> bool {
        let address = self.server.as_ref().unwrap().addresses()[0].clone();
        let site = &mut self.sites[at];
        let (mut before, held) = (site.file.own_texts(), site.file.held());
        let (published, received) = (site.file.published(), site.file.received());
        let result = site.try_sync(&address, mode, cut, meanwhile);
        site.file.learn_shapes(&self.shop);
        let name = site.name.clone();
        match &result {
            Ok(report) => println!("{name} synchronized, {mode:?}: {report:?}"),
            Err(failure) => println!("{name} failed, {mode:?}, {cut:?}: {failure:?}"),
        }
        if let Err(failure) = &result {
            // A copy may pass for the file that has lost the last answer.
            let site = &self.sites[at];
            let in_doubt = site.in_doubt || site.is_copied;
            assert!(passes(failure.code(), mode, in_doubt, cut), "{failure:?}");
        }
        let written = meanwhile.and_then(Meanwhile::end).map(|(written, story)| {
            println!("{name} meanwhile: {story}");
            before.retain(|text, _| !written.overwritten.contains(text));
            written.deleted
        });
        let uploaded = result.is_ok() && mode != Mode::DownloadOnly;
        let site = &mut self.sites[at];
        let after = site.file.own_texts();
        let held_now = site.file.held();
        let owed = before.iter().filter(|(text, place)| {
            // In a table that was not published and is not, the user's own foreign keys may act.
            let is_own = match held.contains_key(&place.0) {
                true => !published.contains(*place),
                false => !held_now.contains_key(&place.0),
            };
            // A row that lay in a table before it was published is compared when the table comes.
            let goes = uploaded && published.contains(*place) && received.contains(&place.0);
            !is_own && (!after.contains_key(*text) || goes)
        });
        let owed: Vec<String> = owed.map(|(text, _)| text.clone()).collect();
        self.settle(at, &owed);
        if uploaded && received.len() < held.len() {
            // What was changed before the comparison may have been uploaded, or not.
            let there = texts_at(&self.center, &self.shop);
            self.settled.extend(after.into_keys().filter(|text| there.contains(text)));
        }
        let site = &mut self.sites[at];
        if uploaded {
            self.assert_deleted(at);
        } else if result.is_err() {
            site.in_doubt = true;
        }
        let site = &mut self.sites[at];
        if uploaded {
            site.in_doubt = false;
        }
        let alone = written.is_none();
        site.deleted.extend(written.into_iter().flatten());
        if result.is_ok() && mode == Mode::Full && alone {
            for table in self.shop.tables.iter().filter(|table| table.published) {
                assert_eq!(site.texts(&table.now.name), table.now.texts, "{}", table.now.name);
            }
            assert_exact(&self.center, &self.shop, site, self.claims[site.user]);
        }
        result.is_ok()
    }

    /// These texts are at the center, or there is a record of them.
    fn settle(&mut self, at: usize, owed: &[String]) {
        let site = &self.sites[at];
        let open: Vec<&String> = owed.iter().filter(|text| !self.settled.contains(*text)).collect();
        if open.is_empty() {
            return;
        }
        let there = texts_at(&self.center, &self.shop);
        let mut records = Records::new(&self.center, site);
        for text in &open {
            // The upload of a failed attempt may have been changed by others since.
            let told = there.contains(*text) || records.say(&[text]) || site.in_doubt;
            assert!(told, "{}: {text} is lost\n{}", site.name, records.read().join("\n"));
        }
        let open: Vec<String> = open.into_iter().cloned().collect();
        self.settled.extend(open);
    }

    /// The rows that were deleted at the remote are gone at the center, or there is a record.
    fn assert_deleted(&mut self, at: usize) {
        let deleted = std::mem::take(&mut self.sites[at].deleted);
        if deleted.is_empty() {
            return;
        }
        let (there, site) = (texts_at(&self.center, &self.shop), &self.sites[at]);
        let mut records = Records::new(&self.center, site);
        for (mark, [table, key]) in deleted.iter().filter(|(mark, _)| there.contains(*mark)) {
            // Where another row has the key now, it is an update of this one. Where the center has
            // given the row another key meanwhile, the row that was deleted is gone there too.
            let moved = key_at(&self.center, &self.shop, table, mark) != *key;
            let told = moved || records.say(&[mark]) || records.say(&[table, key]) || site.in_doubt;
            assert!(told, "{}: {mark} is there\n{}", site.name, records.read().join("\n"));
        }
    }
}

fn claims(rep: u64) -> BTreeMap<String, String> {
    BTreeMap::from([("rep".to_owned(), rep.to_string())])
}

/// Failures that come with what was asked for.
fn passes(code: Code, mode: Mode, in_doubt: bool, cut: Cut) -> bool {
    let was_cut = cut.up.is_some() || cut.down.is_some();
    match code {
        Code::ConnectionLost => was_cut,
        Code::AlreadySynchronizing | Code::Superseded => was_cut || in_doubt,
        Code::ShapeChangeBlocked | Code::DownloadBlocked => mode == Mode::DownloadOnly,
        Code::DownloadFirst => mode == Mode::UploadOnly,
        _ => false,
    }
}
