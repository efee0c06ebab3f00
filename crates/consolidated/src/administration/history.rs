//! The last synchronizations of each remote, as the center remembers them.
//!
//! Servers note them a moment after they have ended, so that none waits for it. What is noted of a
//! remote is bounded, and who has not proven to be its user cannot push out what its users did.

use crate::sql::{self, Sql, TextRow, Words, number, text};
use model::{Failure, PublicationName, RemoteId, cut};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Synchronizations that are kept of each remote.
const KEPT: usize = 10;

/// The same of those whose user was not proven.
const UNPROVEN_KEPT: usize = 1;

/// Longest text of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 500;

/// A synchronization that has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndedSynchronization {
    /// The whole seconds since then.
    pub age_s: i64,
    /// The remote.
    pub remote_id: String,
    /// The user, as it said.
    pub user: String,
    /// Whether this was proven.
    pub proven: bool,
    /// The script version that ran; empty where it did not come to that.
    pub script_version: String,
    /// The client program.
    pub client: String,
    /// The number of a code, where it has failed.
    pub code: Option<u16>,
    /// The same in words.
    pub message: Option<String>,
    /// Rows of the upload.
    pub uploaded: u64,
    /// Rows of the download.
    pub downloaded: u64,
    /// Rows that were refused.
    pub rejected: u64,
    /// Conflicts.
    pub conflicts: u64,
    /// Bytes from the remote.
    pub bytes_in: u64,
    /// Bytes to the remote.
    pub bytes_out: u64,
    /// Milliseconds from its first byte to its last.
    pub duration_ms: u64,
    /// Milliseconds of each phase: a JSON object.
    pub phases: String,
    /// What the remote holds since, where it got a download.
    pub last_download: Option<LastDownload>,
    /// Rejects that are settled at the remote, as it says.
    pub settled_rejects: Vec<SettledReject>,
}

impl EndedSynchronization {
    /// Longest name of a client program that is kept, in bytes.
    pub const CLIENT_BYTES_MAX: usize = 100;
}

/// What became of a reject at its remote.
#[derive(Debug, Clone, PartialEq)]
pub struct SettledReject {
    /// The table.
    pub table: String,
    /// The key, a JSON object by column name.
    pub key: String,
    /// The counter of its synchronization.
    pub counter: i64,
    /// `dismissed` or `retried`.
    pub outcome: &'static str,
}

/// What a remote holds since its last download, and who it was then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LastDownload {
    /// The claims of its user.
    pub claims: BTreeMap<String, String>,
    /// The publications that it wanted; all of its script version if empty.
    pub publications: Vec<PublicationName>,
    /// The fingerprint of each table, with its watermark in hexadecimal digits.
    pub tables: Vec<(String, String)>,
}

/// A synchronization that is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct PastSynchronization {
    /// When it ended, in UTC.
    pub ended_at: String,
    /// What it was.
    pub ended: EndedSynchronization,
}

/// Statements, and calls of them in their order: which one, with which values.
pub(crate) struct Noting {
    pub(crate) statements: [String; 4],
    pub(crate) calls: Vec<(usize, Vec<String>)>,
}

const INSERT: usize = 0;
const FORGET: usize = 1;
const TRIM: usize = 2;
const SETTLE: usize = 3;

/// What notes synchronizations: only of remotes that are known, and no more than are kept.
pub(crate) fn noting<W: Words>(ended: &[EndedSynchronization]) -> Noting {
    let remotes: BTreeSet<(&str, bool)> =
        ended.iter().map(|one| (one.remote_id.as_str(), one.proven)).collect();
    let mut calls: Vec<_> = ended.iter().map(|one| (INSERT, values(one))).collect();
    for (remote_id, proven) in remotes {
        calls.push((FORGET, vec![remote_id.to_owned()]));
        calls.push((TRIM, vec![remote_id.to_owned(), i32::from(proven).to_string()]));
    }
    let proven = ended.iter().filter(|one| one.proven);
    calls.extend(proven.flat_map(|one| {
        one.settled_rejects.iter().map(|reject| {
            let SettledReject { table, key, counter, outcome } = reject;
            let (table, key) = (storable(table, usize::MAX), storable(key, usize::MAX));
            let outcome = (*outcome).to_owned();
            (SETTLE, vec![one.remote_id.clone(), table, key, counter.to_string(), outcome])
        })
    }));
    Noting { statements: statements::<W>(), calls }
}

fn statements<W: Words>() -> [String; 4] {
    let number = |at: usize| format!("CAST(CAST(?{at} AS text) AS bigint)");
    let numbers: Vec<String> = (8..=16).map(number).collect();
    let insert = format!(
        "INSERT INTO {{}}syncline_synchronization (remote_id, user_name, script_version, client,
             phases, message, last_download, ended_at, proven, uploaded, downloaded, rejected,
             conflicts, bytes_in, bytes_out, duration_ms, code)
         SELECT ?1, ?2, ?3, ?4, ?5, nullif(?6, ''), nullif(?7, ''), {}, {},
             CAST(nullif(?17, '') AS integer)
         WHERE EXISTS (SELECT 1 FROM {{}}syncline_remote
             WHERE remote_id = ?1 AND forgotten_at IS NULL)",
        W::ago(&numbers[0]),
        numbers[1..].join(", "),
    );
    // Only of the last one it is of use.
    let forget = "UPDATE {}syncline_synchronization SET last_download = NULL
         WHERE remote_id = ?1 AND last_download IS NOT NULL AND synchronization_id < (
             SELECT max(synchronization_id) FROM {}syncline_synchronization
             WHERE remote_id = ?1 AND last_download IS NOT NULL)"
        .to_owned();
    let trim = format!(
        "DELETE FROM {{}}syncline_synchronization
         WHERE remote_id = ?1 AND CAST(proven AS text) = ?2 AND last_download IS NULL
             AND synchronization_id <= (
                 SELECT synchronization_id FROM {{}}syncline_synchronization
                 WHERE remote_id = ?1 AND CAST(proven AS text) = ?2
                 ORDER BY synchronization_id DESC
                 LIMIT 1 OFFSET CASE ?2 WHEN '1' THEN {KEPT} ELSE {UNPROVEN_KEPT} END)"
    );
    let settle = "UPDATE {}syncline_reject SET settled = ?5 WHERE remote_id = ?1
             AND table_name = ?2 AND row_key = ?3 AND CAST(counter AS text) = ?4"
        .to_owned();
    [insert, forget, trim, settle].map(|sql| W::spelled(&sql))
}

/// The values of the statement that notes it.
fn values(one: &EndedSynchronization) -> Vec<String> {
    let message = one.message.as_deref().unwrap_or_default();
    let held = one.last_download.as_ref().map(|held| json!(held).to_string());
    let numbers = [
        one.age_s.max(0).unsigned_abs(),
        u64::from(one.proven),
        one.uploaded,
        one.downloaded,
        one.rejected,
        one.conflicts,
        one.bytes_in,
        one.bytes_out,
        one.duration_ms,
    ];
    let mut values = vec![
        one.remote_id.clone(),
        one.user.clone(),
        one.script_version.clone(),
        storable(&one.client, EndedSynchronization::CLIENT_BYTES_MAX),
        one.phases.clone(),
        storable(message, MESSAGE_BYTES_MAX),
        held.unwrap_or_default(),
    ];
    values.extend(numbers.map(|number| number.to_string()));
    values.push(one.code.map(|code| code.to_string()).unwrap_or_default());
    values
}

/// A text of somebody else, so short and without what no database takes.
fn storable(text: &str, bytes_max: usize) -> String {
    cut(&text.replace('\0', ""), bytes_max).into_owned()
}

/// What is remembered of a remote, the newest first.
pub(super) fn of_remote<Q: Sql>(
    sql: &mut Q,
    remote_id: &RemoteId,
) -> Result<Vec<PastSynchronization>, Failure> {
    read(sql, "remote_id = ?1", &[remote_id.as_str()])
}

/// Of this remote, or of every one, the last one that failed, and of those that succeeded the last
/// one with a download and the last one without, the newest first.
pub(super) fn last<Q: Sql>(
    sql: &mut Q,
    only: Option<&RemoteId>,
) -> Result<Vec<PastSynchronization>, Failure> {
    let of = if only.is_some() { "WHERE remote_id = ?1" } else { "" };
    let wanted = format!(
        "synchronization_id IN (SELECT max(synchronization_id)
             FROM {{}}syncline_synchronization {of}
             GROUP BY remote_id, code IS NULL, last_download IS NULL)"
    );
    read(sql, &wanted, &Vec::from_iter(only.map(RemoteId::as_str)))
}

fn read<Q: Sql>(
    sql: &mut Q,
    wanted: &str,
    values: &[&str],
) -> Result<Vec<PastSynchronization>, Failure> {
    let query = format!(
        "SELECT {}, CAST({} AS text), remote_id, user_name, CAST(proven AS text), script_version,
             client, CAST(code AS text), message, CAST(uploaded AS text),
             CAST(downloaded AS text), CAST(rejected AS text), CAST(conflicts AS text),
             CAST(bytes_in AS text), CAST(bytes_out AS text), CAST(duration_ms AS text), phases,
             last_download
         FROM {{}}syncline_synchronization WHERE {wanted} ORDER BY synchronization_id DESC",
        Q::Words::utc("ended_at"),
        Q::Words::age_s("ended_at"),
    );
    sql.bookkeep("read the synchronizations", &query, values)?.iter().map(past).collect()
}

fn past(row: &TextRow) -> Result<PastSynchronization, Failure> {
    let ended = EndedSynchronization {
        age_s: number(row, 1)?,
        remote_id: text(row, 2),
        user: text(row, 3),
        proven: text(row, 4) == "1",
        script_version: text(row, 5),
        client: text(row, 6),
        code: row[7].as_ref().map(|_| number(row, 7)).transpose()?,
        message: row[8].clone(),
        uploaded: number(row, 9)?,
        downloaded: number(row, 10)?,
        rejected: number(row, 11)?,
        conflicts: number(row, 12)?,
        bytes_in: number(row, 13)?,
        bytes_out: number(row, 14)?,
        duration_ms: number(row, 15)?,
        phases: text(row, 16),
        last_download: row[17].as_deref().map(sql::json).transpose()?,
        settled_rejects: Vec::new(),
    };
    Ok(PastSynchronization { ended_at: text(row, 0), ended })
}
