//! Rows that deletes and key changes of an upload change by the actions of foreign keys.
//!
//! The owner of the database declared these actions, but they are reported: the rows are counted,
//! also those of unpublished tables and of table partitions. One query before the statement, in the
//! same flight, finds them, because rows that a foreign key deletes leave no trace. The catalog
//! says whether there is anything to query; it is read with the deployment. An upload that can
//! reach no other row is sent without the query.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Answer, Call};
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::reach::By;
use model::Failure;

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

/// The marks that the queries among the calls of [`ask`] have found.
pub(in crate::postgres) fn found_by(answers: &[Answer]) -> Result<Vec<i64>, Failure> {
    let Some((_, answers)) = answers.split_first() else { return Ok(Vec::new()) };
    let rows = answers.split_last().map_or(&[][..], |(_, queries)| queries).iter();
    rows.flat_map(|answer| &answer.rows).map(|row| row.try_get(0).map_err(unreadable)).collect()
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
