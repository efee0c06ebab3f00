//! The first bytes of an attempt: Hello, and a small upload with it.

use super::upload::{Collected, Whole};
use super::{Greeting, Scene, Side, uploads};
use crate::connection::damaged;
use crate::progress;
use crate::schema::RemoteTable;
use crate::upload::Upload;
use crate::upload::UploadFrames;
use model::Failure;
use protocol::{
    Capabilities, Compression, Credential, FormerWatermark, Hello, LastUpload, MAGIC, Message,
    Mode, NewPassword, PROTOCOL_VERSION, TableWatermark, UPLOAD_WITH_HELLO_BYTES_MAX,
};

/// An upload of more bytes is collected after Welcome, under heartbeats: the server does not wait
/// for Hello as long as a large one may take.
const COLLECTED_BEFORE_HELLO_BYTES_MAX: u64 = 2 << 20;

impl Side {
    /// Hello, with the upload if it is small.
    pub(in crate::synchronize) fn greet(
        &mut self,
        scene: &mut Scene<'_>,
    ) -> Result<Greeting, Failure> {
        if self.upload_is_wanted {
            return self.greet_with_upload(scene);
        }
        self.collected = self.collect_before_hello(scene)?;
        let upload = self.collected.take_if(|it| it.bytes <= UPLOAD_WITH_HELLO_BYTES_MAX as u64);
        self.upload_sent = upload.is_some();
        let mut bytes = MAGIC.to_vec();
        Message::Hello(Box::new(self.hello(scene)?)).encode(&mut bytes)?;
        let Some(upload) = upload else { return Ok(Greeting { bytes, rows: None, more: None }) };
        let rows = upload.rows;
        let mut frames = UploadFrames::new(upload, bytes)?;
        let mut bytes = frames.take()?.unwrap_or_default();
        while let Some(more) = frames.take()? {
            bytes.extend_from_slice(&more);
        }
        Ok(Greeting { bytes, rows: Some(rows), more: None })
    }

    /// Hello, and behind it the upload that a Welcome has asked for.
    fn greet_with_upload(&mut self, scene: &mut Scene<'_>) -> Result<Greeting, Failure> {
        let upload = match self.whole_upload(scene)? {
            Whole::Upload(upload) => upload,
            Whole::Unsent(failure) => return Err(failure),
        };
        self.upload_sent = true;
        let mut hello = MAGIC.to_vec();
        Message::Hello(Box::new(self.hello(scene)?)).encode(&mut hello)?;
        let mut frames = UploadFrames::new(upload, hello)?;
        let bytes = frames.take()?.unwrap_or_default();
        Ok(Greeting { bytes, rows: None, more: Some(Box::new(frames)) })
    }

    /// The whole upload, if the outcome of the last one is known, there is a schema, and it is
    /// small enough to be sent with Hello.
    fn collect_before_hello(&mut self, scene: &mut Scene<'_>) -> Result<Option<Upload>, Failure> {
        let uploads = uploads(scene.request.mode);
        if !uploads
            || self.outcome == LastUpload::Unknown
            || self.state.schema_fingerprint.is_none()
        {
            return Ok(None);
        }
        // A server that turns out to read it no more gets another upload after Welcome.
        let bytes_max = Some(COLLECTED_BEFORE_HELLO_BYTES_MAX);
        let limits = self.limits(scene, bytes_max);
        match self.collect_or_take_back(scene, limits)? {
            Collected::Whole(upload) => Ok(Some(upload)),
            Collected::TooLarge => Ok(None),
            Collected::Unsent(failure) => Err(failure),
        }
    }

    fn hello(&self, scene: &Scene<'_>) -> Result<Hello, Failure> {
        let state = &self.state;
        let missing = || damaged("an attempt was not recorded");
        Ok(Hello {
            protocol_version: PROTOCOL_VERSION,
            capabilities: match scene.total.half_duplex {
                true => Capabilities::HALF_DUPLEX,
                false => Capabilities::NONE,
            }
            .and(Compression::capabilities(&scene.remote.compression)),
            client: scene.request.client.clone(),
            database: None,
            remote_id: state.remote_id.clone().ok_or_else(missing)?,
            user: scene.user.clone(),
            credential: credential(scene),
            new_password: self.new_password(scene),
            parameters: scene.remote.parameters.clone(),
            script_version: state.script_version.clone(),
            publications: state.publications.clone(),
            database_id: state.database_id.clone(),
            mode: scene.request.mode,
            progress: state.progress,
            outcome: self.outcome,
            counter: state.counter,
            nonce_confirmed: state.nonce_confirmed,
            nonce_attempt: state.nonce_attempt.ok_or_else(missing)?,
            attempt: state.attempt,
            file_secret: state.file_secret,
            receipt: state.receipt.clone(),
            schema_fingerprint: state.schema_fingerprint.clone(),
            watermarks: self.watermarks(scene)?,
            former_watermarks: self.former_watermarks(),
            upload_follows: self.upload_sent,
            kept_tables: self.kept.clone(),
            unknown_tables: self.unknown.clone(),
            verify_follows: false,
            wanted_rows: match scene.request.mode {
                Mode::Full | Mode::DownloadOnly => scene.remote.wanted.clone(),
                Mode::UploadOnly | Mode::Ping => Vec::new(),
            },
            resume: self.resume.clone(),
            was_cut: self.was_cut,
            settled_rejects: self.settled.clone(),
        })
    }

    /// The new password, until a server has taken it.
    fn new_password(&self, scene: &Scene<'_>) -> Option<NewPassword> {
        let counts = scene.total.token.is_some();
        scene.remote.new_password.clone().filter(|_| !counts)
    }

    fn watermarks(&self, scene: &Scene<'_>) -> Result<Vec<TableWatermark>, Failure> {
        let stored = progress::watermarks(&scene.remote.connection)?;
        let with_table = self.tables.iter().zip(stored);
        Ok(with_table
            .map(|(table, watermark)| TableWatermark {
                fingerprint: table.published.fingerprint.clone(),
                watermark,
            })
            .collect())
    }

    /// Of which past the rows are that no download has compared since their table or the identity
    /// of the remote has changed.
    fn former_watermarks(&self) -> Vec<FormerWatermark> {
        let former = |table: &RemoteTable| {
            let watermark = self.state.history.former_watermark(table.name())?.clone();
            Some(FormerWatermark { table: table.name().to_owned(), watermark })
        };
        self.tables.iter().filter_map(former).collect()
    }
}

/// A token that an earlier attempt was given saves the server a password check.
fn credential(scene: &Scene<'_>) -> Credential {
    match &scene.total.token {
        Some(token) => Credential::Token(token.clone()),
        None => scene.request.credential.clone(),
    }
}
