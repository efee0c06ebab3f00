//! A remote of the walk: its file, its application, and the changes that must not be lost.

use super::center::try_sqlite;
use super::cut::{Cut, Cutting, Meanwhile};
use super::file::{File, Marks, Written};
use super::shape::Text;
use super::writes::Author;
use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Report, Request, Settings, Transport};
use harness::Chance;
use model::{Failure, UserName};
use std::path::Path;

pub(crate) const PASSWORD: &str = "secret";

pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) user: &'static str,
    pub(crate) remote: Remote,
    pub(crate) file: File,
    author: Author,
    token: Option<String>,
    /// The rows that were deleted here since the last upload.
    pub(crate) deleted: Marks,
    /// An attempt has failed since the last upload, but the upload may have arrived.
    pub(crate) in_doubt: bool,
    /// There is a copy of the file, or it is one.
    pub(crate) is_copied: bool,
}

impl Site {
    /// A new remote, whose application is the author of this number.
    pub(crate) fn new(
        folder: &Path,
        name: &str,
        user: &'static str,
        number: u64,
        chance: Chance,
    ) -> Site {
        let path = folder.join(format!("{name}.db"));
        let remote = open(&path, user);
        Site {
            name: name.to_owned(),
            user,
            remote,
            file: File::new(&path, vec![(name.to_owned(), number)]),
            author: Author::new(name, number, true, chance),
            token: None,
            deleted: Marks::new(),
            in_doubt: false,
            is_copied: false,
        }
    }

    /// A copy of the file as it is, with everything that waits there.
    pub(crate) fn copy(&mut self, folder: &Path, number: u64, chance: Chance) -> Site {
        self.is_copied = true;
        let name = format!("copy{number}");
        let path = folder.join(format!("{name}.db"));
        self.file.app.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
        let authors = self.file.authors.iter().cloned().chain([(name.clone(), number)]);
        Site {
            remote: open(&path, self.user),
            file: File { shapes: self.file.shapes.clone(), ..File::new(&path, authors.collect()) },
            author: Author::new(&name, number, true, chance),
            user: self.user,
            token: self.token.clone(),
            deleted: self.deleted.clone(),
            in_doubt: self.in_doubt,
            is_copied: true,
            name,
        }
    }

    /// Makes the file an ordinary database, in which the application may write, and a remote again.
    /// What was deleted and not uploaded is not told of any more.
    pub(crate) fn detach(&mut self, writes: u64) -> Vec<String> {
        self.remote.detach().unwrap();
        let story = (0..writes).map(|_| self.write_plainly()).collect();
        self.remote = open(&self.file.path, self.user);
        self.deleted.clear();
        story
    }

    /// The application writes one transaction; says what.
    pub(crate) fn write(&mut self) -> String {
        let Some((statements, checked)) = self.draw() else {
            return "nothing, there is no table".into();
        };
        let Written { done, deleted, .. } = self.file.write(&statements, checked);
        self.deleted.extend(deleted);
        tell(&statements, done, checked)
    }

    /// The same where the file is no remote.
    fn write_plainly(&mut self) -> String {
        let Some((statements, checked)) = self.draw() else {
            return "nothing, there is no table".into();
        };
        self.file.app.pragma_update(None, "foreign_keys", checked).unwrap();
        let done = try_sqlite(&self.file.app, &statements.join("; "));
        tell(&statements, done, checked)
    }

    /// A transaction, and whether foreign keys are checked for it.
    fn draw(&mut self) -> Option<(Vec<String>, bool)> {
        let tables: Vec<&String> = self.file.shapes.keys().collect();
        if tables.is_empty() {
            return None;
        }
        let name = *self.author.chance.choose(&tables);
        let statements = self.author.transaction(&self.file.shapes[name].1);
        Some((statements, self.author.chance.below(16) > 0))
    }

    /// A transaction of the application that happens while the file is synchronized, when so many
    /// bytes have passed.
    pub(crate) fn meanwhile(&mut self, bytes: usize) -> Option<Meanwhile> {
        let (statements, checked) = self.draw()?;
        Some(Meanwhile::new(bytes, self.file.again(), statements, checked))
    }

    /// One synchronization as it comes.
    pub(crate) fn try_sync(
        &mut self,
        address: &str,
        mode: Mode,
        cut: Cut,
        meanwhile: Option<&Meanwhile>,
    ) -> Result<Report, Failure> {
        let credential = match &self.token {
            Some(token) => Credential::Token(token.clone()),
            None => Credential::Password(PASSWORD.into()),
        };
        let request = Request { mode, credential, client: "walk".into() };
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            let connection = tcp::connect(address, Timeouts::default())?;
            Ok(Box::new(Cutting::new(connection, cut, meanwhile.cloned())))
        };
        let report = self.remote.synchronize(&request, &mut connect, &mut |_| {})?;
        if report.token.is_some() {
            self.token.clone_from(&report.token);
        }
        Ok(report)
    }

    /// The text columns of a table as it is held here.
    pub(crate) fn texts(&self, table: &str) -> &[Text] {
        &self.file.shapes[table].1.texts
    }

    /// Everything that this file has recorded about rows that lost.
    pub(crate) fn records(&self) -> Vec<String> {
        self.remote.rejects().unwrap().iter().map(|reject| format!("{reject:?}")).collect()
    }
}

fn open(path: &Path, user: &str) -> Remote {
    let components = Components::system(path.parent().unwrap()).unwrap();
    let mut remote = Remote::open_or_create(path, components).unwrap();
    let user = Some(UserName::new(user).unwrap());
    remote.remember(&Settings { user, ..Settings::default() }).unwrap();
    remote
}

/// The words for a transaction.
pub(crate) fn tell(statements: &[String], done: bool, checked: bool) -> String {
    format!("{}{} (foreign keys: {checked})", statements.join("; "), outcome(done))
}

/// How a transaction ended, for the story.
pub(crate) fn outcome(done: bool) -> &'static str {
    if done { "" } else { " [refused]" }
}
