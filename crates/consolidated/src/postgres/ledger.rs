//! What is written about an upload: what the remote is owed, conflicts, and what need not return.

use super::link::Call;
use super::owed;
use super::upload::Upload;
use crate::echo::Echo;
use crate::synchronization::{Applied, Change, UploadRequest};
use crate::told::{self, Rejected};
use crate::uploaded_row::{RowId, UploadedRow};
use model::{Counter, Failure, PublishedTable, write_value};
use postgres_types::ToSql;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::batch::Reason;

static OWE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO syncline.syncline_owed
    (remote_id, table_name, row_key, whole_key, counter, code, message)
SELECT $1, u.table_name, {indexed}, {whole}, $2, u.code, u.message
FROM unnest($3::text[], $4::bytea[], $5::int4[], $6::text[])
    AS u (table_name, row_key, code, message)
ON CONFLICT (remote_id, table_name, row_key) DO UPDATE SET
    counter = excluded.counter, code = excluded.code, message = excluded.message,
    withheld = NULL",
        indexed = owed::indexed("u.row_key"),
        whole = owed::whole("u.row_key"),
    )
});

const NOTE_CONFLICTS: &str = "INSERT INTO syncline.syncline_conflict
    (remote_id, user_name, table_name, operation, conflict_rule, old_row, new_row,
     consolidated_row, result_row)
SELECT $1, $2, u.table_name, u.operation, u.conflict_rule, u.old_row, u.new_row,
    u.consolidated_row, u.result_row
FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
    AS u (table_name, operation, conflict_rule, old_row, new_row, consolidated_row, result_row)";

const NOTE_REJECTS: &str = "INSERT INTO syncline.syncline_reject
    (remote_id, user_name, counter, table_name, operation, row_key, row_content, code, message)
SELECT $1, $2, $3, u.table_name, u.operation, u.row_key, u.row_content, u.code, u.message
FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::int4[], $9::text[])
    AS u (table_name, operation, row_key, row_content, code, message)";

/// Grows while rows are applied, and is written in the flight that commits.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) applied: Applied,
    /// A reason where the row was rejected.
    owed: BTreeMap<RowId, Option<Reason>>,
    conflicts: Vec<Conflict>,
    /// The rows are not in the echo yet: it is not known whether they must be.
    pub(super) undigested: bool,
    /// Every row was stored as it was sent.
    pub(super) verbatim: bool,
    /// The tables with rows.
    pub(super) written: BTreeSet<usize>,
}

/// The rows of a conflict, for people.
struct Conflict {
    table: usize,
    operation: &'static str,
    old: Option<String>,
    new: Option<String>,
    consolidated: Option<String>,
    result: Option<String>,
}

impl Ledger {
    /// Notes that the remote need not be sent this row.
    pub(super) fn echo(&mut self, table: &PublishedTable, position: usize, row: &UploadedRow<'_>) {
        self.applied.echo.add_uploaded(table, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(super) fn owe(&mut self, row: RowId) {
        self.owed.entry(row).or_insert(None);
    }

    pub(super) fn reject(&mut self, row: RowId, reason: Reason) {
        self.applied.rejected += 1;
        let (code, message) = reason;
        self.owed.insert(row, Some((code, told::message(message))));
    }

    /// Values for columns that are gone are told with their rows.
    pub(super) fn tell_left_out(&mut self, request: &UploadRequest<'_>) {
        let Some(left_out) = request.left_out else { return };
        for (sent, row, (code, why)) in left_out.told() {
            let is_told = |row: &&RowId| matches!(self.owed.get(*row), Some(Some(_)));
            let told = [&sent, &row].into_iter().find(is_told);
            match told.and_then(|row| self.owed.get_mut(row)) {
                // What else was wrong with the row does not say it.
                Some(Some((_, message))) => *message = told::message(format!("{message}; {why}")),
                _ => self.reject(row, (code, why)),
            }
        }
    }

    /// Keeps the rows of a conflict and the one that came of it, so that it can be looked at
    /// later.
    pub(super) fn conflict(
        &mut self,
        (table, published): (usize, &PublishedTable),
        row: &UploadedRow<'_>,
        now: Option<&[u8]>,
        result: Option<&[u8]>,
    ) {
        self.applied.conflicts += 1;
        let mut old = Vec::new();
        row.old.iter().for_each(|value| write_value(&mut old, *value));
        let told = |image: &[u8]| told::row(published, image);
        self.conflicts.push(Conflict {
            table,
            operation: told::operation(row.change),
            old: (row.change != Change::Insert).then(|| told(&old)),
            new: (row.change != Change::Delete).then(|| told(row.new_image())),
            consolidated: now.map(told),
            result: result.map(told),
        });
    }

    /// The rows that were rejected, with their content.
    pub(super) fn rejected(&self, upload: Upload<'_>) -> Result<Vec<Rejected>, Failure> {
        if self.owed.values().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let published = |at: usize| &upload.tables[at].deployed.published;
        let reason = |row: &RowId| self.owed.get(row).cloned().flatten();
        let request = upload.request;
        told::rejected((request.batches, request.left_out), &published, &reason)
    }

    /// Whether the remote will be told of this row.
    pub(super) fn tells_of(&self, row: &RowId) -> bool {
        self.owed.contains_key(row)
    }

    /// Whether nothing is to be told of any row.
    pub(super) fn is_clear(&self) -> bool {
        self.owed.is_empty() && self.conflicts.is_empty()
    }

    pub(super) fn into_applied(self, download_follows: bool) -> Applied {
        let mut applied = self.applied;
        if !download_follows {
            applied.echo = Echo::default();
        }
        applied
    }

    /// The ledger as columns; with the watermark `counter` the remote has what it is owed now.
    pub(super) fn entries<'a>(
        &'a self,
        upload: Upload<'a>,
        rejected: &'a [Rejected],
        counter: Counter,
    ) -> Entries<'a> {
        let session = upload.request.session;
        let table = |at: usize| upload.tables[at].deployed.as_ref();
        let mut entries = Entries {
            remote_id: session.remote_id.as_str(),
            user: session.user.as_str(),
            counter: counter.0,
            ..Entries::default()
        };
        for ((at, key), reason) in &self.owed {
            entries.tables.push(&table(*at).published.name);
            entries.keys.push(key);
            entries.codes.push(reason.as_ref().map(|(code, _)| i32::from(code.number())));
            entries.messages.push(reason.as_ref().map(|(_, message)| message.as_str()));
        }
        for conflict in &self.conflicts {
            entries.conflict_tables.push(&table(conflict.table).published.name);
            entries.operations.push(conflict.operation);
            entries.rules.push(&table(conflict.table).conflict_rule);
            entries.old_rows.push(conflict.old.as_deref());
            entries.new_rows.push(conflict.new.as_deref());
            entries.consolidated_rows.push(conflict.consolidated.as_deref());
            entries.result_rows.push(conflict.result.as_deref());
        }
        for reject in rejected {
            let told = &mut entries.rejected;
            told.tables.push(&table(reject.table).published.name);
            told.operations.push(reject.operation);
            told.keys.push(&reject.key);
            told.rows.push(reject.row.as_deref());
            told.codes.push(i32::from(reject.code.number()));
            told.messages.push(&reject.message);
        }
        entries
    }
}

/// A ledger as columns.
#[derive(Default)]
pub(super) struct Entries<'a> {
    remote_id: &'a str,
    user: &'a str,
    counter: i64,
    tables: Vec<&'a str>,
    keys: Vec<&'a [u8]>,
    codes: Vec<Option<i32>>,
    messages: Vec<Option<&'a str>>,
    conflict_tables: Vec<&'a str>,
    operations: Vec<&'a str>,
    rules: Vec<&'a str>,
    old_rows: Vec<Option<&'a str>>,
    new_rows: Vec<Option<&'a str>>,
    consolidated_rows: Vec<Option<&'a str>>,
    result_rows: Vec<Option<&'a str>>,
    rejected: RejectedEntries<'a>,
}

/// The rejected rows as columns.
#[derive(Default)]
struct RejectedEntries<'a> {
    tables: Vec<&'a str>,
    operations: Vec<&'a str>,
    keys: Vec<&'a str>,
    rows: Vec<Option<&'a str>>,
    codes: Vec<i32>,
    messages: Vec<&'a str>,
}

impl Entries<'_> {
    pub(super) fn owed_parameters(&self) -> [&(dyn ToSql + Sync); 6] {
        let Entries { remote_id, counter, tables, keys, codes, messages, .. } = self;
        [remote_id, counter, tables, keys, codes, messages]
    }

    pub(super) fn reject_parameters(&self) -> [&(dyn ToSql + Sync); 9] {
        let RejectedEntries { tables, operations, keys, rows, codes, messages } = &self.rejected;
        let Entries { remote_id, user, counter, .. } = self;
        [remote_id, user, counter, tables, operations, keys, rows, codes, messages]
    }

    pub(super) fn reject_call<'p>(
        &self,
        parameters: &'p [&'p (dyn ToSql + Sync)],
    ) -> Option<Call<'p>> {
        (!self.rejected.tables.is_empty()).then(|| Call::new(NOTE_REJECTS, parameters))
    }

    pub(super) fn conflict_parameters(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.remote_id,
            &self.user,
            &self.conflict_tables,
            &self.operations,
            &self.rules,
            &self.old_rows,
            &self.new_rows,
            &self.consolidated_rows,
            &self.result_rows,
        ]
    }

    pub(super) fn owed_call<'p>(
        &self,
        parameters: &'p [&'p (dyn ToSql + Sync)],
    ) -> Option<Call<'p>> {
        (!self.tables.is_empty()).then(|| Call::new(&OWE, parameters))
    }

    pub(super) fn conflict_call<'p>(
        &self,
        parameters: &'p [&'p (dyn ToSql + Sync)],
    ) -> Option<Call<'p>> {
        (!self.operations.is_empty()).then(|| Call::new(NOTE_CONFLICTS, parameters))
    }
}
