//! The remotes that a consolidated database knows.

use crate::administration::history::{self, PastSynchronization};
use crate::download::bundle;
use crate::identity::Binding;
use crate::sql::{Sql, TextRow, Words, number, text};
use model::{Code, Failure, RemoteId};
use std::collections::{HashMap, HashSet};

/// A remote as the database knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRemote {
    /// Its ID.
    pub remote_id: String,
    /// To whom it belongs.
    pub binding: Binding,
    /// Who synchronized last.
    pub user: String,
    /// The script version that ran then.
    pub script_version: String,
    /// When it uploaded last, in UTC.
    pub last_upload_at: Option<String>,
    /// When a download was made for it last, in UTC.
    pub last_download_at: Option<String>,
    /// Seconds since then.
    pub last_download_age_s: Option<i64>,
    /// When it was here last, in UTC: the last that is known of it.
    pub last_contact_at: Option<String>,
    /// Seconds since then.
    pub last_contact_age_s: Option<i64>,
    /// Its last synchronization that succeeded.
    pub last_success: Option<PastSynchronization>,
    /// The last one that brought a download: what it holds since, and as whose remote.
    pub last_download: Option<PastSynchronization>,
    /// Its last synchronization that failed.
    pub last_failure: Option<PastSynchronization>,
    /// Whether that was later than the last one that succeeded.
    pub failing: bool,
    /// Notes about its rejected rows that are not settled there.
    pub rejects: i64,
    /// Notes about conflicts of its changes.
    pub conflicts: i64,
    /// Downloads that were made for it.
    pub counter: i64,
    /// The last of them that it is known to have applied; zero of none.
    pub acknowledged: i64,
    /// When that became known, in UTC.
    pub acknowledged_at: Option<String>,
    /// Its last committed upload.
    pub progress: i64,
    /// Rows that it must receive.
    pub owed: i64,
    /// Whether its file has a secret, so that no other is taken for it.
    pub has_secret: bool,
    /// Its next download is compared row by row, whatever it remembers.
    pub compared_next: bool,
}

/// Every remote, or the one with this ID.
pub(super) fn remotes<Q: Sql>(
    sql: &mut Q,
    only: Option<&RemoteId>,
) -> Result<Vec<KnownRemote>, Failure> {
    let of = if only.is_some() { "AND remote_id = ?1" } else { "" };
    let latest = "CASE WHEN last_download_at >= last_upload_at OR last_upload_at IS NULL
             THEN last_download_at ELSE last_upload_at END";
    let query = format!(
        "SELECT remote_id, bound_users, user_name, script_version, {}, {}, CAST({} AS text),
             CAST(counter AS text), CAST(progress AS text),
             (SELECT CAST(coalesce(sum(coalesce(o.bundled, 1)), 0) AS text)
                 FROM {{}}syncline_owed AS o WHERE o.remote_id = r.remote_id),
             CASE WHEN secret IS NOT NULL THEN 'secret' END,
             CASE WHEN void_counter >= counter AND void_counter > 0 THEN 'compared' END,
             CAST(acknowledged AS text), {}, {latest}, CAST({} AS text)
         FROM {{}}syncline_remote AS r WHERE forgotten_at IS NULL {of}",
        Q::Words::utc("last_upload_at"),
        Q::Words::utc("last_download_at"),
        Q::Words::age_s("last_download_at"),
        Q::Words::utc("acknowledged_at"),
        Q::Words::age_s(latest),
        latest = Q::Words::utc(latest),
    );
    let wanted = Vec::from_iter(only.map(RemoteId::as_str));
    let mut rows = sql.bookkeep("read the remotes", &query, &wanted)?;
    rows.sort();
    let mut remotes = rows.iter().map(remote).collect::<Result<Vec<_>, Failure>>()?;
    for (remote_id, twice) in owed_twice(sql, of, &wanted)? {
        let found = remotes.iter_mut().filter(|remote| remote.remote_id == remote_id);
        found.for_each(|remote| remote.owed -= twice);
    }
    // They are sorted by their ID, and there may be very many.
    for past in history::last(sql, only)? {
        let of = past.ended.remote_id.as_str();
        if let Ok(at) = remotes.binary_search_by(|remote| remote.remote_id.as_str().cmp(of)) {
            remotes[at].remember(past);
        }
    }
    let rejects = notes(sql, "reject WHERE settled IS NULL")?;
    let conflicts = notes(sql, "conflict")?;
    for remote in &mut remotes {
        remote.rejects = rejects.get(&remote.remote_id).copied().unwrap_or_default();
        remote.conflicts = conflicts.get(&remote.remote_id).copied().unwrap_or_default();
    }
    Ok(remotes)
}

impl KnownRemote {
    /// Takes note of its synchronizations, the latest first.
    fn remember(&mut self, past: PastSynchronization) {
        // Who was not proven to be its user has not shown that it was here.
        let age_s = Some(past.ended.age_s).filter(|_| past.ended.proven);
        if let Some(age_s) = age_s.filter(|age| self.last_contact_age_s.is_none_or(|it| *age <= it))
        {
            self.last_contact_at = Some(past.ended_at.clone());
            self.last_contact_age_s = Some(age_s);
        }
        match past.ended.code {
            None => {
                if past.ended.last_download.is_some() {
                    self.last_download = Some(past.clone());
                }
                self.last_success.get_or_insert(past);
            }
            Some(_) => {
                self.failing = self.last_success.is_none();
                self.last_failure = Some(past);
            }
        }
    }
}

/// How many notes of these there are, by remote.
fn notes<Q: Sql>(sql: &mut Q, these: &str) -> Result<HashMap<String, i64>, Failure> {
    let query = format!(
        "SELECT remote_id, CAST(count(*) AS text) FROM {{}}syncline_{these} GROUP BY remote_id"
    );
    let rows = sql.bookkeep("count the notes", &query, &[])?;
    rows.iter().map(|row| Ok((text(row, 0), number(row, 1)?))).collect()
}

fn remote(row: &TextRow) -> Result<KnownRemote, Failure> {
    let time = |column: usize| row[column].clone();
    Ok(KnownRemote {
        remote_id: text(row, 0),
        binding: Binding::read(row[1].as_deref())?,
        user: text(row, 2),
        script_version: text(row, 3),
        last_upload_at: time(4),
        last_download_at: time(5),
        last_download_age_s: row[6].as_ref().map(|_| number(row, 6)).transpose()?,
        last_contact_at: time(14),
        last_contact_age_s: row[15].as_ref().map(|_| number(row, 15)).transpose()?,
        last_success: None,
        last_download: None,
        last_failure: None,
        failing: false,
        rejects: 0,
        conflicts: 0,
        counter: number(row, 7)?,
        progress: number(row, 8)?,
        owed: number(row, 9)?,
        has_secret: row[10].is_some(),
        compared_next: row[11].is_some(),
        acknowledged: number(row, 12)?,
        acknowledged_at: time(13),
    })
}

/// Entries that are read at once to be compared.
const ENTRIES_MAX: usize = 1000;

/// How many keys have an entry of their own beside that of a bundle, by remote and table. A row
/// that is owed again before its bundle is settled has both.
fn owed_twice<Q: Sql>(
    sql: &mut Q,
    of: &str,
    wanted: &[&str],
) -> Result<Vec<(String, i64)>, Failure> {
    let query = format!(
        "SELECT remote_id, table_name FROM {{}}syncline_owed WHERE 1 = 1 {of}
         GROUP BY remote_id, table_name
         HAVING count(bundled) > 0 AND count(bundled) < count(*)"
    );
    let mut twice = Vec::new();
    for row in sql.bookkeep("count what remotes are owed", &query, wanted)? {
        let (remote_id, table) = (text(&row, 0), text(&row, 1));
        let (mut alone, mut count) = (HashSet::new(), 0);
        entries(sql, [&remote_id, &table], "IS NULL", |key| {
            alone.insert(key.to_vec());
            Ok(())
        })?;
        entries(sql, [&remote_id, &table], "IS NOT NULL", |bundle| {
            let keys = bundle::keys(bundle)?;
            count += keys.into_iter().filter(|key| alone.contains(*key)).count() as i64;
            Ok(())
        })?;
        twice.push((remote_id, count));
    }
    Ok(twice)
}

/// Shows the entries of what a remote is owed of a table: bundles, or keys.
fn entries<Q: Sql>(
    sql: &mut Q,
    [remote_id, table]: [&str; 2],
    bundled: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let query = format!(
        "SELECT {} FROM {{}}syncline_owed
         WHERE remote_id = ?1 AND table_name = ?2 AND row_key > {} AND bundled {bundled}
         ORDER BY row_key LIMIT {ENTRIES_MAX}",
        Q::Words::hex("row_key"),
        Q::Words::unhex("?3"),
    );
    let mut last = String::new();
    loop {
        let rows =
            sql.bookkeep("count what remotes are owed", &query, &[remote_id, table, &last])?;
        for row in &rows {
            each(&bytes(&text(row, 0))?)?;
        }
        match rows.last() {
            Some(row) if rows.len() == ENTRIES_MAX => last = text(row, 0),
            _ => return Ok(()),
        }
    }
}

fn bytes(digits: &str) -> Result<Vec<u8>, Failure> {
    let garbled = |_| Failure::new(Code::Drift, "a key that is owed does not read");
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2).unwrap_or_default(), 16);
    (0..digits.len()).step_by(2).map(|at| byte(at).map_err(garbled)).collect()
}

/// Binds a remote to others; who of those before is about to upload is refused.
pub(super) fn bind<Q: Sql>(
    sql: &mut Q,
    remote_id: &RemoteId,
    binding: &Binding,
) -> Result<(), Failure> {
    let bind = "UPDATE {}syncline_remote SET bound_users = nullif(?2, ''), epoch = epoch + 1
                WHERE remote_id = ?1 AND forgotten_at IS NULL";
    let stored = binding.stored().unwrap_or_default();
    let bound = sql.change("bind the remote", bind, &[remote_id.as_str(), &stored])?;
    if bound == 1 { Ok(()) } else { Err(no_such_remote(remote_id)) }
}

/// Forgets a remote. What proves its past stays: it may come back, and must not upload twice.
pub(super) fn forget<Q: Sql>(sql: &mut Q, remote_id: &RemoteId) -> Result<(), Failure> {
    let forget = "UPDATE {}syncline_remote SET forgotten_at = {now}, bound_users = NULL,
                      user_name = '', epoch = epoch + 1
                  WHERE remote_id = ?1 AND forgotten_at IS NULL";
    let owed = "DELETE FROM {}syncline_owed WHERE remote_id = ?1";
    let made = "DELETE FROM {}syncline_made WHERE remote_id = ?1";
    let past = "DELETE FROM {}syncline_synchronization WHERE remote_id = ?1";
    let named = &[remote_id.as_str()][..];
    let statements = [(forget, named), (owed, named), (made, named), (past, named)];
    let forgotten = sql.change_all("forget the remote", &statements)?;
    if forgotten[0] == 1 { Ok(()) } else { Err(no_such_remote(remote_id)) }
}

/// New keys for session tokens and receipts. A token names the version of the password under which
/// it was issued: with new versions no server takes it, whichever key it has read.
pub(super) fn rotate_keys<Q: Sql>(sql: &mut Q) -> Result<(), Failure> {
    // The key that signs comes first by its name; the former ones only prove what they have signed.
    let former = "UPDATE {}syncline_system SET name = 'receipt_key_' || {digits}
                  WHERE name = 'receipt_key'";
    let statements: [(&str, &[&str]); 4] = [
        (former, &[]),
        ("INSERT INTO {}syncline_system VALUES ('receipt_key', {key})", &[]),
        ("UPDATE {}syncline_system SET value = {key} WHERE name = 'token_key'", &[]),
        ("UPDATE {}syncline_user SET password_version = {random}", &[]),
    ];
    sql.change_all("draw new keys", &statements).map(drop)
}

fn no_such_remote(remote_id: &RemoteId) -> Failure {
    Failure::new(Code::NoSuchRemote, format!("there is no remote {remote_id}"))
}
