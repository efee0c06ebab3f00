//! The upload of an attempt, until it is ready to be sent.

use super::{Ready, Scene, Side, require_download};
use crate::Remote;
use crate::connection::{begin_immediate, explain};
use crate::fail_point::fail_point;
use crate::progress::{self, Freezing};
use crate::upload::left_behind::{Fitting, row_bytes_max};
use crate::upload::{Limits, Upload, UploadFrames};
use model::{Code, Failure};
use protocol::{Compression, Message};

/// A server that hears nothing for longer may take the client for dead.
const HEARTBEAT_INTERVAL_MS: u64 = 15_000;

/// What came of collecting an upload.
pub(super) enum Collected {
    Whole(Upload),
    /// It has more bytes than were allowed, or a row has.
    TooLarge,
    /// A heartbeat could not be sent meanwhile.
    Unsent(Failure),
}

/// The whole upload, or not.
pub(super) enum Whole {
    Upload(Upload),
    /// A heartbeat could not be sent while it was collected.
    Unsent(Failure),
}

impl Side {
    /// Freezes, if nothing is frozen, and collects the upload.
    pub(in crate::synchronize) fn upload(
        &mut self,
        scene: &mut Scene<'_>,
    ) -> Result<Ready, Failure> {
        match self.whole_upload(scene)? {
            Whole::Upload(upload) => {
                Ok(Ready::Upload(Box::new(UploadFrames::new(upload, Vec::new())?)))
            }
            Whole::Unsent(failure) => Ok(Ready::Unsent(failure)),
        }
    }

    /// The same, before its frames are made.
    pub(super) fn whole_upload(&mut self, scene: &mut Scene<'_>) -> Result<Whole, Failure> {
        if self.state.frozen.is_none() {
            self.freeze(scene, false)?;
        }
        self.keep_back(scene)?;
        if let Some(upload) = self.collected_already() {
            return Ok(Whole::Upload(upload));
        }
        let limits = self.limits(scene, None);
        match self.collect_or_take_back(scene, limits)? {
            Collected::Whole(upload) => Ok(Whole::Upload(upload)),
            Collected::Unsent(failure) => Ok(Whole::Unsent(failure)),
            Collected::TooLarge => {
                let message = "an upload is too large, although it has no limit";
                Err(Failure::new(Code::Bug, message))
            }
        }
    }

    /// What an upload may consist of: what the server of the last Welcome reads.
    pub(super) fn limits(&self, scene: &Scene<'_>, bytes_max: Option<u64>) -> Limits {
        let (total, server) = (&scene.total, self.state.server_capabilities);
        let compression = Compression::agreed(&scene.remote.compression, server);
        Limits {
            bytes_max,
            row_bytes_max: row_bytes_max(self.state.frame_bytes_max),
            compression: compression.filter(|_| !total.uncompressed),
        }
    }

    /// Freezes what is pending, or of that what fits.
    fn freeze(&mut self, scene: &mut Scene<'_>, what_fits: bool) -> Result<(), Failure> {
        let Remote { connection, random, spills, .. } = &mut *scene.remote;
        let row_bytes_max = row_bytes_max(self.state.frame_bytes_max);
        let freezing = match what_fits {
            true => Freezing::WhatFits(Fitting { row_bytes_max, spills }),
            false => Freezing::All,
        };
        let attempt = progress::begin_attempt(connection, &self.tables, random, freezing)?;
        require_download(attempt.postponed, scene.request.mode)?;
        self.postponed = attempt.postponed;
        self.state = attempt.state;
        scene.total.left_behind = attempt.left_behind;
        Ok(())
    }

    /// Removes changes of tables that wait at the center from the upload. Nothing of it has left,
    /// or it was thrown away there: it is pending as before.
    fn keep_back(&mut self, scene: &mut Scene<'_>) -> Result<(), Failure> {
        let Some(frozen) = self.state.frozen.filter(|_| !self.kept.is_empty()) else {
            return Ok(());
        };
        let kept = self.kept.iter().filter_map(|at| self.tables.get(usize::from(*at)));
        let open = self.state.open_generation;
        progress::keep_back(&scene.remote.connection, kept, frozen, open)?;
        self.collected = None;
        fail_point!("client-kept-back");
        Ok(())
    }

    /// The upload. Where it cannot be sent, nothing of it has left. Where only rows that are too
    /// large are in the way, it is made without them.
    pub(super) fn collect_or_take_back(
        &mut self,
        scene: &mut Scene<'_>,
        limits: Limits,
    ) -> Result<Collected, Failure> {
        let mut collected = self.collect(scene, limits);
        if matches!(&collected, Err(failure) if failure.code() == Code::RowTooLarge) {
            if limits.bytes_max.is_some() {
                // Welcome says how much the server takes today.
                return Ok(Collected::TooLarge);
            }
            self.take_back(scene)?;
            self.freeze(scene, true)?;
            fail_point!("client-left-behind");
            self.keep_back(scene)?;
            collected = self.collect(scene, limits);
        }
        if matches!(collected, Err(_) | Ok(Collected::Unsent(_))) && !self.upload_sent {
            self.take_back(scene)?;
        }
        collected
    }

    /// Nothing of the frozen generation has left, so its outcome is known.
    fn take_back(&mut self, scene: &mut Scene<'_>) -> Result<(), Failure> {
        let Some(frozen) = self.state.frozen else { return Ok(()) };
        let transaction = begin_immediate(&scene.remote.connection)?;
        progress::merge_back(&transaction, &self.tables, frozen, self.state.open_generation)
            .map_err(explain)?;
        transaction.commit().map_err(explain)
    }

    fn collect(&self, scene: &mut Scene<'_>, limits: Limits) -> Result<Collected, Failure> {
        let (remote, host) = (&*scene.remote, &mut *scene.host);
        let (mut said_ms, mut unsent) = (remote.clock.monotonic_ms(), false);
        // Where there is one answer, nobody waits for it yet.
        let heard = limits.bytes_max.is_none() && !scene.total.half_duplex;
        let mut alive = || {
            let now_ms = remote.clock.monotonic_ms();
            if heard && now_ms.saturating_sub(said_ms) >= HEARTBEAT_INTERVAL_MS {
                said_ms = now_ms;
                let sent = host.send_now(Message::Heartbeat.to_frame()?);
                unsent = sent.is_err();
                return sent;
            }
            Ok(())
        };
        let collected = Upload::collect(
            &remote.connection,
            &self.tables,
            &self.state,
            &remote.spills,
            limits,
            &mut alive,
        );
        match collected {
            Ok(Some(upload)) => {
                let compression = &mut scene.total.compression;
                compression.uploaded = upload.compression.or(compression.uploaded);
                Ok(Collected::Whole(upload))
            }
            Ok(None) => Ok(Collected::TooLarge),
            Err(failure) if unsent => Ok(Collected::Unsent(failure)),
            Err(failure) => Err(failure),
        }
    }

    /// What was collected before Hello, where it is still what is to be uploaded: C2 sees to its
    /// content, but the schema may have changed since, or the frozen set, or what the server reads.
    fn collected_already(&mut self) -> Option<Upload> {
        let (frozen, server) = (self.state.frozen?, self.state.server_capabilities);
        let upload = self.collected.take().filter(|upload| upload.is_of(frozen))?;
        let largest = row_bytes_max(self.state.frame_bytes_max);
        upload.is_readable(server, largest).then_some(upload)
    }
}
