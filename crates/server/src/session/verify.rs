//! What rows a remote should have, as digests, and rows that it asks for.

use super::exchange::Exchange;
use super::{Admitted, Sending};
use crate::phases::Phase;
use crate::worker::Comparison;
use model::{Code, Failure, RowReader, ValueRef};
use protocol::{Message, UploadState};

impl Admitted<'_> {
    /// Answers the one question of a remote that compares. Nothing is changed by it: the remote has
    /// no new epoch, and no counter.
    pub(super) async fn verify(self) -> Result<(), Failure> {
        let Admitted(mut exchange) = self;
        exchange.welcome(UploadState::None, None)?;
        exchange.connection.flush().await?;
        let question = match exchange.connection.receive().await? {
            Message::Verify(question) => question,
            other => return Err(other.unexpected("Verify")),
        };
        exchange.summary.phases.end(Phase::Receiving);
        if !exchange.same_schema() {
            let message = "the remote has other tables than are published for it now";
            return Err(Failure::new(Code::SynchronizeFirst, message));
        }
        let comparison = Comparison {
            session: exchange.session.clone(),
            counter: exchange.hello.counter,
            marks: exchange.marks.clone(),
            held_marks: exchange.held_marks.clone(),
            question,
            spilled: exchange.summary.spilled.clone(),
        };
        let comparing = exchange.shared.worker.compare(comparison);
        let frames = exchange.at_database(Phase::Fetching, comparing).await?;
        Sending { exchange, begin: None, frames, awaited: None }.send().await.map(drop)
    }
}

impl Exchange<'_> {
    /// The rows that Hello asks for, by the position of their table. They are meant in the tables
    /// that the remote holds: where those are others today, they are sent as a whole anyway.
    pub(super) fn wanted_rows(&self) -> Result<Vec<(usize, Vec<u8>)>, Failure> {
        if self.hello.wanted_rows.is_empty() || !self.same_schema() {
            return Ok(Vec::new());
        }
        let wanted = self.hello.wanted_rows.iter().map(|wanted| {
            let table = usize::from(wanted.table);
            let known = self.session.schema.tables.get(table);
            let width = known.map_or(0, |table| table.key.len());
            match width > 0 && is_key(&wanted.key, width) {
                true => Ok((table, wanted.key.clone())),
                false => Err(Failure::new(Code::MalformedMessage, "a row is wanted by no key")),
            }
        });
        wanted.collect()
    }
}

fn is_key(bytes: &[u8], width: usize) -> bool {
    let mut reader = RowReader::new(bytes);
    let known = |value| !matches!(value, ValueRef::Absent);
    (0..width).all(|_| reader.value().is_ok_and(known)) && reader.is_at_end()
}
