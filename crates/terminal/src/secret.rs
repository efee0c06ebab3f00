//! Passwords and session tokens, from files that only their owner can read or from the terminal.
//!
//! They are never taken from the command line and never printed.

use model::{Code, Failure};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Longest secret, in bytes. Passwords and tokens are much shorter.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// How long to wait for a pipe.
const PIPE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first line of the file, without its line end.
///
/// A file that other users than its owner may read is refused.
pub fn read_file(path: &Path, what: &str) -> Result<String, Failure> {
    let bytes = read_in_time(path, what, PIPE_TIMEOUT)?;
    first_line(&bytes).map_err(|fault| {
        let message = format!("the first line of the {what} file {} {fault}", path.display());
        Failure::new(Code::SecretMissing, message)
            .hint(format!("write the {what} into its first line"))
    })
}

/// Reads in a separate thread. The file may be a pipe, and if no program writes to it, opening it
/// would block forever.
fn read_in_time(path: &Path, what: &str, limit: Duration) -> Result<Vec<u8>, Failure> {
    let (answer, answered) = mpsc::sync_channel(1);
    let (path_there, what_there) = (path.to_owned(), what.to_owned());
    std::thread::spawn(move || answer.send(read(&path_there, &what_there)));
    answered.recv_timeout(limit).unwrap_or_else(|_| {
        let (path, seconds) = (path.display(), limit.as_secs());
        let message = format!("nothing could be read from {path} for {seconds} seconds");
        Err(Failure::new(Code::SecretMissing, message).hint("name a file, not a pipe"))
    })
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let missing = |error: io::Error| {
        Failure::new(Code::SecretMissing, format!("cannot read the {what} file {}", path.display()))
            .hint("check the path")
            .source(error)
    };
    let file = File::open(path).map_err(missing)?;
    if file.metadata().map_err(missing)?.is_dir() {
        return Err(missing(io::ErrorKind::IsADirectory.into()));
    }
    refuse_exposed(&file, path, what)?;
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(missing)?;
    Ok(bytes)
}

/// The first line, or what is wrong with it.
fn first_line(bytes: &[u8]) -> Result<String, &'static str> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() as u64 > SECRET_BYTES_MAX {
        return Err("is longer than 64 KiB");
    }
    match std::str::from_utf8(line) {
        Ok("") => Err("is empty"),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err("is not UTF-8"),
    }
}

// Checks the opened file and not the path, which could name another file by now.
#[cfg(unix)]
fn refuse_exposed(file: &File, path: &Path, what: &str) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map(|metadata| metadata.permissions().mode()).unwrap_or(0o777);
    if mode & 0o077 != 0 {
        return Err(Failure::new(
            Code::SecretExposed,
            format!("other users may read the {what} file {}", path.display()),
        )
        .hint(format!("chmod 600 {}", path.display())));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_exposed(_: &File, _: &Path, _: &str) -> Result<(), Failure> {
    Ok(())
}

/// Writes the whole secret or nothing, so that only the owner can read it.
pub fn write_file(path: &Path, what: &str, secret: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::CannotWrite, format!("cannot write the {what} file {}", path.display()))
            .source(error)
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Temporary files are created with mode 0600, and renaming keeps it.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    writeln!(file, "{secret}").map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Asks for a password on the terminal, without echo.
pub fn ask(prompt: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            Code::SecretMissing,
            "no password was given and there is no terminal to read it from",
        )
        .hint("give --password-file"));
    }
    let password = rpassword::prompt_password(format!("{prompt}: ")).map_err(|error| {
        Failure::new(Code::SecretMissing, "cannot ask on the terminal").source(error)
    })?;
    if password.is_empty() {
        return Err(Failure::new(Code::SecretMissing, "the password is empty").hint("type one"));
    }
    Ok(password)
}

/// Asks for a new password twice, because what is typed is not shown.
pub fn ask_twice(prompt: &str) -> Result<String, Failure> {
    let first = ask(prompt)?;
    if ask("the same again")? != first {
        return Err(Failure::new(Code::SecretMissing, "the two passwords differ").hint("try again"));
    }
    Ok(first)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn check(content: &[u8], mode: u32) -> Result<String, Code> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        read_file(&path, "password").map_err(|failure| failure.code())
    }

    #[test]
    fn the_first_line_counts_without_its_end() {
        assert_eq!(check(b"pass word \nmore", 0o600), Ok("pass word ".to_owned()));
        assert_eq!(check(b"windows\r\n", 0o400), Ok("windows".to_owned()));
        assert_eq!(check(b"no end", 0o600), Ok("no end".to_owned()));
    }

    #[test]
    fn files_that_others_may_read_are_refused() {
        for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
            assert_eq!(check(b"x\n", mode), Err(Code::SecretExposed), "{mode:o}");
        }
    }

    #[test]
    fn a_folder_is_no_password_file_and_its_mode_is_not_to_be_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let refused = read_file(folder.path(), "password").unwrap_err();
        assert_eq!(refused.code(), Code::SecretMissing);
        let hint = refused.hint_text();
        assert!(!hint.contains("chmod"), "{hint}");
    }

    #[test]
    fn the_message_says_what_is_wrong_with_the_first_line() {
        assert_eq!(first_line(b"\nsecond"), Err("is empty"));
        assert_eq!(first_line(b"\xff\xfe\n"), Err("is not UTF-8"));
        assert_eq!(first_line(&vec![b'x'; 70_000]), Err("is longer than 64 KiB"));
    }

    #[test]
    fn empty_missing_endless_and_binary_files_hold_no_secret() {
        assert_eq!(check(b"", 0o600), Err(Code::SecretMissing));
        assert_eq!(check(b"\nsecond", 0o600), Err(Code::SecretMissing));
        assert_eq!(check(b"\xff\xfe", 0o600), Err(Code::SecretMissing));
        assert_eq!(check(&vec![b'x'; 70_000], 0o600), Err(Code::SecretMissing));
        let missing = read_file(Path::new("/nonexistent/secret"), "password").unwrap_err();
        assert_eq!(missing.code(), Code::SecretMissing);
    }

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status();
        assert!(made.unwrap().success());
        path
    }

    /// Reading a pipe as a password file blocked forever.
    #[test]
    fn a_pipe_that_nobody_writes_to_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let refused = read_in_time(&path, "password", Duration::from_millis(1)).unwrap_err();
        assert_eq!(refused.code(), Code::SecretMissing);
    }

    #[test]
    fn a_pipe_gives_what_is_written_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let written = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(written, "pass word\n").unwrap());
        assert_eq!(read_file(&path, "password").unwrap(), "pass word");
        writer.join().unwrap();
    }

    #[test]
    fn a_written_secret_is_readable_by_its_owner_only_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "old").unwrap();
        write_file(&path, "token", "new").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read_file(&path, "token").unwrap(), "new");
    }
}
