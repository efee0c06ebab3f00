//! The log of changed keys, and its queries.
//!
//! The trigger that logs departures also logs each changed key, with the new key and the remote
//! that asked for the change. A remote knows the changes that its watermark shows and its own
//! changes. The others are *unseen*.
//!
//! Invariants:
//! J1. The numbers of entries that concern one key rise in the order of the changes: a transaction
//!     that gives a key to another row waits for the transaction that freed it.
//! J2. Entries of the querying transaction itself are never unseen.
//!
//! Keys are stored as JSON texts, in notations that do not depend on the settings of a session.

use crate::postgres::catalog::table::Table;
use crate::postgres::statement::Statement;
use crate::quote::{ident, literal};
use crate::script::Script;
use model::Failure;

/// Whether tables `$1` have unseen entries after snapshots `$2` that are not of `$3`. The arrays
/// are subqueries, so that their lengths are not known to any plan. A plan for one length would
/// always seem better than the kept one, and the question would be planned each time.
pub(in crate::postgres) const ANY: &str = "SELECT 1
FROM unnest((SELECT $1::text[]), (SELECT $2::pg_snapshot[])) AS t (name, seen)
WHERE EXISTS (
    SELECT FROM syncline.syncline_key_change AS m
    WHERE m.table_name = t.name AND m.version >= pg_snapshot_xmin(t.seen)
        AND NOT pg_visible_in_snapshot(m.version, t.seen)
        AND m.remote_id IS DISTINCT FROM $3::text AND m.version <> pg_current_xact_id())
LIMIT 1";

/// The same by table, with the number of the last entry, and whether others are forgotten.
pub(in crate::postgres) const LAST: &str =
    "SELECT t.name, max(m.sequence), coalesce(bool_or(m.version < (
    SELECT s.floor FROM syncline.syncline_log_state AS s WHERE s.table_name = t.name)), false)
FROM unnest($1::text[], $2::pg_snapshot[]) AS t (name, seen)
JOIN syncline.syncline_key_change AS m
    ON m.table_name = t.name AND m.version >= pg_snapshot_xmin(t.seen)
WHERE NOT pg_visible_in_snapshot(m.version, t.seen)
    AND m.remote_id IS DISTINCT FROM $3::text AND m.version <> pg_current_xact_id()
GROUP BY t.name";

/// For the questions of this transaction: what the remote has seen of a table.
pub(in crate::postgres) const SEE: &str = "SELECT set_config('syncline.seen', $1, true)";

/// What the remote does not know, as a condition on an entry.
const UNSEEN: &str = "m.version <> pg_current_xact_id()
    AND NOT pg_visible_in_snapshot(m.version, current_setting('syncline.seen')::pg_snapshot)";

/// The key of `row` as a text; of each column its name and its type.
pub(in crate::postgres) fn key_text<'c>(
    row: &str,
    key: impl Iterator<Item = (&'c str, &'c str)>,
) -> String {
    let value = |(name, cast): (&str, &str)| {
        let value = format!("{row}.{}", ident(name));
        match cast {
            "timestamp with time zone" => format!("{value} AT TIME ZONE 'UTC'"),
            "bytea" => format!("encode({value}, 'hex')"),
            "numeric" => format!("trim_scale({value})"),
            "character" | "bpchar" => format!("{value}::text"),
            _ => value,
        }
    };
    format!("jsonb_build_array({})::text", key.map(value).collect::<Vec<_>>().join(", "))
}

/// The statement of a trigger that notes a changed key. What a foreign key's action or a trigger
/// changed the remote did not ask for. For replicas and restores foreign keys do nothing.
pub(in crate::postgres) fn note(published: &str, changed: &str, old: &str, new: &str) -> String {
    format!(
        "IF TG_OP = 'UPDATE' AND ({changed}) THEN\n        \
         INSERT INTO syncline.syncline_key_change\n            \
         (table_name, old_key, new_key, remote_id, unlinked)\n        \
         VALUES ({table}, {old}, {new}, CASE WHEN pg_trigger_depth() = 1\n            \
         THEN nullif(current_setting('syncline.remote', true), '') END,\n            \
         current_setting('session_replication_role') = 'replica');\n    END IF",
        table = literal(published)
    )
}

/// Asks where the rows with given keys have gone. Each row found has the key, and the one that it
/// has now, of NULLs where it is gone and another row came to its key.
pub(in crate::postgres) fn whereabouts(table: &Table) -> Result<Statement, Failure> {
    let read = |from: &str| read_key(table, from);
    let name = literal(&table.deployed.published.name);
    let text = format!(
        "WITH RECURSIVE asked AS (SELECT DISTINCT {key} AS was FROM {{keys}} AS k),
since AS (
    SELECT a.was, coalesce((
        SELECT max(m.sequence) FROM syncline.syncline_key_change AS m
        WHERE m.table_name = {name} AND a.was IN (m.old_key, m.new_key)
            AND m.remote_id = {{s.remote_id}} AND {UNSEEN}), 0) AS since
    FROM asked AS a
), first AS (
    SELECT s.was, s.since, m.sequence, m.new_key FROM since AS s LEFT JOIN LATERAL (
        SELECT m.sequence, m.new_key FROM syncline.syncline_key_change AS m
        WHERE m.table_name = {name} AND m.old_key = s.was AND m.new_key <> m.old_key
            AND m.sequence > s.since AND {UNSEEN}
        ORDER BY m.sequence LIMIT 1) AS m ON true
), step AS (
    SELECT was, sequence, new_key FROM first WHERE sequence IS NOT NULL
    UNION ALL
    SELECT s.was, m.sequence, m.new_key FROM step AS s CROSS JOIN LATERAL (
        SELECT m.sequence, m.new_key FROM syncline.syncline_key_change AS m
        WHERE m.table_name = {name} AND m.old_key = s.new_key AND m.new_key <> m.old_key
            AND m.sequence > s.sequence AND m.version <> pg_current_xact_id()
        ORDER BY m.sequence LIMIT 1) AS m
), last AS (SELECT DISTINCT ON (was) was, new_key FROM step ORDER BY was, sequence DESC),
found AS (
    SELECT f.was, l.new_key AS now, EXISTS (
        SELECT FROM syncline.syncline_key_change AS m
        WHERE m.table_name = {name} AND m.new_key = f.was AND m.old_key <> m.new_key
            AND m.sequence > f.since AND (f.sequence IS NULL OR m.sequence < f.sequence)
            AND m.remote_id IS DISTINCT FROM {{s.remote_id}} AND {UNSEEN}) AS replaced
    FROM first AS f LEFT JOIN last AS l ON l.was = f.was
), moved AS (
    SELECT was, CASE WHEN NOT replaced THEN now END AS now FROM found
    WHERE replaced OR now <> was
)
SELECT {was}, {now} FROM moved AS m",
        key = key_text("k", key(table)),
        was = read("m.was"),
        now = read("m.now"),
    );
    statement(table, &text)
}

/// Notes that the remote has rows of its own under given keys.
pub(in crate::postgres) fn own(table: &Table) -> Result<Statement, Failure> {
    let (name, key) = (literal(&table.deployed.published.name), key_text("k", key(table)));
    let text = format!(
        "INSERT INTO syncline.syncline_key_change (table_name, old_key, new_key, remote_id)
SELECT {name}, {key}, {key}, {{s.remote_id}} FROM {{keys}} AS k"
    );
    statement(table, &text)
}

fn statement(table: &Table, text: &str) -> Result<Statement, Failure> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let script = Script::parse(text, published)?;
    Ok(Statement::of(&script, published, &details.columns))
}

/// Name and type of the columns of the key.
fn key(table: &Table) -> impl Iterator<Item = (&str, &str)> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let named = |at: usize| (published.columns[at].as_str(), details.columns[at].cast.as_str());
    published.key.iter().map(move |at| named(usize::from(*at)))
}

/// The columns of the key that is kept in `from`.
fn read_key(table: &Table, from: &str) -> String {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let column = |(place, at): (usize, &u16)| {
        let column = &details.columns[usize::from(*at)];
        let text = format!("{from}::jsonb ->> {place}");
        let value = match column.cast.as_str() {
            "timestamp with time zone" => format!("({text})::timestamp AT TIME ZONE 'UTC'"),
            "bytea" => format!("decode({text}, 'hex')"),
            cast => format!("({text})::{cast}"),
        };
        match column.read_as_text() {
            true => format!("({value})::text"),
            false => value,
        }
    };
    published.key.iter().enumerate().map(column).collect::<Vec<_>>().join(", ")
}
