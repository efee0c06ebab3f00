//! Detects triggers that were missing while a server runs.
//!
//! A trigger of Syncline records nothing if it was dropped or disabled, or if it stayed with the
//! old table when two tables were swapped by renaming. If it exists again, it does not show the
//! time between (trap 29). PostgreSQL gives every state of a trigger its own number. A sum of them
//! is stored when a table is deployed. It is compared in the first flight of a download, or of an
//! upload without a download.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::failed;
use crate::postgres::link::{Answer, Link, Row};
use crate::quote::literal;
use bytes::{BufMut, BytesMut};
use model::Failure;
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, LazyLock};

/// What the binary form of `jsonb` begins with.
const JSONB_VERSION: u8 = 1;

/// The sum for the table with the OID `relation`, in SQL.
fn sum(relation: &str) -> String {
    format!(
        "(SELECT sum(hashint8extended(t.oid::int8, t.xmin::text::int8))::text \
         FROM pg_trigger AS t \
         WHERE t.tgrelid = {relation} AND t.tgname LIKE 'syncline\\_%' \
         AND NOT t.tgisinternal)"
    )
}

/// The sum for the table with this name, in SQL.
fn sum_of(sql_name: &str) -> String {
    sum(&format!("to_regclass({})", literal(sql_name)))
}

/// Finds the tables among `$1` whose triggers differ from the deployment, or that cannot be read
/// any more.
pub(in crate::postgres) static CHANGED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT log.table_name FROM syncline.syncline_logs AS log\n{} WHERE {}",
        watched_relation("$1"),
        *IS_CHANGED
    )
});

/// Joins the name and the OID of its table to a row of `log`; NULL if it is none of `watched`. The
/// name is looked up once: in the condition of the sum, PostgreSQL would do it for every trigger
/// that it reads. OFFSET keeps it out of there.
pub(in crate::postgres) fn watched_relation(watched: &str) -> String {
    format!(
        "LEFT JOIN LATERAL
    (SELECT w.name, to_regclass(w.name)::oid AS relation
        FROM (SELECT {watched}::jsonb ->> log.table_name AS name) AS w OFFSET 0) AS watched
    ON TRUE"
    )
}

/// Whether the table of `log` is watched and differs: a condition on a row of `syncline_logs`,
/// which a download reads anyway, with its [`watched_relation`]. Nothing is joined of which a plan
/// could expect few rows and be kept for a thousand.
pub(in crate::postgres) static IS_CHANGED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "(watched.name IS NOT NULL AND (log.triggers IS DISTINCT FROM {sum}
        OR NOT has_any_column_privilege(watched.relation, 'SELECT')))",
        sum = sum("watched.relation")
    )
});

/// Stores the sum for a table, after the statements that create its triggers.
pub(in crate::postgres) fn store(published: &str, sql_name: &str) -> String {
    format!(
        "UPDATE syncline.syncline_logs SET triggers = {}\nWHERE table_name = {}",
        sum_of(sql_name),
        literal(published)
    )
}

/// Tables whose triggers differ from the deployment: published names, and names in SQL.
pub(in crate::postgres) type Changed = Vec<(String, String)>;

/// The tables that are watched in a synchronization, with their names in SQL by published name: an
/// object for PostgreSQL, which looks names up in it.
#[derive(Debug)]
pub(in crate::postgres) struct Watched<'t>(BTreeMap<&'t str, &'t str>);

/// Those of a synchronization of `tables`.
pub(in crate::postgres) fn watched(tables: &[Arc<Table>]) -> Watched<'_> {
    let all = tables.iter().flat_map(|table| &table.deployed.details.watched);
    Watched(all.map(|(name, sql)| (name.as_str(), sql.as_str())).collect())
}

impl Watched<'_> {
    /// The names that [`CHANGED`] found.
    pub(in crate::postgres) fn found(&self, answer: &Answer) -> Vec<(String, String)> {
        self.named(answer.rows.iter())
    }

    /// The names of the rows that begin with one and say at `at` that [`changed_among`] holds.
    pub(in crate::postgres) fn changed(&self, answer: &Answer, at: usize) -> Vec<(String, String)> {
        self.named(answer.rows.iter().filter(|row| row.try_get(at).unwrap_or(false)))
    }

    fn named<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<(String, String)> {
        let name = |row: &'r Row| row.try_get::<&str>(0).ok();
        let named = |name| Some((name, *self.0.get(name)?));
        let found = rows.filter_map(name).filter_map(named);
        found.map(|(name, sql)| (name.to_owned(), sql.to_owned())).collect()
    }
}

impl ToSql for Watched<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u8(JSONB_VERSION);
        serde_json::to_writer(out.writer(), &self.0)?;
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::JSONB
    }

    to_sql_checked!();
}

/// Triggers that are as deployed now, but were not all the time. They may have missed changes, so
/// their tables are sent again as a whole.
pub(in crate::postgres) fn renew(
    link: &mut Link,
    changed: &[(String, String)],
) -> Result<(), Failure> {
    for (published, sql_name) in changed {
        tracing::warn!(
            table = published.as_str(),
            "triggers were missing or disabled for some time; the whole table is sent again"
        );
        link.batch(&format!(
            "UPDATE syncline.syncline_logs\n\
             SET incarnation = (random() * 9007199254740992)::bigint, triggers = {sum}\n\
             WHERE table_name = {} AND triggers IS DISTINCT FROM {sum}",
            literal(published),
            sum = sum_of(sql_name),
        ))
        .map_err(failed("note that triggers were gone"))?;
    }
    Ok(())
}
