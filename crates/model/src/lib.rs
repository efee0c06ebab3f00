//! The nouns that the wire and the databases share: values, rows, tables, identities, failures.
//!
//! This crate knows no socket, no file, no clock, no thread and no runtime (A1). Where it needs
//! one, there is a trait ([`Clock`], [`Files`]), and the programs pass an implementation.

mod actor;
mod calendar;
mod clock;
mod code;
mod cut;
mod failure;
mod files;
mod identity;
mod memory;
mod progress;
mod proof;
mod published;
mod random;
mod readable;
mod row;
mod server_url;
mod spill;
mod spill_list;
mod spill_map;
mod value;
mod watermark;

pub use actor::Actor;
pub use calendar::{civil_date, civil_day};
pub use clock::Clock;
pub use code::Code;
pub use cut::{MESSAGE_BYTES_MAX, cut};
pub use failure::Failure;
pub use files::{FileId, Files};
pub use identity::{PublicationName, RemoteId, ScriptVersion, UserName};
pub use memory::{Hold, Memory};
pub use progress::{Counter, DatabaseId, Nonce, Progress};
pub use proof::{FileSecret, Receipt};
pub use published::{Direction, PublishedTable, RemoteSchema};
pub use random::Random;
pub use readable::{Readable, hex, unhex};
pub use row::{RowReader, Rows, row_len, skip_row, write_value};
pub use server_url::{Scheme, ServerUrl};
pub use spill::{Spill, SpillDrain, SpillPosition, SpillReader, SpilledBytes, Spills};
pub use spill_list::SpillList;
pub use spill_map::SpillMap;
pub use value::{Value, ValueRef};
pub use watermark::Watermark;
