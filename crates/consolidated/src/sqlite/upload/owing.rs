//! What is recorded about an upload: owed rows and rejected rows.

use super::input::Input;
use crate::download::bundle::{Bundled, Bundles};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use crate::upload::reject;
use model::Failure;
use rusqlite::{CachedStatement, Connection, params};
use std::sync::Arc;

const OWE: &str = "INSERT OR REPLACE INTO syncline_owed
    (remote_id, table_name, row_key, counter, code, message, bundled)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// A bundle takes the place of no other entry, which may say more of one of its keys.
const OWES: &str = "SELECT EXISTS (SELECT 1 FROM syncline_owed WHERE remote_id = ?1)";

/// The parameters of [`OWE`]. Most rows of an upload differ by their keys alone.
const REMOTE: usize = 1;
const TABLE: usize = 2;
const KEY: usize = 3;
const COUNTER: usize = 4;
const CODE: usize = 5;
const MESSAGE: usize = 6;
const BUNDLED: usize = 7;

/// Most bytes of keys that are owed in one entry. With the other columns it fits into a quarter of
/// a page, so SQLite stores it in one piece.
const BUNDLE_BYTES: usize = 800;

/// Writes `owed`, which are some.
pub(super) fn write(input: &Input<'_>, owed: &OwedRows) -> Result<(), Failure> {
    if owed.has_rejects() {
        write_rejects(input, owed)?;
    }
    let (connection, owing) = (input.connection, failed("note what the remote is owed"));
    let remote_id = input.request.session.remote_id.as_str();
    let bundles = owed.are_many() && !owes_any(connection, remote_id).map_err(&owing)?;
    let mut entries = Owing::begin(input).map_err(&owing)?;
    let mut open = Bundles::new(BUNDLE_BYTES);
    owed.visit(|table, key, reason| {
        if !(bundles && open.may_have(key, reason.as_ref())) {
            let reason = owed.tell_any().then_some(reason);
            return entries.add(table, key, reason).map_err(&owing);
        }
        let full = open.add(table, key, reason);
        full.map_or(Ok(()), |full| entries.add_bundle(full)).map_err(&owing)
    })?;
    open.end().into_iter().try_for_each(|last| entries.add_bundle(last)).map_err(&owing)
}

fn owes_any(connection: &Connection, remote_id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached(OWES)?.query_row([remote_id], |row| row.get(0))
}

/// Entries on their way into `syncline_owed`.
struct Owing<'c> {
    tables: &'c [Arc<CatalogTable>],
    statement: CachedStatement<'c>,
    /// The table that is bound.
    bound: Option<usize>,
}

impl<'c> Owing<'c> {
    fn begin(input: &Input<'c>) -> rusqlite::Result<Owing<'c>> {
        let mut statement = input.connection.prepare_cached(OWE)?;
        statement.raw_bind_parameter(REMOTE, input.request.session.remote_id.as_str())?;
        statement.raw_bind_parameter(COUNTER, input.counter.0)?;
        Ok(Owing { tables: input.tables, statement, bound: None })
    }

    /// Adds a key, with the reason where some rows of the upload have one.
    fn add(
        &mut self,
        table: usize,
        key: &[u8],
        reason: Option<Option<Reason>>,
    ) -> rusqlite::Result<()> {
        if self.bound.replace(table) != Some(table) {
            self.statement.raw_bind_parameter(TABLE, &self.tables[table].published.name)?;
        }
        self.statement.raw_bind_parameter(KEY, key)?;
        if let Some(reason) = reason {
            let code = reason.as_ref().map(|reason| reason.code.number());
            self.statement.raw_bind_parameter(CODE, code)?;
            self.statement.raw_bind_parameter(MESSAGE, reason.map(|reason| reason.message))?;
        }
        self.statement.raw_execute().map(|_| ())
    }

    fn add_bundle(&mut self, of: Bundled) -> rusqlite::Result<()> {
        self.statement.raw_bind_parameter(BUNDLED, of.bundle.count)?;
        self.add(of.table, &of.bundle.into_bytes(), Some(of.reason))?;
        self.statement.raw_bind_parameter(BUNDLED, None::<i32>)
    }
}

/// Keeps the rejected rows with their content, for the operator.
fn write_rejects(input: &Input<'_>, owed: &OwedRows) -> Result<(), Failure> {
    let (request, published) = (input.request, |at: usize| &input.tables[at].published);
    let noting = failed("note what was rejected");
    let mut statement = input
        .connection
        .prepare_cached(
            "INSERT INTO syncline_reject (rejected_at, remote_id, user_name, counter,
                 table_name, operation, row_key, row_content, code, message)
             VALUES (datetime('now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .map_err(&noting)?;
    let upload = (request.batches, request.left_out);
    reject::visit_rejected(upload, &published, owed, &mut |rejected| {
        let Some(reject) = rejected else { return Ok(()) };
        statement
            .execute(params![
                request.session.remote_id.as_str(),
                request.session.user.as_str(),
                input.counter.0,
                published(reject.table).name,
                reject.operation,
                reject.key,
                reject.row,
                reject.code.number(),
                reject.message,
            ])
            .map(|_| ())
            .map_err(&noting)
    })
}
