//! The upload: from the network into the spill, from there to the database.

use super::ending::Ending;
use super::exchange::Exchange;
use super::{Admitted, Applying, Committed};
use crate::fail_point::fail_point;
use crate::network::Received;
use crate::phases::Phase;
use crate::upload::{ReceivedUpload, UploadInProgress};
use crate::worker::{Apply, Whole, hear};
use consolidated::{Applied, EnteredAgain};
use model::{Code, Failure};
use protocol::{LastUpload, Message, Mode, UploadCommitted, UploadState};
use std::collections::BTreeMap;
use std::sync::Arc;

impl<'a> Admitted<'a> {
    /// Hands out the counter. A remote that does not know what became of its last upload has to
    /// learn it first: what it downloads must not be taken for older than what it sent.
    pub(super) async fn begin_download_only(self) -> Result<Applying<'a>, Failure> {
        let Admitted(mut exchange) = self;
        let begun = match exchange.hello.outcome {
            LastUpload::Known => None,
            LastUpload::Unknown => Some(exchange.begin().await?),
        };
        exchange.welcome(UploadState::None, begun.map(|begun| begun.progress))?;
        Ok(Applying { exchange, rows: None, epoch: begun.map(|begun| begun.epoch) })
    }

    /// Receives the upload. None where it comes with another Hello, because this connection has had
    /// its answer.
    pub(super) async fn receive(self) -> Result<Option<Applying<'a>>, Failure> {
        let Admitted(mut exchange) = self;
        // The remote must remove pending changes of tables that the server does not know, and keep
        // those of tables that wait.
        let understood = exchange.leaves_out_enough();
        let known = exchange.hello.outcome == LastUpload::Known && understood;
        // If the outcome of the last upload is known, the database is not queried before the rows
        // have arrived. The remote has no upload on its way that had to be shut out first, and the
        // transaction of this one recognizes it, and refuses it if it was overtaken meanwhile (S8,
        // trap 6).
        let begun = if known { None } else { Some(exchange.begin().await?) };
        let rows = if known && exchange.hello.upload_follows {
            let rows = exchange.receive_upload().await?;
            exchange.welcome(UploadState::Taken, None)?;
            rows
        } else {
            if exchange.hello.upload_follows {
                // It was built on assumptions that do not hold: thrown away unseen, sent again.
                exchange.skip_upload().await?;
            }
            exchange.welcome(UploadState::Send, begun.map(|begun| begun.progress))?;
            exchange.connection.flush().await?;
            if exchange.half_duplex() {
                return Ok(None);
            }
            exchange.receive_upload().await?
        };
        fail_point!("server-upload-received");
        exchange.summary.uploaded = rows.rows;
        let epoch = begun.map(|begun| begun.epoch);
        Ok(Some(Applying { exchange, rows: Some(rows), epoch }))
    }
}

impl<'a> Applying<'a> {
    /// One transaction at the consolidated database, also where there are no rows: it hands out
    /// the counter without which the download's watermarks could not be trusted (trap 3). The
    /// remote is told that its upload is durable.
    pub(super) async fn apply(self) -> Result<Committed<'a>, Failure> {
        let Applying { mut exchange, rows, epoch } = self;
        let uploaded = rows.is_some();
        let (previous, progress) = match &rows {
            Some(rows) => (rows.previous, rows.progress),
            None => (exchange.identity.progress, exchange.identity.progress),
        };
        let download_follows = exchange.hello.mode != Mode::UploadOnly;
        let request = Apply {
            session: exchange.session.clone(),
            identity: exchange.identity,
            receipt: exchange.hello.receipt.clone(),
            epoch,
            previous,
            progress,
            download_follows,
            marks: exchange.marks.clone(),
            rows,
        };
        let (worker, mut behind) = (&exchange.shared.worker, (None, None));
        let applied = if exchange.session.is_session {
            let fetch = download_follows.then(|| exchange.fetch()).transpose()?;
            let applying = async {
                let told = worker.whole(Whole { apply: request, fetch }).await?;
                behind = (Some(told.fetched), Some(told.ended));
                hear(told.applied).await
            };
            exchange.at_database(Phase::Applying, applying).await
        } else {
            exchange.at_database(Phase::Applying, worker.upload(request)).await
        };
        let (awaited, ended) = behind;
        if let Err(failure) = &applied
            && failure.code() == Code::ServerDrained
        {
            // One that was asked before ends it as well.
            let why = Failure::new(failure.code(), failure.message());
            let _ = exchange.shared.ended.try_send(why);
        }
        let mut applied = applied?;
        exchange.session = applied.session(&exchange.session);
        let ending = Ending::of(&exchange, ended);
        if uploaded {
            exchange.confirm(&applied).await?;
        }
        match applied.stopped.take() {
            Some(failure) => Err(failure),
            None => Ok(Committed { exchange, applied, ending, awaited }),
        }
    }
}

impl Committed<'_> {
    /// There is no download.
    pub(super) async fn end(self) -> Result<(), Failure> {
        let Committed { mut exchange, ending, .. } = self;
        ending.run(&mut exchange, Phase::Applying).await?;
        exchange.connection.flush().await
    }
}

impl Exchange<'_> {
    /// Tells the remote that its upload is durable, and what became of its rows.
    async fn confirm(&mut self, applied: &Applied) -> Result<(), Failure> {
        self.summary.conflicts = applied.conflicts;
        self.summary.rejected = applied.rejected;
        self.summary.ignored = applied.ignored;
        self.connection.queue(&Message::UploadCommitted(UploadCommitted {
            progress: applied.progress,
            inserts: applied.inserts,
            updates: applied.updates,
            deletes: applied.deletes,
            conflicts: applied.conflicts,
            conflicts_by_table: self.by_table(applied),
            rejected: applied.rejected,
            ignored: applied.ignored,
            // Where a download follows it comes at its end.
            receipt: match self.hello.mode {
                Mode::UploadOnly => applied.receipt.clone(),
                _ => None,
            },
        }))?;
        if self.held().is_some() && self.hello.mode == Mode::Full {
            let change = self.schema_change();
            self.connection.queue(&change)?;
        }
        self.connection.flush().await?;
        self.summary.phases.end(Phase::Sending);
        Ok(())
    }

    /// How many rows of which tables had a conflict.
    fn by_table(&self, applied: &Applied) -> BTreeMap<String, u64> {
        let tables = &self.session.schema.tables;
        let counted = applied.unusual.iter().map(|(at, rows)| (*at, rows.conflicts()));
        let met = counted.filter(|(_, rows)| *rows > 0);
        met.filter_map(|(at, rows)| Some((tables.get(at)?.name.clone(), rows))).collect()
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
        let frames = self.shared.spills.open().counted_by(&self.summary.spilled);
        let bytes_max = self.shared.config.now().upload_bytes_max;
        let schema = match self.held() {
            Some(held) => Arc::new(held.schema.clone()),
            None => self.session.schema.clone(),
        };
        let again = EnteredAgain::within(&self.shared.spills);
        let mut upload = UploadInProgress::new(begin, &schema, (frames, again), bytes_max)?;
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
                Some(Message::EnteredAgain(again)) => upload.take_entered_again(&again)?,
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
                Some(Message::Heartbeat | Message::EnteredAgain(_)) => {}
                Some(other) => return Err(other.unexpected("Rows or UploadEnd")),
            }
        }
    }
}
