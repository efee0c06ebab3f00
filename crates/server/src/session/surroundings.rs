//! What all sessions of a server share.

use super::readiness::Readiness;
use crate::authenticate::{Authenticator, Registrar};
use crate::chronicle::Chronicle;
use crate::config::Settings;
use crate::jitter::Jitter;
use crate::lease::Leases;
use crate::pace::Pace;
use crate::transfers::Transfers;
use crate::turns::Turns;
use crate::worker::Worker;
use model::{Failure, Spills, UserName};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;
use tokio::sync::watch;

/// What all sessions of a server share.
pub(crate) struct Shared {
    pub(crate) config: Settings,
    pub(crate) worker: Worker,
    pub(crate) authenticator: Authenticator,
    pub(crate) registrar: Registrar,
    pub(crate) readiness: Readiness,
    pub(crate) leases: Arc<Leases>,
    pub(crate) spills: Arc<Spills>,
    /// Of `connections_max`.
    pub(crate) connections_pace: Pace,
    /// Places for as long as a synchronization lasts.
    pub(crate) transfers: Arc<Transfers>,
    /// Turns of those who want to be admitted.
    pub(crate) admissions: Arc<Turns<UserName, IpAddr>>,
    /// Turns at the database, for as long as it works.
    pub(crate) sessions: Arc<Turns<UserName, IpAddr>>,
    pub(crate) jitter: Jitter,
    /// What is remembered of those that have ended.
    pub(crate) chronicle: Chronicle,
    /// Ends the server, for a reason.
    pub(crate) ended: SyncSender<Failure>,
    pub(crate) stopping: AtomicBool,
    /// The same, to wait for.
    pub(crate) stopped: watch::Receiver<bool>,
}
