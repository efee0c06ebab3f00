//! Takes the rows of a flight for one who may fail on the way.

use crate::postgres::errors::{Fault, FaultKind};
use model::Failure;
use postgres_driver::RowRef;
use std::ops::ControlFlow;

/// Takes the rows of a flight as they arrive, with the position of their statement.
pub(in crate::postgres) type Rows<'a> = &'a mut dyn FnMut(usize, RowRef<'_>) -> Result<(), Failure>;

/// Hands rows on until that fails. The driver learns only that it has to stop.
pub(in crate::postgres) struct Receiver<'a> {
    each: Rows<'a>,
    failure: Option<Failure>,
}

impl<'a> Receiver<'a> {
    /// Hands them to `each`.
    pub(in crate::postgres) fn new(each: Rows<'a>) -> Receiver<'a> {
        Receiver { each, failure: None }
    }

    /// Takes a row.
    pub(in crate::postgres) fn take(&mut self, call: usize, row: RowRef<'_>) -> ControlFlow<()> {
        match (self.each)(call, row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// Why the flight ended: the failure of the one who takes the rows, if it was that.
    pub(in crate::postgres) fn fault(self, fault: postgres_driver::Fault) -> Fault {
        match self.failure {
            Some(failure) => Fault { call: fault.call, kind: FaultKind::Failure(failure) },
            None => fault.into(),
        }
    }
}
