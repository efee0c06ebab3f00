//! A mark of each start of a server, in the database and in a file beside its configuration.
//!
//! If the file has a mark that the database lacks, the database is older: it was restored, and the
//! folder of the server was not. The file belongs to one incarnation: a restore that was found in
//! another way has begun a new one, so it is not found twice. The file also belongs to one
//! timeline: after a promotion, or a recovery to a point in time, the floors decide for each
//! remote, and a mark that did not reach the new timeline proves nothing about all remotes.
//!
//! The mark of the last start is also stored under the name of [`LAST`], which a running server
//! reads together with the incarnation. If it changes, another server has started, or the database
//! was set back to before a start that this server knows.

use model::{Code, Failure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The file in the folder of the configuration.
const FILE_NAME: &str = "syncline.mark";

/// Marks that the database keeps; a server that has started less often since has one of them.
pub(crate) const MARKS_MAX: i64 = 10_000;

/// The row of the system table that has the mark of the last start.
pub(crate) const LAST: &str = "last_start";

/// What the log says of a database that was set back while a server ran on.
pub(crate) const SET_BACK: &str = "it lacks the mark of a start that a running server knows";

/// What a start leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) database_id: String,
    pub(crate) incarnation: String,
    /// Of the database's transaction log; 0 where it has none.
    pub(crate) timeline: u32,
    pub(crate) mark: String,
}

/// What a backend does for it.
pub(crate) trait Marked {
    /// The database as it is now, without a mark.
    fn place(&mut self) -> Result<Mark, Failure>;

    /// Whether the database has this mark.
    fn has(&mut self, mark: &str) -> Result<bool, Failure>;

    /// Begins a new incarnation and a new generation.
    fn renew(&mut self, reason: &str) -> Result<(), Failure>;

    /// Draws a mark and stores it, durably.
    fn add(&mut self) -> Result<String, Failure>;
}

/// Compares file and database, and leaves a new mark in both: first in the database, so that every
/// mark of the file was in the database.
pub(crate) fn start(dir: &Path, database: &mut dyn Marked) -> Result<(), Failure> {
    let path = dir.join(FILE_NAME);
    let here = database.place()?;
    let before = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Mark>(&text).ok());
    if let Some(before) = before
        && before.database_id == here.database_id
        && before.incarnation == here.incarnation
        && before.timeline == here.timeline
        && !database.has(&before.mark)?
    {
        database.renew("it lacks the mark of an earlier start of this server")?;
    }
    let mark = database.add()?;
    let left = Mark { mark, ..database.place()? };
    if let Err(failure) = write(&path, &left) {
        // A folder that is read only: restores are noticed in the other ways.
        tracing::warn!(error = %failure.full_message(), "cannot write the mark of this start");
    }
    Ok(())
}

fn write(path: &Path, mark: &Mark) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(error)
    };
    let text = serde_json::to_vec(mark)
        .map_err(|error| Failure::new(Code::Bug, "a mark does not write").source(error))?;
    let beside = path.with_extension("mark-new");
    let mut file = File::create(&beside).map_err(cannot)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(cannot)?;
    fs::rename(&beside, path).map_err(cannot)
}
