//! Rows that deletes and key changes of an upload change by the actions of foreign keys.
//!
//! The owner of the database declared these actions, but they are reported: the rows are counted,
//! also those of unpublished tables and of table partitions. One query before the statement, in the
//! same flight, finds them, because rows that a foreign key deletes leave no trace. The catalog
//! says whether there is anything to query; it is read with the deployment. An upload that can
//! reach no other row is sent without the query.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Answer, Call, Row};
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::reach::By;
use crate::upload::reached::{Mark, ReachedRows};
use model::{Failure, Spills};
use std::sync::Arc;

/// Around the queries: a plan that was made for other tables is not kept.
const PLAN: &str = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)";
const PLAN_NO_MORE: &str = "SELECT set_config('plan_cache_mode', 'auto', true)";

/// Adds the query for reached rows before the next statement of `calls`.
pub(in crate::postgres) fn ask<'p>(
    calls: &mut Vec<Call<'p>>,
    queries: impl Iterator<Item = Call<'p>>,
) {
    let first = calls.len();
    calls.push(Call::new(PLAN, &[]));
    calls.extend(queries);
    match calls.len() == first + 1 {
        true => calls.truncate(first),
        false => calls.push(Call::new(PLAN_NO_MORE, &[])),
    }
}

/// The rows that the queries among the calls of [`ask`] have found: marks, and how many there are
/// beside them.
pub(in crate::postgres) fn found_by(
    answers: &[Answer],
    by: By,
    spills: &Arc<Spills>,
) -> Result<ReachedRows, Failure> {
    let mut reached = ReachedRows::within(spills);
    for row in rows_of(answers) {
        match row.try_get::<Option<i64>>(0).map_err(unreadable)? {
            Some(mark) => reached.push(by, told_apart(mark))?,
            None => reached.push_more(row.try_get::<i64>(1).map_err(unreadable)?.unsigned_abs()),
        }
    }
    Ok(reached)
}

/// The marks of rows that the queries among the calls of [`ask`] were given.
pub(in crate::postgres) fn marks_by(answers: &[Answer]) -> Result<Vec<Mark>, Failure> {
    let marks = rows_of(answers).map(|row| row.try_get(0).map(told_apart).map_err(unreadable));
    marks.collect()
}

fn rows_of(answers: &[Answer]) -> impl Iterator<Item = &Row> {
    let queries = answers.split_first().and_then(|(_, answers)| answers.split_last());
    queries.map_or(&[][..], |(_, queries)| queries).iter().flat_map(|answer| &answer.rows)
}

/// PostgreSQL's digest of a row as a mark.
fn told_apart(digest: i64) -> Mark {
    Mark::from(digest.cast_unsigned())
}

/// By what rows are reached at an event; none where nothing is asked then.
pub(in crate::postgres) fn by(event: Event) -> Option<By> {
    match event {
        Event::UploadDelete | Event::ResolveDeleteConflict => Some(By::Delete),
        Event::UploadKeyChange => Some(By::KeyChange),
        _ => None,
    }
}

/// Whether deletes or key changes of `table` may reach others.
pub(in crate::postgres) fn reaches(table: &Table, change: Change) -> bool {
    match change {
        Change::Delete => table.reach.by_delete.is_some(),
        Change::KeyChange => table.reach.by_key_change,
        Change::Insert | Change::Update => false,
    }
}
