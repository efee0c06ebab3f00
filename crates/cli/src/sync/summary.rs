//! What a synchronization did, as a line for people and as JSON for programs.

use super::silent_triggers;
use crate::args::SyncOptions;
use crate::remote::left_behind;
use client::{Compressed, Compression, Kept, Report, Settings, WaitingTable};
use model::Failure;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use terminal::output::counted;

/// The result, as far as it is known. The fields and their order are those of `--json`.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Summary {
    remote_id: Option<String>,
    user: Option<String>,
    script_version: Option<String>,
    uploaded: Uploaded,
    downloaded: Downloaded,
    conflicts: u64,
    /// The same by table; absent where there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    conflicts_by_table: BTreeMap<String, u64>,
    /// Changes of this remote that lost something; absent where there are none.
    #[serde(skip_serializing_if = "is_none")]
    conflicts_lost: u64,
    rejected: u64,
    /// Rows that a script at the center ignores; absent where there are none.
    #[serde(skip_serializing_if = "is_none")]
    ignored: u64,
    /// How rows were compressed, in the words of the option.
    compression: CompressionSummary,
    pub(super) duration_ms: u64,
    /// What the server says of the password; absent where it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<AuthenticationSummary>,
    /// Tables that were left out; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingSummary>,
    /// Rows that no message takes; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    too_large: Option<Value>,
    /// What was not downloaded again of a download that was cut; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<Resumed>,
    /// Rows of tables that came again as a whole; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_again: Option<SentAgain>,
    /// Triggers that do not fire for downloaded rows; absent where nothing is to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_triggers: Option<Value>,
    /// Told once; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    no_longer_published: Vec<String>,
    error: Option<ErrorSummary>,
}

#[derive(Debug, Clone, Serialize)]
struct AuthenticationSummary {
    status: u16,
    message: Option<String>,
    expires_in_s: Option<u64>,
    password_changed: bool,
}

#[derive(Debug, Clone, Serialize)]
struct WaitingSummary {
    table: String,
    message: String,
}

#[derive(Debug, Clone, Serialize)]
struct Resumed {
    rows: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct SentAgain {
    left: u64,
    came: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Uploaded {
    inserts: u64,
    updates: u64,
    deletes: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Downloaded {
    upserts: u64,
    deletes: u64,
}

#[derive(Debug, Clone, Serialize)]
struct CompressionSummary {
    uploaded: &'static str,
    downloaded: &'static str,
}

impl Default for CompressionSummary {
    fn default() -> CompressionSummary {
        CompressionSummary::of(Compressed::default())
    }
}

impl CompressionSummary {
    fn of(Compressed { uploaded, downloaded }: Compressed) -> CompressionSummary {
        let [uploaded, downloaded] = [uploaded, downloaded].map(Compression::name_of);
        CompressionSummary { uploaded, downloaded }
    }
}

#[derive(Debug, Clone, Serialize)]
struct ErrorSummary {
    code: String,
    message: String,
    hint: String,
    retry: bool,
    retry_after_s: Option<u32>,
    table: Option<String>,
    key: Option<String>,
}

impl Summary {
    /// What is known before anything happened.
    pub(crate) fn of(options: &SyncOptions) -> Summary {
        Summary {
            remote_id: options.remote_id.as_ref().map(ToString::to_string),
            user: options.credential.user.as_ref().map(ToString::to_string),
            script_version: options.script_version.as_ref().map(ToString::to_string),
            ..Summary::default()
        }
    }

    /// Adds what the remote file says; what was typed for this command is stronger.
    pub(super) fn known(&mut self, settings: &Settings) {
        let Summary { remote_id, user, script_version, .. } = self;
        *remote_id = settings.remote_id.as_ref().map(ToString::to_string).or(remote_id.take());
        *user = user.take().or(settings.user.as_ref().map(ToString::to_string));
        *script_version =
            script_version.take().or(settings.script_version.as_ref().map(ToString::to_string));
    }

    /// Takes over what a synchronization reported.
    pub(super) fn succeeded(&mut self, report: &Report) {
        self.remote_id = Some(report.remote_id.to_string());
        self.user = Some(report.user.to_string());
        self.script_version = report.script_version.as_ref().map(ToString::to_string);
        self.uploaded = Uploaded {
            inserts: report.uploaded.inserts,
            updates: report.uploaded.updates,
            deletes: report.uploaded.deletes,
        };
        self.downloaded =
            Downloaded { upserts: report.downloaded.upserts, deletes: report.downloaded.deletes };
        self.conflicts = report.conflicts;
        self.conflicts_by_table.clone_from(&report.conflicts_by_table);
        self.conflicts_lost = report.conflicts_lost;
        self.rejected = report.rejected;
        self.ignored = report.ignored;
        self.compression = CompressionSummary::of(report.compression);
        self.authentication = report.authentication.as_ref().map(|it| AuthenticationSummary {
            status: it.status,
            message: it.message.clone(),
            expires_in_s: it.expires_in_s,
            password_changed: it.password_changed,
        });
        let waiting = report.waiting.iter();
        self.waiting = waiting
            .map(|WaitingTable { table, message }| WaitingSummary {
                table: table.clone(),
                message: message.clone(),
            })
            .collect();
        self.too_large = left_behind::json(&report.left_behind);
        let Kept { rows, bytes } = report.resumed;
        self.resumed = (rows > 0).then_some(Resumed { rows, bytes });
        let client::SentAgain { left, came } = report.sent_again;
        self.sent_again = (left + came > 0).then_some(SentAgain { left, came });
        self.silent_triggers = silent_triggers::json(&report.silent_triggers);
        self.no_longer_published.clone_from(&report.no_longer_published);
        self.error = None;
    }

    /// Takes over why a synchronization failed.
    pub(super) fn failed(&mut self, failure: &Failure) {
        self.error = Some(ErrorSummary {
            code: failure.code().to_string(),
            message: failure.full_message(),
            hint: failure.hint_text().to_owned(),
            retry: failure.retry(),
            retry_after_s: failure.retry_after(),
            table: failure.table_name().map(str::to_owned),
            key: failure.row_key().map(str::to_owned),
        });
    }

    /// True when no row moved.
    pub(super) fn is_quiet(&self) -> bool {
        let Uploaded { inserts, updates, deletes } = self.uploaded;
        let rows = inserts + updates + deletes + self.downloaded.upserts + self.downloaded.deletes;
        let left = self.sent_again.map_or(0, |again| again.left);
        rows + left + self.conflicts + self.rejected + self.ignored == 0
    }

    /// The result for programs.
    pub(super) fn to_json(&self) -> Value {
        serde_json::json!(self)
    }

    /// The result for people.
    pub(super) fn to_text(&self, file: &Path) -> String {
        let Uploaded { inserts, updates, deletes } = self.uploaded;
        let mut text = format!(
            "synchronized {}: uploaded {}, {}, {}; downloaded {}, {}",
            file.display(),
            counted(inserts, "insert"),
            counted(updates, "update"),
            counted(deletes, "delete"),
            counted(self.downloaded.upserts, "row"),
            counted(self.downloaded.deletes, "delete"),
        );
        if let Some(SentAgain { left: left @ 1.., came }) = self.sent_again {
            let left = counted(left, "row");
            text.push_str(&format!("; in tables sent again as a whole {left} left, {came} came"));
        }
        if self.conflicts > 0 {
            text.push_str(&format!("; {}", counted(self.conflicts, "conflict")));
            text.push_str(&by_table(&self.conflicts_by_table));
        }
        if self.conflicts_lost > 0 {
            let (lost, file) = (self.conflicts_lost, file.display());
            text.push_str(&format!("; lost {lost}, see `syncline remote conflicts {file}`"));
        }
        if self.rejected > 0 {
            let rows = counted(self.rejected, "row");
            let file = file.display();
            text.push_str(&format!("; {rows} rejected, see `syncline remote rejects {file}`"));
        }
        if self.ignored > 0 {
            let rows = counted(self.ignored, "row");
            text.push_str(&format!("; {rows} ignored by a script of the center"));
        }
        if let Some(Resumed { rows, bytes }) = self.resumed {
            let rows = counted(rows, "row");
            text.push_str(&format!(
                "; {rows} ({bytes} bytes) were kept of a download that was cut"
            ));
        }
        if let CompressionSummary { uploaded, downloaded } = self.compression
            && (uploaded, downloaded) != ("none", "none")
        {
            text.push_str(&format!(
                "; compression of the upload {uploaded}, of the download {downloaded}"
            ));
        }
        text.push_str(&format!(" ({} ms)", self.duration_ms));
        text
    }
}

/// Most tables that people read of.
const TABLES_MAX: usize = 5;

/// In which tables rows were counted.
fn by_table(counts: &BTreeMap<String, u64>) -> String {
    let mut tables = counts.iter();
    if let (Some((only, _)), None) = (tables.next(), tables.next()) {
        return format!(" in {only}");
    }
    let shown = counts.iter().take(TABLES_MAX).map(|(table, rows)| format!("{table} {rows}"));
    let more = counts.len().saturating_sub(TABLES_MAX);
    let more = (more > 0).then(|| format!("{more} more tables"));
    let shown: Vec<String> = shown.chain(more).collect();
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) }
}

fn is_none(rows: &u64) -> bool {
    *rows == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    #[test]
    fn json_has_exactly_the_fields_of_the_design() {
        let mut summary = Summary::default();
        assert_eq!(
            summary.to_json().to_string(),
            r#"{"remote_id":null,"user":null,"script_version":null,"#.to_owned()
                + r#""uploaded":{"inserts":0,"updates":0,"deletes":0},"#
                + r#""downloaded":{"upserts":0,"deletes":0},"#
                + r#""conflicts":0,"rejected":0,"#
                + r#""compression":{"uploaded":"none","downloaded":"none"},"#
                + r#""duration_ms":0,"error":null}"#
        );
        let failure = Failure::new(Code::ServerFull, "full").retry_after_s(7).table("t").key("1");
        summary.failed(&failure);
        assert_eq!(
            summary.to_json()["error"].to_string(),
            r#"{"code":"E4001","message":"full","hint":"wait, then synchronize again","#.to_owned()
                + r#""retry":true,"retry_after_s":7,"table":"t","key":"1"}"#
        );
    }

    #[test]
    fn people_read_of_conflicts_and_rejects_only_where_there_are_some() {
        let mut summary = Summary { duration_ms: 12, ..Summary::default() };
        summary.uploaded.inserts = 1;
        assert_eq!(
            summary.to_text(Path::new("a.db")),
            "synchronized a.db: uploaded 1 insert, 0 updates, 0 deletes; \
             downloaded 0 rows, 0 deletes (12 ms)"
        );
        summary.conflicts = 3;
        summary.conflicts_by_table = BTreeMap::from([("note".into(), 3)]);
        assert!(summary.to_text(Path::new("a.db")).contains("; 3 conflicts in note ("));
        summary.conflicts_by_table.insert("visit".into(), 2);
        assert!(summary.to_text(Path::new("a.db")).contains("; 3 conflicts: note 3, visit 2 ("));
        summary.conflicts_lost = 1;
        let lost = "visit 2; lost 1, see `syncline remote conflicts a.db` (";
        assert!(summary.to_text(Path::new("a.db")).contains(lost));
        summary.compression.downloaded = "lz4";
        let compressed = "; compression of the upload none, of the download lz4 (";
        assert!(summary.to_text(Path::new("a.db")).contains(compressed));
        summary.rejected = 2;
        assert!(summary.to_text(Path::new("a.db")).contains("remote rejects a.db"));
    }
}
