//! The rows of parcels that a statement has left out.

use crate::postgres::errors::unreadable;
use crate::postgres::link::{Call, Link};
use crate::postgres::upload::batch::{self, Parcel};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use model::{Hold, Spills};
use std::sync::Arc;

/// Bytes of the numbers of rows that are kept although there is no memory left: an upload with few
/// conflicts is not applied twice because of other remotes.
const MISSED_BYTES_MIN: u64 = 64 << 10;

/// Rows for which nothing was done. If there is no memory for their numbers, faults are isolated,
/// for which none are needed.
pub(in crate::postgres) struct Missed {
    /// Their numbers, in the order in which the upload is visited.
    pub(in crate::postgres) numbers: Vec<u64>,
    held: Hold,
    /// Statements have left some of them out.
    pub(in crate::postgres) fell_short: bool,
}

impl Missed {
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> Missed {
        Missed { numbers: Vec::new(), held: spills.memory().hold(), fell_short: false }
    }

    /// Adds numbers. False if there is no memory for them, and they are not few.
    pub(in crate::postgres) fn extend(&mut self, numbers: &[u64]) -> bool {
        let bytes = size_of_val(numbers) as u64;
        let held = self.held.try_grow(bytes);
        if !held && self.held.bytes() + bytes > MISSED_BYTES_MIN {
            return false;
        }
        if !held {
            self.held.grow(bytes);
        }
        self.numbers.extend_from_slice(numbers);
        true
    }
}

/// A parcel of which a statement has changed fewer rows than it has.
pub(in crate::postgres) struct Short<'p, 'a> {
    pub(in crate::postgres) parcel: &'p Parcel<'a>,
    pub(in crate::postgres) affected: u64,
    /// Those that were changed, where the statement says so.
    pub(in crate::postgres) positions: Vec<i32>,
    /// No other statement of the upload can have changed the rows, by a foreign key.
    pub(in crate::postgres) alone: bool,
}

impl Short<'_, '_> {
    /// The numbers of the rows that are missing, where they are known without a question.
    fn missing(&self) -> Option<Vec<u64>> {
        let told = self.affected == self.positions.len() as u64;
        let told = told && (self.alone || self.parcel.change == Change::Delete);
        told.then(|| self.parcel.numbers.without(&self.positions))
    }
}

/// The numbers of the rows that each parcel fell short by. None where that is not certain.
pub(in crate::postgres) fn find(
    link: &mut Link,
    upload: Upload<'_>,
    short: &[Short<'_, '_>],
) -> Result<Option<Vec<u64>>, Stop> {
    let mut numbers = Vec::new();
    let mut seeking = Vec::new();
    for short in short {
        if let Some(missing) = short.missing() {
            numbers.extend(missing);
            continue;
        }
        let parcel = short.parcel;
        let Some(seeker) = &upload.tables[parcel.table].seeker else { return Ok(None) };
        let seeker = match parcel.change {
            Change::Insert | Change::Update => &seeker.unstamped,
            Change::Delete => &seeker.there,
        };
        let Some(values) = parcel.batch.asked_by(seeker, parcel.change) else { return Ok(None) };
        seeking.push((short, seeker, values));
    }
    let questions = seeking.iter().map(|(_, seeker, values)| Call::new(&seeker.sql, values));
    let calls = batch::questions(questions);
    if calls.is_empty() {
        return Ok(Some(numbers));
    }
    let answers = link.flight(&calls).map_err(stopped("look for rows that were not applied"))?;
    for ((short, ..), answer) in seeking.iter().zip(answers.iter().skip(1)) {
        let lacking = short.parcel.numbers.len().saturating_sub(short.affected);
        let found = answer.rows.len() as u64;
        let certain = match short.parcel.change {
            // A missing row needs no action.
            Change::Delete => found <= lacking,
            Change::Insert | Change::Update => found == lacking,
        };
        if !certain {
            return Ok(None);
        }
        for row in &answer.rows {
            numbers.extend(short.parcel.numbers.at(row.try_get(0).map_err(unreadable)?));
        }
    }
    Ok(Some(numbers))
}
