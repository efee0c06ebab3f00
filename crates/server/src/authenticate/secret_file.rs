//! Files that hold secrets of the server, which only their owner may read.

use model::{Code, Failure};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest secret.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// Refuses a file that other users may read.
pub(super) fn require_owned(file: &File, path: &Path, what: &str) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(|error| unreadable(path, what).source(error))?;
        if mode.permissions().mode() & 0o077 != 0 {
            let message = format!("other users may read {what} in {}", path.display());
            return Err(Failure::new(Code::SecretExposed, message)
                .hint(format!("chmod 600 {}", path.display())));
        }
    }
    Ok(())
}

/// The first line of a file with the secret of a service.
pub(super) fn read_line(path: &Path) -> Result<String, Failure> {
    let what = "the secret for the service that knows the users";
    let failed = |error: std::io::Error| unreadable(path, what).source(error);
    let file = File::open(path).map_err(failed)?;
    require_owned(&file, path, what)?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    match text.lines().next().map(str::trim_end) {
        Some(secret) if !secret.is_empty() && !secret.contains(char::is_control) => {
            Ok(secret.to_owned())
        }
        _ => Err(unreadable(path, what).hint("write it into the first line of the file")),
    }
}

fn unreadable(path: &Path, what: &str) -> Failure {
    Failure::new(Code::ConfigInvalid, format!("cannot read {what} in {}", path.display()))
}
