//! What is written of an upload in the system tables: statements with many entries each.

use crate::administration::readable;
use crate::download::bundle::{Bundled, Bundles};
use crate::postgres::download::owed;
use crate::postgres::encoding::Encoding;
use crate::postgres::errors::{Fault, failed};
use crate::postgres::link::Link;
use crate::postgres::statement::{Value, as_parameters};
use crate::postgres::upload::batch::{BATCH_BYTES, Reason};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reject::{self, Rejected};
use model::{Counter, Failure, PublishedTable};
use postgres_types::ToSql;
use std::borrow::Cow;
use std::sync::LazyLock;

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
pub(super) const PART_BYTES: usize = BATCH_BYTES;

/// Most bytes of keys that are owed in one entry. It is stored in one piece then, and not
/// compressed.
const BUNDLE_BYTES: usize = 1536;

const NOTING: &str = "note what became of the upload";

/// The rows of a conflict, for people.
pub(in crate::postgres) struct Conflict {
    pub(super) table: usize,
    pub(super) change: Change,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    pub(super) consolidated: Option<String>,
    pub(super) result: Option<Cow<'static, str>>,
}

impl Conflict {
    pub(super) fn bytes(&self) -> usize {
        let rows = [&self.old, &self.new, &self.consolidated];
        let rows: usize = rows.into_iter().flatten().map(String::len).sum();
        rows + self.result.as_deref().map_or(0, str::len)
    }
}

/// What is to be written of an upload, with as much of a kind as one statement takes.
pub(in crate::postgres) struct Entries<'a> {
    upload: Upload<'a>,
    encoding: Encoding,
    counter: i64,
    /// The remote is owed nothing else.
    first: bool,
    owed: Part<OwedEntry<'a>>,
    /// Each of one table and operation.
    conflicts: Vec<Part<&'a Conflict>>,
    rejected: Part<Rejected>,
}

/// A key that the remote is owed, or a bundle of so many.
struct OwedEntry<'a> {
    table: &'a str,
    key: Vec<u8>,
    bundled: Option<i32>,
    reason: Option<Reason>,
}

/// Entries of one kind, which one statement writes.
struct Part<T> {
    entries: Vec<T>,
    bytes: usize,
}

impl<T> Part<T> {
    const fn new() -> Part<T> {
        Part { entries: Vec::new(), bytes: 0 }
    }

    /// Whether an entry of so many bytes belongs to the next one.
    fn is_full(&self, bytes: usize) -> bool {
        let rows = self.entries.len();
        rows >= PART_ROWS || rows > 0 && self.bytes + bytes > PART_BYTES
    }

    fn push(&mut self, entry: T, bytes: usize) {
        self.entries.push(entry);
        self.bytes += bytes;
    }

    /// A value of each entry as one parameter.
    fn column<'p, V: ToSql + Sync + 'p>(&'p self, value: impl Fn(&'p T) -> V) -> Value<'p> {
        Box::new(self.entries.iter().map(value).collect::<Vec<V>>())
    }
}

/// A statement with the values of its parameters.
pub(in crate::postgres) type Written<'p> = (&'static str, Vec<Value<'p>>);

impl<'a> Entries<'a> {
    /// What is owed and recorded; with the watermark `counter` the remote has what it is owed
    /// now, and where `first` all that it is owed. As much of it as one statement of a kind
    /// takes is left to be written with what commits; what is more is written at once.
    pub(in crate::postgres) fn of(
        (owed, recorded): (&'a OwedRows, &'a [Conflict]),
        link: &mut Link,
        upload: Upload<'a>,
        (counter, first): (Counter, bool),
    ) -> Result<Entries<'a>, Failure> {
        let mut entries = Entries::new(upload, link.encoding(), counter, first);
        let published = |at: usize| &upload.tables[at].deployed.published;
        // What a remote is owed besides may be of the same keys, and has to be found by them.
        let bundles = first && owed.are_many();
        let mut open = Bundles::new(BUNDLE_BYTES);
        owed.visit(|at, key, reason| {
            upload.pulse.pass_row()?;
            if !(bundles && open.may_have(key, reason.as_ref())) {
                let (table, key) = (published(at).name.as_str(), key.to_vec());
                return entries.owe(link, OwedEntry { table, key, bundled: None, reason });
            }
            let full = open.add(at, key, reason);
            full.map_or(Ok(()), |full| entries.owe_bundle(link, published(full.table), full))
        })?;
        for last in open.end() {
            entries.owe_bundle(link, published(last.table), last)?;
        }
        entries.add_conflicts(link, recorded).map_err(failed(NOTING))?;
        if !owed.has_rejects() {
            return Ok(entries);
        }
        let rows = (upload.request.batches, upload.request.left_out);
        reject::visit_rejected(rows, &published, owed, &mut |rejected| {
            upload.pulse.pass_row()?;
            let Some(reject) = rejected else { return Ok(()) };
            let row = reject.row.as_ref().map_or(0, String::len);
            let bytes = reject.key.len() + row + reject.message.len();
            if entries.rejected.is_full(bytes) {
                entries.write(link).map_err(failed(NOTING))?;
            }
            entries.rejected.push(reject, bytes);
            Ok(())
        })?;
        Ok(entries)
    }

    pub(super) fn new(
        upload: Upload<'a>,
        encoding: Encoding,
        counter: Counter,
        first: bool,
    ) -> Entries<'a> {
        let (owed, conflicts, rejected) = (Part::new(), Vec::new(), Part::new());
        Entries { upload, encoding, counter: counter.0, first, owed, conflicts, rejected }
    }

    /// Adds what is owed of a table. Writes what becomes too much.
    fn owe(&mut self, link: &mut Link, entry: OwedEntry<'a>) -> Result<(), Failure> {
        let message = entry.reason.as_ref().map_or(0, |reason| reason.message.len());
        let bytes = entry.key.len() + message;
        if self.owed.is_full(bytes) {
            self.write(link).map_err(failed(NOTING))?;
        }
        self.owed.push(entry, bytes);
        Ok(())
    }

    fn owe_bundle(
        &mut self,
        link: &mut Link,
        published: &'a PublishedTable,
        of: Bundled,
    ) -> Result<(), Failure> {
        let (table, bundled) = (published.name.as_str(), Some(of.bundle.count));
        let (key, reason) = (of.bundle.into_bytes(), of.reason);
        self.owe(link, OwedEntry { table, key, bundled, reason })
    }

    /// Adds conflicts, and writes what becomes too much.
    pub(super) fn add_conflicts(
        &mut self,
        link: &mut Link,
        conflicts: &'a [Conflict],
    ) -> Result<(), Fault> {
        let mut conflicts: Vec<&Conflict> = conflicts.iter().collect();
        conflicts.sort_by_key(|conflict| (conflict.table, readable::operation(conflict.change)));
        for conflict in conflicts {
            let bytes = conflict.bytes();
            let takes = |part: &Part<&Conflict>| {
                let first = part.entries.first();
                first.is_some_and(|it| (it.table, it.change) == (conflict.table, conflict.change))
            };
            if self.conflicts.last().is_some_and(|last| takes(last) && last.is_full(bytes)) {
                self.write(link)?;
            }
            if !self.conflicts.last().is_some_and(takes) {
                self.conflicts.push(Part::new());
            }
            self.conflicts
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|last| last.push(conflict, bytes));
        }
        Ok(())
    }

    /// Writes all of it, after which it has nothing.
    pub(super) fn write(&mut self, link: &mut Link) -> Result<(), Fault> {
        for (sql, values) in self.statements() {
            link.query(sql, &as_parameters(&values))?;
        }
        (self.owed, self.conflicts, self.rejected) = (Part::new(), Vec::new(), Part::new());
        Ok(())
    }

    /// What writes all of it.
    pub(in crate::postgres) fn statements(&self) -> Vec<Written<'_>> {
        let Entries { upload, encoding, counter, first, owed, conflicts, rejected } = self;
        let session = upload.request.session;
        let (remote_id, user) = (session.remote_id.as_str(), session.user.as_str());
        let table = |at: usize| upload.tables[at].deployed.as_ref();
        let mut written: Vec<Written<'_>> = Vec::new();
        if !owed.entries.is_empty() {
            let code = |it: &OwedEntry<'_>| Some(i32::from(it.reason.as_ref()?.code.number()));
            let values: Vec<Value<'_>> = vec![
                Box::new(remote_id),
                Box::new(counter),
                owed.column(|it| it.table),
                owed.column(|it| it.key.as_slice()),
                owed.column(|it| it.bundled),
                owed.column(code),
                owed.column(|it| it.reason.as_ref().map(|why| encoding.spelled(&why.message))),
            ];
            let owe: &'static str = if *first { &OWE_FIRST } else { &OWE };
            written.push((owe, values));
        }
        for part in conflicts {
            let Some(Conflict { table: at, change, .. }) = part.entries.first() else {
                continue;
            };
            let values: Vec<Value<'_>> = vec![
                Box::new(remote_id),
                Box::new(user),
                Box::new(table(*at).published.name.as_str()),
                Box::new(readable::operation(*change)),
                Box::new(table(*at).decides(*change)),
                part.column(|it| it.old.as_deref().map(|row| encoding.spelled(row))),
                part.column(|it| it.new.as_deref().map(|row| encoding.spelled(row))),
                part.column(|it| it.consolidated.as_deref().map(|row| encoding.spelled(row))),
                part.column(|it| it.result.as_deref().map(|row| encoding.spelled(row))),
            ];
            written.push((NOTE_CONFLICTS, values));
        }
        if !rejected.entries.is_empty() {
            let values: Vec<Value<'_>> = vec![
                Box::new(remote_id),
                Box::new(user),
                Box::new(counter),
                rejected.column(|it| table(it.table).published.name.as_str()),
                rejected.column(|it| it.operation),
                rejected.column(|it| encoding.spelled(&it.key)),
                rejected.column(|it| it.row.as_deref().map(|row| encoding.spelled(row))),
                rejected.column(|it| i32::from(it.code.number())),
                rejected.column(|it| encoding.spelled(&it.message)),
            ];
            written.push((NOTE_REJECTS, values));
        }
        written
    }
}
