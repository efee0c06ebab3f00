//! What is recorded about an upload: owed rows, conflicts, and rows that need not be sent back.

use super::batch::BATCH_BYTES;
use super::link::Link;
use super::owed;
use super::upload::{Stop, Upload, stopped};
use crate::echo::Echo;
use crate::readable;
use crate::reject::{self, Rejected};
use crate::synchronization::{Applied, Change, UploadRequest};
use crate::uploaded_row::{RowId, UploadedRow};
use model::{Counter, Failure, Hold, Memory, PublishedTable, write_value};
use postgres_types::ToSql;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

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

/// Most rows of one statement that writes of them.
const PART_ROWS: usize = 10_000;

/// Most bytes of such a statement, which PostgreSQL takes up to 1 GB (trap 16). One row may exceed
/// it, and the limits of what is kept of a value bound that.
const PART_BYTES: usize = BATCH_BYTES;

/// Grows while rows are applied, and is written with what commits, many conflicts before.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) applied: Applied,
    /// A reason where the row was rejected.
    owed: BTreeMap<RowId, Option<Reason>>,
    conflicts: Vec<Conflict>,
    conflict_bytes: usize,
    /// There were others, which are written.
    conflicts_written: bool,
    /// The rows are not in the echo yet: it is not known whether they must be.
    pub(super) undigested: bool,
    /// Every row was stored as it was sent.
    pub(super) verbatim: bool,
    /// The tables with rows.
    pub(super) written: BTreeSet<usize>,
    /// Every row that is not as it was sent is owed.
    pub(super) is_settled: bool,
    /// What is reported of rows takes so much of the memory.
    held: Option<Hold>,
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

impl Conflict {
    fn bytes(&self) -> usize {
        let rows = [&self.old, &self.new, &self.consolidated, &self.result];
        rows.into_iter().flatten().map(String::len).sum()
    }
}

/// Bytes that a row takes that is owed, beside its key and the reason.
const OWED_BYTES: usize = 96;

impl Ledger {
    /// One that draws on `memory`.
    pub(super) fn within(memory: &Arc<Memory>) -> Ledger {
        let mut ledger = Ledger { held: Some(memory.hold()), ..Ledger::default() };
        ledger.applied.echo = Echo::within(memory);
        ledger
    }

    fn hold(&mut self, bytes: usize) {
        self.held.iter_mut().for_each(|held| held.grow(bytes as u64));
    }

    /// Notes that the remote need not be sent this row.
    pub(super) fn echo(&mut self, table: &PublishedTable, position: usize, row: &UploadedRow<'_>) {
        self.applied.echo.add_uploaded(table, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(super) fn owe(&mut self, row: RowId) {
        let bytes = OWED_BYTES + row.1.len();
        if let Entry::Vacant(entry) = self.owed.entry(row) {
            entry.insert(None);
            self.hold(bytes);
        }
    }

    pub(super) fn reject(&mut self, row: RowId, reason: Reason) {
        self.applied.rejected += 1;
        let (code, message) = reason;
        let message = readable::message(message);
        self.hold(OWED_BYTES + row.1.len() + message.len());
        self.owed.insert(row, Some((code, message)));
    }

    /// Values for columns that are gone are reported with their rows.
    pub(super) fn tell_left_out(&mut self, request: &UploadRequest<'_>) {
        let Some(left_out) = request.left_out else { return };
        for (sent, row, (code, why)) in left_out.told() {
            let is_told = |row: &&RowId| matches!(self.owed.get(*row), Some(Some(_)));
            let told = [&sent, &row].into_iter().find(is_told);
            match told.and_then(|row| self.owed.get_mut(row)) {
                // What else was wrong with the row does not say it.
                Some(Some((_, message))) => {
                    *message = readable::message(format!("{message}; {why}"))
                }
                _ => self.reject(row, (code, why)),
            }
        }
    }

    /// Stores the rows of a conflict and the resulting row, so that people can look at them later.
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
        let told = |image: &[u8]| readable::row(published, image);
        let conflict = Conflict {
            table,
            operation: readable::operation(row.change),
            old: (row.change != Change::Insert).then(|| told(&old)),
            new: (row.change != Change::Delete).then(|| told(row.new_image())),
            consolidated: now.map(told),
            result: result.map(told),
        };
        self.conflict_bytes += conflict.bytes();
        self.hold(conflict.bytes());
        self.conflicts.push(conflict);
    }

    /// The rows that were rejected, with their content.
    pub(super) fn rejected(&self, upload: Upload<'_>) -> Result<Vec<Rejected>, Failure> {
        if self.owed.values().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let published = |at: usize| &upload.tables[at].deployed.published;
        let reason = |row: &RowId| self.owed.get(row).cloned().flatten();
        let request = upload.request;
        reject::rejected((request.batches, request.left_out), &published, &reason)
    }

    /// Whether the remote will be sent this row.
    pub(super) fn tells_of(&self, row: &RowId) -> bool {
        self.owed.contains_key(row)
    }

    /// Whether nothing is to be sent of any row.
    pub(super) fn is_clear(&self) -> bool {
        self.owed.is_empty() && self.conflicts.is_empty() && !self.conflicts_written
    }

    pub(super) fn into_applied(self, download_follows: bool) -> Applied {
        let mut applied = self.applied;
        if !download_follows {
            applied.echo = Echo::default();
        }
        applied
    }

    /// The ledger as columns, cut into parts; with the watermark `counter` the remote has what it
    /// is owed now.
    pub(super) fn entries<'a>(
        &'a self,
        upload: Upload<'a>,
        rejected: &'a [Rejected],
        counter: Counter,
    ) -> Entries<'a> {
        let mut entries = Entries::new(upload, counter);
        let published = |at: usize| &upload.tables[at].deployed.published;
        for ((at, key), reason) in &self.owed {
            let message = reason.as_ref().map(|(_, message)| message.as_str());
            let part = entries.owed.part(key.len() + message.map_or(0, str::len));
            part.tables.push(&published(*at).name);
            part.keys.push(key);
            part.codes.push(reason.as_ref().map(|(code, _)| i32::from(code.number())));
            part.messages.push(message);
        }
        entries.add_conflicts(upload, &self.conflicts);
        for reject in rejected {
            let row = reject.row.as_deref();
            let bytes = reject.key.len() + row.map_or(0, str::len) + reject.message.len();
            let part = entries.rejected.part(bytes);
            part.tables.push(&published(reject.table).name);
            part.operations.push(reject.operation);
            part.keys.push(&reject.key);
            part.rows.push(row);
            part.codes.push(i32::from(reject.code.number()));
            part.messages.push(&reject.message);
        }
        entries
    }

    /// Writes the conflicts so far where they are many, outside of any savepoint that may be undone
    /// by itself.
    pub(super) fn write_conflicts(
        &mut self,
        link: &mut Link,
        upload: Upload<'_>,
    ) -> Result<(), Stop> {
        let conflicts = std::mem::take(&mut self.conflicts);
        let bytes = std::mem::take(&mut self.conflict_bytes);
        self.conflicts_written = true;
        let mut entries = Entries::new(upload, Counter(0));
        entries.add_conflicts(upload, &conflicts);
        for (sql, parameters) in entries.statements() {
            link.query(sql, &parameters).map_err(stopped("note conflicts"))?;
        }
        drop(entries);
        drop(conflicts);
        self.held.iter_mut().for_each(|held| held.shrink(bytes as u64));
        Ok(())
    }

    /// Whether there are enough conflicts for a statement of their own.
    pub(super) fn has_many_conflicts(&self) -> bool {
        self.conflict_bytes >= PART_BYTES
    }
}

/// A ledger as columns.
pub(super) struct Entries<'a> {
    remote_id: &'a str,
    user: &'a str,
    counter: i64,
    owed: Parts<OwedEntries<'a>>,
    conflicts: Parts<ConflictEntries<'a>>,
    rejected: Parts<RejectedEntries<'a>>,
}

/// Columns of one kind, each part of them the parameters of one statement.
struct Parts<T> {
    parts: Vec<T>,
    /// Rows and bytes of the last one.
    rows: usize,
    bytes: usize,
}

impl<T: Default> Parts<T> {
    fn new() -> Parts<T> {
        Parts { parts: Vec::new(), rows: 0, bytes: 0 }
    }

    /// The part to which a row of so many bytes belongs.
    fn part(&mut self, bytes: usize) -> &mut T {
        let full = self.rows >= PART_ROWS || self.bytes + bytes > PART_BYTES;
        if self.parts.is_empty() || full {
            (self.rows, self.bytes) = (0, 0);
            self.parts.push(T::default());
        }
        (self.rows, self.bytes) = (self.rows + 1, self.bytes + bytes);
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }
}

/// What the remote is owed as columns.
#[derive(Default)]
struct OwedEntries<'a> {
    tables: Vec<&'a str>,
    keys: Vec<&'a [u8]>,
    codes: Vec<Option<i32>>,
    messages: Vec<Option<&'a str>>,
}

/// The conflicts as columns.
#[derive(Default)]
struct ConflictEntries<'a> {
    tables: Vec<&'a str>,
    operations: Vec<&'a str>,
    rules: Vec<&'a str>,
    old_rows: Vec<Option<&'a str>>,
    new_rows: Vec<Option<&'a str>>,
    consolidated_rows: Vec<Option<&'a str>>,
    result_rows: Vec<Option<&'a str>>,
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

/// A statement with its parameters.
pub(super) type Written<'p> = (&'static str, Vec<&'p (dyn ToSql + Sync)>);

impl<'a> Entries<'a> {
    fn new(upload: Upload<'a>, counter: Counter) -> Entries<'a> {
        let session = upload.request.session;
        Entries {
            remote_id: session.remote_id.as_str(),
            user: session.user.as_str(),
            counter: counter.0,
            owed: Parts::new(),
            conflicts: Parts::new(),
            rejected: Parts::new(),
        }
    }

    fn add_conflicts(&mut self, upload: Upload<'a>, conflicts: &'a [Conflict]) {
        for conflict in conflicts {
            let table = upload.tables[conflict.table].deployed.as_ref();
            let part = self.conflicts.part(conflict.bytes());
            part.tables.push(&table.published.name);
            part.operations.push(conflict.operation);
            part.rules.push(&table.conflict_rule);
            part.old_rows.push(conflict.old.as_deref());
            part.new_rows.push(conflict.new.as_deref());
            part.consolidated_rows.push(conflict.consolidated.as_deref());
            part.result_rows.push(conflict.result.as_deref());
        }
    }

    /// Whether it is more than a flight takes together with other statements.
    pub(super) fn are_many(&self) -> bool {
        self.owed.parts.len() > 1 || self.conflicts.parts.len() > 1 || self.rejected.parts.len() > 1
    }

    /// What writes all of it.
    pub(super) fn statements(&self) -> Vec<Written<'_>> {
        let Entries { remote_id, user, counter, .. } = self;
        let mut written: Vec<Written<'_>> = Vec::new();
        for OwedEntries { tables, keys, codes, messages } in &self.owed.parts {
            written.push((&OWE, vec![remote_id, counter, tables, keys, codes, messages]));
        }
        for part in &self.conflicts.parts {
            let ConflictEntries { tables, operations, rules, .. } = part;
            let ConflictEntries { old_rows, new_rows, consolidated_rows, result_rows, .. } = part;
            let parameters: Vec<&(dyn ToSql + Sync)> = vec![
                remote_id,
                user,
                tables,
                operations,
                rules,
                old_rows,
                new_rows,
                consolidated_rows,
                result_rows,
            ];
            written.push((NOTE_CONFLICTS, parameters));
        }
        for part in &self.rejected.parts {
            let RejectedEntries { tables, operations, keys, rows, codes, messages } = part;
            let parameters: Vec<&(dyn ToSql + Sync)> =
                vec![remote_id, user, counter, tables, operations, keys, rows, codes, messages];
            written.push((NOTE_REJECTS, parameters));
        }
        written
    }
}
