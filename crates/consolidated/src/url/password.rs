//! Passwords of a consolidated database, which are never shown.
//!
//! They are stored in files that only their owner may read. They are searched for in the URL
//! itself, in `consolidated.password` beside `syncline.toml`, in `PGPASSWORD`, and in libpq's
//! password file (`PGPASSFILE`, or else `~/.pgpass`).

use super::environment::{SOCKET_FOLDERS, Variable};
use super::postgres::PostgresUrl;
use super::secret::Secret;
use model::{Code, Failure};
use postgres_driver::Host;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file in the folder of `syncline.toml` whose first line is the password.
pub const PASSWORD_FILE_NAME: &str = "consolidated.password";

/// Largest file of passwords that is read (S9).
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The password for a URL that has none in its text.
pub(super) fn find(
    url: &PostgresUrl,
    dir: Option<&Path>,
    variable: Variable<'_>,
) -> Result<Option<Secret>, Failure> {
    if let Some(dir) = dir {
        let path = dir.join(PASSWORD_FILE_NAME);
        if let Some(file) = SecretFile::read(&path)? {
            let line = file.text.lines().next().unwrap_or_default().to_owned();
            return file.unless_exposed(line).map(Some);
        }
    }
    if let Some(password) = variable("PGPASSWORD") {
        return Ok(Some(Secret::new(password)));
    }
    let path = variable("PGPASSFILE").map(PathBuf::from);
    let path = path.or_else(|| Some(Path::new(&variable("HOME")?).join(".pgpass")));
    let Some(file) = path.map(|path| SecretFile::read(&path)).transpose()?.flatten() else {
        return Ok(None);
    };
    match url.hosts.iter().find_map(|host| entry_for(&file.text, host, url)) {
        Some(password) => file.unless_exposed(password).map(Some),
        None => Ok(None),
    }
}

/// A file with passwords, and whether others may read it.
struct SecretFile {
    path: PathBuf,
    text: String,
    exposed: bool,
}

impl SecretFile {
    fn read(path: &Path) -> Result<Option<SecretFile>, Failure> {
        let unreadable = |error: io::Error| {
            let message = format!("cannot read the password file {}", path.display());
            Failure::new(Code::SecretMissing, message).source(error)
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        let mut bytes = Vec::new();
        if metadata.is_file() {
            file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Some(SecretFile { path: path.to_owned(), text, exposed: is_exposed(&metadata) }))
    }

    /// What others know is no secret. A file without a matching entry is ignored.
    fn unless_exposed(&self, password: String) -> Result<Secret, Failure> {
        let path = self.path.display();
        if self.exposed {
            let message = format!("other users may read the password file {path}");
            return Err(
                Failure::new(Code::SecretExposed, message).hint(format!("chmod 600 {path}"))
            );
        }
        if password.is_empty() {
            let message = format!("{path} does not hold a password in its first line");
            return Err(Failure::new(Code::SecretMissing, message)
                .hint("write the password into its first line"));
        }
        Ok(Secret::new(password))
    }
}

#[cfg(unix)]
fn is_exposed(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_exposed(_: &std::fs::Metadata) -> bool {
    false
}

/// The password of the first line `host:port:database:user:password` that fits.
fn entry_for(text: &str, host: &Host, url: &PostgresUrl) -> Option<String> {
    let name = match host {
        Host::Tcp(name, _) => name.clone(),
        // So libpq calls the sockets that need no name.
        Host::Socket(folder, _)
            if SOCKET_FOLDERS.iter().any(|usual| folder == Path::new(usual)) =>
        {
            "localhost".to_owned()
        }
        Host::Socket(folder, _) => folder.to_string_lossy().into_owned(),
    };
    let port = host.port().to_string();
    let wanted = [&name, &port, &url.database, &url.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line);
        let fits = wanted.iter().all(|wanted| {
            fields.next().is_some_and(|field| field == Field::Any || field.is(wanted))
        });
        let password = fields.next().filter(|_| fits)?;
        match password {
            Field::Any => Some("*".to_owned()),
            Field::Text(text) => Some(text).filter(|text| !text.is_empty()),
        }
    })
}

/// A field of a line: `*` fits anything.
#[derive(PartialEq, Eq)]
enum Field {
    Any,
    Text(String),
}

impl Field {
    fn is(&self, wanted: &str) -> bool {
        matches!(self, Field::Text(text) if text == wanted)
    }
}

/// The parts between colons; a backslash makes a colon or a backslash part of a text.
fn fields(line: &str) -> impl Iterator<Item = Field> {
    let mut rest = Some(line.trim_end_matches('\r'));
    std::iter::from_fn(move || {
        let mut characters = rest.take()?.chars();
        let (mut text, mut escaped) = (String::new(), false);
        while let Some(character) = characters.next() {
            match character {
                ':' => {
                    rest = Some(characters.as_str());
                    break;
                }
                '\\' => {
                    escaped = true;
                    text.extend(characters.next());
                }
                other => text.push(other),
            }
        }
        Some(if text == "*" && !escaped { Field::Any } else { Field::Text(text) })
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::postgres;
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn found(url: &str, dir: &Path, variables: &[(&str, &str)]) -> Result<Option<String>, Code> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let url = postgres::parse(url, &variable).unwrap();
        find(&url, Some(dir), &variable)
            .map(|secret| secret.map(|secret| secret.reveal().to_owned()))
            .map_err(|failure| failure.code())
    }

    #[test]
    fn the_file_of_the_folder_comes_before_the_environment_and_that_before_libpqs_file() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, home) = (folder.path().join("dir"), folder.path().join("home"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::create_dir(&home).unwrap();
        let home = home.to_str().unwrap();
        let check = |variables: &[(&str, &str)]| found("ann@h/db", &dir, variables);
        assert_eq!(check(&[("HOME", home)]), Ok(None));
        let pgpass = Path::new(home).join(".pgpass");
        write(&pgpass, "# h:*:*:*:comment\nh:5433:*:*:port\nh:*:db:ann:file\n", 0o600);
        assert_eq!(check(&[("HOME", home)]), Ok(Some("file".to_owned())));
        assert_eq!(check(&[("HOME", home), ("PGPASSFILE", "/nonexistent")]), Ok(None));
        write(&pgpass, "h:*:db:ann:file\n", 0o640);
        assert_eq!(check(&[("HOME", home)]), Err(Code::SecretExposed));
        write(&pgpass, "h:*:other:ann:file\n", 0o640);
        assert_eq!(check(&[("HOME", home)]), Ok(None), "it holds nothing for us");
        let variables = [("HOME", home), ("PGPASSWORD", "variable")];
        assert_eq!(check(&variables), Ok(Some("variable".to_owned())));
        write(&dir.join(PASSWORD_FILE_NAME), "own\nmore\n", 0o600);
        assert_eq!(check(&variables), Ok(Some("own".to_owned())));
        write(&dir.join(PASSWORD_FILE_NAME), "own\n", 0o644);
        assert_eq!(check(&variables), Err(Code::SecretExposed));
        write(&dir.join(PASSWORD_FILE_NAME), "", 0o600);
        assert_eq!(check(&variables), Err(Code::SecretMissing));
    }

    #[test]
    fn lines_of_libpqs_file_have_wildcards_and_escapes() {
        let url = |text: &str| postgres::parse(text, &|_| None).unwrap();
        let check = |line: &str, text: &str| {
            let url = url(text);
            entry_for(line, &url.hosts[0], &url)
        };
        let is = |password: &str| Some(password.to_owned());
        assert_eq!(check("*:*:*:*:a\\:b\\\\c", "ann@h/db"), is("a:b\\c"));
        assert_eq!(check("*:*:*:*:a:b", "ann@h/db"), is("a"));
        assert_eq!(check("*:*:*:*:*", "ann@h/db"), is("*"));
        assert_eq!(check("\\:\\:1:7:*:*:x", "ann@[::1]:7/db"), is("x"));
        assert_eq!(check("h:*:\\*:*:x", "ann@h/db"), None);
        assert_eq!(check("h:*:\\*:*:x", "ann@h/*"), is("x"));
        assert_eq!(check("/run/pg:*:*:*:x", "/db?host=/run/pg&user=ann"), is("x"));
        assert_eq!(check("localhost:*:*:*:x", "/db?host=/tmp&user=ann"), is("x"));
        assert_eq!(check("h:5432:db:ann:", "ann@h/db"), None);
        assert_eq!(check("h:5432:db:ann", "ann@h/db"), None);
        assert_eq!(check("h:5432:db:ann:x\r", "ann@h/db"), is("x"));
    }
}
