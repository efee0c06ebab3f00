//! Lets the database hear of a transaction while this side works on its own.
//!
//! Whoever has a pulse may be anywhere in that work, and the transaction may have failed: what is
//! said changes nothing, and is heard in a failed transaction too.

use crate::postgres::errors::failed;
use crate::postgres::link::line::Line;
use crate::serving::clock;
use crate::synchronization::change::{RowSource, UploadedRows};
use model::Failure;
use postgres_driver::Call;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Rows that pass before the clock is read: reading it costs as much as looking at a row.
const ROWS: u32 = 64;

/// Of the time after which the database ends a transaction, this part passes in silence at most;
/// where work goes on in pieces that take no longer than the rest.
const SILENCE: u32 = 5;

/// Nothing is said.
const NOTHING: &str = ";";

/// Lets the database hear of a transaction.
#[derive(Clone)]
pub(in crate::postgres) struct Pulse {
    line: Arc<Mutex<Line>>,
    silence_max: Duration,
    rows: Cell<u32>,
}

impl Pulse {
    /// For sessions whose transactions are ended after so long a silence; zero: never.
    pub(in crate::postgres) fn of(line: &Arc<Mutex<Line>>, ended_after: Duration) -> Pulse {
        let silence_max = match ended_after.is_zero() {
            true => Duration::MAX,
            false => ended_after / SILENCE,
        };
        Pulse { line: line.clone(), silence_max, rows: Cell::new(0) }
    }

    /// Notes that a row was looked at.
    pub(in crate::postgres) fn pass_row(&self) -> Result<(), Failure> {
        self.rows.set((self.rows.get() + 1) % ROWS);
        match self.rows.get() {
            0 => self.beat(),
            _ => Ok(()),
        }
    }

    /// Shows all batches of an upload to `visit`.
    pub(in crate::postgres) fn pass_batches(
        &self,
        batches: RowSource<'_>,
        visit: &mut dyn FnMut(UploadedRows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        batches(&mut |batch| {
            self.beat()?;
            visit(batch)
        })
    }

    /// Notes that a piece of work is done.
    pub(in crate::postgres) fn beat(&self) -> Result<(), Failure> {
        self.beat_at(clock::now())
    }

    /// The same as if it were `now`.
    pub(super) fn beat_at(&self, now: Instant) -> Result<(), Failure> {
        let mut line = match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(line)) => line.into_inner(),
            // The database is being asked something.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if now.saturating_duration_since(line.asked) < self.silence_max || !line.is_in_transaction()
        {
            return Ok(());
        }
        let said = line.run(&[Call::Simple(NOTHING)], &mut |_, _| Ok(()));
        said.map(|_| ()).map_err(failed("keep the transaction open"))
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("silence_max", &self.silence_max).finish_non_exhaustive()
    }
}
