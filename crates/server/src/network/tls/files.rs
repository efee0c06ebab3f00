//! Whether the files of TLS are still the ones that were read.

use crate::config::TlsFiles;
use std::path::PathBuf;
use std::time::SystemTime;

/// What the system says of the files; not what is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp(Vec<Option<(u64, Option<SystemTime>)>>);

impl Stamp {
    /// As they are now. A file that is missing has none.
    pub(super) fn of(files: &TlsFiles) -> Stamp {
        let paths = [&files.certificate, &files.key, &files.client_ca].into_iter().flatten();
        let stamp = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()))
        };
        Stamp(paths.map(stamp).collect())
    }
}
