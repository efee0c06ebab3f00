//! What the states of an admitted synchronization share, and what each of them may do.

use super::admission::uploads;
use super::summary::Summary;
use super::surroundings::Shared;
use crate::fail_point::fail_point;
use crate::lease::Lease;
use crate::network::Connection;
use crate::phases::Phase;
use crate::turns::Origin;
use crate::worker::{Begin, Costed, Resume, waiting_table};
use consolidated::{
    Begun, Held, HeldSchema, Identity, PasswordChange, ResumedTable, Session, TableMark,
};
use model::{Failure, Progress};
use protocol::{
    Authentication, Capabilities, Compression, FRAME_BYTES_MAX, Hello, Message, Mode,
    PROTOCOL_VERSION, RenamedTable, SchemaChange, UploadState, Welcome,
};
use std::sync::Arc;
use std::time::Duration;

/// What every state after the admission has.
pub(super) struct Exchange<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) shared: &'a Shared,
    pub(super) lease: &'a Lease,
    pub(super) hello: Hello,
    pub(super) origin: Origin,
    pub(super) session: Arc<Session>,
    pub(super) identity: Identity,
    pub(super) marks: Arc<Vec<TableMark>>,
    pub(super) held_marks: Arc<Vec<TableMark>>,
    pub(super) token: Option<String>,
    /// What there is to say of the password.
    pub(super) authentication: Option<Authentication>,
    pub(super) summary: &'a mut Summary,
}

impl Exchange<'_> {
    /// What the client sends has one answer.
    pub(super) fn half_duplex(&self) -> bool {
        self.hello.capabilities.has(Capabilities::HALF_DUPLEX)
    }

    /// The upload that follows Hello leaves out what this Welcome would name.
    pub(super) fn leaves_out_enough(&self) -> bool {
        let kept = self.kept_tables();
        kept.iter().all(|table| self.hello.kept_tables.contains(table))
            && match self.held() {
                Some(held) => {
                    held.unknown.iter().all(|table| self.hello.unknown_tables.contains(table))
                }
                None => self.same_schema(),
            }
    }

    /// The client acknowledges the download over this connection, because that is wanted.
    pub(super) fn acknowledges(&self) -> bool {
        self.session.acknowledge && !self.half_duplex()
    }

    /// How rows are compressed that it downloads; none where they are not.
    pub(super) fn compression(&self) -> Option<Compression> {
        Compression::agreed(&self.shared.config.now().compression, self.hello.capabilities)
    }

    /// What the remote keeps of downloads that were cut. It names tables by their positions among
    /// those of today.
    pub(super) fn resume(&self) -> Resume {
        let tables = self.hello.resume.iter().filter(|_| self.same_schema());
        let segments = |given: &[protocol::Segment]| {
            given.iter().map(|it| (it.token.to_vec(), it.position.to_vec())).collect()
        };
        let resumed = |it: &protocol::ResumedTable| ResumedTable {
            table: usize::from(it.table),
            first: it.first.as_ref().map(|token| token.to_vec()),
            segments: segments(&it.segments),
            deletes: segments(&it.deletes),
        };
        Resume { was_cut: self.hello.was_cut, tables: tables.map(resumed).collect() }
    }

    pub(super) fn same_schema(&self) -> bool {
        self.hello.schema_fingerprint.as_ref() == Some(&self.session.schema.fingerprint)
    }

    /// The tables under which the remote uploads, where they are not those of today.
    pub(super) fn held(&self) -> Option<Arc<HeldSchema>> {
        match &self.session.held {
            Held::Older(held) if uploads(&self.hello) => Some(held.clone()),
            _ => None,
        }
    }

    /// Positions, in the schema that the upload is made under, of the tables that wait.
    pub(super) fn kept_tables(&self) -> Vec<u16> {
        match self.held() {
            Some(held) => held.waiting.clone(),
            None => self.session.waiting.iter().map(|table| table.position).collect(),
        }
    }

    pub(super) fn schema_change(&self) -> Message {
        let renamed = match &self.session.held {
            Held::Older(held) => held.renamed.iter().map(renamed).collect(),
            Held::Untold | Held::Same { .. } => Vec::new(),
        };
        let schema = (*self.session.schema).clone();
        Message::SchemaChange(Box::new(SchemaChange { schema, renamed }))
    }

    pub(super) fn welcome(
        &mut self,
        upload: UploadState,
        progress: Option<Progress>,
    ) -> Result<(), Failure> {
        let differs = !self.same_schema() && self.hello.mode != Mode::Ping;
        let held = self.held().filter(|_| differs);
        let schema_change_follows = differs && held.is_none();
        self.connection.queue(&Message::Welcome(Welcome {
            protocol_version: PROTOCOL_VERSION,
            capabilities: Compression::capabilities(&self.shared.config.now().compression),
            frame_bytes_max: self.told_frame_bytes_max(),
            schema_change_after_upload: held.is_some() && self.hello.mode == Mode::Full,
            unknown_tables: held.map_or_else(Vec::new, |held| held.unknown.clone()),
            kept_tables: self.kept_tables(),
            waiting_tables: self.session.waiting.iter().map(waiting_table).collect(),
            server: concat!("syncline ", env!("CARGO_PKG_VERSION")).into(),
            database_id: self.session.database_id.clone(),
            progress,
            script_version: Some(self.session.script_version.clone()),
            upload,
            schema_change_follows,
            token: self.token.take(),
            authentication: self.authentication.take(),
        }))?;
        if schema_change_follows {
            let change = self.schema_change();
            self.connection.queue(&change)?;
        }
        Ok(())
    }

    /// The limit that a client does not know by itself.
    fn told_frame_bytes_max(&self) -> Option<u64> {
        let largest = self.shared.config.now().frame_bytes_max;
        (largest < FRAME_BYTES_MAX).then_some(largest as u64)
    }

    /// Gives the user another password, which counts before Welcome says so. If that is lost, the
    /// remote sends the same two again, and the new one proves who it is.
    pub(super) async fn change_password(&mut self, change: PasswordChange) -> Result<(), Failure> {
        let user = change.user.clone();
        let changing = self.shared.worker.change_password(change);
        self.at_database(Phase::Admission, changing).await?;
        fail_point!("server-password-changed");
        tracing::info!(%user, remote = %self.hello.remote_id, "a user has changed the password");
        Ok(())
    }

    /// Answers what is committed, and shuts out every predecessor.
    pub(super) async fn begin(&mut self) -> Result<Begun, Failure> {
        let begin = Begin {
            session: self.session.clone(),
            identity: self.identity,
            receipt: self.hello.receipt.clone(),
        };
        self.at_database(Phase::Applying, self.shared.worker.begin(begin)).await
    }

    /// Waits for a turn at the database and for its work, and sends the remote signs of life. The
    /// turn ends with the work: no session has one while rows are sent or received (S10).
    pub(super) async fn at_database<T>(
        &mut self,
        phase: Phase,
        work: impl Future<Output = Result<Costed<T>, Failure>>,
    ) -> Result<T, Failure> {
        let (shared, lease) = (self.shared, self.lease);
        let (user, address) = (self.origin.user.clone(), self.origin.address);
        let in_turn = async {
            let _turn = shared.sessions.take(&user, &address).await?;
            if !lease.begin_work() {
                // The session that ended it gives the reason.
                return std::future::pending().await;
            }
            let result = work.await;
            lease.end_work();
            result
        };
        let heartbeat = Duration::from_secs(shared.config.now().heartbeat_interval_s.max(1));
        tokio::pin!(in_turn);
        let result = loop {
            match tokio::time::timeout(heartbeat, &mut in_turn).await {
                Ok(result) => break result,
                // A remote must not keep its turn by not reading.
                Err(_) => self.connection.sign_of_life()?,
            }
        };
        // The waiting time of failed work is unknown.
        let worked_us = result.as_ref().map_or(u64::MAX, |done| done.cost.worked_us);
        self.summary.phases.end_work(phase, worked_us);
        let Costed { value, cost } = result?;
        self.summary.cost += cost;
        Ok(value)
    }
}

fn renamed(table: &consolidated::RenamedTable) -> RenamedTable {
    let (held, columns) = (table.held, table.columns.clone());
    RenamedTable { table: table.table, held, columns }
}
