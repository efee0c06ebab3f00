//! Rows that the center stored differently from what a remote uploaded.
//!
//! A trigger changes an uploaded row. Until its next download the remote has the row as it sent it,
//! and its next change is based on that. Without a record, the change would find a row that differs
//! from its old image and lose: the remote would have a conflict with itself.
//!
//! A record has two digests, of the row at the remote and of the row as stored. It is valid until
//! the remote presents a later watermark, and is removed with the next records of the remote. Owed
//! rows get no record, because the row at the center is not theirs.

use crate::postgres::download::owed;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Call, Link};
use crate::postgres::upload::isolation::group::{Gathering, Group};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::echo::image_digest;
use crate::upload::rebase::{both_changed, image, rebase, values};
use crate::upload::uploaded_row::RowId;
use model::{Counter, Failure};
use postgres_types::ToSql;
use std::collections::HashMap;
use std::sync::LazyLock;

static READ: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT u.row_key, m.uploaded, m.made
FROM unnest($3::bytea[]) AS u (row_key) JOIN syncline.syncline_made AS m ON m.row_key = {}
WHERE m.remote_id = $1 AND m.table_name = $2 AND m.counter > $4",
        owed::indexed("u.row_key")
    )
});

static WRITE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH settled AS (
    DELETE FROM syncline.syncline_made WHERE remote_id = $1 AND counter <= $2
        AND table_name <> ALL ($8) AND NOT (table_name, row_key) IN (
            SELECT u.table_name, {indexed} FROM unnest($4::text[], $5::bytea[])
                AS u (table_name, row_key)))
INSERT INTO syncline.syncline_made (remote_id, table_name, row_key, counter, uploaded, made)
SELECT $1, u.table_name, {indexed}, $3, u.uploaded, u.made
FROM unnest($4::text[], $5::bytea[], $6::bytea[], $7::bytea[])
    AS u (table_name, row_key, uploaded, made)
ON CONFLICT (remote_id, table_name, row_key) DO UPDATE SET
    counter = excluded.counter, uploaded = excluded.uploaded, made = excluded.made",
        indexed = owed::indexed("u.row_key")
    )
});

/// Bytes of what is noted by one statement.
const PART_BYTES: usize = 1 << 20;

/// Bytes that a row takes beside the name of its table and its key: two digests, and four vectors.
const ROW_BYTES: usize = 128;

/// What was stored of uploaded rows, as columns. An upload may have a million of them.
#[derive(Debug, Default)]
struct Made {
    tables: Vec<String>,
    keys: Vec<Vec<u8>>,
    uploaded: Vec<Vec<u8>>,
    made: Vec<Vec<u8>>,
    bytes: usize,
}

impl Made {
    /// Adds a row that is not stored as it was sent.
    fn add(&mut self, table: &str, key: Vec<u8>, uploaded: &[u8], made: &[u8]) {
        self.bytes += ROW_BYTES + table.len() + key.len();
        self.tables.push(table.to_owned());
        self.keys.push(key);
        self.uploaded.push(image_digest(uploaded).to_vec());
        self.made.push(image_digest(made).to_vec());
    }

    /// Adds those rows of one table that are not stored as they were sent, and owes those that are
    /// not stored under their keys.
    fn compare(
        &mut self,
        isolation: &mut Isolation<'_, '_>,
        group: Option<Group>,
        record: &mut UploadRecord,
    ) -> Result<(), Stop> {
        let Some(Group { table, change, rows: images }) = group else { return Ok(()) };
        let stored = match isolation.fetch(table, change, &images) {
            // What cannot be read cannot be compared with what comes later either.
            Err(Stop::Refused(..)) => return Ok(()),
            stored => stored?,
        };
        let deployed = &isolation.table(table).deployed;
        let published = &deployed.published;
        // A user's script may put rows where it likes.
        let owes = published.direction.downloads() && !deployed.has_own_uploads();
        for image in &images {
            let id = isolation.read(table, change, image)?.key(published, table);
            match stored.get(&id.1) {
                Some(now) if now == image => {}
                Some(now) => self.add(&published.name, id.1, image, now),
                None if owes => record.owe(&id)?,
                None => {}
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes >= PART_BYTES
    }

    /// Notes the rows; with the watermark `counter` the remote has them.
    fn write(&self, link: &mut Link, upload: Upload<'_>, counter: Counter) -> Result<(), Failure> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let remote_id = upload.request.session.remote_id.as_str();
        let waiting = upload.request.session.waiting_names();
        let parameters: [&(dyn ToSql + Sync); 8] = [
            &remote_id,
            &upload.settled.0,
            &counter.0,
            &self.tables,
            &self.keys,
            &self.uploaded,
            &self.made,
            &waiting,
        ];
        link.flight(&[Call::new(&WRITE, &parameters)])
            .map_err(crate::postgres::errors::failed("note what was made of rows"))?;
        Ok(())
    }
}

/// Notes what the center stored of the rows of an upload that is applied, where something may have
/// changed them. With the watermark `counter` the remote has them.
pub(in crate::postgres) fn note(
    link: &mut Link,
    upload: Upload<'_>,
    record: &mut UploadRecord,
    counter: Counter,
) -> Result<(), Stop> {
    let remade = |table: usize| upload.tables[table].deployed.details.remade;
    let mut made = Made::default();
    let outline = UploadShape::of(upload)?;
    let mut isolation = Isolation::new(link, upload);
    let mut gathering = Gathering::default();
    outline.visit(upload, &mut |table, row| {
        if row.change == Change::Delete || !remade(table) {
            return Ok(());
        }
        let published = &upload.tables[table].deployed.published;
        if record.tells_of(&row.key(published, table))? {
            return Ok(());
        }
        // As if it were new: what is compared is what it was to become.
        let group = gathering.add(table, Change::Insert, row.new_image());
        made.compare(&mut isolation, group, record)?;
        if made.is_full() {
            std::mem::take(&mut made).write(isolation.link, upload, counter)?;
        }
        Ok(())
    })?;
    made.compare(&mut isolation, gathering.end(), record)?;
    Ok(made.write(link, upload, counter)?)
}

/// Applies the rows of `group` that the center stored differently from what the remote uploaded,
/// rebased onto the stored rows. Returns the other rows. Scripts of a user that find conflicts are
/// given the row as it was sent.
pub(in crate::postgres) fn over(
    isolation: &mut Isolation<'_, '_>,
    mut group: Group,
) -> Result<Group, Stop> {
    let (table, change) = (group.table, group.change);
    let this = isolation.table(table);
    let (published, added) = (&this.deployed.published, this.added(change));
    let by_scripts = this.deployed.detection(change).is_some();
    if change == Change::Insert || !this.deployed.details.remade || by_scripts {
        return Ok(group);
    }
    let here = isolation.fetch(table, change, &group.rows)?;
    let keys: Vec<&Vec<u8>> = here.keys().collect();
    let remote_id = isolation.upload.request.session.remote_id.as_str();
    let settled = isolation.upload.settled.0;
    let parameters: [&(dyn ToSql + Sync); 4] = [&remote_id, &published.name, &keys, &settled];
    isolation.flush()?;
    let found = isolation
        .link
        .query(&READ, &parameters)
        .map_err(stopped("look for what was made of rows"))?;
    let mut noted: HashMap<Vec<u8>, (Vec<u8>, Vec<u8>)> = HashMap::new();
    for row in found {
        let value = |at: usize| row.try_get::<Vec<u8>>(at).map_err(unreadable);
        noted.insert(value(0)?, (value(1)?, value(2)?));
    }
    if noted.is_empty() {
        return Ok(group);
    }
    let mut told = Vec::new();
    for bytes in std::mem::take(&mut group.rows) {
        let row = isolation.read(table, change, &bytes)?;
        let (_, key): RowId = row.key(published, table);
        let now = here.get(&key).filter(|now| {
            let saw = image_digest(&image(&row.old)).to_vec();
            noted.get(&key) == Some(&(saw, image_digest(now).to_vec()))
        });
        let is_told = isolation.is_told(table, change, &bytes)?;
        let Some(now) = now.filter(|_| !is_told) else {
            group.rows.push(bytes);
            continue;
        };
        let now = values(now)?;
        if both_changed(&row, &now, added) {
            group.rows.push(bytes);
            continue;
        }
        let anew = rebase(&row, &row.old, &now);
        isolation.note_told(table, change, &bytes, &anew)?;
        told.push(anew.bytes);
    }
    isolation.group(Group { table, change, rows: told })?;
    Ok(group)
}
