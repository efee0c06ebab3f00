//! Rows of the tables that a remote holds, as rows of the centre's tables.

use crate::testing::encode;
use model::{PublishedTable, RemoteSchema, RowReader, Value};
use protocol::{Hello, RenamedTable};
use std::collections::HashMap;

/// Every shape that a table has had, and what its columns were called first.
#[derive(Default)]
pub(super) struct Shapes {
    pub(super) tables: HashMap<String, PublishedTable>,
    pub(super) identities: HashMap<String, (String, Vec<String>)>,
    pub(super) forgotten: Vec<String>,
}

impl Shapes {
    pub(super) fn new(tables: &[PublishedTable]) -> Shapes {
        let mut shapes = Shapes::default();
        shapes.add(tables);
        shapes
    }

    pub(super) fn add(&mut self, tables: &[PublishedTable]) {
        for table in tables {
            self.tables.insert(table.fingerprint.clone(), table.clone());
        }
    }

    pub(super) fn identity(&self, table: &PublishedTable) -> (String, Vec<String>) {
        let own = || (table.name.clone(), table.columns.clone());
        self.identities.get(&table.fingerprint).cloned().unwrap_or_else(own)
    }

    pub(super) fn goes_on(&self, held: &PublishedTable, table: &PublishedTable) -> bool {
        self.identity(held).0 == self.identity(table).0
    }

    /// Per column of `table`: its position in `held`.
    pub(super) fn columns(
        &self,
        held: &PublishedTable,
        table: &PublishedTable,
    ) -> Vec<Option<usize>> {
        let (held, table) = (self.identity(held).1, self.identity(table).1);
        table.iter().map(|name| held.iter().position(|it| it == name)).collect()
    }

    /// A row of `held` as one of `table`; what it does not have is as it was, or NULL.
    pub(super) fn translate(
        &self,
        held: &PublishedTable,
        table: &PublishedTable,
        row: &[u8],
        known: Option<&[u8]>,
    ) -> Vec<u8> {
        let (row, known) = (values(row), known.map(values));
        let value = |(n, at): (usize, &Option<usize>)| match at {
            Some(at) => row[*at].clone(),
            None => known.as_ref().map_or(Value::Null, |known| known[n].clone()),
        };
        let columns = self.columns(held, table);
        encode(&columns.iter().enumerate().map(value).collect::<Vec<_>>())
    }

    /// The tables that the remote holds.
    pub(super) fn all_held(&self, hello: &Hello, schema: &RemoteSchema) -> Vec<PublishedTable> {
        if hello.watermarks.is_empty() {
            return schema.tables.clone();
        }
        hello.watermarks.iter().map(|it| self.tables[&it.fingerprint].clone()).collect()
    }

    pub(super) fn held(
        &self,
        hello: &Hello,
        schema: &RemoteSchema,
        position: u16,
    ) -> PublishedTable {
        self.all_held(hello, schema)[usize::from(position)].clone()
    }

    pub(super) fn unknown(&self, hello: &Hello, schema: &RemoteSchema) -> Vec<u16> {
        let held = self.all_held(hello, schema);
        let unknown = |(_, held): &(usize, &PublishedTable)| {
            self.forgotten.contains(&held.fingerprint)
                || !schema.tables.iter().any(|table| self.goes_on(held, table))
        };
        held.iter().enumerate().filter(unknown).map(|(position, _)| position as u16).collect()
    }

    pub(super) fn renamed(&self, hello: &Hello, schema: &RemoteSchema) -> Vec<RenamedTable> {
        let held = self.all_held(hello, schema);
        let mut renamed = Vec::new();
        for (position, table) in schema.tables.iter().enumerate() {
            let Some(at) = held.iter().position(|held| self.goes_on(held, table)) else { continue };
            let columns = self.columns(&held[at], table);
            let by_name = |name: &String| held[at].columns.iter().position(|it| it == name);
            let same = columns == table.columns.iter().map(by_name).collect::<Vec<_>>();
            if !same || held[at].name != table.name {
                let columns = columns.iter().map(|at| at.map(|at| at as u16)).collect();
                renamed.push(RenamedTable { table: position as u16, held: at as u16, columns });
            }
        }
        renamed
    }
}

pub(super) fn values(row: &[u8]) -> Vec<Value> {
    let mut reader = RowReader::new(row);
    let mut values = Vec::new();
    while !reader.is_at_end() {
        values.push(reader.value().unwrap().to_owned());
    }
    values
}
