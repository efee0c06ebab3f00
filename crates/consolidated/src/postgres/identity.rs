//! What the database remembers about remotes, in its system tables.
//!
//! The row of a remote is locked from the first statement to the commit. So the same remote never
//! applies twice at the same time, on any server (S8). A lock ends with its connection. PostgreSQL
//! ends the connection of a dead server after the idle time that `connect.rs` sets.

use super::errors::{Fault, failed, unreadable};
use super::incarnation::{self, Life};
use super::link::{Answer, Call, Link};
use crate::digest;
use crate::identity::{Binding, Consequence, Evidence, FORMER_FILES_MAX, Remembered, recognize};
use crate::postgres::statement::Value;
use crate::postgres::upload::held;
use crate::synchronization::{Identity, Session};
use model::{Code, Counter, Failure, Nonce, Progress, Receipt};
use postgres_types::ToSql;

/// The state of a statement that waited for a lock for too long.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// When a remote should try again whose other synchronization is under way, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// Locks what is known of a remote: the only parameter. Our own deletes write their departures
/// themselves, all at once; triggers need not. What is known of the database is read by one scan:
/// three would take longer than the lock itself. The codes are those of new rows that lost their
/// keys, and of what belongs to them (`upload/lost_inserts.rs`).
pub(super) const LOCK: &str = "SELECT progress, counter, nonce, epoch, attempt,
    ARRAY(SELECT name || ' ' || value || ' ' || tableoid FROM syncline.syncline_system
        WHERE name IN ('deployment', 'incarnation', 'last_start')),
    EXISTS (SELECT FROM syncline.syncline_owed WHERE remote_id = $1),
    set_config('syncline.applying', 'on', true),
    secret, bound_users, void_counter, deletes_lost, forgotten_at IS NOT NULL,
    acknowledged,
    EXISTS (SELECT FROM syncline.syncline_owed WHERE remote_id = $1 AND code IN (7007, 7008))
FROM syncline.syncline_remote WHERE remote_id = $1 FOR UPDATE";

/// Takes a remote ID for its first synchronization; waits for others that do the same.
const TAKE: &str = "INSERT INTO syncline.syncline_remote
    (remote_id, user_name, script_version, progress, counter, nonce, epoch, attempt)
VALUES ($1, $2, $3, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING";

/// What is stored of a remote when a synchronization ends; belongs into the flight that commits.
/// The snapshot proves to a promoted standby what has reached it (trap 2).
pub(super) const STORE: &str = "UPDATE syncline.syncline_remote SET
    user_name = $2, script_version = $3, progress = $4, counter = $5, nonce = $6, epoch = $7,
    attempt = $8, secret = $12, bound_users = $13, void_counter = $14, deletes_lost = $15,
    forgotten_at = NULL,
    acknowledged_at = CASE WHEN $16 > acknowledged THEN now()
        WHEN $16 > 0 THEN acknowledged_at END,
    acknowledged = $16,
    last_upload_at = CASE WHEN $9 THEN now() ELSE last_upload_at END,
    last_download_at = CASE WHEN $10 THEN now() ELSE last_download_at END,
    timeline = $11::int8,
    snapshot = CASE WHEN pg_column_size(pg_current_snapshot()) < 1000
        THEN pg_current_snapshot()
        ELSE (pg_snapshot_xmin(pg_current_snapshot())::text || ':'
            || pg_snapshot_xmin(pg_current_snapshot())::text || ':')::pg_snapshot END
WHERE remote_id = $1";

const FORGET_OWED: &str = "WITH made AS (
    DELETE FROM syncline.syncline_made WHERE remote_id = $1)
DELETE FROM syncline.syncline_owed WHERE remote_id = $1";

const FORMER_FILE: &str = "SELECT progress FROM syncline.syncline_former_file
WHERE remote_id = $1 AND secret = $2";

const NOTE_FORMER_FILE: &str = "INSERT INTO syncline.syncline_former_file VALUES ($1, $2, $3)
ON CONFLICT (remote_id, secret) DO UPDATE
SET progress = excluded.progress, replaced_at = excluded.replaced_at";

const TRIM_FORMER_FILES: &str = "DELETE FROM syncline.syncline_former_file
WHERE remote_id = $1 AND secret NOT IN (
    SELECT secret FROM syncline.syncline_former_file WHERE remote_id = $1
    ORDER BY replaced_at DESC LIMIT $2)";

/// A remote whose row is locked.
pub(super) struct Locked {
    /// None of a new one.
    pub(super) remembered: Option<Remembered>,
    pub(super) deployment: i64,
    /// Whether it may be owed something from before.
    pub(super) owed: bool,
    /// Whether it may not have heard of new rows that lost their keys (`upload/lost.rs`).
    pub(super) has_lost_inserts: bool,
    /// Which life of the database this is, as [`Life`] tells it.
    pub(super) life: String,
}

/// What [`LOCK`] found. `answer` is its own.
pub(super) fn locked(answer: &Answer) -> Result<Option<Locked>, Failure> {
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let remembered = Remembered {
        progress: Progress(row.try_get(0).map_err(unreadable)?),
        counter: Counter(row.try_get(1).map_err(unreadable)?),
        nonce: Nonce(row.try_get(2).map_err(unreadable)?),
        epoch: row.try_get(3).map_err(unreadable)?,
        attempt: row.try_get(4).map_err(unreadable)?,
        secret: row.try_get::<Option<&str>>(8).map_err(unreadable)?.and_then(digest::from_hex),
        binding: Binding::read(row.try_get(9).map_err(unreadable)?)?,
        void_counter: Counter(row.try_get(10).map_err(unreadable)?),
        deletes_lost: row.try_get(11).map_err(unreadable)?,
        acknowledged: Counter(row.try_get(13).map_err(unreadable)?),
        forgotten: row.try_get(12).map_err(unreadable)?,
    };
    let system: Vec<&str> = row.try_get(5).map_err(unreadable)?;
    let owed = row.try_get(6).map_err(unreadable)?;
    let has_lost_inserts = row.try_get(14).map_err(unreadable)?;
    let deployment = valued(&system, "deployment").and_then(|(value, _)| value.parse().ok());
    let deployment = deployment
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))?;
    let life = life(&system);
    let remembered = Some(remembered);
    Ok(Some(Locked { remembered, deployment, owed, has_lost_inserts, life }))
}

/// What [`LOCK`] found of this name in the system table, and the number of that table.
fn valued<'r>(system: &[&'r str], name: &str) -> Option<(&'r str, &'r str)> {
    let found = system.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix(' '));
    found?.rsplit_once(' ')
}

/// Which life of the database this is, as [`Life::is_named`] understands it.
fn life(system: &[&str]) -> String {
    let Some((incarnation, table)) = valued(system, "incarnation") else { return String::new() };
    let last_start = valued(system, "last_start").map_or("", |(mark, _)| mark);
    format!("{incarnation} {table} {last_start}")
}

/// The failure of the flight that has [`LOCK`] at position `lock`.
pub(super) fn lock_failed(lock: usize) -> impl Fn(Fault) -> Failure {
    move |fault| {
        let waited = fault.sqlstate() == Some(LOCK_NOT_AVAILABLE);
        if waited && fault.call == lock {
            return under_way();
        }
        if waited {
            return held::deploying();
        }
        fault.failure("read what is known of the remote")
    }
}

fn under_way() -> Failure {
    Failure::new(Code::AlreadySynchronizing, "another synchronization of this remote is running")
        .retry_after_s(RETRY_AFTER_S)
}

/// Recognizes the remote and shuts out its predecessors. `found` is what [`LOCK`] found in this
/// transaction. The result takes effect with [`STORE`].
pub(super) fn begin(
    link: &mut Link,
    session: &Session,
    identity: &Identity,
    receipt: Option<&Receipt>,
    found: Option<Remembered>,
    life: &Life,
) -> Result<Remembered, Failure> {
    let proven = match receipt {
        Some(receipt) => life.incarnation.verify(receipt, session, identity.secret)?,
        None => None,
    };
    let remote_id = session.remote_id.as_str();
    let (remote, consequence) = {
        let former = &mut || former_file(link, remote_id, identity.secret);
        recognize(session, identity, found, Evidence { receipt: proven, former })?
    };
    match consequence {
        Consequence::Nothing => {}
        Consequence::Replace { secret, progress } => {
            let secret = digits(secret);
            let noted: [&(dyn ToSql + Sync); 3] = [&remote_id, &secret, &progress.0];
            link.flight(&[
                Call::new(FORGET_OWED, &[&remote_id]),
                Call::new(NOTE_FORMER_FILE, &noted),
                Call::new(TRIM_FORMER_FILES, &[&remote_id, &FORMER_FILES_MAX]),
            ])
            .map_err(failed("forget what the former file was owed"))?;
        }
        Consequence::NewGeneration => {
            incarnation::renew(link, "a remote has a receipt of a later state")?;
        }
    }
    Ok(remote)
}

/// The last upload of a file that was replaced by another.
fn former_file(
    link: &mut Link,
    remote_id: &str,
    secret: Option<u128>,
) -> Result<Option<Progress>, Failure> {
    let rows = link
        .query(FORMER_FILE, &[&remote_id, &digits(secret)])
        .map_err(failed("read what is known of a former file"))?;
    rows.first().map(|row| row.try_get(0).map(Progress)).transpose().map_err(unreadable)
}

/// A file that has drawn no secret has an empty one.
fn digits(secret: Option<u128>) -> String {
    secret.map(digest::hex).unwrap_or_default()
}

/// Inserts the row of a new remote, or finds the row that another session has inserted in the
/// meantime.
pub(super) fn take(link: &mut Link, session: &Session) -> Result<Locked, Failure> {
    let (remote_id, user) = (session.remote_id.as_str(), session.owner.as_str());
    let parameters: [&(dyn ToSql + Sync); 3] =
        [&remote_id, &user, &session.script_version.as_str()];
    let lock: [&(dyn ToSql + Sync); 1] = [&remote_id];
    let answers =
        link.flight(&[Call::new(TAKE, &parameters), Call::new(LOCK, &lock)]).map_err(|fault| {
            match fault.sqlstate() == Some(LOCK_NOT_AVAILABLE) {
                true => under_way(),
                false => fault.failure("note a new remote"),
            }
        })?;
    let found = locked(&answers[1])?;
    let found = found.ok_or_else(|| Failure::new(Code::Bug, "a new remote was not noted"))?;
    match answers[0].affected {
        0 => Ok(found),
        _ => Ok(Locked { remembered: None, ..found }),
    }
}

/// The parameters of [`STORE`]. `uploaded` and `downloads`: whether to note the time.
pub(super) fn stored<'a>(
    link: &Link,
    session: &'a Session,
    remote: &'a Remembered,
    uploaded: bool,
    downloads: bool,
) -> Vec<Value<'a>> {
    vec![
        Box::new(session.remote_id.as_str()),
        Box::new(session.owner.as_str()),
        Box::new(session.script_version.as_str()),
        Box::new(remote.progress.0),
        Box::new(remote.counter.0),
        Box::new(remote.nonce.0),
        Box::new(remote.epoch),
        Box::new(remote.attempt),
        Box::new(uploaded),
        Box::new(downloads),
        Box::new(i64::from(link.number_space().timeline)),
        Box::new(remote.secret.map(digest::hex)),
        Box::new(remote.binding.stored()),
        Box::new(remote.void_counter.0),
        Box::new(remote.deletes_lost),
        Box::new(remote.acknowledged.0),
    ]
}
