//! The interface of a server to a consolidated database for one synchronization.
//!
//! There are two calls: an upload, which is one transaction and hands out the counter, and a fetch,
//! which is one snapshot and returns watermarks. If the outcome of the remote's last upload is
//! unknown, or its tables have changed, a third call precedes them. It returns what is committed,
//! and excludes every predecessor by raising the epoch (S8).

pub(crate) mod authenticates;
pub(crate) mod by_scripts;
pub(crate) mod change;
pub(crate) mod counted;
pub(crate) mod expiry;
pub(crate) mod resuming;
pub(crate) mod sent;
pub(crate) mod withheld;

use crate::identity::Binding;
use crate::script::Parameter;
use crate::shape::LeftOut;
use crate::upload::echo::Echo;
use crate::upload::entered_again::EnteredAgain;
use authenticates::Authenticates;
use by_scripts::ByScripts;
use change::RowSource;
use counted::{Counted, UnusualRows};
use expiry::Expiry;
use model::{
    Counter, DatabaseId, Failure, FileSecret, Nonce, Progress, PublicationName, Receipt, RemoteId,
    RemoteSchema, ScriptVersion, UserName, Watermark,
};
use resuming::{Resuming, TableToken};
use sent::Sent;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What stands for a user, from the system tables.
#[derive(Clone)]
pub struct Credentials {
    /// Argon2id, in the PHC string form.
    pub password_hash: String,
    /// Changes with the password, so that tokens of the old one are refused.
    pub password_version: i64,
    /// Since when it is the password, in seconds since 1970.
    pub password_set_at_unix_s: i64,
    /// When it expires.
    pub password_expires: Expiry,
    /// Values that scripts see as `{u.name}`.
    pub claims: BTreeMap<String, String>,
}

impl Credentials {
    /// Whether the operator shuts the user out. No password fits then, and nothing else may stand
    /// for one.
    pub fn locked(&self) -> bool {
        self.password_hash.starts_with('!')
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("claims", &self.claims).finish_non_exhaustive()
    }
}

/// Another password for a user.
pub struct PasswordChange {
    /// The user.
    pub user: UserName,
    /// The version of the password that was verified.
    pub former_version: i64,
    /// The version of the new one.
    pub version: i64,
    /// Argon2id, in the PHC string form.
    pub hash: String,
}

/// What the database knows of a client that wants to synchronize, before that is verified.
#[derive(Debug, Clone, Default)]
pub struct Admittee {
    /// What proves the user, if there is such a one.
    pub credentials: Option<Credentials>,
    /// To whom the remote belongs.
    pub binding: Binding,
}

/// Who synchronizes what; settled once per synchronization.
#[derive(Debug, Clone)]
pub struct Session {
    /// The consolidated database.
    pub database_id: DatabaseId,
    /// The deployment that `schema` belongs to; a later one refuses the session.
    pub deployment: i64,
    /// The remote.
    pub remote_id: RemoteId,
    /// The user, as scripts know it.
    pub user: UserName,
    /// The user who has proven to be that one, to whom the remote belongs: a script may give `user`
    /// another name.
    pub owner: UserName,
    /// The user's claims.
    pub claims: BTreeMap<String, String>,
    /// Its authentication parameters.
    pub passed: Passed,
    /// What scripts have set so far.
    pub by_scripts: ByScripts,
    /// The publications that are synchronized.
    pub publications: Arc<[PublicationName]>,
    /// Whether scripts run at the end, which is [`crate::Writer::end`].
    pub ends: bool,
    /// Whether it has one connection from its begin to its end: [`crate::Writer::session`].
    pub is_session: bool,
    /// Whether scripts decide who may synchronize, which is [`crate::Writer::authenticate`].
    pub authenticates: Authenticates,
    /// The script version that runs.
    pub script_version: ScriptVersion,
    /// The tables of the remote's publications.
    pub schema: Arc<RemoteSchema>,
    /// The tables under which it uploads.
    pub held: Held,
    /// Tables that cannot be synchronized until somebody deploys again.
    pub waiting: Arc<Vec<WaitingTable>>,
    /// Whether downloads are to be acknowledged at once.
    pub acknowledge: bool,
    /// Whether scripts that may write run around its downloads: who writes fetches them.
    pub fetched_by_writer: bool,
    /// Whether scripts around the rows ask since when the remote lacks what was stamped.
    pub asks_for_times: bool,
    /// Where scripts at the end hear of it: what was counted so far.
    pub counted: Option<Arc<Counted>>,
}

/// The authentication parameters of a synchronization, in their order. Some are secrets: they are
/// in no log.
#[derive(Clone, Default)]
pub struct Passed(Arc<[String]>);

impl Passed {
    /// These, the first of which is `{a.1}`.
    pub fn new(values: &[String]) -> Passed {
        Passed(values.into())
    }

    pub(crate) fn values(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn get(&self, number: u8) -> Option<&str> {
        let at = usize::from(number).checked_sub(1)?;
        self.0.get(at).map(String::as_str)
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passed({})", self.0.len())
    }
}

/// A table that is not as it was deployed, or that cannot be decided without one that is not: it is
/// left out of a synchronization, and what waits for it at the remote stays there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingTable {
    /// Position in the schema of the session.
    pub position: u16,
    /// Its name.
    pub table: String,
    /// Why it waits.
    pub message: String,
}

impl Session {
    /// Whether the table at this position waits.
    pub(crate) fn waits(&self, position: usize) -> bool {
        self.waiting.iter().any(|table| usize::from(table.position) == position)
    }

    /// The names of the tables that wait.
    pub(crate) fn waiting_names(&self) -> Vec<&str> {
        self.waiting.iter().map(|table| table.table.as_str()).collect()
    }

    /// Takes note of what a script has set of `{u.…}`.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.by_scripts.user_values.insert(name.to_owned(), value.map(str::to_owned));
    }

    /// The value of a parameter that is the same for all rows, unless only the backend knows it.
    pub(crate) fn value_of(&self, parameter: &Parameter) -> Option<&str> {
        match parameter {
            Parameter::RemoteId => Some(self.remote_id.as_str()),
            Parameter::Username => Some(self.user.as_str()),
            Parameter::ScriptVersion => Some(self.script_version.as_str()),
            Parameter::Claim(name) => self.claims.get(name).map(String::as_str),
            Parameter::User(name) => match self.by_scripts.user_values.get(name) {
                Some(set) => set.as_deref(),
                None => self.claims.get(name).map(String::as_str),
            },
            Parameter::Passed(number) => self.passed.get(*number),
            // Of a row, or of the download.
            _ => None,
        }
    }
}

/// What a remote holds, compared with what is published for it now.
#[derive(Debug, Clone, Default)]
pub enum Held {
    /// The remote did not say it, or does not upload: what it uploads is of the tables of today.
    #[default]
    Untold,
    /// The very tables of today, or none at all.
    Same {
        /// Whether that is worth a note: older shapes are kept for as long as a remote may hold
        /// them.
        note: bool,
    },
    /// Others.
    Older(Arc<HeldSchema>),
}

/// The tables that a remote holds, where they are not those of today.
#[derive(Debug, Clone, Default)]
pub struct HeldSchema {
    /// The tables, in the remote's order; those that are not known have no columns.
    pub schema: RemoteSchema,
    /// Positions of the tables that are not known here, or whose rows no table takes any more.
    pub unknown: Vec<u16>,
    /// The tables of today that go on a held one under other names.
    pub renamed: Vec<RenamedTable>,
    /// Positions of the tables that wait, see [`Session::waiting`].
    pub waiting: Vec<u16>,
    /// Per table the place of each column in what an upload is applied to; none where it is the
    /// table of today.
    pub(crate) projections: Vec<Option<Vec<Option<u16>>>>,
}

/// A table of today that a remote holds under other names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedTable {
    /// Position in the schema of today.
    pub table: u16,
    /// Position in the schema that the remote holds.
    pub held: u16,
    /// Per column of today its position among the columns of the held table; none where that is
    /// another column, whatever its name.
    pub columns: Vec<Option<u16>>,
}

/// What a remote says of its own past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Synchronizations it knows to be complete.
    pub counter: Counter,
    /// The mark of the last complete one.
    pub nonce_confirmed: Nonce,
    /// The mark of this attempt.
    pub nonce_attempt: Nonce,
    /// Counts connections; one that is overtaken by a later one must not write any more.
    pub attempt: i64,
    /// The last upload it knows to be committed.
    pub progress: Progress,
    /// Whether a later upload may be committed too.
    pub outcome_unknown: bool,
    /// Digest of the secret of its file, see [`secret_digest`]; none if it has drawn none.
    pub secret: Option<u128>,
}

/// What is kept of the secret of a remote's file.
pub fn secret_digest(secret: &FileSecret) -> u128 {
    crate::digest::number(secret.as_bytes())
}

/// Answer to the beginning of a synchronization.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// Every later write must still find this epoch.
    pub epoch: i64,
    /// The last committed upload.
    pub progress: Progress,
}

/// One upload.
pub struct UploadRequest<'a> {
    /// Who synchronizes what.
    pub session: &'a Session,
    /// What the remote says of itself.
    pub identity: Identity,
    /// The last receipt that the remote was given.
    pub receipt: Option<&'a Receipt>,
    /// The epoch from the beginning of the synchronization, where it had one of its own.
    pub epoch: Option<i64>,
    /// The upload that this one follows.
    pub previous: Progress,
    /// The number of this upload; `previous` when there is nothing to upload.
    pub progress: Progress,
    /// Whether this is an upload, if only one without rows: then its scripts run.
    pub uploads: bool,
    /// Whether a download follows, so that a counter is handed out.
    pub download_follows: bool,
    /// What the remote presented per table of the schema, to settle what it is owed.
    pub marks: &'a [TableMark],
    /// The rows.
    pub batches: RowSource<'a>,
    /// Which of the updates are new rows; none where there are none.
    pub entered_again: Option<&'a EnteredAgain>,
    /// Rows of which not every value finds a column; filled while the rows are read.
    pub left_out: Option<&'a LeftOut>,
}

/// What became of an upload.
#[derive(Debug, Default)]
pub struct Applied {
    /// The epoch of this synchronization.
    pub epoch: i64,
    /// The last committed upload, now.
    pub progress: Progress,
    /// The counter to hand out with the download.
    pub counter: Counter,
    /// Rows uploaded, by change, conflicts and rejects included.
    pub inserts: u64,
    /// See `inserts`.
    pub updates: u64,
    /// See `inserts`.
    pub deletes: u64,
    /// Rows with a conflict.
    pub conflicts: u64,
    /// Rows that were refused.
    pub rejected: u64,
    /// Both, by the position of their table.
    pub unusual: UnusualRows,
    /// Rows that met a script which ignores them.
    pub ignored: u64,
    /// What need not come back.
    pub echo: Echo,
    /// When it was applied, in microseconds since 1970, where no other transaction is open then.
    pub time_us: Option<i64>,
    /// Proves that this synchronization took place; to be sent when it is durable.
    pub receipt: Option<Receipt>,
    /// In which life of the database it took place.
    pub incarnation: i64,
    /// What scripts have set.
    pub by_scripts: ByScripts,
    /// Why the synchronization cannot go on, although the upload is committed: a script behind it
    /// has failed.
    pub stopped: Option<Failure>,
}

impl Applied {
    /// The session as it goes on, with what scripts have set.
    pub fn session(&self, session: &Arc<Session>) -> Arc<Session> {
        going_on(session, &self.by_scripts)
    }
}

/// A synchronization ends whose upload has begun.
#[derive(Debug)]
pub struct Ending<'a> {
    /// With what the scripts of the upload have set.
    pub session: &'a Session,
    /// Whether it has done all that it had to do at the database.
    pub ok: bool,
}

/// A remote says that it has applied a download.
#[derive(Debug, Clone)]
pub struct Acknowledgement {
    /// The remote.
    pub remote_id: RemoteId,
    /// The epoch of the synchronization: one that was overtaken must not write any more.
    pub epoch: i64,
    /// The counter of the download.
    pub counter: Counter,
    /// The mark of the attempt.
    pub nonce: Nonce,
    /// In which life of the database the download was made.
    pub incarnation: i64,
}

/// What a remote holds of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableMark {
    /// Digest of the table as the remote knows it, or [`TableMark::FORMER`].
    pub fingerprint: String,
    /// What it was handed last.
    pub watermark: Option<Watermark>,
}

impl TableMark {
    /// Instead of a fingerprint: rows were received with this watermark and not compared since,
    /// although the table or the identity of the remote has changed. It shows nothing but the past
    /// of which they are. Its counter may be that of another remote.
    pub const FORMER: &str = "";
}

/// One download.
pub struct FetchRequest<'a> {
    /// Who synchronizes what.
    pub session: &'a Session,
    /// The counter handed out by the upload.
    pub counter: Counter,
    /// What the remote holds, per table of the schema; shorter or empty for a new remote.
    pub marks: &'a [TableMark],
    /// What it presented of tables that are not those of the schema.
    pub held_marks: &'a [TableMark],
    /// The rows are only counted. What the remote was owed up to its marks has arrived, which
    /// otherwise an upload before has settled.
    pub is_counted: bool,
    /// What need not be sent.
    pub echo: &'a Echo,
    /// See [`Applied::time_us`].
    pub time_us: Option<i64>,
    /// Rows that the remote asks for, by the position of their table and their key: as many as one
    /// Hello can have. They are sent as if they were owed.
    pub wanted: &'a [(usize, Vec<u8>)],
    /// Cut batches at about this many bytes.
    pub batch_bytes: usize,
    /// Cut batches at this many rows.
    pub batch_rows: u32,
    /// The bytes of the largest row that can be sent. Rows that were withheld and are larger are
    /// not read for being owed.
    pub row_bytes_max: u64,
    /// What the remote keeps of downloads that were cut.
    pub resuming: Resuming<'a>,
}

impl FetchRequest<'_> {
    /// What the remote holds of the tables that do not wait, whatever they look like today.
    pub(crate) fn present_marks(&self) -> impl Iterator<Item = &TableMark> {
        let marks = self.marks.iter().enumerate();
        let present = marks.filter(|(position, _)| !self.session.waits(*position));
        present.map(|(_, mark)| mark).chain(self.held_marks)
    }

    /// What the remote holds of a table afterwards: where it waits, what it held before.
    pub(crate) fn watermark(&self, position: usize, until: Option<Watermark>) -> Option<Watermark> {
        match self.session.waits(position) {
            true => self.marks.get(position).and_then(|mark| mark.watermark.clone()),
            false => until,
        }
    }

    /// Says in the log which tables a remote that had them receives whole: it was away for longer
    /// than changes are kept, or its claims or the database became others.
    pub(crate) fn warn_of_refreshes<'n>(&self, whole: impl Iterator<Item = (usize, &'n str)>) {
        if self.is_counted {
            return;
        }
        let had = |at: usize| self.marks.get(at).is_some_and(|mark| mark.watermark.is_some());
        let tables: Vec<&str> =
            whole.filter(|(position, _)| had(*position)).map(|(_, name)| name).collect();
        if !tables.is_empty() {
            let (remote, tables) = (self.session.remote_id.as_str(), tables.join(", "));
            tracing::warn!(remote, tables, "a remote downloads whole tables again");
        }
    }
}

/// How a table is downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadedTable {
    /// Not at all.
    None,
    /// What changed since the watermark.
    Changes,
    /// All rows.
    Refresh,
}

/// A part of a download, in the order in which it is to be sent.
#[derive(Debug)]
pub enum DownloadBatch {
    /// First: how each table of the schema is downloaded. Where it comes again, the download has
    /// begun again, and what came before does not count.
    Begin {
        /// Per table of the schema.
        tables: Vec<DownloadedTable>,
        /// Likewise: how the remote goes on if the download is cut.
        tokens: Vec<TableToken>,
        /// The consolidated database was restored since the remote was here last.
        restored: bool,
        /// Deletes may have been lost with what was lost.
        deletes_lost: bool,
        /// The tables that are left out.
        waiting: Arc<Vec<WaitingTable>>,
    },
    /// A row that the consolidated database refused.
    Reject {
        /// Position of the table.
        table: usize,
        /// The key's columns as a row.
        key: Vec<u8>,
        /// The synchronization that uploaded it.
        counter: Counter,
        /// Number of the error code.
        code: u16,
        /// In the database's words.
        message: String,
    },
    /// A row of the remote that lost a conflict.
    Conflict {
        /// Position of the table.
        table: usize,
        /// The key's columns as a row.
        key: Vec<u8>,
        /// The synchronization that uploaded it.
        counter: Counter,
        /// What decided, for people.
        rule: String,
    },
    /// A row that was withheld from the remote before, because it was too large or no script could
    /// read it. Before all rows.
    Withheld {
        /// Position of the table.
        table: usize,
        /// The key's columns as a row.
        key: Vec<u8>,
        /// The synchronization in which it was first.
        counter: Counter,
    },
    /// A row that the remote is owed, and that no script can read. Before all rows; a cursor may
    /// still return it.
    Unreadable {
        /// Position of the table.
        table: usize,
        /// The key's columns as a row.
        key: Vec<u8>,
        /// In the database's words.
        message: String,
    },
    /// Rows to insert or update.
    Upserts {
        /// Position of the table.
        table: usize,
        /// How many.
        count: u32,
        /// The rows.
        rows: Vec<u8>,
    },
    /// The rows or deleted keys of a table have been sent up to here, of those that are sent in key
    /// order.
    Position {
        /// Position of the table.
        table: usize,
        /// It is about deleted keys.
        deletes: bool,
        /// Segments that the remote has presented and that lie before.
        passed: u16,
        /// All of them have been sent.
        complete: bool,
        /// Where it is; empty at the end of the last of those segments.
        position: Vec<u8>,
    },
    /// Keys of rows to delete.
    Deletes {
        /// Position of the table.
        table: usize,
        /// How many.
        count: u32,
        /// The keys' columns as rows.
        rows: Vec<u8>,
    },
}

/// What a fetch ends with.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Upserts and deletes.
    pub rows: u64,
    /// Rows left out because the remote has just uploaded them.
    pub filtered: u64,
    /// Per table of the schema.
    pub watermarks: Vec<Option<Watermark>>,
    /// What was sent of each table, as far as anything was.
    pub sent: Vec<Sent>,
    /// What scripts have set, also before the download.
    pub by_scripts: ByScripts,
}

impl Fetched {
    /// The session as it goes on, with what scripts have set.
    pub fn session(&self, session: &Arc<Session>) -> Arc<Session> {
        going_on(session, &self.by_scripts)
    }
}

fn going_on(session: &Arc<Session>, by_scripts: &ByScripts) -> Arc<Session> {
    match *by_scripts == ByScripts::default() {
        true => session.clone(),
        false => Arc::new(Session { by_scripts: by_scripts.clone(), ..Session::clone(session) }),
    }
}
