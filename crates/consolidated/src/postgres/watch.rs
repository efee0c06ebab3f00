//! Detects triggers that were missing while a server runs.
//!
//! A trigger of Syncline records nothing if it was dropped or disabled, or if it stayed with the
//! old table when two tables were swapped by renaming. If it exists again, it does not show the
//! time between (trap 29). PostgreSQL gives every state of a trigger its own number. A sum of them
//! is stored when a table is deployed. It is compared in the first flight of a download, or of an
//! upload without a download.

use super::catalog::Table;
use super::errors::failed;
use super::link::Answer;
use super::link::Link;
use crate::quote::literal;
use model::Failure;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The sum for the table with the OID or name `relation`, in SQL.
fn sum(relation: &str) -> String {
    format!(
        "(SELECT sum(hashint8extended(t.oid::int8, t.xmin::text::int8))::text \
         FROM pg_trigger AS t \
         WHERE t.tgrelid = to_regclass({relation}) AND t.tgname LIKE 'syncline\\_%' \
         AND NOT t.tgisinternal)"
    )
}

/// Finds the tables among `$1` and, in SQL, `$2` whose triggers differ from the deployment, or that
/// cannot be read any more.
pub(super) fn changed() -> String {
    format!(
        "SELECT w.published, w.relation\n\
         FROM unnest($1::text[], $2::text[]) AS w (published, relation)\n\
         JOIN syncline.syncline_log_state AS log ON log.table_name = w.published\n\
         WHERE log.triggers IS DISTINCT FROM {}\n\
         OR NOT has_any_column_privilege(to_regclass(w.relation)::oid, 'SELECT')",
        sum("w.relation")
    )
}

/// Stores the sum for a table, after the statements that create its triggers.
pub(super) fn store(published: &str, sql_name: &str) -> String {
    format!(
        "UPDATE syncline.syncline_log_state SET triggers = {}\nWHERE table_name = {}",
        sum(&literal(sql_name)),
        literal(published)
    )
}

/// Has the whole table sent again: changes may have been missed.
pub(super) fn give_incarnation(published: &str) -> String {
    format!(
        "UPDATE syncline.syncline_log_state\n\
         SET incarnation = (random() * 9007199254740992)::bigint\nWHERE table_name = {}",
        literal(published)
    )
}

/// The tables that are watched in a synchronization of `tables`: published names, and names in SQL.
pub(super) fn watched(tables: &[Arc<Table>]) -> (Vec<&str>, Vec<&str>) {
    let all = tables.iter().flat_map(|table| &table.deployed.details.watched);
    let all: BTreeSet<(&str, &str)> =
        all.map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    all.into_iter().unzip()
}

/// What [`changed`] found.
pub(super) fn found(answer: &Answer) -> Vec<(String, String)> {
    let rows = answer.rows.iter();
    rows.filter_map(|row| Some((row.try_get(0).ok()?, row.try_get(1).ok()?))).collect()
}

/// Triggers that are as deployed now, but were not all the time. They may have missed changes, so
/// their tables are sent again as a whole.
pub(super) fn renew(link: &mut Link, changed: &[(String, String)]) -> Result<(), Failure> {
    for (published, sql_name) in changed {
        tracing::warn!(
            table = published.as_str(),
            "triggers were missing or disabled for some time; the whole table is sent again"
        );
        link.batch(&format!(
            "UPDATE syncline.syncline_log_state\n\
             SET incarnation = (random() * 9007199254740992)::bigint, triggers = {sum}\n\
             WHERE table_name = {} AND triggers IS DISTINCT FROM {sum}",
            literal(published),
            sum = sum(&literal(sql_name)),
        ))
        .map_err(failed("note that triggers were gone"))?;
    }
    Ok(())
}
