//! The interface of a backend: three kinds of connections to a consolidated database.
//!
//! It has outcomes and no SQL. A new backend is a folder beside `sqlite/` that implements these
//! traits, and a line in each function of `connection/backend.rs`.

pub(crate) mod backend;

use crate::administration::fleet::KnownRemote;
use crate::administration::history::{EndedSynchronization, PastSynchronization};
use crate::administration::notes::{ConflictNote, Notes, RejectNote};
use crate::administration::resolution::Resolution;
use crate::administration::{
    Deployment, Finding, InitialModel, MisfitClaim, PlannedScripts, StoredScript, Undeployment,
    User,
};
use crate::deploy::difference::Difference;
use crate::identity::Binding;
use crate::script::authentication::{Answered, Question};
use crate::sync_model::SyncModel;
use crate::synchronization::expiry::Expiry;
use crate::synchronization::withheld::Withholding;
use crate::synchronization::{
    Acknowledgement, Admittee, Applied, Begun, DownloadBatch, Ending, FetchRequest, Fetched, Held,
    Identity, PasswordChange, Session, UploadRequest,
};
use model::{Failure, PublicationName, Receipt, RemoteId, ScriptVersion, UserName};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A connection for commands that administer the database: `init`, `deploy`, `check`, `user`.
pub trait Administration: Debug {
    /// Succeeds if the database answers, and is deployed.
    fn answers(&mut self) -> Result<(), Failure>;

    /// A model with the `wanted` tables, or with all.
    fn initial_model(
        &mut self,
        wanted: &[String],
        download_only: bool,
    ) -> Result<InitialModel, Failure>;

    /// Makes the database what the models say; with `dry_run` only tells.
    fn deploy(&mut self, models: &[SyncModel], dry_run: bool) -> Result<Deployment, Failure>;

    /// Removes every object of Syncline; says what it did, and what it could not put back. With
    /// `dry_run` only tells the statements.
    fn undeploy(&mut self, dry_run: bool) -> Result<Undeployment, Failure>;

    /// Compares models, deployment and database.
    fn check(&mut self, models: &[SyncModel]) -> Result<Vec<Finding>, Failure>;

    /// The scripts that users can write, as the next deployment would have them.
    fn planned_scripts(&mut self, models: &[SyncModel]) -> Result<PlannedScripts, Failure>;

    /// What models, database and deployment disagree about.
    fn differences(&mut self, models: &[SyncModel]) -> Result<Vec<Difference>, Failure>;

    /// What the clock of a database server says, in seconds since 1970; none where the database is
    /// a file of this machine.
    fn clock_unix_s(&mut self) -> Result<Option<i64>, Failure>;

    /// Every deployed script, in the order of versions, tables and events.
    fn scripts(&mut self) -> Result<Vec<StoredScript>, Failure>;

    /// Every publication with its tables.
    #[allow(clippy::type_complexity, reason = "version, publication, tables: three plain columns")]
    fn publications(
        &mut self,
    ) -> Result<Vec<(ScriptVersion, PublicationName, Vec<String>)>, Failure>;

    /// Every user, by name.
    fn users(&mut self) -> Result<Vec<User>, Failure>;

    /// Adds a user. `password_hash` is Argon2id in the PHC string form.
    fn add_user(
        &mut self,
        name: &UserName,
        password_hash: &str,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure>;

    /// The claims of a user.
    fn claims(&mut self, name: &UserName) -> Result<BTreeMap<String, String>, Failure>;

    /// Replaces the claims of a user.
    fn set_claims(
        &mut self,
        name: &UserName,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure>;

    /// Those of these claims that a condition of the models compares with a column whose type they
    /// are no value of.
    fn misfit_claims(
        &mut self,
        models: &[SyncModel],
        claims: &BTreeMap<String, String>,
    ) -> Result<Vec<MisfitClaim>, Failure>;

    /// Changes the password, which revokes every session token of the user.
    fn set_password(&mut self, name: &UserName, password_hash: &str) -> Result<(), Failure>;

    /// Says when the password of a user expires. A new password expires by its age again, unless it
    /// is to expire never.
    fn set_expiry(&mut self, name: &UserName, expiry: Expiry) -> Result<(), Failure>;

    /// Shuts a user out, or lets the user in again. Locking revokes every token; a password that is
    /// changed meanwhile counts from the unlocking on.
    fn set_locked(&mut self, name: &UserName, locked: bool) -> Result<(), Failure>;

    /// Removes a user, which revokes every session token of the user. Its remotes have no owner
    /// until they are bound again.
    fn remove_user(&mut self, name: &UserName) -> Result<(), Failure>;

    /// Every remote that is not forgotten, by ID, or the one with this ID.
    fn remotes(&mut self, only: Option<&RemoteId>) -> Result<Vec<KnownRemote>, Failure>;

    /// The last synchronizations of this remote, the newest first.
    fn synchronizations(
        &mut self,
        remote_id: &RemoteId,
    ) -> Result<Vec<PastSynchronization>, Failure>;

    /// Says to whom a remote belongs from now on.
    fn bind_remote(&mut self, remote_id: &RemoteId, binding: &Binding) -> Result<(), Failure>;

    /// Forgets a remote: what it is owed, and to whom it belongs. Comes it back, it is compared.
    fn forget_remote(&mut self, remote_id: &RemoteId) -> Result<(), Failure>;

    /// Draws new keys for session tokens and receipts, and voids every session token. Receipts that
    /// were signed with the former keys stay valid.
    fn rotate_keys(&mut self) -> Result<(), Failure>;

    /// Takes the operator's word that the database was restored: every remote is compared.
    fn declare_restored(&mut self) -> Result<(), Failure>;

    /// Rows of remotes that were refused, the oldest first.
    fn rejects(&mut self, wanted: &Notes) -> Result<Vec<RejectNote>, Failure>;

    /// Removes the notes about rejects that their remotes know of and that are at least so many
    /// seconds old. Returns how many.
    fn purge_rejects(&mut self, seconds: i64) -> Result<u64, Failure>;

    /// Conflicts, the oldest first.
    fn conflicts(&mut self, wanted: &Notes) -> Result<Vec<ConflictNote>, Failure>;

    /// Makes the row of a conflict what it should be, and removes the note.
    /// [`model::Code::ConflictNotResolved`] where the row has changed since, unless by `force`.
    fn resolve_conflict(
        &mut self,
        id: i64,
        resolution: &Resolution,
        force: bool,
    ) -> Result<(), Failure>;

    /// Removes the notes about conflicts that are at least so many seconds old. Returns how many.
    fn purge_conflicts(&mut self, seconds: i64) -> Result<u64, Failure>;
}

/// A connection that applies uploads, in groups that become durable together.
///
/// Where each synchronization commits by itself, a group is one, and beginning or committing it
/// does nothing.
pub trait Writer: Debug + Send {
    /// Most uploads of one group.
    fn group_len_max(&self) -> usize;

    /// Begins a group.
    fn begin(&mut self) -> Result<(), Failure>;

    /// Makes everything since [`Writer::begin`] durable, all or nothing.
    fn commit(&mut self) -> Result<(), Failure>;

    /// Gives up everything since [`Writer::begin`].
    fn rollback(&mut self);

    /// True when the database itself gave up the group.
    fn transaction_lost(&self) -> bool;

    /// Lets scripts decide whether a user may synchronize, for a session that has such scripts.
    /// What they write stays, whatever they decide. When it fails, it alone has had no effect.
    fn authenticate(&mut self, question: &Question<'_>) -> Result<Answered, Failure>;

    /// Answers what is committed, and shuts out predecessors. When it fails, it alone has had no
    /// effect.
    fn begin_synchronization(
        &mut self,
        session: &Session,
        identity: &Identity,
        receipt: Option<&Receipt>,
    ) -> Result<Begun, Failure>;

    /// Applies one upload, and hands out the counter. When it fails, it alone has had no effect.
    fn upload(&mut self, request: &UploadRequest<'_>) -> Result<Applied, Failure>;

    /// Runs the scripts at the end of a synchronization, for a session that has some. When it
    /// fails, it alone has had no effect.
    fn end(&mut self, ending: &Ending<'_>) -> Result<(), Failure>;

    /// Fetches a download in a transaction that may write. Call outside a group. When it fails,
    /// nothing of it was written; where another transaction was in its way, it has begun again, and
    /// so have its parts.
    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure>;

    /// The connection that the script version of `session` has for itself, where its scripts have
    /// run that belong to connections. Call outside a group. Another deployment or version gets
    /// another one.
    fn session(&mut self, session: &Session) -> Result<&mut dyn Writer, Failure>;

    /// Closes that connection, which has failed or is not needed any more.
    fn end_session(&mut self);

    /// Notes which rows a download was too large to carry, as rows that the remote is owed and as
    /// rejects, before it is sent. When it fails, it alone has had no effect.
    fn withhold(&mut self, withholding: &Withholding<'_>) -> Result<(), Failure>;

    /// Notes that a remote has applied a download, unless that is not its last one any more. When
    /// it fails, it alone has had no effect.
    fn acknowledge(&mut self, acknowledgement: &Acknowledgement) -> Result<(), Failure>;

    /// Gives a user another password, unless somebody else was faster. When it fails, it alone has
    /// had no effect.
    fn change_password(&mut self, change: &PasswordChange) -> Result<(), Failure>;

    /// Notes synchronizations that have ended, of remotes that are known. When it fails, it alone
    /// has had no effect.
    fn note_ended(&mut self, ended: &[EndedSynchronization]) -> Result<(), Failure>;

    /// Cuts what is kept for remotes that were away to its newest `log_rows_max` entries a table
    /// (S9). A remote that was away for longer receives the whole table again. Call outside a
    /// group.
    fn trim_logs(&mut self, log_rows_max: i64) -> Result<(), Failure>;

    /// Keeps the newest `rows_max` notes about conflicts, and about rejects (S9), and of the
    /// rejects that their remotes know of those of the last `rejects_kept_s` seconds. Call outside
    /// a group.
    fn trim_notes(&mut self, rows_max: i64, rejects_kept_s: i64) -> Result<(), Failure>;

    /// Exchanges with the database so far, where there is a network between.
    fn round_trips(&self) -> u64 {
        0
    }
}

/// A connection that only reads: users, the tables of a remote, its downloads.
pub trait Reader: Debug + Send {
    /// The key that signs session tokens, the same for every server of this database.
    fn token_key(&mut self) -> Result<Vec<u8>, Failure>;

    /// What proves each of these users, as far as there are such, and to whom their remotes
    /// belong, in their order. Takes note of the deployment of the same moment, to which the
    /// sessions that are settled next belong.
    fn admittees(&mut self, who: &[(&UserName, &RemoteId)]) -> Result<Vec<Admittee>, Failure>;

    /// Settles who synchronizes what. Where it is a later deployment that the database has when
    /// it is written to or read, the session is refused then.
    fn session(
        &mut self,
        user: &UserName,
        claims: BTreeMap<String, String>,
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure>;

    /// Compares what the remote of `session` holds with what is published for it: the digest of
    /// its schema, none if it has none, and those of its tables.
    fn held(
        &mut self,
        session: &Session,
        schema: Option<&str>,
        tables: &[String],
    ) -> Result<Held, Failure>;

    /// Fetches a download, part by part, from one snapshot.
    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure>;

    /// Exchanges with the database so far, where there is a network between.
    fn round_trips(&self) -> u64 {
        0
    }
}
