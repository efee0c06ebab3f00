//! One statement of a flight, and what became of it.

use crate::refusal::Refusal;
use crate::row::RowRef;
use postgres_types::{ToSql, Type};
use std::ops::ControlFlow;

/// One statement of a flight.
#[derive(Clone, Copy)]
pub enum Call<'a> {
    /// Plain text, without parameters or result: `BEGIN`, `SAVEPOINT` and the like.
    Simple(&'a str),
    /// Prepared once per connection; results are binary.
    Prepared {
        /// The text, with `$1`, `$2`, … where its parameters are.
        sql: &'a str,
        /// Types of the first parameters; the server infers the others.
        types: &'a [Type],
        /// The values of its parameters.
        parameters: &'a [&'a (dyn ToSql + Sync)],
        /// Its plan is right whatever the tables hold, so the server may keep it.
        keeps_plan: bool,
        /// Whoever runs it needs to know how many rows it returns, and not the rows.
        counted: bool,
    },
}

impl<'a> Call<'a> {
    /// A prepared statement whose parameter types the server infers, and whose plan it may keep.
    pub fn new(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters, keeps_plan: true, counted: false }
    }

    /// The same, of which only the number of its rows matters.
    pub fn counted(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters, keeps_plan: true, counted: true }
    }

    /// The same, but planned each time, for the tables as they are then.
    pub fn planned_anew(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters, keeps_plan: false, counted: true }
    }
}

/// What became of a call.
#[derive(Debug)]
pub enum CallResult {
    /// Rows that it returned or changed.
    Done(u64),
    /// The server refused it.
    Refused(Box<Refusal>),
    /// One that shares its Sync was refused before it.
    Skipped,
}

/// Takes the rows of a flight as they arrive, with the position of their call, until it breaks.
pub type Rows<'a> = &'a mut dyn FnMut(usize, RowRef<'_>) -> ControlFlow<()>;
