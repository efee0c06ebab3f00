//! What is remembered about a file that is no remote any more.
//!
//! It is stored beside the file, because nothing of Syncline may stay in it.

use crate::disk::Location;
use crate::schema::history::History;
use model::{Code, Failure};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// The tables that were published, and of which file.
#[derive(Debug, Serialize, Deserialize)]
struct Memory {
    file_number: u64,
    /// Grows with every change of a file's schema, so a new file in its place has a smaller one.
    schema_version: i64,
    history: History,
}

/// Remembers what was published. It is called when all objects of Syncline are removed and this is
/// not committed yet. Without the commit it is never read.
pub(super) fn remember(
    connection: &Connection,
    location: &Location,
    history: History,
) -> Result<(), Failure> {
    if history == History::default() {
        return Ok(());
    }
    let memory = Memory {
        file_number: location.number(),
        schema_version: schema_version(connection)?,
        history,
    };
    let text = serde_json::to_string(&memory)
        .map_err(|error| Failure::new(Code::Bug, "the history does not write").source(error))?;
    location.write_memory(&text)
}

/// What was published in this file before it was detached; nothing where the memory is of another
/// one, or none.
pub(super) fn recall(connection: &Connection, location: &Location) -> Result<History, Failure> {
    let Some(text) = location.read_memory() else { return Ok(History::default()) };
    let Ok(memory) = serde_json::from_str::<Memory>(&text) else { return Ok(History::default()) };
    let same = memory.file_number == location.number()
        && memory.schema_version <= schema_version(connection)?;
    Ok(if same { memory.history } else { History::default() })
}

fn schema_version(connection: &Connection) -> Result<i64, Failure> {
    let version = connection.query_row("PRAGMA schema_version", [], |row| row.get(0));
    version.map_err(crate::connection::explain)
}
