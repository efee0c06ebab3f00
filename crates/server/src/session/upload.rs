//! The upload: from the network into the spill, from there to the database.

use super::Synchronization;
use crate::fail_point::fail_point;
use crate::network::Received;
use crate::phases::Phase;
use crate::upload::{ReceivedUpload, UploadInProgress};
use consolidated::Applied;
use model::Failure;
use protocol::{Capabilities, Message, Mode, Outcome, UploadCommitted, UploadState};
use std::sync::Arc;

impl Synchronization<'_> {
    /// Receives and applies the upload, and tells the remote that it is durable.
    pub(super) async fn upload(&mut self) -> Result<Applied, Failure> {
        let held = self.held();
        // The remote must remove pending changes of tables that the server does not know.
        let understood = match &held {
            Some(held) => held.unknown.is_empty(),
            None => self.same_schema(),
        };
        // Nor what waits for tables that wait themselves.
        let keeps_back = !self.session.waiting.is_empty()
            && self.hello.capabilities.has(Capabilities::WAITING_TABLES);
        let known = self.hello.outcome == Outcome::Known && understood && !keeps_back;
        // If the outcome of the last upload is known, the database is not queried before the rows
        // have arrived. The remote has no upload on its way that had to be shut out first, and the
        // transaction of this one recognizes it, and refuses it if it was overtaken meanwhile (S8,
        // trap 6).
        let begun = if known { None } else { Some(self.begin().await?) };
        let upload = if known && self.hello.upload_follows {
            let upload = self.receive_upload().await?;
            self.welcome(UploadState::Taken, None)?;
            upload
        } else {
            if self.hello.upload_follows {
                // It was built on assumptions that do not hold: thrown away unseen, sent again.
                self.skip_upload().await?;
            }
            self.welcome(UploadState::Send, begun.map(|begun| begun.progress))?;
            self.connection.flush().await?;
            self.receive_upload().await?
        };
        let epoch = begun.map(|begun| begun.epoch);
        fail_point!("server-upload-received");
        self.summary.uploaded = upload.rows;
        self.summary.spilled_bytes += upload.spilled_bytes();
        let applied = self.apply(Some(upload), epoch).await?;
        self.summary.conflicts = applied.conflicts;
        self.summary.rejected = applied.rejected;
        self.summary.reached = applied.reached;
        self.connection.queue(&Message::UploadCommitted(UploadCommitted {
            progress: applied.progress,
            inserts: applied.inserts,
            updates: applied.updates,
            deletes: applied.deletes,
            conflicts: applied.conflicts,
            rejected: applied.rejected,
            // Where a download follows it comes at its end.
            receipt: match self.hello.mode {
                Mode::UploadOnly => applied.receipt.clone(),
                _ => None,
            },
        }))?;
        if held.is_some() && self.hello.mode == Mode::Full {
            let change = self.schema_change();
            self.connection.queue(&change)?;
        }
        self.connection.flush().await?;
        self.summary.phases.end(Phase::Sending);
        Ok(applied)
    }

    async fn receive_upload(&mut self) -> Result<ReceivedUpload, Failure> {
        let received = self.receive_rows().await;
        self.summary.phases.end(Phase::Receiving);
        received
    }

    async fn receive_rows(&mut self) -> Result<ReceivedUpload, Failure> {
        let begin = match self.connection.receive().await? {
            Message::UploadBegin(begin) => begin,
            other => return Err(other.unexpected("UploadBegin")),
        };
        let (spills, bytes_max) = (&self.shared.spills, self.shared.config.now().upload_bytes_max);
        let schema = match self.held() {
            Some(held) => Arc::new(held.schema.clone()),
            None => self.session.schema.clone(),
        };
        let mut upload =
            UploadInProgress::new(begin, &schema, spills, bytes_max, self.key_changes())?;
        upload.keep_out(self.kept_tables());
        loop {
            let received = self.connection.receive_into(upload.spill()).await?;
            self.lease.progress();
            let frame = match received {
                Received::RowsOnDisk => {
                    upload.take_from_disk()?;
                    continue;
                }
                Received::Frame(frame, memory) if frame.frame_type == Message::ROWS_TYPE => {
                    upload.take(frame, memory)?;
                    continue;
                }
                Received::Frame(frame, _) => frame,
            };
            match Message::decode(frame)? {
                None | Some(Message::Heartbeat) => {}
                Some(Message::UploadEnd(end)) => return upload.end(end),
                Some(other) => return Err(other.unexpected("Rows or UploadEnd")),
            }
        }
    }

    /// Reads an upload to its end without looking at it.
    async fn skip_upload(&mut self) -> Result<(), Failure> {
        loop {
            match self.connection.receive_skipping().await? {
                Some(Message::UploadEnd(_)) => return Ok(()),
                None | Some(Message::UploadBegin(_)) => self.lease.progress(),
                Some(Message::Heartbeat) => {}
                Some(other) => return Err(other.unexpected("Rows or UploadEnd")),
            }
        }
    }
}
