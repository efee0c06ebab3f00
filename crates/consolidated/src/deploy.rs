//! What a deployment decides, for every database.
//!
//! A [`Plan`] says what must be there: tables as remotes know them, scripts, publications, what is
//! tracked. A backend is a [`Schema`]: it describes its tables, and spells what was decided.

mod cascades;
pub(crate) mod difference;
pub(crate) mod format;
pub(crate) mod generate;
pub(crate) mod initial;
mod losers;
pub(crate) mod numbers;
pub(crate) mod own;
mod plan;
mod published;
mod rows;
mod schema;
mod succession;
mod system_tables;
pub(crate) mod table;
mod tracked;
mod wanted;

pub(crate) use plan::{Plan, VersionPlan, plan};
pub(crate) use rows::{
    planned as planned_rows, replacement as row_replacement, stored as stored_rows,
};
pub(crate) use schema::{Schema, TablePlanner, too_wide};
pub(crate) use succession::Intent;
pub(crate) use system_tables::SystemTables;
pub(crate) use table::{ColumnFacts, ForeignKey, KeyAction, TableFacts, same_but_for_case};
pub(crate) use wanted::{Tracked, Wanted};
