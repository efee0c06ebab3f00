//! What is recorded about an upload: owed rows, conflicts, and rows that need not be sent back.

use crate::administration::readable::{self, UNCHANGED};
use crate::download::bundle::Bundle;
use crate::postgres::download::owed;
use crate::postgres::errors::{Fault, failed};
use crate::postgres::link::Link;
use crate::postgres::upload::Upload;
use crate::postgres::upload::batch::{BATCH_BYTES, Reason};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::synchronization::change::Change;
use crate::synchronization::{Applied, UploadRequest};
use crate::upload::echo::Echo;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reject;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use model::{Counter, Failure, Hold, PublishedTable, Spills, write_value};
use postgres_types::ToSql;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// To a remote that is owed nothing. Sets that advance together are not stored first, as one
/// function in `FROM` would be.
static OWE_FIRST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO syncline.syncline_owed
    (remote_id, table_name, row_key, whole_key, counter, bundled, code, message)
SELECT $1, u.table_name, {indexed}, {whole}, $2, u.bundled, u.code, u.message
FROM (SELECT unnest($3::text[]) AS table_name, unnest($4::bytea[]) AS row_key,
    unnest($5::int4[]) AS bundled, unnest($6::int4[]) AS code, unnest($7::text[]) AS message) AS u",
        indexed = owed::indexed("u.row_key"),
        whole = owed::whole("u.row_key"),
    )
});

static OWE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}
ON CONFLICT (remote_id, table_name, row_key) DO UPDATE SET
    counter = excluded.counter, code = excluded.code, message = excluded.message,
    withheld = NULL",
        *OWE_FIRST
    )
});

/// Of one table and operation.
const NOTE_CONFLICTS: &str = "INSERT INTO syncline.syncline_conflict
    (remote_id, user_name, table_name, operation, conflict_rule, old_row, new_row,
     consolidated_row, result_row)
SELECT $1, $2, $3, $4, $5, u.old_row, u.new_row, u.consolidated_row, u.result_row
FROM (SELECT unnest($6::text[]) AS old_row, unnest($7::text[]) AS new_row,
    unnest($8::text[]) AS consolidated_row, unnest($9::text[]) AS result_row) AS u";

const NOTE_REJECTS: &str = "INSERT INTO syncline.syncline_reject
    (remote_id, user_name, counter, table_name, operation, row_key, row_content, code, message)
SELECT $1, $2, $3, u.table_name, u.operation, u.row_key, u.row_content, u.code, u.message
FROM (SELECT unnest($4::text[]) AS table_name, unnest($5::text[]) AS operation,
    unnest($6::text[]) AS row_key, unnest($7::text[]) AS row_content,
    unnest($8::int4[]) AS code, unnest($9::text[]) AS message) AS u";

/// Most rows of one statement that writes of them.
const PART_ROWS: usize = 10_000;

/// Most bytes of such a statement, which PostgreSQL takes up to 1 GB (trap 16). One row may exceed
/// it, and the limits of what is kept of a value bound that.
const PART_BYTES: usize = BATCH_BYTES;

/// Most bytes of keys that are owed in one entry. It is stored in one piece then, and not
/// compressed.
const BUNDLE_BYTES: usize = 1536;

const NOTING: &str = "note what became of the upload";

/// Grows while rows are applied, and is written with what commits, many conflicts before.
pub(in crate::postgres) struct UploadRecord {
    pub(in crate::postgres) applied: Applied,
    /// What the remote is owed, and what was rejected.
    owed: OwedRows,
    conflicts: Vec<Conflict>,
    conflict_bytes: usize,
    /// There were others, which are written.
    conflicts_written: bool,
    /// The rows are not in the echo yet: it is not known whether they must be.
    pub(in crate::postgres) undigested: bool,
    /// Every row was stored as it was sent.
    pub(in crate::postgres) verbatim: bool,
    /// The tables with rows.
    pub(in crate::postgres) written: BTreeSet<usize>,
    /// Every row that is not as it was sent is owed.
    pub(in crate::postgres) is_settled: bool,
    /// The conflicts take so much of the memory.
    held: Hold,
}

/// The rows of a conflict, for people.
struct Conflict {
    table: usize,
    operation: &'static str,
    old: Option<String>,
    new: Option<String>,
    consolidated: Option<String>,
    result: Option<Cow<'static, str>>,
}

impl Conflict {
    fn bytes(&self) -> usize {
        let rows = [&self.old, &self.new, &self.consolidated];
        let rows: usize = rows.into_iter().flatten().map(String::len).sum();
        rows + self.result.as_deref().map_or(0, str::len)
    }
}

impl UploadRecord {
    /// One that draws on `spills`.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> UploadRecord {
        UploadRecord {
            applied: Applied { echo: Echo::within(spills.memory()), ..Applied::default() },
            owed: OwedRows::within(spills),
            conflicts: Vec::new(),
            conflict_bytes: 0,
            conflicts_written: false,
            undigested: false,
            verbatim: false,
            written: BTreeSet::new(),
            is_settled: false,
            held: spills.memory().hold(),
        }
    }

    /// Notes that the remote need not be sent this row.
    pub(in crate::postgres) fn echo(
        &mut self,
        table: &PublishedTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        self.applied.echo.add_uploaded(table, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(in crate::postgres) fn owe(&mut self, row: &RowId) -> Result<(), Failure> {
        self.owed.owe(row)
    }

    pub(in crate::postgres) fn reject(
        &mut self,
        row: &RowId,
        (code, message): Reason,
    ) -> Result<(), Failure> {
        self.applied.rejected += 1;
        self.owed.reject(row, (code, readable::message(message)))
    }

    /// Values for columns that are gone are reported with their rows.
    pub(in crate::postgres) fn tell_left_out(
        &mut self,
        request: &UploadRequest<'_>,
    ) -> Result<(), Failure> {
        let Some(left_out) = request.left_out else { return Ok(()) };
        self.applied.rejected += self.owed.tell_left_out(left_out)?;
        Ok(())
    }

    /// Stores the rows of a conflict and the resulting row, so that people can look at them later.
    pub(in crate::postgres) fn conflict(
        &mut self,
        (table, published): (usize, &PublishedTable),
        row: &UploadedRow<'_>,
        now: Option<&[u8]>,
        result: Option<&[u8]>,
    ) {
        self.applied.conflicts += 1;
        let mut old = Vec::with_capacity(row.bytes.len());
        row.old.iter().for_each(|value| write_value(&mut old, *value));
        let told = |image: &[u8]| readable::row(published, image);
        let stays = result == now;
        let conflict = Conflict {
            table,
            operation: readable::operation(row.change),
            old: (row.change != Change::Insert).then(|| told(&old)),
            new: (row.change != Change::Delete).then(|| told(row.new_image())),
            consolidated: now.map(told),
            result: match stays {
                true => now.map(|_| UNCHANGED.into()),
                false => result.map(|image| told(image).into()),
            },
        };
        self.conflict_bytes += conflict.bytes();
        self.held.grow(conflict.bytes() as u64);
        self.conflicts.push(conflict);
    }

    /// Whether the remote will be sent this row.
    pub(in crate::postgres) fn tells_of(&self, row: &RowId) -> Result<bool, Failure> {
        self.owed.contains(row)
    }

    /// Whether the remote is owed enough to ask first what it is owed already.
    pub(in crate::postgres) fn owes_many(&self) -> bool {
        self.owed.are_many()
    }

    /// Whether nothing is to be sent of any row.
    pub(in crate::postgres) fn is_clear(&self) -> bool {
        self.owed.is_empty() && self.conflicts.is_empty() && !self.conflicts_written
    }

    pub(in crate::postgres) fn into_applied(self, download_follows: bool) -> Applied {
        let mut applied = self.applied;
        if !download_follows {
            applied.echo = Echo::default();
        }
        applied
    }

    /// What is to be written of the upload; with the watermark `counter` the remote has what it is
    /// owed now, and where `first` all that it is owed. As much of it as one statement of a kind
    /// takes is left to be written with what commits; what is more is written at once.
    pub(in crate::postgres) fn entries<'a>(
        &'a self,
        link: &mut Link,
        upload: Upload<'a>,
        (counter, first): (Counter, bool),
    ) -> Result<Entries<'a>, Failure> {
        let mut entries = Entries::new(upload, counter);
        entries.first = first;
        let published = |at: usize| &upload.tables[at].deployed.published;
        // What a remote is owed besides may be of the same keys, and has to be found by them.
        let bundles = first && self.owes_many();
        let mut bundle: Option<(&'a str, Bundle)> = None;
        self.owed.visit(|at, key, reason| {
            upload.pulse.pass_row()?;
            if !(bundles && reason.is_none() && Bundle::may_have(key, BUNDLE_BYTES)) {
                return entries.owe(link, &published(at).name, (key.to_vec(), None), reason);
            }
            let table = published(at).name.as_str();
            let fits = |(of, bundle): &mut (&str, Bundle)| *of == table && !bundle.is_full(key);
            if let Some((table, bundle)) = bundle.take_if(|bundle| !fits(bundle)) {
                entries.owe_bundle(link, table, bundle)?;
            }
            bundle.get_or_insert_with(|| (table, Bundle::new(BUNDLE_BYTES))).1.push(key);
            Ok::<(), Failure>(())
        })?;
        if let Some((table, bundle)) = bundle {
            entries.owe_bundle(link, table, bundle)?;
        }
        entries.add_conflicts(link, upload, &self.conflicts).map_err(failed(NOTING))?;
        if !self.owed.has_rejects() {
            return Ok(entries);
        }
        let rows = (upload.request.batches, upload.request.left_out);
        reject::visit_rejected(rows, &published, &self.owed, &mut |rejected| {
            upload.pulse.pass_row()?;
            let Some(reject) = rejected else { return Ok(()) };
            let row = reject.row.as_ref().map_or(0, String::len);
            let bytes = reject.key.len() + row + reject.message.len();
            if entries.rejected.is_full(bytes) {
                entries.write(link).map_err(failed(NOTING))?;
            }
            let part = entries.rejected.with(bytes);
            part.tables.push(&published(reject.table).name);
            part.operations.push(reject.operation);
            part.keys.push(reject.key);
            part.rows.push(reject.row);
            part.codes.push(i32::from(reject.code.number()));
            part.messages.push(reject.message);
            Ok(())
        })?;
        Ok(entries)
    }

    /// Writes the conflicts so far where they are many, outside of any savepoint that may be undone
    /// by itself.
    pub(in crate::postgres) fn write_conflicts(
        &mut self,
        link: &mut Link,
        upload: Upload<'_>,
    ) -> Result<(), Stop> {
        let conflicts = std::mem::take(&mut self.conflicts);
        let bytes = std::mem::take(&mut self.conflict_bytes);
        self.conflicts_written = true;
        let mut entries = Entries::new(upload, Counter(0));
        entries
            .add_conflicts(link, upload, &conflicts)
            .and_then(|()| entries.write(link))
            .map_err(stopped("note conflicts"))?;
        drop(entries);
        drop(conflicts);
        self.held.shrink(bytes as u64);
        Ok(())
    }

    /// Whether there are enough conflicts for a statement of their own.
    pub(in crate::postgres) fn has_many_conflicts(&self) -> bool {
        self.conflict_bytes >= PART_BYTES
    }
}

/// A record as columns.
pub(in crate::postgres) struct Entries<'a> {
    remote_id: &'a str,
    user: &'a str,
    counter: i64,
    /// The remote is owed nothing else.
    first: bool,
    owed: Part<OwedEntries<'a>>,
    /// By table and operation.
    conflicts: Vec<Part<ConflictEntries<'a>>>,
    rejected: Part<RejectedEntries<'a>>,
}

/// Columns of one kind: the parameters of one statement.
#[derive(Default)]
struct Part<T> {
    part: T,
    rows: usize,
    bytes: usize,
}

impl<T> Part<T> {
    /// Whether a row of so many bytes belongs to the next one.
    fn is_full(&self, bytes: usize) -> bool {
        self.rows >= PART_ROWS || self.rows > 0 && self.bytes + bytes > PART_BYTES
    }

    /// Its columns, to which a row of so many bytes is added.
    fn with(&mut self, bytes: usize) -> &mut T {
        (self.rows, self.bytes) = (self.rows + 1, self.bytes + bytes);
        &mut self.part
    }
}

/// What the remote is owed as columns.
#[derive(Default)]
struct OwedEntries<'a> {
    tables: Vec<&'a str>,
    keys: Vec<Vec<u8>>,
    /// How many keys each has, if it is a bundle of them.
    bundled: Vec<Option<i32>>,
    codes: Vec<Option<i32>>,
    messages: Vec<Option<String>>,
}

/// The conflicts of one table and operation as columns.
#[derive(Default)]
struct ConflictEntries<'a> {
    table: &'a str,
    operation: &'a str,
    rule: &'a str,
    old_rows: Vec<Option<&'a str>>,
    new_rows: Vec<Option<&'a str>>,
    consolidated_rows: Vec<Option<&'a str>>,
    result_rows: Vec<Option<&'a str>>,
}

impl<'a> ConflictEntries<'a> {
    /// Whether the conflicts of both may be noted by one statement.
    fn is_like(&self, other: &ConflictEntries<'_>) -> bool {
        (self.table, self.operation) == (other.table, other.operation)
    }

    fn push(&mut self, conflict: &'a Conflict) {
        self.old_rows.push(conflict.old.as_deref());
        self.new_rows.push(conflict.new.as_deref());
        self.consolidated_rows.push(conflict.consolidated.as_deref());
        self.result_rows.push(conflict.result.as_deref());
    }
}

/// The rejected rows as columns.
#[derive(Default)]
struct RejectedEntries<'a> {
    tables: Vec<&'a str>,
    operations: Vec<&'a str>,
    keys: Vec<String>,
    rows: Vec<Option<String>>,
    codes: Vec<i32>,
    messages: Vec<String>,
}

/// A statement with its parameters.
pub(in crate::postgres) type Written<'p> = (&'static str, Vec<&'p (dyn ToSql + Sync)>);

impl<'a> Entries<'a> {
    fn new(upload: Upload<'a>, counter: Counter) -> Entries<'a> {
        let session = upload.request.session;
        Entries {
            remote_id: session.remote_id.as_str(),
            user: session.user.as_str(),
            counter: counter.0,
            first: false,
            owed: Part::default(),
            conflicts: Vec::new(),
            rejected: Part::default(),
        }
    }

    /// Adds what is owed of a table: a key, or a bundle of so many. Writes what becomes too much.
    fn owe(
        &mut self,
        link: &mut Link,
        table: &'a str,
        (key, bundled): (Vec<u8>, Option<i32>),
        reason: Option<Reason>,
    ) -> Result<(), Failure> {
        let bytes = key.len() + reason.as_ref().map_or(0, |(_, message)| message.len());
        if self.owed.is_full(bytes) {
            self.write(link).map_err(failed(NOTING))?;
        }
        let part = self.owed.with(bytes);
        part.tables.push(table);
        part.keys.push(key);
        part.bundled.push(bundled);
        part.codes.push(reason.as_ref().map(|(code, _)| i32::from(code.number())));
        part.messages.push(reason.map(|(_, message)| message));
        Ok(())
    }

    fn owe_bundle(
        &mut self,
        link: &mut Link,
        table: &'a str,
        bundle: Bundle,
    ) -> Result<(), Failure> {
        let count = bundle.count;
        self.owe(link, table, (bundle.into_bytes(), Some(count)), None)
    }

    /// Adds conflicts, and writes what becomes too much.
    fn add_conflicts(
        &mut self,
        link: &mut Link,
        upload: Upload<'a>,
        conflicts: &'a [Conflict],
    ) -> Result<(), Fault> {
        let mut conflicts: Vec<&Conflict> = conflicts.iter().collect();
        conflicts.sort_by_key(|conflict| (conflict.table, conflict.operation));
        for conflict in conflicts {
            let table = upload.tables[conflict.table].deployed.as_ref();
            let alike = ConflictEntries {
                table: &table.published.name,
                operation: conflict.operation,
                rule: &table.conflict_rule,
                ..ConflictEntries::default()
            };
            let last = self.conflicts.last().filter(|last| last.part.is_like(&alike));
            if last.is_some_and(|last| last.is_full(conflict.bytes())) {
                self.write(link)?;
            }
            if !self.conflicts.last().is_some_and(|last| last.part.is_like(&alike)) {
                self.conflicts.push(Part { part: alike, rows: 0, bytes: 0 });
            }
            let Some(last) = self.conflicts.last_mut() else { continue };
            last.with(conflict.bytes()).push(conflict);
        }
        Ok(())
    }

    /// Writes all of it, after which it has nothing.
    pub(in crate::postgres) fn write(&mut self, link: &mut Link) -> Result<(), Fault> {
        for (sql, parameters) in self.statements() {
            link.query(sql, &parameters)?;
        }
        (self.owed, self.conflicts) = (Part::default(), Vec::new());
        self.rejected = Part::default();
        Ok(())
    }

    /// What writes all of it.
    pub(in crate::postgres) fn statements(&self) -> Vec<Written<'_>> {
        let Entries { remote_id, user, counter, first, owed, conflicts, rejected } = self;
        let mut written: Vec<Written<'_>> = Vec::new();
        let owe: &'static str = if *first { &OWE_FIRST } else { &OWE };
        if owed.rows > 0 {
            let OwedEntries { tables, keys, bundled, codes, messages } = &owed.part;
            written.push((owe, vec![remote_id, counter, tables, keys, bundled, codes, messages]));
        }
        for Part { part, .. } in conflicts {
            let ConflictEntries { table, operation, rule, .. } = part;
            let ConflictEntries { old_rows, new_rows, consolidated_rows, .. } = part;
            let mut parameters: Vec<&(dyn ToSql + Sync)> =
                vec![remote_id, user, table, operation, rule, old_rows, new_rows];
            parameters.extend::<[&(dyn ToSql + Sync); 2]>([consolidated_rows, &part.result_rows]);
            written.push((NOTE_CONFLICTS, parameters));
        }
        if rejected.rows > 0 {
            let RejectedEntries { tables, operations, keys, rows, codes, messages } =
                &rejected.part;
            let parameters: Vec<&(dyn ToSql + Sync)> =
                vec![remote_id, user, counter, tables, operations, keys, rows, codes, messages];
            written.push((NOTE_REJECTS, parameters));
        }
        written
    }
}
