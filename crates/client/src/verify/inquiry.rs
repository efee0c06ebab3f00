//! One question and its answer: a connection from Hello to the last part.

use super::verification::VerifyRequest;
use crate::Remote;
use crate::progress;
use crate::progress::state::State;
use crate::synchronize::Inbox;
use model::{Code, Failure, Nonce, Spill, Spills};
use protocol::{
    Capabilities, Credential, Hello, LastUpload, MAGIC, Message, Mode, PROTOCOL_VERSION,
    TableWatermark, Verified, Verify,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a server is asked.
#[derive(Debug)]
pub(crate) struct Inquiry {
    hello: Hello,
    question: Verify,
}

/// What it has answered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// A session token, if a password was verified.
    pub(crate) token: Option<String>,
    tables: BTreeMap<u16, TableAnswer>,
}

/// What it has answered about one table.
#[derive(Debug)]
pub(crate) struct TableAnswer {
    pub(super) waits: bool,
    pub(super) sums: Vec<u8>,
    /// The parts of the entries.
    pub(super) entries: Spill,
}

/// Hears an answer.
pub(crate) struct Hearing {
    question: Verify,
    spills: Arc<Spills>,
    inbox: Inbox,
    is_welcome: bool,
    entries: u64,
    answers: Answers,
}

impl Inquiry {
    /// A question of this remote, as a user with this credential.
    pub(super) fn new(
        remote: &Remote,
        request: &VerifyRequest,
        credential: &Credential,
        question: Verify,
    ) -> Result<Inquiry, Failure> {
        let mut state = State::read(&remote.connection)?;
        remote.proposed.overlay(&mut state);
        let missing = || Failure::new(Code::SynchronizeFirst, "the remote was never synchronized");
        let tables = crate::schema::tables(&remote.connection)?;
        let watermarks = tables.iter().zip(progress::watermarks(&remote.connection)?);
        let watermarks = watermarks.map(|(table, watermark)| {
            let fingerprint = table.published.fingerprint.clone();
            TableWatermark { fingerprint, watermark }
        });
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            capabilities: Capabilities::NONE,
            client: request.client.clone(),
            database: None,
            remote_id: state.remote_id.ok_or_else(missing)?,
            user: state.user.ok_or_else(missing)?,
            credential: credential.clone(),
            new_password: None,
            parameters: remote.parameters.clone(),
            script_version: state.script_version,
            publications: state.publications,
            database_id: state.database_id,
            mode: Mode::Ping,
            progress: state.progress,
            outcome: match state.frozen {
                Some(_) => LastUpload::Unknown,
                None => LastUpload::Known,
            },
            counter: state.counter,
            nonce_confirmed: state.nonce_confirmed,
            // It is no attempt, so no mark is used up.
            nonce_attempt: state.nonce_attempt.unwrap_or(Nonce(1)),
            attempt: state.attempt,
            file_secret: state.file_secret,
            receipt: state.receipt,
            schema_fingerprint: state.schema_fingerprint,
            watermarks: watermarks.collect(),
            former_watermarks: Vec::new(),
            upload_follows: false,
            kept_tables: Vec::new(),
            unknown_tables: Vec::new(),
            verify_follows: true,
            wanted_rows: Vec::new(),
            resume: Vec::new(),
            was_cut: false,
            settled_rejects: Vec::new(),
        };
        Ok(Inquiry { hello, question })
    }

    /// Everything that is sent, and what hears the answer.
    pub(crate) fn begin(
        mut self,
        half_duplex: bool,
        spills: &Arc<Spills>,
    ) -> Result<(Vec<u8>, Hearing), Failure> {
        if half_duplex {
            self.hello.capabilities = Capabilities::HALF_DUPLEX;
        }
        let mut bytes = MAGIC.to_vec();
        Message::Hello(Box::new(self.hello)).encode(&mut bytes)?;
        let question = self.question.clone();
        Message::Verify(self.question).encode(&mut bytes)?;
        let (inbox, spills) = (Inbox::new(Capabilities::NONE), spills.clone());
        let (is_welcome, entries, answers) = (false, 0, Answers::default());
        Ok((bytes, Hearing { question, spills, inbox, is_welcome, entries, answers }))
    }
}

impl Answers {
    /// What was said about a table that was asked about.
    pub(super) fn of(&self, table: u16) -> Result<&TableAnswer, Failure> {
        self.tables.get(&table).ok_or_else(|| malformed("a table has no answer"))
    }
}

impl Hearing {
    /// Takes bytes of the server; true when the answer is complete.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        self.inbox.push(bytes);
        while let Some(message) = self.inbox.next_message()? {
            match message {
                Message::Heartbeat => {}
                Message::Failed(failed) => return Err(failed.into()),
                Message::Welcome(welcome) if !self.is_welcome => {
                    self.is_welcome = true;
                    self.answers.token = welcome.token;
                }
                Message::Verified(part) if self.is_welcome => {
                    if self.take(part)? {
                        return Ok(true);
                    }
                }
                other => return Err(other.unexpected("Welcome, then Verified")),
            }
        }
        Ok(false)
    }

    /// What it means that the server has closed the connection.
    pub(crate) fn closed(&self) -> Failure {
        Failure::new(Code::ConnectionLost, "the server closed the connection within its answer")
    }

    /// What was heard.
    pub(crate) fn into_answers(self) -> Answers {
        self.answers
    }

    /// Takes a part; true of the last.
    fn take(&mut self, part: Verified) -> Result<bool, Failure> {
        if let Some(entries) = part.end {
            return match entries == self.entries {
                true => Ok(true),
                false => {
                    let came = self.entries;
                    Err(malformed(&format!("{came} entries came, {entries} were sent")))
                }
            };
        }
        if !self.question.tables.iter().any(|asked| asked.table == part.table) {
            return Err(malformed("an answer to what was not asked"));
        }
        let spills = &self.spills;
        let answer = self.answers.tables.entry(part.table).or_insert_with(|| TableAnswer {
            waits: false,
            sums: Vec::new(),
            entries: spills.open(),
        });
        answer.waits |= part.waits;
        if !part.sums.is_empty() {
            answer.sums = part.sums;
        }
        if part.count > 0 {
            self.entries += u64::from(part.count);
            answer.entries.append(part.entries)?;
        }
        Ok(false)
    }
}

fn malformed(message: &str) -> Failure {
    Failure::new(Code::MalformedMessage, message)
}
