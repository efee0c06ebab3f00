//! The consolidated database: the shared database at the center, and everything kept in it.
//!
//! `sync_model.rs` is what the user declares, `script.rs` the SQL that runs at events,
//! `synchronization.rs` what a server asks of a database for one synchronization. Each backend
//! has a folder of its own; today `sqlite/`.
//!
//! This crate knows no wire message (A2), and no driver type appears in its public signatures
//! (A4).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod administration;
mod catalog;
mod connection;
mod deploy;
mod digest;
mod disk;
mod download;
mod identity;
mod postgres;
mod quote;
mod random;
mod script;
mod selection;
mod serving;
mod shape;
mod sql;
mod sqlite;
mod sync_model;
mod synchronization;
mod upload;
mod url;

pub use crate::administration::fleet::KnownRemote;
pub use crate::administration::history::{
    EndedSynchronization, LastDownload, PastSynchronization, SettledReject,
};
pub use crate::administration::notes::{ConflictNote, Notes, RejectNote};
pub use crate::administration::resolution::Resolution;
pub use crate::administration::waiting::rows_waiting;
pub use crate::administration::{
    Deployment, Finding, InitialModel, MisfitClaim, PlannedScript, PlannedScripts, Severity,
    StoredScript, TableConflicts, Undeployment, User, Way,
};
pub use crate::deploy::difference::{Difference, Disagreement};
pub use crate::serving::cancellation::Cancellation;
pub use crate::upload::echo::Echo;
pub use crate::upload::entered_again::EnteredAgain;
pub use connection::backend::{
    ServeLock, administer, administer_on, open_reader, open_writer, writers_max,
};
pub use connection::{Administration, Reader, Writer};
pub use disk::{Disk, FileStatus};
pub use identity::Binding as RemoteBinding;
#[doc(hidden)]
#[cfg(any(test, feature = "bind"))]
pub use postgres::Binding;
#[doc(hidden)]
pub use script::Script;
pub use script::authentication::{Answered, Question};
pub use script::trace::trace_events;
pub use script::{Detection, Event};
pub use serving::{Departures, Serving, Timeouts};
pub use shape::LeftOut;
pub use sync_model::{ConflictRule, Listed, ScriptFile, StoredAs, SyncModel, Wins, extend};
pub use synchronization::authenticates::Authenticates;
pub use synchronization::change::{Change, RowSource, UploadedRows};
pub use synchronization::counted::{Counted, Unusual};
pub use synchronization::expiry::Expiry;
pub use synchronization::resuming::{ResumedTable, Resuming, TableToken};
pub use synchronization::withheld::{WithheldRow, Withholding};
pub use synchronization::{
    Acknowledgement, Admittee, Applied, Begun, Credentials, DownloadBatch, DownloadedTable, Ending,
    FetchRequest, Fetched, Held, HeldSchema, Identity, Passed, PasswordChange, RenamedTable,
    Session, TableMark, UploadRequest, WaitingTable, secret_digest,
};
pub use url::{
    ChannelBinding, ClientCertificate, Host, Method, Methods, PASSWORD_FILE_NAME, PostgresUrl,
    Proof, Secret, SslMode, Url,
};
