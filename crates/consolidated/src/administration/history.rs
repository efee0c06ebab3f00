//! The last synchronizations of each remote, as the center remembers them.
//!
//! Servers note them a moment after they have ended, so that none waits for it. What is noted of a
//! remote is bounded, and who has not proven to be its user cannot push out what its users did.

use crate::sql::{self, Sql, TextRow, Words, number, text};
use model::{Failure, PublicationName, RemoteId, cut};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Synchronizations that are kept of each remote.
const KEPT: usize = 10;

/// The same of those whose user was not proven.
const UNPROVEN_KEPT: usize = 1;

/// Longest text of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 500;

/// Longest name of a client program, in bytes.
const CLIENT_BYTES_MAX: usize = 100;

/// A synchronization that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    #[serde(skip)]
    pub settled_rejects: Vec<SettledReject>,
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

/// The statements that note synchronizations: only of remotes that are known, and no more than are
/// kept. Their value is what [`noted`] makes.
pub(crate) fn noting<W: Words>() -> [String; 3] {
    let insert = format!(
        "INSERT INTO {{}}syncline_synchronization (ended_at, remote_id, user_name, proven,
             script_version, client, code, message, uploaded, downloaded, rejected, conflicts,
             bytes_in, bytes_out, duration_ms, phases, last_download)
         SELECT {}, value ->> 'remote_id', value ->> 'user',
             CASE WHEN CAST(value ->> 'proven' AS text) IN ('true', '1') THEN 1 ELSE 0 END,
             value ->> 'script_version', value ->> 'client', {}, value ->> 'message',
             {}, {}, {}, {}, {}, {}, {}, value ->> 'phases',
             value ->> 'last_download'
         FROM {} AS ended WHERE EXISTS (SELECT 1 FROM {{}}syncline_remote AS r
             WHERE r.remote_id = value ->> 'remote_id' AND r.forgotten_at IS NULL)",
        W::ago("CAST(value ->> 'age_s' AS bigint)"),
        "CAST(value ->> 'code' AS integer)",
        "CAST(value ->> 'uploaded' AS bigint)",
        "CAST(value ->> 'downloaded' AS bigint)",
        "CAST(value ->> 'rejected' AS bigint)",
        "CAST(value ->> 'conflicts' AS bigint)",
        "CAST(value ->> 'bytes_in' AS bigint)",
        "CAST(value ->> 'bytes_out' AS bigint)",
        "CAST(value ->> 'duration_ms' AS bigint)",
        W::ELEMENTS,
    );
    let of_these = format!("remote_id IN (SELECT value ->> 'remote_id' FROM {} AS e)", W::ELEMENTS);
    // Only of the last one it is of use.
    let forget = format!(
        "UPDATE {{}}syncline_synchronization AS s SET last_download = NULL
         WHERE {of_these} AND last_download IS NOT NULL AND EXISTS (
             SELECT 1 FROM {{}}syncline_synchronization AS later
             WHERE later.remote_id = s.remote_id AND later.last_download IS NOT NULL
                 AND later.synchronization_id > s.synchronization_id)"
    );
    let trim = format!(
        "DELETE FROM {{}}syncline_synchronization AS s
         WHERE {of_these} AND last_download IS NULL AND (
             SELECT count(*) FROM {{}}syncline_synchronization AS later
             WHERE later.remote_id = s.remote_id AND later.proven = s.proven
                 AND later.synchronization_id > s.synchronization_id
         ) >= CASE s.proven WHEN 1 THEN {KEPT} ELSE {UNPROVEN_KEPT} END"
    );
    [insert, forget, trim].map(|sql| W::spelled(&sql))
}

/// The synchronizations as the statements take them. Somebody else's texts are so short, and
/// without what no database takes.
pub(crate) fn noted(ended: &[EndedSynchronization]) -> String {
    let storable = |text: &str, bytes_max| cut(&text.replace('\0', ""), bytes_max).into_owned();
    let noted = ended.iter().map(|one| EndedSynchronization {
        client: storable(&one.client, CLIENT_BYTES_MAX),
        message: one.message.as_deref().map(|text| storable(text, MESSAGE_BYTES_MAX)),
        ..one.clone()
    });
    json!(noted.collect::<Vec<_>>()).to_string()
}

/// The statement that notes what became of rejects. Its value is what [`settled`] makes.
pub(crate) fn settling<W: Words>() -> String {
    let settle = format!(
        "UPDATE {{}}syncline_reject AS r SET settled = told.outcome FROM (
             SELECT value ->> 'remote_id' AS remote_id, value ->> 'table' AS table_name,
                 value ->> 'key' AS row_key, CAST(value ->> 'counter' AS bigint) AS counter,
                 value ->> 'outcome' AS outcome FROM {} AS e) AS told
         WHERE r.remote_id = told.remote_id AND r.table_name = told.table_name
             AND r.row_key = told.row_key AND r.counter = told.counter",
        W::ELEMENTS,
    );
    W::spelled(&settle)
}

/// The settled rejects as the statement takes them, if there are any.
pub(crate) fn settled(ended: &[EndedSynchronization]) -> Option<String> {
    let settled = ended.iter().filter(|one| one.proven).flat_map(|one| {
        one.settled_rejects.iter().map(|reject| {
            json!({
                "remote_id": one.remote_id,
                "table": reject.table.replace('\0', ""),
                "key": reject.key.replace('\0', ""),
                "counter": reject.counter,
                "outcome": reject.outcome,
            })
        })
    });
    let settled: Vec<_> = settled.collect();
    (!settled.is_empty()).then(|| json!(settled).to_string())
}

/// What is remembered of a remote, the newest first.
pub(super) fn of_remote<Q: Sql>(
    sql: &mut Q,
    remote_id: &RemoteId,
) -> Result<Vec<PastSynchronization>, Failure> {
    read(sql, "remote_id = ?1", &[remote_id.as_str()])
}

/// Of this remote, or of every one, the last one that succeeded and the last one that failed.
pub(super) fn last<Q: Sql>(
    sql: &mut Q,
    only: Option<&RemoteId>,
) -> Result<Vec<PastSynchronization>, Failure> {
    let of = if only.is_some() { "WHERE remote_id = ?1" } else { "" };
    let wanted = format!(
        "synchronization_id IN (SELECT max(synchronization_id)
             FROM {{}}syncline_synchronization {of} GROUP BY remote_id, code IS NULL)"
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
