//! The steps of one history, drawn one after the other.
//!
//! What applications write depends on the tables that their remotes hold, which is read from the
//! first twin. As long as both are equal this is the same as reading it from the second one.

use super::ring::Ring;
use super::world::{Twin, token};
use crate::convergence::shape::{SPECS, Shape, spec_of};
use crate::convergence::shop::Shop;
use crate::convergence::writes::Author;
use harness::Chance;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Remote and user; two remotes are of one user.
const SITES: [(&str, &str); 3] = [("ann", "ann"), ("tablet", "ann"), ("ben", "ben")];
/// The users with their first claims.
const USERS: [(&str, u64); 2] = [("ann", 1), ("ben", 2)];
/// Files of one fleet.
const SITES_MAX: usize = 5;

/// How long a history is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    rounds: u64,
    /// Events of one round, before all remotes synchronize.
    events: u64,
}

impl Length {
    pub(crate) const WHOLE: Length = Length { rounds: 8, events: 25 };
    pub(crate) const SMOKE: Length = Length { rounds: 3, events: 15 };
    /// One comparison, and what comes to light behind it.
    pub(crate) const SHORTEST: Length = Length { rounds: 2, events: 0 };
}

/// What both twins do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command.
    Run(Vec<String>),
    /// A file in the folder of the server, with its content.
    File(String, String),
    /// The server starts, or starts again.
    Serve,
    /// One transaction at the center, with or without foreign keys.
    Write(Vec<String>, bool),
    /// What the owner of the center does.
    Own(String),
    /// One transaction at a remote.
    WriteRemote(String, Vec<String>),
    /// The file of a remote is copied.
    CopyRemote(String, String),
    /// All databases are compared.
    Compare,
}

struct Site {
    name: String,
    user: &'static str,
    author: Author,
    has_token: bool,
    /// Per table: the fingerprint under which it was held last, and what it was then.
    shapes: BTreeMap<String, (String, Shape)>,
}

pub(crate) struct History {
    chance: Chance,
    shop: Shop,
    ring: Ring,
    is_sqlite: bool,
    author: Author,
    sites: Vec<Site>,
    /// Files that there ever were.
    files: u64,
    length: Length,
    round: u64,
    event: u64,
    coming: VecDeque<Step>,
}

impl History {
    pub(crate) fn new(seed: u64, is_sqlite: bool, length: Length) -> History {
        let mut chance = Chance::from_seed(seed);
        let mut shop = Shop::draw(&mut chance);
        shop.add_measures(&mut chance);
        let ring = Ring::draw(&mut chance);
        let mut history = History {
            author: Author::new("center", 0, is_sqlite, chance.split()),
            sites: Vec::new(),
            shop,
            ring,
            is_sqlite,
            files: 0,
            chance,
            length,
            round: 0,
            event: 0,
            coming: VecDeque::new(),
        };
        for (name, user) in SITES {
            history.add_site(name.to_owned(), user);
        }
        history.begin();
        history
    }

    /// The SQL that makes the user's tables.
    pub(crate) fn create(&self) -> String {
        self.shop.create() + &self.ring.create(self.is_sqlite)
    }

    /// The remotes as they are now.
    pub(crate) fn remotes(&self) -> Vec<String> {
        self.sites.iter().map(|site| site.name.clone()).collect()
    }

    /// The remote of a synchronization.
    pub(crate) fn has_synchronized<'a>(&self, step: &'a Step) -> Option<&'a str> {
        match step {
            Step::Run(arguments) if arguments[0] == "sync" => arguments[1].strip_suffix(".db"),
            _ => None,
        }
    }

    /// The next step; none at the end.
    pub(crate) fn next(&mut self, twin: &Twin) -> Option<Step> {
        if self.coming.is_empty() {
            self.learn(twin);
            if self.event < self.length.events {
                self.event += 1;
                self.draw();
            } else if self.round < self.length.rounds {
                self.event = 0;
                self.round += 1;
                self.end_round();
            }
        }
        match self.coming.pop_front() {
            // An event may be nothing.
            None if self.round < self.length.rounds => self.next(twin),
            step => step,
        }
    }

    fn begin(&mut self) {
        self.deploy();
        for (name, rep) in USERS {
            let file = format!("{name}.password");
            self.coming.push_back(Step::File(file.clone(), format!("{name}-password\n")));
            let claim = format!("rep={rep}");
            self.run(&["user", "add", name, "--password-file", &file, "--claim", &claim]);
        }
        self.coming.push_back(Step::Serve);
        for at in 0..self.sites.len() {
            self.synchronize(at, None);
        }
        self.coming.push_back(Step::Compare);
    }

    /// Everybody synchronizes twice, and all is compared.
    fn end_round(&mut self) {
        self.shop.publish_all();
        self.deploy();
        for at in (0..self.sites.len()).chain(0..self.sites.len()) {
            self.synchronize(at, None);
        }
        for what in ["rejects", "conflicts"] {
            self.run(&[what, "list", "--json"]);
        }
        self.run(&["fleet", "list", "--json"]);
        self.run(&["user", "list", "--json"]);
        self.coming.push_back(Step::Compare);
    }

    fn draw(&mut self) {
        let at = self.chance.below(self.sites.len() as u64) as usize;
        match self.chance.below(40) {
            0..=13 => self.write_at(at),
            14..=20 => self.write_at_the_center(),
            21..=28 => {
                let mode = *self.chance.choose(&[
                    None,
                    None,
                    None,
                    Some("--upload-only"),
                    Some("--download-only"),
                ]);
                self.synchronize(at, mode);
            }
            29 => self.change_claims(),
            30 => self.change_members(),
            31 => self.bypass_foreign_keys(),
            32 => self.disturb(),
            33 => self.change_model(),
            34 => self.change_schema(),
            35 => self.coming.push_back(Step::Serve),
            36 => self.copy(at),
            37 => self.detach(at),
            _ => self.look(at),
        }
    }

    fn run(&mut self, arguments: &[&str]) {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.coming.push_back(Step::Run(arguments));
    }

    fn synchronize(&mut self, at: usize, mode: Option<&str>) {
        let Site { name, user, has_token, .. } = &mut self.sites[at];
        let (file, token) = (format!("{name}.db"), token(name));
        let password = format!("{user}.password");
        let mut arguments = vec!["sync", &file, "--server", "SERVER", "--user", user];
        arguments.extend(["--remote-id", name, "--token-file", &token, "--json"]);
        if !std::mem::replace(has_token, true) {
            arguments.extend(["--password-file", &password]);
        }
        arguments.extend(mode);
        let step = Step::Run(arguments.into_iter().map(str::to_owned).collect());
        self.coming.push_back(step);
    }

    fn write_at(&mut self, at: usize) {
        for _ in 0..=self.chance.below(3) {
            let site = &mut self.sites[at];
            let name = site.name.clone();
            let tables: Vec<&String> = site.shapes.keys().collect();
            let statements = match self.chance.below(3) {
                0 => self.ring.transaction(true, &mut self.chance),
                _ if tables.is_empty() => continue,
                _ => {
                    let table = (*site.author.chance.choose(&tables)).clone();
                    let shape = site.shapes[&table].1.clone();
                    site.author.transaction(&shape)
                }
            };
            self.coming.push_back(Step::WriteRemote(name, statements));
        }
    }

    fn transaction(&mut self) -> Vec<String> {
        if self.chance.below(3) == 0 {
            return self.ring.transaction(self.is_sqlite, &mut self.chance);
        }
        let spec = self.author.chance.choose(&SPECS);
        self.author.transaction(&self.shop.table(spec.name).now)
    }

    fn write_at_the_center(&mut self) {
        for _ in 0..=self.chance.below(3) {
            let statements = self.transaction();
            self.coming.push_back(Step::Write(statements, true));
        }
    }

    fn bypass_foreign_keys(&mut self) {
        let mut statements = self.transaction();
        statements.extend(self.transaction());
        self.coming.push_back(Step::Write(statements, false));
    }

    /// What happens to whole tables.
    fn disturb(&mut self) {
        let spec = self.chance.choose(&SPECS);
        let name = self.shop.table(spec.name).now.name.clone();
        let sql = match (self.is_sqlite, self.chance.below(2)) {
            (true, 0) => format!("DELETE FROM {name}"),
            (true, _) => "VACUUM".to_owned(),
            (false, 0) => format!("TRUNCATE {name} CASCADE"),
            (false, _) => format!("VACUUM FULL {name}"),
        };
        self.coming.push_back(Step::Own(sql));
    }

    fn change_claims(&mut self) {
        let (user, _) = *self.chance.choose(&USERS);
        let claim = format!("rep={}", 1 + self.chance.below(3));
        self.run(&["user", "set", user, "--claim", &claim]);
    }

    fn change_members(&mut self) {
        let (rep, what) = (1 + self.chance.below(3), *self.chance.choose(&["p", "q", "r"]));
        let mapping = &self.shop.mapping;
        let (name, person, project) = (&mapping.name, &mapping.person, &mapping.project);
        let sql = match self.chance.below(3) {
            0 => format!("DELETE FROM {name} WHERE {person} = {rep} AND {project} = '{what}'"),
            _ => format!("INSERT INTO {name} VALUES ({rep}, '{what}')"),
        };
        self.coming.push_back(Step::Write(vec![sql], true));
    }

    fn change_model(&mut self) {
        if self.chance.below(3) == 0 {
            self.shop.change_publication(&mut self.chance);
        }
        for sql in self.shop.change_columns(&mut self.chance) {
            self.coming.push_back(Step::Own(sql));
        }
        self.deploy();
    }

    fn change_schema(&mut self) {
        for sql in self.shop.change_schema(self.is_sqlite, &mut self.chance) {
            self.coming.push_back(Step::Own(sql));
        }
        self.deploy();
    }

    fn deploy(&mut self) {
        let model = self.shop.model() + &self.ring.model();
        self.coming.push_back(Step::File("model.toml".to_owned(), model));
        self.run(&["deploy", "--json"]);
        self.run(&["check", "--json"]);
    }

    fn copy(&mut self, at: usize) {
        if self.sites.len() == SITES_MAX {
            return;
        }
        let Site { name, user, .. } = &self.sites[at];
        let (name, user, shapes) = (name.clone(), *user, self.sites[at].shapes.clone());
        let copy = format!("copy{}", self.files);
        self.coming.push_back(Step::CopyRemote(name, copy.clone()));
        self.add_site(copy, user);
        let copy = self.sites.last_mut();
        copy.into_iter().for_each(|site| site.shapes.clone_from(&shapes));
    }

    fn detach(&mut self, at: usize) {
        let file = format!("{}.db", self.sites[at].name);
        match self.chance.below(2) {
            0 => self.run(&["remote", "detach", &file, "--json"]),
            _ => self.run(&["remote", "reset", &file, "--json"]),
        }
    }

    /// Commands that only look, or that go on with what was rejected.
    fn look(&mut self, at: usize) {
        let file = format!("{}.db", self.sites[at].name);
        match self.chance.below(5) {
            0 => self.run(&["remote", "status", &file, "--json"]),
            1 => self.run(&["remote", "pending", &file, "--json"]),
            2 => self.run(&["remote", "rejects", &file, "--json"]),
            3 => self.run(&["remote", "rejects", "retry", &file, "--all"]),
            _ => self.run(&["scripts", "show"]),
        }
    }

    fn add_site(&mut self, name: String, user: &'static str) {
        self.files += 1;
        let author = Author::new(&name, self.files, true, self.chance.split());
        let shapes = BTreeMap::new();
        self.sites.push(Site { name, user, author, has_token: false, shapes });
    }

    /// Takes note of what the tables are at the remotes now.
    fn learn(&mut self, twin: &Twin) {
        for site in &mut self.sites {
            let held = twin.held(&site.name);
            for (name, fingerprint) in held.iter().filter(|(name, _)| !name.starts_with("ring")) {
                let known = site.shapes.get(name);
                if known.is_none_or(|(known, _)| known != fingerprint) {
                    let shape = self.shop.table(spec_of(name).name).deployed.clone();
                    site.shapes.insert(name.clone(), (fingerprint.clone(), shape));
                }
            }
            site.shapes.retain(|name, _| held.iter().any(|(held, _)| held == name));
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(arguments) => write!(f, "syncline {}", arguments.join(" ")),
            Step::File(name, content) => {
                write!(f, "{name} becomes {}", content.replace('\n', "; "))
            }
            Step::Serve => write!(f, "the server starts"),
            Step::Write(statements, is_checked) => {
                write!(f, "center (foreign keys: {is_checked}): {}", statements.join("; "))
            }
            Step::Own(sql) => write!(f, "the owner of the center: {sql}"),
            Step::WriteRemote(remote, statements) => {
                write!(f, "{remote}: {}", statements.join("; "))
            }
            Step::CopyRemote(remote, copy) => write!(f, "{remote} is copied to {copy}"),
            Step::Compare => write!(f, "all databases are compared"),
        }
    }
}
