//! A remote of the walk: its file, its application, and what the application is owed.

use crate::centre::{Row, rows_of, try_sqlite};
use crate::cut::{Cut, Cutting};
use crate::shop::{SPECS, Shop, Text};
use crate::writes::{Author, signature};
use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Report, Request, Settings, Transport};
use harness::Chance;
use model::{Failure, UserName};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) const PASSWORD: &str = "secret";

pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) user: &'static str,
    pub(crate) remote: Remote,
    pub(crate) app: Connection,
    author: Author,
    token: Option<String>,
    /// Per table: the fingerprint under which it was held last, and its text columns then.
    shapes: BTreeMap<String, (String, Vec<Text>)>,
    /// Texts that have arrived at the centre, or of which there is a record.
    pub(crate) settled: BTreeSet<String>,
    /// What marks the rows that were deleted here since the last upload, and what a record of
    /// them would say: table and key.
    pub(crate) deleted: BTreeMap<String, [String; 2]>,
    /// An attempt has failed since the last upload, which may have arrived all the same.
    pub(crate) in_doubt: bool,
}

impl Site {
    pub(crate) fn new(
        folder: &Path,
        name: &'static str,
        user: &'static str,
        chance: Chance,
    ) -> Site {
        let path = folder.join(format!("{name}.db"));
        let mut remote =
            Remote::open_or_create(&path, Components::system(folder).unwrap()).unwrap();
        let user_name = Some(UserName::new(user).unwrap());
        remote.remember(&Settings { user: user_name, ..Settings::default() }).unwrap();
        Site {
            name,
            user,
            remote,
            app: Connection::open(&path).unwrap(),
            author: Author::new(name, true, chance),
            token: None,
            shapes: BTreeMap::new(),
            settled: BTreeSet::new(),
            deleted: BTreeMap::new(),
            in_doubt: false,
        }
    }

    /// The published tables that the file holds, with their fingerprints.
    pub(crate) fn held(&self) -> BTreeMap<String, String> {
        let sql = "SELECT json_extract(published, '$.name'),
            json_extract(published, '$.fingerprint') FROM syncline_table";
        let pair = |row: Row| {
            let mut values = row.into_iter().flatten();
            (values.next().unwrap(), values.next().unwrap())
        };
        rows_of(&self.app, sql).into_iter().map(pair).collect()
    }

    /// The columns that are published, with their tables. Others are the user's own: what was
    /// written there while the table was no longer published lies where it lay.
    pub(crate) fn published(&self) -> BTreeSet<(String, String)> {
        let sql = "SELECT json_extract(published, '$.name'), c.value
            FROM syncline_table, json_each(published, '$.columns') AS c";
        let pair = |row: Row| {
            let mut values = row.into_iter().flatten();
            (values.next().unwrap(), values.next().unwrap())
        };
        rows_of(&self.app, sql).into_iter().map(pair).collect()
    }

    /// The application writes one transaction; says what.
    pub(crate) fn write(&mut self) -> String {
        let tables: Vec<String> = self.shapes.keys().cloned().collect();
        if tables.is_empty() {
            return "nothing, there is no table".into();
        }
        let name = self.author.chance.choose(&tables).clone();
        let spec = SPECS.iter().find(|spec| spec.name == name).unwrap();
        let texts = self.shapes[&name].1.clone();
        let statements = self.author.transaction(spec, &texts);
        let checked = self.author.chance.below(16) > 0;
        self.app.pragma_update(None, "foreign_keys", checked).unwrap();
        let before = self.marks();
        let done = try_sqlite(&self.app, &statements.join("; "));
        let after = self.marks();
        let gone = before.into_iter().filter(|(mark, _)| !after.contains_key(mark));
        self.deleted.extend(gone);
        format!("{}{} (foreign keys: {checked})", statements.join("; "), outcome(done))
    }

    /// What marks the rows of the tables that are published here, and how a record names them.
    fn marks(&self) -> BTreeMap<String, [String; 2]> {
        let mut marks = BTreeMap::new();
        for table in self.held().keys() {
            let spec = SPECS.iter().find(|spec| spec.name == table).unwrap();
            let key: Vec<String> =
                spec.key.iter().map(|(name, _)| format!("'{name}', {name}")).collect();
            let sql = format!("SELECT uid, json_object({}) FROM {table}", key.join(", "));
            for row in rows_of(&self.app, &sql) {
                let mut values = row.into_iter().flatten();
                let (mark, key) = (values.next().unwrap(), values.next().unwrap());
                marks.insert(mark, [format!("table: {table:?}"), format!("key: {key:?}")]);
            }
        }
        marks
    }

    /// What the application has written and nobody has changed since: text, table and column.
    pub(crate) fn own_texts(&self) -> BTreeMap<String, (String, String)> {
        let mut own = BTreeMap::new();
        let signature = signature(self.name);
        for spec in &SPECS {
            let columns = "SELECT name FROM pragma_table_info(?1)";
            let columns = columns.replace("?1", &format!("'{}'", spec.name));
            for column in rows_of(&self.app, &columns).into_iter().flatten().flatten() {
                let sql = format!(
                    "SELECT \"{column}\" FROM {} WHERE \"{column}\" LIKE '%{signature}%'",
                    spec.name
                );
                for text in rows_of(&self.app, &sql).into_iter().flatten().flatten() {
                    own.insert(text, (spec.name.to_owned(), column.clone()));
                }
            }
        }
        own
    }

    /// One synchronization as it comes.
    pub(crate) fn try_sync(
        &mut self,
        address: &str,
        mode: Mode,
        cut: Cut,
    ) -> Result<Report, Failure> {
        let credential = match &self.token {
            Some(token) => Credential::Token(token.clone()),
            None => Credential::Password(PASSWORD.into()),
        };
        let request = Request { mode, credential, client: "walk".into() };
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            let connection = tcp::connect(address, Timeouts::default())?;
            Ok(Box::new(Cutting::new(connection, cut)))
        };
        let report = self.remote.synchronize(&request, &mut connect, &mut |_| {})?;
        if report.token.is_some() {
            self.token.clone_from(&report.token);
        }
        Ok(report)
    }

    /// Takes note of what the tables are here now.
    pub(crate) fn learn_shapes(&mut self, shop: &Shop) {
        for (name, fingerprint) in self.held() {
            if self.shapes.get(&name).is_none_or(|(known, _)| *known != fingerprint) {
                let texts = shop.table(&name).texts.clone();
                self.shapes.insert(name, (fingerprint, texts));
            }
        }
    }

    /// The text columns of a table as it is held here.
    pub(crate) fn texts(&self, table: &str) -> &[Text] {
        &self.shapes[table].1
    }

    /// The foreign keys of a table here: column, parent, its column.
    pub(crate) fn foreign_keys(&self, table: &str) -> Vec<(String, String)> {
        let sql = format!("SELECT \"from\", \"table\" FROM pragma_foreign_key_list('{table}')");
        let pair = |row: Row| {
            let mut values = row.into_iter().flatten();
            (values.next().unwrap(), values.next().unwrap())
        };
        rows_of(&self.app, &sql).into_iter().map(pair).collect()
    }

    /// Everything that this file has recorded about rows that lost.
    pub(crate) fn records(&self) -> Vec<String> {
        self.remote.rejects().unwrap().iter().map(|reject| format!("{reject:?}")).collect()
    }
}

/// How a transaction ended, for the story.
pub(crate) fn outcome(done: bool) -> &'static str {
    if done { "" } else { " [refused]" }
}
