//! One conversation as a state machine: messages in, instructions out. No file, socket or clock.
//!
//! An attempt (`synchronize/attempt.rs`) sends Hello. Then it passes the received messages and
//! performs the instructions. Rows are columns, `→` is the next state, a dash is a failure with
//! [`Code::UnexpectedMessage`] that ends the conversation. In every state except `Ended`, Heartbeat
//! is ignored and Failed ends the conversation with its failure.
//!
//! | state | Welcome | SchemaChange | UploadCommitted | DownloadBegin | Rows, … | …End |
//! |---|---|---|---|---|---|---|
//! | ExpectWelcome | → by its answer | - | - | - | - | - |
//! | ExpectSchemaChange | - | → by Welcome's answer | - | - | - | - |
//! | ExpectUploadCommitted | - | - | → by Welcome's answer | - | - | - |
//! | ExpectLateSchemaChange | - | → ExpectDownloadBegin | - | - | - | - |
//! | ExpectDownloadBegin | - | - | - | → ExpectRows | - | - |
//! | ExpectRows | - | - | - | - | → ExpectRows | → Ended |
//! | Ended | - | - | - | - | - | - |
//!
//! Rejects and Position are expected where Rows are. A message that only a client sends is
//! unexpected in every state.

use model::{Code, Counter, Failure};
use protocol::{
    DownloadBegin, DownloadEnd, DownloadMode, Message, Mode, Operation, Position, RowsFrame,
    SchemaChange, UploadCommitted, UploadState, Welcome,
};

/// What a message leads to: first the instruction, then the rest.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// What has to be done first; none where the message says nothing new.
    pub(crate) instruction: Option<Instruction>,
    /// What comes after it.
    pub(crate) then: Then,
}

/// What a message asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Instruction {
    /// Record what the server says about itself and the last upload.
    Agree(Welcome),
    /// Fit the remote to the schema, whatever waits.
    ChangeSchema(Box<SchemaChange>),
    /// Change the tables of the remote after the upload, which used the old ones.
    ChangeSchemaBehindUpload(Box<SchemaChange>),
    /// Note that the upload is durable.
    NoteCommitted(UploadCommitted),
    /// Prepare to receive a download.
    BeginDownload(DownloadBegin),
    /// Keep rows.
    KeepRows(RowsFrame),
    /// Keep rejects, or lost conflicts.
    KeepTold(Box<Message>),
    /// Rows of a table are complete up to here.
    KeepPosition(Position),
    /// Apply the download.
    Apply(DownloadEnd),
}

/// What comes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next message.
    Listen,
    /// Freeze, if nothing is frozen, and send the upload.
    Upload,
    /// To say that this download is applied, and no more.
    Acknowledge(Counter),
    /// Nothing: it is done.
    Finish,
}

/// A conversation after Hello.
#[derive(Debug)]
pub(crate) struct Session {
    mode: Mode,
    /// An upload went with Hello.
    upload_sent: bool,
    /// Tables of the schema agreed on.
    tables: usize,
    state: State,
}

#[derive(Debug, PartialEq)]
enum State {
    ExpectWelcome,
    ExpectSchemaChange { upload: UploadState },
    ExpectUploadCommitted { schema_change_follows: bool },
    ExpectLateSchemaChange,
    ExpectDownloadBegin,
    ExpectRows { modes: Vec<DownloadMode>, rows: u64 },
    Ended,
}

impl Session {
    /// A conversation whose Hello was sent, with or without an upload, by a remote that has a
    /// schema of `tables` tables.
    pub(crate) fn new(mode: Mode, upload_sent: bool, tables: usize) -> Session {
        Session { mode, upload_sent, tables, state: State::ExpectWelcome }
    }

    /// Takes a message. After a failure the conversation is over.
    pub(crate) fn receive(&mut self, message: Message) -> Result<Answer, Failure> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        if state != State::Ended {
            match message {
                Message::Heartbeat => {
                    self.state = state;
                    return Ok(Answer { instruction: None, then: Then::Listen });
                }
                Message::Failed(failed) => return Err(failed.into()),
                _ => {}
            }
        }
        let (instruction, state, then) = self.next(state, message)?;
        self.state = state;
        Ok(Answer { instruction: Some(instruction), then })
    }

    fn next(&mut self, state: State, message: Message) -> Result<Step, Failure> {
        let listen = |instruction, state| Ok((instruction, state, Then::Listen));
        match (state, message) {
            (State::ExpectWelcome, Message::Welcome(welcome)) => self.welcome(welcome),
            (State::ExpectSchemaChange { upload }, Message::SchemaChange(change)) => {
                self.tables = change.schema.tables.len();
                let (state, then) = self.after_welcome(upload, false);
                Ok((Instruction::ChangeSchema(change), state, then))
            }
            (
                State::ExpectUploadCommitted { schema_change_follows },
                Message::UploadCommitted(committed),
            ) => {
                let note = Instruction::NoteCommitted(committed);
                match self.mode {
                    Mode::UploadOnly => Ok((note, State::Ended, Then::Finish)),
                    _ if schema_change_follows => listen(note, State::ExpectLateSchemaChange),
                    _ => listen(note, State::ExpectDownloadBegin),
                }
            }
            (State::ExpectLateSchemaChange, Message::SchemaChange(change)) => {
                self.tables = change.schema.tables.len();
                let change = Instruction::ChangeSchemaBehindUpload(change);
                listen(change, State::ExpectDownloadBegin)
            }
            (State::ExpectDownloadBegin, Message::DownloadBegin(begin)) => {
                if begin.tables.len() != self.tables {
                    return Err(malformed("a download of another schema than was agreed on"));
                }
                let modes = begin.tables.iter().map(|table| table.mode).collect();
                listen(Instruction::BeginDownload(begin), State::ExpectRows { modes, rows: 0 })
            }
            (State::ExpectRows { modes, rows }, Message::Rows(frame)) => {
                check_rows(&modes, &frame)?;
                let rows = rows + u64::from(frame.count);
                listen(Instruction::KeepRows(frame), State::ExpectRows { modes, rows })
            }
            (
                state @ State::ExpectRows { .. },
                told @ (Message::Rejects(_) | Message::LostConflicts(_)),
            ) => listen(Instruction::KeepTold(Box::new(told)), state),
            (state @ State::ExpectRows { .. }, Message::Position(position)) => {
                listen(Instruction::KeepPosition(position), state)
            }
            (State::ExpectRows { modes, rows }, Message::DownloadEnd(end)) => {
                if end.rows != rows {
                    return Err(malformed(&format!("{rows} rows came, {} were sent", end.rows)));
                }
                if end.watermarks.len() != modes.len() {
                    return Err(malformed("a download with watermarks of another schema"));
                }
                let then = match end.acknowledge {
                    true => Then::Acknowledge(end.counter),
                    false => Then::Finish,
                };
                Ok((Instruction::Apply(end), State::Ended, then))
            }
            (state, message) => Err(message.unexpected(state.expected())),
        }
    }

    fn welcome(&self, welcome: Welcome) -> Result<Step, Failure> {
        let (first, behind) = (welcome.schema_change_follows, welcome.schema_change_after_upload);
        let fits = match self.mode {
            Mode::Full | Mode::UploadOnly => match welcome.upload {
                // A schema change makes an upload under the old schema worthless.
                UploadState::Taken => self.upload_sent && !welcome.schema_change_follows,
                UploadState::Send => true,
                UploadState::None => false,
            },
            Mode::DownloadOnly | Mode::Ping => welcome.upload == UploadState::None && !behind,
        };
        if !fits || first && behind {
            let message = format!(
                "Welcome answers {:?} to {:?}, with a schema change before the upload: {first}, \
                 behind it: {behind}",
                welcome.upload, self.mode
            );
            return Err(Failure::new(Code::UnexpectedMessage, message));
        }
        let of_nothing = |at: &&u16| usize::from(**at) >= self.tables;
        if let Some(position) = welcome.unknown_tables.iter().find(of_nothing) {
            return Err(malformed(&format!("Welcome does not know table {position} of none")));
        }
        let upload = welcome.upload;
        let (state, then) = match self.mode {
            Mode::Ping => self.after_welcome(upload, false),
            _ if first => (State::ExpectSchemaChange { upload }, Then::Listen),
            _ => self.after_welcome(upload, behind),
        };
        Ok((Instruction::Agree(welcome), state, then))
    }

    fn after_welcome(&self, upload: UploadState, schema_change_follows: bool) -> (State, Then) {
        match (self.mode, upload) {
            (Mode::Ping, _) => (State::Ended, Then::Finish),
            (Mode::DownloadOnly, _) => (State::ExpectDownloadBegin, Then::Listen),
            (_, UploadState::Send) => {
                (State::ExpectUploadCommitted { schema_change_follows }, Then::Upload)
            }
            _ => (State::ExpectUploadCommitted { schema_change_follows }, Then::Listen),
        }
    }

    /// What it means that the peer has closed the connection.
    pub(crate) fn closed(&self) -> Failure {
        let expected = self.state.expected();
        let lost = Failure::new(
            Code::ConnectionLost,
            format!("the server closed the connection where {expected} was expected"),
        );
        match self.state {
            // Some programs that speak TLS answer nothing to clear text.
            State::ExpectWelcome => lost.hint(
                "synchronize again; if it happens again, write the URL as the server prints it, \
                 with the same scheme",
            ),
            _ => lost,
        }
    }
}

/// What is done, the state after it, and what comes then.
type Step = (Instruction, State, Then);

impl State {
    fn expected(&self) -> &'static str {
        match self {
            State::ExpectWelcome => "Welcome",
            State::ExpectSchemaChange { .. } | State::ExpectLateSchemaChange => "SchemaChange",
            State::ExpectUploadCommitted { .. } => "UploadCommitted",
            State::ExpectDownloadBegin => "DownloadBegin",
            State::ExpectRows { .. } => "Rows, Rejects or DownloadEnd",
            State::Ended => "nothing",
        }
    }
}

fn check_rows(modes: &[DownloadMode], frame: &RowsFrame) -> Result<(), Failure> {
    match modes.get(usize::from(frame.table)) {
        Some(DownloadMode::Changes | DownloadMode::Refresh) => {}
        _ => return Err(malformed("rows of a table that is not downloaded")),
    }
    match frame.operation {
        Operation::Upsert | Operation::Delete => Ok(()),
        Operation::Insert | Operation::Update => {
            Err(malformed("rows of an upload within a download"))
        }
    }
}

fn malformed(message: &str) -> Failure {
    Failure::new(Code::MalformedMessage, message)
}

#[cfg(test)]
mod tests;
