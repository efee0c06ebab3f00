//! The tables that a remote holds, compared with the current ones.

use super::held::{HeldTable, KnownShape};
use super::table::{CatalogTable, at_rest};
use super::{Catalog, Version};
use crate::digest::digest;
use crate::synchronization::{Held, HeldSchema, RenamedTable, Session};
use model::{Code, Direction, Failure, PublishedTable};
use std::sync::Arc;

impl<D> Catalog<D> {
    /// Recognizes what a remote holds by the digests of its tables.
    pub(crate) fn held(
        &self,
        session: &Session,
        schema: Option<&str>,
        tables: &[String],
    ) -> Result<Held, Failure> {
        let version = self.version_of(session)?;
        let Some(schema) = schema.filter(|held| *held != session.schema.fingerprint) else {
            return Ok(Held::Same { note: self.older_shapes });
        };
        let digests: Vec<&str> = tables.iter().map(String::as_str).collect();
        if digest(&digests) != schema {
            let message = "the digest of the held tables is not that of their digests";
            return Err(Failure::new(Code::MalformedMessage, message));
        }
        let mut held = HeldSchema::default();
        held.schema.fingerprint = schema.to_owned();
        for (position, fingerprint) in tables.iter().enumerate() {
            let position = u16::try_from(position).map_err(|_| {
                Failure::new(Code::MalformedMessage, "the remote holds too many tables")
            })?;
            self.recognize(version, session, position, fingerprint, &mut held);
        }
        Ok(Held::Older(Arc::new(held)))
    }

    fn recognize(
        &self,
        version: &Version<D>,
        session: &Session,
        position: u16,
        fingerprint: &str,
        held: &mut HeldSchema,
    ) {
        let today = &session.schema.tables;
        let same = today.iter().position(|table| table.fingerprint == fingerprint);
        if let Some((same, at)) = same.map(|at| (&today[at], at)) {
            if session.waits(at) {
                held.waiting.push(position);
            }
            held.schema.tables.push(same.clone());
            held.projections.push(None);
            return;
        }
        let shape = self.shapes.get(fingerprint);
        if let Some((shape, at)) = shape.and_then(|shape| Some((shape, self.now(shape, today)?))) {
            self.note_names(shape, position, at, &today[at], held);
        }
        // Only what this session publishes takes rows (S7).
        let published = |held: &&HeldTable<D>| {
            let name = &held.table.published.name;
            today.iter().any(|table| table.name == *name && table.direction.uploads())
        };
        match (shape, version.held.get(fingerprint).filter(published)) {
            (Some(shape), Some(table)) => {
                let (direction, name) =
                    (table.table.published.direction, &table.table.published.name);
                if session.waiting.iter().any(|waiting| waiting.table == *name) {
                    held.waiting.push(position);
                }
                held.schema.tables.push(PublishedTable { direction, ..shape.published.clone() });
                held.projections.push(Some(table.projection.clone()));
            }
            _ => {
                held.schema.tables.push(stranger(fingerprint));
                held.projections.push(None);
                held.unknown.push(position);
            }
        }
    }

    /// The position of the table of today that goes on this shape.
    fn now(&self, shape: &KnownShape, today: &[PublishedTable]) -> Option<usize> {
        let goes_on = |table: &PublishedTable| {
            let known = self.shapes.get(&table.fingerprint);
            known.is_some_and(|known| known.table == shape.table)
        };
        today.iter().position(goes_on)
    }

    /// Notes which columns of a table have other names, or are others under the same name.
    fn note_names(
        &self,
        shape: &KnownShape,
        position: u16,
        at: usize,
        now: &PublishedTable,
        held: &mut HeldSchema,
    ) {
        let Some(today) = self.shapes.get(&now.fingerprint) else { return };
        let place = |id: &i64| shape.columns.iter().position(|known| known == id);
        let columns: Vec<Option<u16>> =
            today.columns.iter().map(|id| place(id).map(|at| at as u16)).collect();
        let by_name = |name: &String| shape.published.columns.iter().position(|n| n == name);
        let by_names = now.columns.iter().map(|name| by_name(name).map(|at| at as u16));
        let renamed = now.name != shape.published.name || !by_names.eq(columns.iter().copied());
        if renamed {
            held.renamed.push(RenamedTable { table: at as u16, held: position, columns });
        }
    }

    /// The tables of a session's upload, in the order in which the remote holds them.
    pub(crate) fn upload_tables(
        &self,
        session: &Session,
    ) -> Result<Vec<Arc<CatalogTable<D>>>, Failure>
    where
        D: Default,
    {
        let Held::Older(held) = &session.held else { return self.tables(session) };
        let version = self.version_of(session)?;
        let waits = |position: usize| held.waiting.iter().any(|it| usize::from(*it) == position);
        let table = |(position, held): (usize, &PublishedTable)| {
            if waits(position) {
                return at_rest(held);
            }
            if let Some(held) = version.held.get(&held.fingerprint) {
                return held.table.clone();
            }
            let own = version.tables.iter();
            let mut own = own.filter(|t| t.published.fingerprint == held.fingerprint);
            own.next().cloned().unwrap_or_else(|| at_rest(held))
        };
        Ok(held.schema.tables.iter().enumerate().map(table).collect())
    }

    pub(super) fn version_of(&self, session: &Session) -> Result<&Version<D>, Failure> {
        if session.deployment != self.deployment {
            return Err(Failure::new(Code::Superseded, "a new model was deployed in the meantime"));
        }
        let version = self.versions.iter().find(|v| v.name == session.script_version);
        version.ok_or_else(|| Failure::new(Code::Bug, "the script version is not in the catalog"))
    }
}

/// A table of which nothing is known.
fn stranger(fingerprint: &str) -> PublishedTable {
    PublishedTable {
        compress: true,
        fires: false,
        name: String::new(),
        columns: Vec::new(),
        key: Vec::new(),
        direction: Direction::DownloadOnly,
        create: Vec::new(),
        fingerprint: fingerprint.to_owned(),
    }
}
