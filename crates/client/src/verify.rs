//! Compares what a remote has with what the consolidated database has for it.
//!
//! Sums of ranges are compared first, then sums of the parts of those that differ, and at last the
//! digests of single rows (`protocol`, `digest.rs`). So one row among a million is found with
//! little traffic. Each question is a connection of its own and each answer one snapshot, and
//! nothing is open here or there meanwhile: an application may write, and so may others at the
//! center.
//!
//! Not compared are rows with a pending change or another that is under way here, and rows that
//! have changed at the center since the watermark: the next synchronization is for them. Whether a
//! row differs is decided by the last answer alone, and by one state of the file after it.

mod content;
mod difference;
mod file;
mod inquiry;
mod repair;
mod verification;

pub use file::FileCheck;
pub(crate) use inquiry::{Answers, Inquiry};
pub use verification::{DifferingRow, How, Verification, VerifiedTable, VerifyRequest};

use crate::Remote;
use crate::connection::{begin_read, explain};
use crate::schema::RemoteTable;
use crate::schema::history::History;
use difference::Differences;
use model::{Code, Failure};
use protocol::{
    Credential, KEY_DIGEST_BITS, Ranges, SUMS_MAX, Sums, TableQuestion, Verify, Wanted,
};
use std::sync::Arc;

/// Rows of a range that need not be cut any more. They cross as their keys and digests.
const ROWS_PER_RANGE_MAX: u64 = 1024;

/// Rows that a part should have when ranges are cut.
const ROWS_PER_PART: u64 = 256;

/// Into two to the power of how many parts a range is cut at once, at most.
const SPLIT_MAX: u8 = 12;

/// Questions, at most: as often are ranges cut before their rows are asked for.
const QUESTIONS_MAX: u32 = 5;

/// Asks a server.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&Remote, Inquiry) -> Result<Answers, Failure>;

/// Compares all tables that are downloaded.
pub(crate) fn verify(
    remote: &mut Remote,
    request: &VerifyRequest,
    ask: Ask<'_>,
) -> Result<Verification, Failure> {
    let tables = remote.tables()?;
    require_received(remote, &tables)?;
    let mut credential = request.credential.clone();
    let mut token = None;
    let mut open = begun(remote, &tables)?;
    for asked in 0..QUESTIONS_MAX {
        let is_last = asked + 1 == QUESTIONS_MAX;
        let question = question(remote, &tables, &mut open, is_last)?;
        let Some(question) = question else { break };
        let inquiry = Inquiry::new(remote, request, &credential, question)?;
        let answers = ask(remote, inquiry)?;
        if let Some(news) = &answers.token {
            credential = Credential::Token(news.clone());
            token = Some(news.clone());
        }
        take(remote, &tables, &mut open, &answers, request.named_max)?;
    }
    let tables = open.into_iter().map(|table| table.verified).collect();
    Ok(Verification { tables, token })
}

/// What the next download brings as a whole cannot be compared before.
fn require_received(remote: &Remote, tables: &Arc<[RemoteTable]>) -> Result<(), Failure> {
    if tables.is_empty() {
        return Err(Failure::new(Code::SynchronizeFirst, "the remote was not synchronized yet"));
    }
    let Some(table) = file::not_received(&remote.connection, tables)?.next() else {
        return Ok(());
    };
    let name = table.name();
    let (code, message) = match History::read(&remote.connection)?.is_uncaptured(name) {
        true => (Code::TriggersMissing, format!("the triggers of table {name} were missing")),
        false => (Code::SynchronizeFirst, format!("table {name} was not received yet")),
    };
    Err(Failure::new(code, message).table(name))
}

/// A table that is compared.
struct Open {
    verified: VerifiedTable,
    /// What is not known to be equal; none of a table that is done.
    ranges: Option<Ranges>,
    /// Rows of the largest of these ranges.
    rows_max: u64,
    /// What was asked about the ranges.
    sums: Option<Sums>,
}

fn begun(remote: &Remote, tables: &Arc<[RemoteTable]>) -> Result<Vec<Open>, Failure> {
    let downloaded = tables.iter().filter(|table| table.downloads());
    let open = downloaded.map(|table| {
        let rows_max = content::count(&remote.connection, table).map_err(explain)?;
        let (name, position) = (table.name().to_owned(), table.position);
        let verified = VerifiedTable { name, position, ..VerifiedTable::default() };
        Ok(Open { verified, ranges: Some(Ranges::all()), rows_max, sums: None })
    });
    open.collect()
}

/// The next question, if anything is left to ask, and the sums of this side for it.
fn question(
    remote: &Remote,
    tables: &Arc<[RemoteTable]>,
    open: &mut [Open],
    is_last: bool,
) -> Result<Option<Verify>, Failure> {
    let left = open.iter().filter(|table| table.ranges.is_some()).count();
    let _one_state = begin_read(&remote.connection)?;
    let mut questions = Vec::new();
    for table in open.iter_mut() {
        let Some(ranges) = table.ranges.clone() else { continue };
        // The first question is always for sums: nearly always they are equal.
        let is_first = table.verified.ranges == 0;
        let split = match is_last || (!is_first && table.rows_max <= ROWS_PER_RANGE_MAX) {
            true => None,
            false => split(&ranges, table.rows_max, left).filter(|bits| is_first || *bits > 0),
        };
        table.sums = match split {
            Some(bits) => {
                let here = content::sums(remote, &tables[table.at()], ranges.clone(), bits)?;
                table.verified.ranges += here.len() as u64;
                Some(here)
            }
            None => None,
        };
        let wanted = split.map_or(Wanted::Rows, Wanted::Sums);
        questions.push(TableQuestion { table: table.verified.position, ranges, wanted });
    }
    Ok((!questions.is_empty()).then_some(Verify { tables: questions }))
}

/// How often ranges are halved that have so many rows at most, beside those of other tables.
fn split(ranges: &Ranges, rows_max: u64, tables: usize) -> Option<u8> {
    let wanted = rows_max.div_ceil(ROWS_PER_PART).max(1).next_power_of_two().trailing_zeros();
    let share = SUMS_MAX / tables.max(1) / ranges.len().max(1);
    // Not even one sum for each range.
    let room = share.checked_ilog2()?;
    let bits = wanted.min(room).min(KEY_DIGEST_BITS - 1 - ranges.bits());
    Some((bits as u8).min(SPLIT_MAX))
}

impl Open {
    fn at(&self) -> usize {
        usize::from(self.verified.position)
    }
}

/// Learns from the answers what is equal, and where it is not, where to look closer.
fn take(
    remote: &Remote,
    tables: &Arc<[RemoteTable]>,
    open: &mut [Open],
    answers: &Answers,
    named_max: usize,
) -> Result<(), Failure> {
    let _one_state = begin_read(&remote.connection)?;
    for table in open.iter_mut().filter(|table| table.ranges.is_some()) {
        let answer = answers.of(table.verified.position)?;
        let Some(ranges) = table.ranges.take() else { continue };
        if answer.waits {
            table.verified.waits = true;
            continue;
        }
        if let Some(here) = table.sums.take() {
            let (differing, rows_max) = here.differing(&answer.sums)?;
            table.rows_max = rows_max;
            table.ranges = (!differing.is_empty()).then_some(differing);
            continue;
        }
        let at = table.at();
        let mut differences = Differences::new(&tables[at], &mut table.verified, named_max);
        differences.find(remote, &ranges, answer)?;
    }
    Ok(())
}
