//! What every backend needs to send a download.

pub(crate) mod batches;
pub(crate) mod bundle;
pub(crate) mod mark;
pub(crate) mod owed;
pub(crate) mod own;
pub(crate) mod range;
pub(crate) mod resume;
pub(crate) mod time;

use crate::synchronization::DownloadBatch;
use model::Failure;

/// Where the parts of a download go.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(DownloadBatch) -> Result<(), Failure>;
