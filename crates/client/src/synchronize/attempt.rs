//! One attempt: a connection from Hello to the end, event by event.
//!
//! | phase | Sent | Received | Unsent | Closed, Lost | too long |
//! |---|---|---|---|---|---|
//! | Greeting | → Listening | → Listening, and heard | → LastWords | fails | → LastWords |
//! | Uploading | the next frames, or → Listening | heard | → LastWords | fails | → LastWords |
//! | Listening | | heard | → LastWords | fails | fails |
//! | LastWords | | a refusal is heard | | fails | fails |
//! | Acknowledging | done | | done | done | done |
//!
//! *Heard* messages go to the session (`session.rs`), whose instructions are performed at once
//! (`side.rs`). While frames of an upload are left, only Heartbeat and Failed are in order.

use super::Step;
use super::host::Event;
use super::inbox::Inbox;
use super::side::{Ready, Scene, Side};
use crate::Remote;
use crate::fail_point::fail_point;
use crate::session::{Session, Then};
use crate::upload::UploadFrames;
use model::{Code, Failure};
use protocol::{Acknowledgement, Compression, Message};

/// A server that works says so every 15 seconds. One that says nothing for longer is given up, and
/// so is a connection that takes no bytes.
const SILENCE_MS_MAX: u64 = 60_000;

/// One connection.
#[derive(Debug)]
pub(super) struct Attempt {
    side: Side,
    session: Session,
    inbox: Inbox,
    phase: Phase,
    /// When the attempt is given up, unless something happens before.
    until_ms: u64,
}

/// What the attempt is about.
#[derive(Debug)]
enum Phase {
    /// Hello is on its way, with an upload of so many rows or without one.
    Greeting { rows: Option<u64> },
    /// Frames of an upload are on their way, and more may follow.
    Uploading(Box<UploadFrames>),
    /// The server has the word.
    Listening,
    /// Nothing can be sent for this reason. A server that refuses an upload says why and closes;
    /// what it said is worth more than how sending failed.
    LastWords(Failure),
    /// The download is applied, and the server hears of it or does not.
    Acknowledging,
}

/// What the attempt wants next.
#[derive(Debug)]
pub(super) enum Wish {
    /// To send this.
    Send(Vec<u8>),
    /// To wait until this time of the clock, unless something happens before.
    Wait { until_ms: u64 },
    /// Another connection, over which the upload is sent that the server wants.
    Again,
    /// Nothing: it is over. Another attempt may have to follow.
    End { unfinished: bool },
}

impl Attempt {
    /// Begins on a new connection.
    pub(super) fn begin(scene: &mut Scene<'_>) -> Result<(Attempt, Vec<u8>), Failure> {
        let mut side = Side::begin(scene)?;
        let greeting = side.greet(scene)?;
        let session = Session::new(scene.request.mode, side.upload_is_sent(), side.tables_len());
        let phase = match greeting.more {
            Some(frames) => Phase::Uploading(frames),
            None => Phase::Greeting { rows: greeting.rows },
        };
        let until_ms = later(scene);
        let inbox = Inbox::new(Compression::capabilities(&scene.remote.compression));
        Ok((Attempt { side, session, inbox, phase, until_ms }, greeting.bytes))
    }

    /// Takes an event. After a failure the attempt is over.
    pub(super) fn step(
        &mut self,
        scene: &mut Scene<'_>,
        event: Event<'_>,
    ) -> Result<Wish, Failure> {
        let phase = std::mem::replace(&mut self.phase, Phase::Listening);
        match event {
            Event::Sent => self.sent(scene, phase),
            Event::Received(bytes) => {
                self.inbox.push(bytes);
                self.received(scene, phase)
            }
            Event::Unsent(failure) => self.unsent(scene, phase, failure),
            // What is applied stays so: the next Hello says it, too.
            Event::Closed | Event::Lost(_) if matches!(phase, Phase::Acknowledging) => {
                Ok(self.end())
            }
            Event::Closed => Err(self.closed(phase)),
            Event::Lost(failure) => Err(self.lost(phase, failure)),
            Event::Tick | Event::Connected | Event::ConnectedHalfDuplex => {
                self.look_at_the_clock(scene, phase)
            }
        }
    }

    /// See [`Side::save_what_is_known`].
    pub(super) fn save_what_is_known(&mut self, remote: &Remote) -> bool {
        self.side.save_what_is_known(remote)
    }

    fn sent(&mut self, scene: &mut Scene<'_>, phase: Phase) -> Result<Wish, Failure> {
        match phase {
            Phase::Greeting { rows } => {
                greeted(scene, rows);
                self.listen(scene)
            }
            Phase::Uploading(frames) => {
                show_upload(scene, &frames);
                self.upload(scene, frames)
            }
            Phase::Acknowledging => Ok(self.end()),
            other => {
                self.phase = other;
                Ok(self.wait())
            }
        }
    }

    fn received(&mut self, scene: &mut Scene<'_>, phase: Phase) -> Result<Wish, Failure> {
        match phase {
            // What is answered has arrived, whether or not the host has noticed.
            Phase::Greeting { rows } => {
                greeted(scene, rows);
                self.listen(scene)
            }
            Phase::Uploading(frames) if frames.is_ended() => {
                show_upload(scene, &frames);
                uploaded(scene);
                self.listen(scene)
            }
            Phase::Uploading(frames) => {
                self.refuse_answers()?;
                self.phase = Phase::Uploading(frames);
                Ok(self.wait())
            }
            Phase::Listening => self.listen(scene),
            Phase::Acknowledging => {
                self.phase = Phase::Acknowledging;
                Ok(self.wait())
            }
            Phase::LastWords(failure) => self.last_words(failure),
        }
    }

    fn unsent(
        &mut self,
        scene: &Scene<'_>,
        phase: Phase,
        failure: Failure,
    ) -> Result<Wish, Failure> {
        match phase {
            Phase::LastWords(first) => self.last_words(first),
            Phase::Acknowledging => Ok(self.end()),
            _ => {
                self.until_ms = later(scene);
                self.last_words(failure)
            }
        }
    }

    fn look_at_the_clock(&mut self, scene: &Scene<'_>, phase: Phase) -> Result<Wish, Failure> {
        if scene.remote.clock.monotonic_ms() < self.until_ms {
            self.phase = phase;
            return Ok(self.wait());
        }
        match phase {
            Phase::Greeting { .. } | Phase::Uploading(_) => self.unsent(scene, phase, silent()),
            Phase::Listening => Err(silent()),
            Phase::Acknowledging => Ok(self.end()),
            Phase::LastWords(failure) => Err(failure),
        }
    }

    fn closed(&mut self, phase: Phase) -> Failure {
        let within = matches!(phase, Phase::Listening) && !self.inbox.is_empty();
        let failure = match within {
            true => Failure::new(Code::ConnectionLost, "the connection ended within a message"),
            false => self.session.closed(),
        };
        self.lost(phase, failure)
    }

    /// What the end of the connection means.
    fn lost(&mut self, phase: Phase, failure: Failure) -> Failure {
        match phase {
            // The reason may be unread, because it came before its time.
            Phase::Greeting { .. } | Phase::Uploading(_) => match self.refusal() {
                Ok(Some(refusal)) => refusal,
                _ => failure,
            },
            Phase::Listening | Phase::Acknowledging => failure,
            Phase::LastWords(first) => first,
        }
    }

    /// Hears what has arrived.
    fn listen(&mut self, scene: &mut Scene<'_>) -> Result<Wish, Failure> {
        while let Some(message) = self.inbox.next_message()? {
            let compression = &mut scene.total.compression;
            compression.downloaded = self.inbox.compression().or(compression.downloaded);
            let answer = self.session.receive(message)?;
            if let Some(instruction) = answer.instruction {
                self.side.perform(scene, instruction)?;
            }
            match answer.then {
                Then::Listen => {}
                Then::Upload if scene.total.half_duplex => {
                    self.side.put_off_upload(scene);
                    return Ok(Wish::Again);
                }
                Then::Upload => {
                    return match self.side.upload(scene)? {
                        Ready::Upload(frames) => self.upload(scene, frames),
                        Ready::Unsent(failure) => {
                            self.until_ms = later(scene);
                            self.last_words(failure)
                        }
                    };
                }
                // Another attempt says so in its Hello, and a transport that has no way back leaves
                // it to the next one.
                Then::Acknowledge(counter)
                    if !self.side.is_unfinished() && !scene.total.half_duplex =>
                {
                    let acknowledgement = Message::Acknowledgement(Acknowledgement { counter });
                    self.phase = Phase::Acknowledging;
                    self.until_ms = later(scene);
                    return Ok(Wish::Send(acknowledgement.to_frame()?));
                }
                Then::Acknowledge(_) | Then::Finish => return Ok(self.end()),
            }
            if let Some(step) = self.side.downloading() {
                scene.host.show(step);
            }
        }
        self.until_ms = later(scene);
        Ok(self.wait())
    }

    /// Sends the next frames, or listens behind the last.
    fn upload(
        &mut self,
        scene: &mut Scene<'_>,
        mut frames: Box<UploadFrames>,
    ) -> Result<Wish, Failure> {
        let Some(bytes) = frames.take()? else {
            uploaded(scene);
            return self.listen(scene);
        };
        self.until_ms = later(scene);
        self.phase = Phase::Uploading(frames);
        Ok(Wish::Send(bytes))
    }

    /// An upload has no answer before it has arrived.
    fn refuse_answers(&mut self) -> Result<(), Failure> {
        while let Some(message) = self.inbox.next_message()? {
            match message {
                Message::Heartbeat => {}
                Message::Failed(failed) => return Err(failed.into()),
                other => return Err(other.unexpected("nothing before the end of the upload")),
            }
        }
        Ok(())
    }

    /// Waits for the reason why nothing can be sent; `failure` is only how.
    fn last_words(&mut self, failure: Failure) -> Result<Wish, Failure> {
        match self.refusal() {
            Ok(None) => {
                self.phase = Phase::LastWords(failure);
                Ok(self.wait())
            }
            Ok(Some(refusal)) => Err(refusal),
            Err(_) => Err(failure),
        }
    }

    /// Why the server refuses, if what has arrived says so.
    fn refusal(&mut self) -> Result<Option<Failure>, Failure> {
        while let Some(message) = self.inbox.next_message()? {
            if let Message::Failed(failed) = message {
                return Ok(Some(failed.into()));
            }
        }
        Ok(None)
    }

    fn end(&self) -> Wish {
        Wish::End { unfinished: self.side.is_unfinished() }
    }

    fn wait(&self) -> Wish {
        Wish::Wait { until_ms: self.until_ms }
    }
}

/// Hello has arrived, with the rows of an upload or without one.
fn greeted(scene: &mut Scene<'_>, rows: Option<u64>) {
    if let Some(rows) = rows {
        fail_point!("client-upload-sent");
        scene.host.show(Step::Uploading { rows_done: rows, rows_total: rows });
    }
    scene.host.show(Step::Waiting);
}

fn show_upload(scene: &mut Scene<'_>, frames: &UploadFrames) {
    let (rows_done, rows_total) = (frames.rows_done(), frames.rows_total());
    scene.host.show(Step::Uploading { rows_done, rows_total });
}

/// The whole upload has arrived.
fn uploaded(scene: &mut Scene<'_>) {
    fail_point!("client-upload-sent");
    scene.host.show(Step::Waiting);
}

fn later(scene: &Scene<'_>) -> u64 {
    scene.remote.clock.monotonic_ms().saturating_add(SILENCE_MS_MAX)
}

fn silent() -> Failure {
    let message = format!("the server was silent for {} s", SILENCE_MS_MAX / 1000);
    Failure::new(Code::PeerSilent, message)
}
