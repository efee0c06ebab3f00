//! `syncline fleet list` and `show`: what people and programs see of remotes.

use super::owners::{owners, users_json};
use crate::args::ListRemotes;
use crate::readable::parsed;
use consolidated::{
    Administration, KnownRemote, PastSynchronization, Reader, RemoteBinding, rows_waiting,
};
use indicatif::{DecimalBytes, HumanCount};
use model::{Code, Failure, UserName};
use serde_json::{Value, json};
use std::cmp::Reverse;
use terminal::output;

/// Rows that are counted at most of those that wait for one remote.
const WAITING_MAX: u64 = 1000;

/// Lists the remotes that are wanted, first those that need attention.
pub(super) fn list(
    admin: &mut dyn Administration,
    reader: &mut dyn Reader,
    wanted: &ListRemotes,
) -> Result<(), Failure> {
    let known = admin.remotes(None)?;
    let any = !known.is_empty();
    let mut remotes: Vec<KnownRemote> =
        known.into_iter().filter(|remote| is_wanted(remote, wanted)).collect();
    remotes.sort_by_cached_key(attention);
    let more = remotes.len().saturating_sub(wanted.limit as usize);
    remotes.truncate(wanted.limit as usize);
    let waiting = |remote: &KnownRemote| Waiting::count(admin, reader, remote);
    let waiting: Vec<Waiting> = remotes.iter().map(waiting).collect();
    if wanted.json {
        let listed = remotes.iter().zip(&waiting).map(|(remote, it)| remote_json(remote, it));
        return output::json(&listed.collect());
    }
    if remotes.is_empty() {
        return output::line(match any {
            true => "no remote is like that",
            false => "no remote has synchronized yet",
        });
    }
    let heads = [
        "remote",
        "belongs to",
        "version",
        "last contact",
        "last download",
        "waiting",
        "rejects",
        "conflicts",
        "last error",
        "transfer",
    ];
    let rows: Vec<_> = remotes.iter().zip(&waiting).map(|(it, waiting)| row(it, waiting)).collect();
    output::table(&heads, &rows)?;
    match more {
        0 => Ok(()),
        more => output::line(&format!("{} more; --limit shows them", grouped(more as u64))),
    }
}

fn is_wanted(remote: &KnownRemote, wanted: &ListRemotes) -> bool {
    let silent_s = remote.last_contact_age_s.unwrap_or(i64::MAX);
    let belongs_to = |user: &UserName| match &remote.binding {
        RemoteBinding::Users(users) => users.contains(user),
        RemoteBinding::Any => true,
        RemoteBinding::Open => false,
    };
    wanted.user.as_ref().is_none_or(belongs_to)
        && (!wanted.failing || remote.failing)
        && wanted.silent_for.is_none_or(|age_s| silent_s >= age_s)
}

/// Who fails comes first, then who has rejects or conflicts, then who was silent for longest.
fn attention(remote: &KnownRemote) -> (bool, bool, Reverse<i64>, String) {
    let fine = remote.rejects + remote.conflicts == 0;
    let silent_s = remote.last_contact_age_s.unwrap_or(i64::MAX);
    (!remote.failing, fine, Reverse(silent_s), remote.remote_id.clone())
}

fn row(remote: &KnownRemote, waiting: &Waiting) -> Vec<String> {
    let error = remote.last_failure.as_ref().map(|past| format!("{} {}", code(past), ago(past)));
    vec![
        remote.remote_id.clone(),
        owners(&remote.binding),
        remote.script_version.clone(),
        remote.last_contact_age_s.map_or_else(|| "never".to_owned(), words),
        remote.last_download_age_s.map_or_else(|| "never".to_owned(), words),
        waiting.words(),
        grouped(remote.rejects.unsigned_abs()),
        grouped(remote.conflicts.unsigned_abs()),
        error.unwrap_or_else(|| "none".to_owned()),
        remote.last_success.as_ref().map_or_else(|| "unknown".to_owned(), transfer),
    ]
}

/// Shows one remote, with its last synchronizations.
pub(super) fn show(
    admin: &mut dyn Administration,
    reader: &mut dyn Reader,
    remote: &KnownRemote,
    past: &[PastSynchronization],
    json: bool,
) -> Result<(), Failure> {
    let waiting = Waiting::count(admin, reader, remote);
    if json {
        let mut shown = remote_json(remote, &waiting);
        shown["synchronizations"] = past.iter().map(past_json).collect();
        return output::json(&shown);
    }
    let at = |at: &Option<String>, age_s: Option<i64>| match (at, age_s) {
        (Some(at), Some(age_s)) => format!("{at} ({})", words(age_s)),
        (Some(at), None) => at.clone(),
        (None, _) => "never".to_owned(),
    };
    let error = remote.last_failure.as_ref().map(|past| {
        let message = past.ended.message.as_deref().unwrap_or_default();
        format!("{} {}: {message}", code(past), ago(past))
    });
    let facts = [
        ("remote ID", remote.remote_id.clone()),
        ("belongs to", owners(&remote.binding)),
        ("last user", remote.user.clone()),
        ("script version", remote.script_version.clone()),
        ("last contact", at(&remote.last_contact_at, remote.last_contact_age_s)),
        ("last upload", at(&remote.last_upload_at, None)),
        ("last download", at(&remote.last_download_at, remote.last_download_age_s)),
        ("acknowledged", acknowledged(remote)),
        ("rows waiting", waiting.words()),
        ("rejects", grouped(remote.rejects.unsigned_abs())),
        ("conflicts", grouped(remote.conflicts.unsigned_abs())),
        ("last error", error.unwrap_or_else(|| "none".to_owned())),
        ("downloads", grouped(remote.counter.unsigned_abs())),
        ("file known", if remote.has_secret { "yes" } else { "not yet" }.to_owned()),
        ("next download", if remote.compared_next { "compared" } else { "changes" }.to_owned()),
    ];
    for (name, value) in facts {
        output::line(&output::one_line(&format!("{name:15} {value}")))?;
    }
    if past.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let heads =
        ["ended", "user", "client", "result", "rows up", "down", "transfer", "took", "of it"];
    output::table(&heads, &past.iter().map(past_row).collect::<Vec<_>>())
}

fn past_row(past: &PastSynchronization) -> Vec<String> {
    let ended = &past.ended;
    let result = ended.code.map_or_else(|| "synchronized".to_owned(), |_| code(past));
    vec![
        ago(past),
        ended.user.clone(),
        ended.client.clone(),
        result,
        grouped(ended.uploaded),
        grouped(ended.downloaded),
        transfer(past),
        format!("{} ms", grouped(ended.duration_ms)),
        phases(past),
    ]
}

/// The phases that took longest, in their order: those of a tenth of the whole or more.
fn phases(past: &PastSynchronization) -> String {
    let Value::Object(phases) = parsed(&past.ended.phases) else { return String::new() };
    let ms = |spent: &Value| spent.as_f64().unwrap_or_default();
    let whole: f64 = phases.values().map(ms).sum();
    let long = phases.iter().filter(|(_, spent)| ms(spent) * 10.0 >= whole);
    long.map(|(name, spent)| format!("{name} {:.0} ms", ms(spent))).collect::<Vec<_>>().join(", ")
}

fn remote_json(remote: &KnownRemote, waiting: &Waiting) -> Value {
    let error = remote.last_failure.as_ref().map(|past| {
        json!({
            "code": code(past),
            "message": past.ended.message,
            "at": past.ended_at,
            "age_s": past.ended.age_s,
            "user_proven": past.ended.proven,
        })
    });
    let transfer = remote
        .last_success
        .as_ref()
        .map(|past| json!({ "bytes_in": past.ended.bytes_in, "bytes_out": past.ended.bytes_out }));
    json!({
        "remote_id": remote.remote_id,
        "users": users_json(&remote.binding),
        "user": remote.user,
        "script_version": remote.script_version,
        "client": remote.last_success.as_ref().map(|past| &past.ended.client),
        "last_contact_at": remote.last_contact_at,
        "last_contact_age_s": remote.last_contact_age_s,
        "last_upload_at": remote.last_upload_at,
        "last_download_at": remote.last_download_at,
        "last_download_age_s": remote.last_download_age_s,
        "rows_waiting": waiting.rows(),
        "rows_waiting_more": waiting.is_more(),
        "rejects": remote.rejects,
        "conflicts": remote.conflicts,
        "failing": remote.failing,
        "last_error": error,
        "last_transfer": transfer,
        "counter": remote.counter,
        "acknowledged": remote.acknowledged,
        "acknowledged_at": remote.acknowledged_at,
        "progress": remote.progress,
        "has_secret": remote.has_secret,
        "compared_next": remote.compared_next,
    })
}

fn past_json(past: &PastSynchronization) -> Value {
    let ended = &past.ended;
    json!({
        "ended_at": past.ended_at,
        "user": ended.user,
        "user_proven": ended.proven,
        "script_version": ended.script_version,
        "client": ended.client,
        "code": ended.code.map(|_| code(past)),
        "message": ended.message,
        "uploaded": ended.uploaded,
        "downloaded": ended.downloaded,
        "rejected": ended.rejected,
        "conflicts": ended.conflicts,
        "bytes_in": ended.bytes_in,
        "bytes_out": ended.bytes_out,
        "duration_ms": ended.duration_ms,
        "phases_ms": parsed(&ended.phases),
    })
}

/// Rows that wait for a remote.
enum Waiting {
    Rows(u64),
    /// Why it is not known.
    Unknown(Option<Code>),
}

impl Waiting {
    fn count(
        admin: &mut dyn Administration,
        reader: &mut dyn Reader,
        remote: &KnownRemote,
    ) -> Waiting {
        let mut count = || {
            let user = remote.last_download.as_ref().map(|past| past.ended.user.as_str());
            let Some(user) = user else { return Ok(None) };
            // Of somebody whom the center does not know, the last synchronization had the claims.
            let claims = match admin.claims(&UserName::new(user)?) {
                Ok(claims) => Some(claims).filter(|claims| !claims.is_empty()),
                Err(failure) if failure.code() == Code::NoSuchUser => None,
                Err(failure) => return Err(failure),
            };
            rows_waiting(reader, remote, claims, WAITING_MAX)
        };
        match count() {
            Ok(rows) => rows.map_or(Waiting::Unknown(None), Waiting::Rows),
            Err(failure) => Waiting::Unknown(Some(failure.code())),
        }
    }

    fn rows(&self) -> Option<u64> {
        match self {
            Waiting::Rows(rows) => Some(*rows.min(&WAITING_MAX)),
            Waiting::Unknown(_) => None,
        }
    }

    fn is_more(&self) -> bool {
        matches!(self, Waiting::Rows(rows) if *rows > WAITING_MAX)
    }

    fn words(&self) -> String {
        match self {
            Waiting::Rows(_) if self.is_more() => format!("more than {}", grouped(WAITING_MAX)),
            Waiting::Rows(rows) => grouped(*rows),
            Waiting::Unknown(None) => "unknown".to_owned(),
            Waiting::Unknown(Some(code)) => format!("unknown ({code})"),
        }
    }
}

fn code(past: &PastSynchronization) -> String {
    past.ended.code.map(|number| format!("E{number:04}")).unwrap_or_default()
}

fn ago(past: &PastSynchronization) -> String {
    words(past.ended.age_s)
}

/// A time in the past, in the largest unit that is full.
fn words(seconds: i64) -> String {
    let seconds = seconds.max(0).unsigned_abs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", grouped(seconds / 86_400)),
    }
}

/// The bytes of both directions.
fn transfer(past: &PastSynchronization) -> String {
    DecimalBytes(past.ended.bytes_in + past.ended.bytes_out).to_string()
}

fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// What it is known to have applied: the last download, or so many fewer.
fn acknowledged(remote: &KnownRemote) -> String {
    let Some(at) = &remote.acknowledged_at else { return "nothing".to_owned() };
    match remote.counter.saturating_sub(remote.acknowledged) {
        0 => format!("all, {at}"),
        behind => format!("all but {behind}, {at}"),
    }
}
