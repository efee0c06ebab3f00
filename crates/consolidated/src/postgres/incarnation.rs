//! The incarnation of the database, from one restore or copy to the next.
//!
//! It has the keys of receipts. The database knows its identity: its cluster, its own object
//! number, and that of a system table. A dump that is restored into another database, or again into
//! the same one, or a copy made from a template, does not have all three. A promoted standby and a
//! recovery to a point in time have all three, and keep the incarnation. Their timeline is another
//! one, and `timeline.rs` compares every watermark with it.

use super::errors::failed;
use super::link::{Call, Link};
use crate::identity::Incarnation;
use crate::serving::start_mark::{LAST, SET_BACK};
use model::{Code, Failure};

/// What the database is, and what it was when it was asked last. Where it is another, its
/// incarnation and its generation are new; who comes second finds that done. Numbers of
/// transactions of another life say nothing in this one.
const RECOGNIZE: &str = "WITH here AS (
    SELECT system_identifier || '/' || (SELECT oid FROM pg_database
        WHERE datname = current_database()) || '/' || s.tableoid AS home
    FROM pg_control_system(), syncline.syncline_system AS s WHERE s.name = 'incarnation'
), moved AS (
    UPDATE syncline.syncline_system AS s SET value = here.home FROM here
    WHERE s.name = 'home' AND s.value <> here.home RETURNING s.value
), settled AS (
    INSERT INTO syncline.syncline_system SELECT 'home', home FROM here
    ON CONFLICT DO NOTHING RETURNING value
)
UPDATE syncline.syncline_system SET value = ((random() - 0.5) * 9e18)::bigint::text
WHERE name IN ('generation', 'incarnation') AND EXISTS (SELECT FROM moved)
RETURNING name, (SELECT count(*) FROM settled)";

const RENEW: &str = "UPDATE syncline.syncline_system
SET value = ((random() - 0.5) * 9e18)::bigint::text WHERE name IN ('generation', 'incarnation')";

/// If no other session has done so since the incarnation `$1`.
const RENEW_FROM: &str = "WITH renewed AS (
    UPDATE syncline.syncline_system SET value = ((random() - 0.5) * 9e18)::bigint::text
    WHERE name = 'incarnation' AND value = $1 RETURNING value
)
UPDATE syncline.syncline_system SET value = ((random() - 0.5) * 9e18)::bigint::text
WHERE name = 'generation' AND EXISTS (SELECT FROM renewed) RETURNING name";

const HAS_MARK: &str = "SELECT name FROM syncline.syncline_system WHERE name = 'start ' || $1";

const READ: &str = "SELECT name, value, CASE WHEN name = 'incarnation'
    THEN value || ' ' || tableoid END
FROM syncline.syncline_system
WHERE name IN ('incarnation', 'last_start') OR name LIKE 'receipt\\_key%'
ORDER BY name";

/// The incarnation as one connection knows it.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) incarnation: Incarnation,
    /// As a statement tells it, without the last start.
    name: String,
    /// The mark of the last start of a server.
    last_start: String,
}

impl Life {
    /// Whether this is the one of this name, as the lock of a remote finds it: the last start
    /// behind it.
    pub(super) fn is_named(&self, name: &str) -> bool {
        name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix(' '))
            == Some(&self.last_start)
    }

    /// Finds out the incarnation before the first remote is served. Outside a transaction. `before`
    /// is what the connection knew: if the database lacks a start of a server that it had, it was
    /// set back, unless another session has handled this already.
    pub(super) fn meet(link: &mut Link, before: &Life) -> Result<Life, Failure> {
        let timeline = link.number_space().timeline;
        let known = &before.last_start;
        if !known.is_empty()
            && before.incarnation.timeline == timeline
            && !has_mark(link, known)?
            && let incarnation = before.incarnation.number.to_string()
            && !link
                .query(RENEW_FROM, &[&incarnation])
                .map_err(failed("begin a new generation"))?
                .is_empty()
        {
            warn(SET_BACK);
        }
        let moved = link.query(RECOGNIZE, &[]).map_err(failed("recognize the database"))?;
        if !moved.is_empty() {
            warn("the location of the database has changed: it was restored or copied");
        }
        let rows = link.query(READ, &[]).map_err(failed("read the incarnation of the database"))?;
        let mut life = Life::default();
        life.incarnation.timeline = timeline;
        for row in &rows {
            let read = || -> Result<_, super::link::Unreadable> {
                let (name, value): (String, String) = (row.try_get(0)?, row.try_get(1)?);
                Ok((name, value, row.try_get::<Option<String>>(2)?))
            };
            let (name, value, named) = read().map_err(|error| garbled().source(error))?;
            match name.as_str() {
                "incarnation" => {
                    life.incarnation.number = value.parse().map_err(|_| garbled())?;
                    life.name = named.unwrap_or_default();
                }
                LAST => life.last_start = value,
                _ => life.incarnation.keys.push(value.into_bytes()),
            }
        }
        if life.name.is_empty() {
            return Err(Failure::new(Code::NotDeployed, "the database has no incarnation"));
        }
        Ok(life)
    }
}

/// Whether a start of a server has left this mark here.
pub(super) fn has_mark(link: &mut Link, mark: &str) -> Result<bool, Failure> {
    let found = link.query(HAS_MARK, &[&mark]);
    Ok(!found.map_err(failed("look for the mark of the last start"))?.is_empty())
}

fn garbled() -> Failure {
    Failure::new(Code::Drift, "the incarnation of the database cannot be read")
}

/// Begins a new one, and with it a generation: what remotes hold is compared, never assumed.
pub(super) fn renew(link: &mut Link, reason: &str) -> Result<(), Failure> {
    link.flight(&[Call::new(RENEW, &[])]).map_err(failed("begin a new generation"))?;
    warn(reason);
    Ok(())
}

fn warn(reason: &str) {
    tracing::warn!(reason, "the consolidated database was restored: every remote is compared");
}
