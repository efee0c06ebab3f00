//! Why nothing was fetched.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{Fault, script_failed};
use crate::postgres::upload::row_fault;
use crate::script::Event;
use model::Failure;

/// Why nothing was fetched.
pub(in crate::postgres) enum Unfetched {
    /// A script cannot read a row, because of what the row contains.
    Unreadable(Failure),
    Failed(Failure),
}

impl From<Failure> for Unfetched {
    fn from(failure: Failure) -> Unfetched {
        Unfetched::Failed(failure)
    }
}

impl Unfetched {
    /// What the failure of the script `upload_fetch` means.
    pub(in crate::postgres) fn reading(table: &Table, fault: Fault) -> Unfetched {
        let may_be_a_row = row_fault::may_be_a_row(&fault);
        let name = &table.deployed.published.name;
        let failure = script_failed(name, Event::UploadFetch.name())(fault);
        match may_be_a_row {
            true => Unfetched::Unreadable(failure),
            false => Unfetched::Failed(failure),
        }
    }
}
