//! Rows that were not applied while the others of their batch were.
//!
//! One statement finds them, and they are resolved as a set after all others. A row that a
//! generated script applied has the version of this transaction, and a row that it deleted is
//! missing. So the remaining rows of a batch are known without applying them one by one. A new row
//! whose key exists makes the whole attempt fail. In the next attempt such rows are searched for
//! first and set aside.
//!
//! Invariants:
//! G1. The rows found must be exactly as many as the statement did not change. Otherwise everything
//!     is undone, and its faults isolated.
//! G2. It makes no difference for these rows that the others are applied first: no trigger or rule
//!     of a user sees the rows, no action of a foreign key changes them, and none of them leaves
//!     the partition before others that need it. A user's script in the same upload may see the
//!     center without them.

pub(in crate::postgres) mod missed;
pub(in crate::postgres) mod seeker;

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Call, Link};
use crate::postgres::upload::batch::{self, Batch, Numbers};
use crate::postgres::upload::isolation::conflict;
use crate::postgres::upload::isolation::group::Gathering;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::key_range::KeyRange;
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::shortfall::missed::Missed;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use postgres_types::ToSql;

/// Whether triggers, rules or policies of users act on the rows of tables `$1`, or hide some.
const MEDDLES: &str = "SELECT 1 FROM pg_class AS c
WHERE c.oid = ANY (ARRAY(SELECT n::regclass::oid FROM unnest($1::text[]) AS n))
    AND (c.relhasrules OR c.relhassubclass OR c.relrowsecurity OR EXISTS (
        SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'
            AND p.pronamespace <> 'syncline'::regnamespace))
LIMIT 1";

/// The numbers of new rows whose key exists. None if there are none, or if they are not needed.
pub(in crate::postgres) fn duplicates(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &UploadShape,
) -> Result<Option<Vec<u64>>, Stop> {
    if !outline.can_be_sought(upload) {
        return Ok(None);
    }
    let mut number = 0;
    let mut found = Vec::new();
    let mut asking: Option<(usize, Batch<'_>, Numbers)> = None;
    outline.visit(upload, &mut |at, row| {
        let this = number;
        number += 1;
        let table: &Table = &upload.tables[at];
        let Some(seeker) = table.seeker.as_ref().filter(|_| row.change == Change::Insert) else {
            return Ok(());
        };
        let fits = asking.as_ref().is_some_and(|(of, batch, _)| *of == at && !batch.is_full());
        if !fits {
            found.extend(present(link, upload, asking.take())?);
            let batch = Batch::new(table, &seeker.there, upload.request.session);
            asking = Some((at, batch, Numbers::default()));
        }
        if let Some((_, batch, numbers)) = &mut asking
            && batch.add(row).is_ok()
        {
            numbers.push(this);
        }
        Ok(())
    })?;
    found.extend(present(link, upload, asking)?);
    Ok((!found.is_empty()).then_some(found))
}

fn present(
    link: &mut Link,
    upload: Upload<'_>,
    asking: Option<(usize, Batch<'_>, Numbers)>,
) -> Result<Vec<u64>, Stop> {
    let Some((table, mut batch, numbers)) = asking.filter(|(_, batch, _)| batch.rows > 0) else {
        return Ok(Vec::new());
    };
    batch.finish();
    let table: &Table = &upload.tables[table];
    if let Some(range) = KeyRange::of(table, &batch)
        && let Some(positions) = range.present(link, table)?
    {
        return Ok(positions.into_iter().filter_map(|position| numbers.at(position)).collect());
    }
    let parameters = batch.parameters();
    let calls = batch::questions(std::iter::once(batch::query(&batch, &parameters)));
    let answers = link.flight(&calls).map_err(stopped("look for keys that are there"))?;
    let mut found = Vec::new();
    for row in answers.get(1).iter().flat_map(|answer| &answer.rows) {
        found.extend(numbers.at(row.try_get(0).map_err(unreadable)?));
    }
    found.sort_unstable();
    Ok(found)
}

/// Resolves the rows that were `missed`, after all others, and records the results in `record`.
/// Returns none if everything must be undone, and its faults isolated.
pub(in crate::postgres) fn settle(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &UploadShape,
    missed: &Missed,
    record: UploadRecord,
) -> Result<Option<UploadRecord>, Stop> {
    let mut isolation = Isolation::new(link, upload);
    isolation.record = record;
    let fell_short = missed.fell_short;
    let mut missed = missed.numbers.iter().copied().peekable();
    let (mut number, mut gathering) = (0, Gathering::default());
    outline.visit(upload, &mut |table, row| {
        let this = number;
        number += 1;
        if missed.next_if_eq(&this).is_some()
            && let Some(group) = gathering.add(table, row.change, row.bytes)
        {
            conflict::resolve_missed(&mut isolation, group)?;
            isolation.write_conflicts()?;
        }
        Ok(())
    })?;
    if let Some(group) = gathering.end() {
        conflict::resolve_missed(&mut isolation, group)?;
    }
    if !isolation.waiting_rows.is_empty() {
        return Ok(None);
    }
    isolation.flush()?;
    let Isolation { mut record, link, .. } = isolation;
    if is_disturbed(link, upload, outline, fell_short)? {
        return Ok(None);
    }
    let leaves = |table: usize| upload.tables[table].deployed.details.may_leave;
    record.verbatim &= !outline.tables().into_iter().any(leaves);
    record.is_settled = true;
    Ok(Some(record))
}

/// Whether what was done may not stand (G2).
fn is_disturbed(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &UploadShape,
    fell_short: bool,
) -> Result<bool, Stop> {
    if !fell_short {
        return Ok(false);
    }
    let names = outline.tables().into_iter();
    let names: Vec<String> =
        names.map(|at| upload.tables[at].deployed.details.sql_name()).collect();
    let tables: [&(dyn ToSql + Sync); 1] = [&names];
    let answers = link.flight(&[Call::new(MEDDLES, &tables)]);
    let answers = answers.map_err(stopped("look for what others did meanwhile"))?;
    Ok(answers.iter().any(|answer| !answer.rows.is_empty()))
}
