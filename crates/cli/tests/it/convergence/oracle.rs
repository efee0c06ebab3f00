//! What must hold after a synchronization, read from both databases without Syncline.

use super::center::{Center, Row, rows_of};
use super::shape::{Kind, Shape, first_names, spec_of};
use super::shop::{Shop, Table};
use super::site::Site;
use std::collections::{BTreeMap, BTreeSet};

type Rows = BTreeMap<String, BTreeSet<Row>>;

/// The remote holds exactly the rows that belong to this claim, but for those whose parent is
/// missing, and for the descendants of these.
pub(crate) fn assert_exact(center: &Center, shop: &Shop, site: &Site, rep: u64) {
    let held: BTreeSet<String> = site.file.held().into_keys().collect();
    let published = shop.tables.iter().filter(|table| table.published);
    let wanted: BTreeSet<String> = published.clone().map(|it| it.now.name.clone()).collect();
    assert_eq!(held, wanted, "the tables of {}", site.name);
    let (mut expected, mut found) = (Rows::new(), Rows::new());
    for table in published.clone() {
        let name = &table.now.name;
        let (here, condition) =
            (center_columns(center, &table.now), shop.condition(&table.now, rep));
        let sql = format!("SELECT {here} FROM {name} WHERE {condition}");
        expected.insert(name.clone(), center.rows(&sql).into_iter().collect());
        let sql = format!("SELECT {} FROM {name}", remote_columns(&table.now));
        found.insert(name.clone(), rows_of(&site.file.app, &sql).into_iter().collect());
    }
    leave_out_orphans(shop, site, &mut expected);
    let needed = needed_by_own_tables(site, &held);
    let mut stay = 0;
    for (name, rows) in &expected {
        let missing: Vec<&Row> = rows.difference(&found[name]).collect();
        let mut too_many: Vec<&Row> = found[name].difference(rows).collect();
        let surplus = too_many.len();
        too_many.retain(|row| !needed.contains(&(name.clone(), row[0].clone())));
        stay += surplus - too_many.len();
        let shape = &shop.table(spec_of(name).name).now;
        assert!(
            missing.is_empty() && too_many.is_empty(),
            "{name} at {}, {}: missing {missing:?}, too many {too_many:?} of {:?}\n{}",
            site.name,
            shape.columns().join(", "),
            center.rows(&format!("SELECT {} FROM {name}", center_columns(center, shape))),
            Records::new(center, site).read().join("\n")
        );
    }
    let kept_back = site.remote.status().unwrap().kept_back;
    assert!(kept_back >= stay as u64, "{kept_back} rows of {stay} are in sight at {}", site.name);
    for table in published {
        assert_columns(table, &expected[&table.now.name], site);
    }
    let waits = site.remote.pending().unwrap();
    assert!(waits.is_empty(), "{}: {waits:?}", site.name);
    // A table that is no longer published is as the application left it.
    for table in &held {
        let column = &shop.table(spec_of(table).name).now.fixed[0];
        let sql = format!(
            "SELECT CASE typeof(t.{column}) WHEN 'integer' THEN 'i:' ELSE 't:' END || t.{column},
                 f.parent
             FROM pragma_foreign_key_check('{table}') AS f JOIN {table} AS t ON t.rowid = f.rowid"
        );
        let mut broken = rows_of(&site.file.app, &sql);
        // One that the application has broken cannot go while a table of its own refers to it.
        broken.retain(|row| !needed.contains(&(table.clone(), row[0].clone())));
        let found = &found[table];
        assert!(broken.is_empty(), "{table} at {}: {broken:?} among {found:?}", site.name);
    }
}

/// Each text says in which column it belongs.
fn assert_columns(table: &Table, rows: &BTreeSet<Row>, site: &Site) {
    let Shape { name, fixed, texts, .. } = &table.now;
    for row in rows {
        for (text, value) in texts.iter().zip(&row[fixed.len()..]) {
            let belongs = format!("t:c{}:", text.identity);
            let right = value.as_ref().is_none_or(|value| value.starts_with(&belongs));
            assert!(right, "{} of {} at {}: {row:?}", text.name, name, site.name);
        }
    }
}

/// Every column with its type in front.
fn center_columns(center: &Center, shape: &Shape) -> String {
    let kinds = shape.spec.key.iter().chain(&shape.spec.place).map(|(_, kind)| *kind);
    let numbers = shape.fixed.iter().zip(kinds).filter(|(_, kind)| *kind == Kind::Number);
    let mut numbers: Vec<&String> = numbers.map(|(name, _)| name).collect();
    let measure = shape.measure.as_ref();
    numbers.extend(measure.filter(|it| it.kind == Kind::Number).map(|it| &it.name));
    let columns = shape.columns();
    let typed = columns.iter().map(|name| {
        // A number column of SQLite may hold words.
        if center.is_sqlite() && measure.is_some_and(|it| it.name == *name) {
            return typed_by_sqlite(name);
        }
        let letter = if numbers.contains(&name) { "i" } else { "t" };
        format!("'{letter}:' || {name}")
    });
    typed.collect::<Vec<_>>().join(", ")
}

fn remote_columns(shape: &Shape) -> String {
    let columns = shape.columns();
    columns.iter().map(|name| typed_by_sqlite(name)).collect::<Vec<_>>().join(", ")
}

fn typed_by_sqlite(name: &str) -> String {
    format!(
        "CASE typeof({name}) WHEN 'integer' THEN 'i:' WHEN 'text' THEN 't:'
         WHEN 'null' THEN NULL ELSE '?:' END || {name}"
    )
}

fn leave_out_orphans(shop: &Shop, site: &Site, expected: &mut Rows) {
    loop {
        let mut orphans = Vec::new();
        for (name, rows) in expected.iter() {
            let columns = shop.table(spec_of(name).name).now.columns();
            for (column, parent) in site.file.foreign_keys(name) {
                let Some(parents) = expected.get(&parent) else { continue };
                let at = columns.iter().position(|it| *it == column).unwrap();
                // All parents have one column as their key, which is their first.
                let keys: BTreeSet<&Option<String>> = parents.iter().map(|row| &row[0]).collect();
                for row in rows.iter().filter(|row| row[at].is_some()) {
                    if !keys.contains(&row[at]) {
                        orphans.push((name.clone(), row.clone()));
                    }
                }
            }
        }
        if orphans.is_empty() {
            return;
        }
        for (name, row) in orphans {
            expected.get_mut(&name).unwrap().remove(&row);
        }
    }
}

/// The rows that cannot go, by table and key: tables that are no longer published are the user's
/// own, and refer to them, directly or not.
fn needed_by_own_tables(
    site: &Site,
    held: &BTreeSet<String>,
) -> BTreeSet<(String, Option<String>)> {
    let mut needed = BTreeSet::new();
    let mut of_rows = |name: &str, condition: &str| {
        let mut more = Vec::new();
        for (column, parent) in site.file.foreign_keys(name) {
            let typed =
                format!("CASE typeof({column}) WHEN 'integer' THEN 'i:' ELSE 't:' END || {column}");
            let sql = format!("SELECT {typed} FROM {name} WHERE {column} IS NOT NULL{condition}");
            for key in rows_of(&site.file.app, &sql).into_iter().flatten() {
                if needed.insert((parent.clone(), key.clone())) {
                    more.push((parent.clone(), key));
                }
            }
        }
        more
    };
    let mut more = Vec::new();
    for table in site.file.tables().iter().filter(|table| !held.contains(*table)) {
        more.extend(of_rows(table, ""));
    }
    while let Some((name, key)) = more.pop() {
        let key = key.as_deref().unwrap_or_default();
        let value = match key.split_at(2) {
            ("i:", number) => number.to_owned(),
            (_, text) => format!("'{text}'"),
        };
        // All parents have one column as their key, which is their first.
        let column = site.file.key_column(&name);
        more.extend(of_rows(&name, &format!(" AND {column} = {value}")));
    }
    needed
}

/// Every text that lies at the center now, and every measure.
pub(crate) fn texts_at(center: &Center, shop: &Shop) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    for Table { now, .. } in &shop.tables {
        let columns = now.texts.iter().map(|text| text.name.clone());
        let measures = now.measure.iter().map(|measure| format!("'' || {}", measure.name));
        let columns = std::iter::once(now.mark().to_owned()).chain(columns).chain(measures);
        let columns: Vec<String> = columns.collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), now.name);
        texts.extend(center.rows(&sql).into_iter().flatten().flatten());
    }
    texts
}

/// The key that the row with this mark has at the center, as a record says it; `table` is spelled
/// as there too. Both with first names.
pub(crate) fn key_at(center: &Center, shop: &Shop, table: &str, mark: &str) -> String {
    let named = |table_at: &&Table| format!("table: {:?}", table_at.now.spec.name) == table;
    let Table { now, .. } = shop.tables.iter().find(named).unwrap();
    let columns: Vec<String> = now.key().iter().map(|name| format!("'' || {name}")).collect();
    let (columns, uid) = (columns.join(", "), now.mark());
    let sql = format!("SELECT {columns} FROM {} WHERE {uid} = '{mark}'", now.name);
    let row = center.rows(&sql).into_iter().next().unwrap();
    let values = now.spec.key.iter().zip(row.into_iter().flatten());
    let values: Vec<String> = values
        .map(|((name, kind), value)| match kind {
            Kind::Number => format!("{name:?}:{value}"),
            Kind::Word => format!("{name:?}:{value:?}"),
        })
        .collect();
    format!("key: {:?}", format!("{{{}}}", values.join(",")))
}

/// What is known about rows that lost, with first names, read when it is asked for.
pub(crate) struct Records<'a> {
    center: &'a Center,
    site: &'a Site,
    all: Option<Vec<String>>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(center: &'a Center, site: &'a Site) -> Records<'a> {
        Records { center, site, all: None }
    }

    /// All of them.
    pub(crate) fn read(&mut self) -> &[String] {
        let (center, site) = (self.center, self.site);
        self.all.get_or_insert_with(|| {
            let mut all = center.notes();
            all.extend(site.records());
            all.iter().map(|record| first_names(record)).collect()
        })
    }

    /// Whether one of them has all of these words.
    pub(crate) fn say(&mut self, words: &[&str]) -> bool {
        self.read().iter().any(|record| words.iter().all(|word| record.contains(word)))
    }
}
