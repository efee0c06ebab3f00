//! The consolidated database: the shared database at the centre, and everything kept in it.
//!
//! `sync_model.rs` is what the user declares, `script.rs` the SQL that runs at events,
//! `synchronization.rs` what a server asks of a database for one synchronization. Each backend
//! has a folder of its own; today `sqlite/`.
//!
//! This crate knows no wire message (A2), and no driver type appears in its public signatures
//! (A4).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin;
mod cancellation;
mod catalog;
mod connection;
mod detached;
mod difference;
mod digest;
mod echo;
mod fleet;
mod identity;
mod initial;
mod new_keys;
mod notes;
mod orphans;
mod owed_rows;
#[allow(dead_code, reason = "partitions will read more of the tables")]
mod postgres;
mod quote;
mod random;
mod reach;
mod readable;
mod rebase;
mod reject;
mod script;
mod selection;
mod serving;
mod shape;
mod sqlite;
mod start_mark;
mod sync_model;
mod synchronization;
mod uploaded_row;
mod url;

pub use admin::{Deployment, Finding, InitialModel, Severity, StoredScript, Undeployment, User};
pub use cancellation::Cancellation;
pub use connection::{
    Administration, Reader, ServeLock, Writer, administer, lock_for_serving, open_reader,
    open_writer, writers_max,
};
pub use difference::{Difference, Disagreement};
pub use echo::Echo;
pub use fleet::KnownRemote;
pub use identity::Binding as RemoteBinding;
pub use notes::{ConflictNote, Notes, RejectNote};
#[doc(hidden)]
pub use postgres::Binding;
pub use script::Event;
pub use serving::{Departures, Serving, Timeouts};
pub use shape::LeftOut;
pub use sync_model::{ConflictRule, StoredAs, SyncModel, extend};
pub use synchronization::{
    Admittee, Applied, Batch, BatchSource, Begun, Change, Credentials, DownloadBatch,
    DownloadedTable, FetchRequest, Fetched, Held, HeldSchema, Identity, RenamedTable, Session,
    TableMark, UploadRequest, WaitingTable, WithheldRow, Withholding, secret_digest,
};
pub use url::{
    ChannelBinding, ClientCertificate, Host, Method, Methods, PASSWORD_FILE_NAME, PostgresUrl,
    Proof, Secret, SslMode, Url,
};
