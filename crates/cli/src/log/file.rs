//! A log file of limited size, with a limited number of older files.
//!
//! When `server.log` is full, it becomes `server.log.1`, that one becomes `server.log.2`, and so
//! on. The oldest file is removed. No line is split.
//!
//! Other programs may rotate the file too: they move it, and send SIGHUP.

use model::{Code, Failure};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of a log file, beyond which a new one is begun.
const LOG_FILE_BYTES_MAX: u64 = 64 << 20;

/// Former files that are kept.
const FORMER_FILES_MAX: u32 = 5;

/// A log that writes to a file.
#[derive(Debug, Clone)]
pub(super) struct LogFile(Arc<Mutex<Rotating>>);

#[derive(Debug)]
struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl LogFile {
    /// Goes on with the file, or begins one.
    pub(super) fn open(path: &Path) -> Result<LogFile, Failure> {
        LogFile::with_limit(path, LOG_FILE_BYTES_MAX).map_err(|error| cannot_write(path, error))
    }

    /// Goes on with the file that is at the path now, or begins one: it may have been moved. Where
    /// that fails the log goes on in the file that it has.
    pub(super) fn reopen(&self) -> Result<(), Failure> {
        let mut rotating = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match append_to(&rotating.path) {
            Ok((file, bytes)) => (rotating.file, rotating.bytes) = (file, bytes),
            Err(error) => return Err(cannot_write(&rotating.path, error)),
        }
        Ok(())
    }

    fn with_limit(path: &Path, bytes_max: u64) -> io::Result<LogFile> {
        let (file, bytes) = append_to(path)?;
        let rotating = Rotating { path: path.to_owned(), file, bytes, bytes_max };
        Ok(LogFile(Arc::new(Mutex::new(rotating))))
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    let message = format!("cannot write the log file {}", path.display());
    Failure::new(Code::CannotWrite, message).source(error)
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

impl Rotating {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let len = line.len() as u64;
        if self.bytes > 0 && self.bytes + len > self.bytes_max {
            // The log continues in spite of a full disk or a read-only folder: it goes on
            // in the same file, and tries again with the next line.
            if self.rotate().is_ok() {
                (self.file, self.bytes) = append_to(&self.path)?;
            }
        }
        self.file.write_all(line)?;
        self.bytes += len;
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..FORMER_FILES_MAX).rev() {
            match fs::rename(self.former(number), self.former(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.former(1))
    }

    fn former(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Takes whole lines: the log writes each with one call.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a LogFile);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut rotating = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        rotating.write_line(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_way_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let log = LogFile::with_limit(&path, 20).unwrap();
        for number in 0..20 {
            log.make_writer().write_all(format!("line {number:3}\n").as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("server.log"), "line  18\nline  19\n");
        assert_eq!(read("server.log.1"), "line  16\nline  17\n");
        assert_eq!(read("server.log.5"), "line   8\nline   9\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);

        // Another start goes on where this one ended.
        let log = LogFile::with_limit(&path, 20).unwrap();
        log.make_writer().write_all(b"again\n").unwrap();
        assert_eq!(read("server.log"), "again\n");
        assert_eq!(read("server.log.1"), "line  18\nline  19\n");
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let failure = LogFile::open(Path::new("/nonexistent/server.log")).unwrap_err();
        assert_eq!(failure.code(), Code::CannotWrite);
    }
}
