//! The file of a remote, as its application sees it.

use super::center::{Row, rows_of, try_sqlite};
use super::shape::{Shape, first_names, spec_of};
use super::shop::Shop;
use super::writes::{author_of, signature};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What marks a row, and what a record of it would say: table and key, both with first names.
pub(crate) type Marks = BTreeMap<String, [String; 2]>;

pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) app: Connection,
    /// Whose texts and measures count here, by name and number: of the application, and of those
    /// of the files from which this one was copied.
    pub(crate) authors: Vec<(String, u64)>,
    /// Per table: the fingerprint under which it was held last, and what it was then.
    pub(crate) shapes: BTreeMap<String, (String, Shape)>,
}

/// What a transaction of the application has done.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) done: bool,
    /// Rows that it has deleted.
    pub(crate) deleted: Marks,
    /// Texts that it has overwritten, or deleted.
    pub(crate) overwritten: BTreeSet<String>,
}

impl File {
    pub(crate) fn new(path: &Path, authors: Vec<(String, u64)>) -> File {
        File { path: path.to_owned(), app: open(path), authors, shapes: BTreeMap::new() }
    }

    /// The same file, opened once more.
    pub(crate) fn again(&self) -> File {
        File { shapes: self.shapes.clone(), ..File::new(&self.path, self.authors.clone()) }
    }

    /// The published tables that the file holds, with their fingerprints.
    pub(crate) fn held(&self) -> BTreeMap<String, String> {
        let sql = "SELECT json_extract(published, '$.name'),
            json_extract(published, '$.fingerprint') FROM syncline_table";
        rows_of(&self.app, sql).into_iter().map(pair).collect()
    }

    /// The columns that are published, with their tables. Others are the user's own: what was
    /// written there while the table was no longer published lies where it lay.
    pub(crate) fn published(&self) -> BTreeSet<(String, String)> {
        let sql = "SELECT json_extract(published, '$.name'), c.value
            FROM syncline_table, json_each(published, '$.columns') AS c";
        rows_of(&self.app, sql).into_iter().map(pair).collect()
    }

    /// The published tables that have been downloaded.
    pub(crate) fn received(&self) -> BTreeSet<String> {
        let sql = "SELECT json_extract(published, '$.name') FROM syncline_table
            WHERE watermark IS NOT NULL";
        rows_of(&self.app, sql).into_iter().flatten().flatten().collect()
    }

    /// Every table of the shop that the file has, published or not.
    pub(crate) fn tables(&self) -> Vec<String> {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table'
            AND name NOT LIKE 'syncline%' AND name NOT LIKE 'sqlite%' ORDER BY name";
        rows_of(&self.app, sql).into_iter().flatten().flatten().collect()
    }

    /// The column that is the key of a table, and of no other use than to be referred to.
    pub(crate) fn key_column(&self, table: &str) -> String {
        let sql = format!("SELECT name FROM pragma_table_info('{table}') WHERE pk = 1");
        rows_of(&self.app, &sql).remove(0).remove(0).unwrap()
    }

    /// The foreign keys of a table here: column and parent.
    pub(crate) fn foreign_keys(&self, table: &str) -> Vec<(String, String)> {
        let sql = format!("SELECT \"from\", \"table\" FROM pragma_foreign_key_list('{table}')");
        rows_of(&self.app, &sql).into_iter().map(pair).collect()
    }

    /// Texts that the application has written and that are unchanged since: text, table and column.
    pub(crate) fn own_texts(&self) -> BTreeMap<String, (String, String)> {
        let mut own = BTreeMap::new();
        for table in self.tables() {
            let columns = format!("SELECT name FROM pragma_table_info('{table}')");
            for column in rows_of(&self.app, &columns).into_iter().flatten().flatten() {
                let values = format!(
                    "SELECT '' || \"{column}\" FROM {table} WHERE \"{column}\" IS NOT NULL"
                );
                for value in rows_of(&self.app, &values).into_iter().flatten().flatten() {
                    if self.is_own(&value) {
                        own.insert(value, (table.clone(), column.clone()));
                    }
                }
            }
        }
        own
    }

    fn is_own(&self, value: &str) -> bool {
        let of = author_of(value);
        let mut authors = self.authors.iter();
        authors.any(|(name, number)| of == Some(*number) || value.contains(&signature(name)))
    }

    /// What marks the rows of the tables that are published here, and how a record names them.
    pub(crate) fn marks(&self) -> Marks {
        let mut marks = Marks::new();
        for table in self.held().keys() {
            let Some((_, shape)) = self.shapes.get(table) else { continue };
            let key = shape.key().iter().map(|name| format!("'{}', {name}", first_names(name)));
            let key: Vec<String> = key.collect();
            let (key, uid) = (key.join(", "), shape.mark());
            // A row that stays for a table of the user's own may lie there from before the mark had
            // this name.
            let sql =
                format!("SELECT {uid}, json_object({key}) FROM {table} WHERE {uid} IS NOT NULL");
            for (mark, key) in rows_of(&self.app, &sql).into_iter().map(pair) {
                let table = format!("table: {:?}", spec_of(table).name);
                marks.insert(mark, [table, format!("key: {key:?}")]);
            }
        }
        marks
    }

    /// One transaction of the application.
    pub(crate) fn write(&self, statements: &[String], checked: bool) -> Written {
        self.app.pragma_update(None, "foreign_keys", checked).unwrap();
        let (texts, marks) = (self.own_texts(), self.marks());
        let done = try_sqlite(&self.app, &statements.join("; "));
        let (texts_now, marks_now) = (self.own_texts(), self.marks());
        let deleted = marks.into_iter().filter(|(mark, _)| !marks_now.contains_key(mark));
        let overwritten = texts.into_keys().filter(|text| !texts_now.contains_key(text));
        Written { done, deleted: deleted.collect(), overwritten: overwritten.collect() }
    }

    /// Takes note of what the tables are here now.
    pub(crate) fn learn_shapes(&mut self, shop: &Shop) {
        for (name, fingerprint) in self.held() {
            if self.shapes.get(&name).is_none_or(|(known, _)| *known != fingerprint) {
                let shape = shop.table(spec_of(&name).name).deployed.clone();
                self.shapes.insert(name, (fingerprint, shape));
            }
        }
        let tables = self.tables();
        self.shapes.retain(|name, _| tables.contains(name));
    }
}

fn open(path: &Path) -> Connection {
    let app = Connection::open(path).unwrap();
    app.busy_timeout(Duration::from_secs(5)).unwrap();
    app
}

fn pair(row: Row) -> (String, String) {
    let mut values = row.into_iter().flatten();
    (values.next().unwrap(), values.next().unwrap())
}
