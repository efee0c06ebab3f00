//! Names a consolidated database: `sqlite:PATH`, or `postgres://…` as libpq defines it.

mod environment;
mod malformed;
mod password;
mod percent;
mod postgres;
mod proof;
mod secret;

pub use password::PASSWORD_FILE_NAME;
pub use postgres::{PostgresUrl, SslMode};
pub use postgres_driver::{ChannelBinding, ClientCertificate, Host, Method, Methods, Proof};
pub use secret::Secret;

use malformed::bad;
use model::Failure;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a consolidated database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    /// An SQLite file, absolute.
    Sqlite(PathBuf),
    /// A database of a PostgreSQL server, with all that is needed to connect.
    Postgres(Box<PostgresUrl>),
}

impl Url {
    /// Understands a URL. A relative path is taken from the current folder; what a `postgres://`
    /// URL leaves out comes from libpq's environment variables, defaults and password file.
    pub fn parse(text: &str) -> Result<Url, Failure> {
        Url::parse_with(text, None)
    }

    /// The same for the URL of the `syncline.toml` in this folder, where the password may be in
    /// the file [`PASSWORD_FILE_NAME`].
    pub fn parse_in(dir: &Path, text: &str) -> Result<Url, Failure> {
        Url::parse_with(text, Some(dir))
    }

    /// The password that was in the text of the URL itself, where others might read it.
    pub fn password_in_text(&self) -> Option<&Secret> {
        match self {
            Url::Sqlite(_) => None,
            Url::Postgres(url) => url.password.as_ref().filter(|_| url.password_in_text),
        }
    }

    fn parse_with(text: &str, dir: Option<&Path>) -> Result<Url, Failure> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        match scheme {
            "sqlite" if !rest.is_empty() => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let path = std::path::absolute(Path::new(path))
                    .map_err(|error| bad(format!("`{text}` is not a path")).source(error))?;
                Ok(Url::Sqlite(path))
            }
            "sqlite" => Err(bad(format!("`{text}` names no file"))),
            "postgres" | "postgresql" => {
                let rest = rest
                    .strip_prefix("//")
                    .ok_or_else(|| bad(format!("a URL of PostgreSQL begins with `{scheme}://`")))?;
                let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
                let mut url = postgres::parse(rest, &variable)?;
                if url.password.is_none() {
                    url.password = password::find(&url, dir, &variable)?;
                }
                Ok(Url::Postgres(Box::new(url)))
            }
            "" if !text.is_empty() => {
                let failure = bad(format!("`{text}` is not a database URL"));
                Err(failure.hint(format!("a file of SQLite is written `sqlite:{text}`")))
            }
            "" => Err(bad("there is no database URL".to_owned())),
            other => Err(bad(format!("databases of the kind `{other}:` are not supported"))),
        }
    }
}

/// Never shows a password.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Url::Postgres(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    #[test]
    fn who_names_a_file_alone_reads_how_it_is_written() {
        let failure = Url::parse("shop.db").unwrap_err();
        assert_eq!(failure.hint_text(), "a file of SQLite is written `sqlite:shop.db`");
    }

    #[test]
    fn relative_paths_become_absolute_and_other_kinds_are_refused() {
        let url = Url::parse("sqlite:a/b.db").unwrap();
        let Url::Sqlite(path) = &url else { panic!("{url}") };
        assert!(path.is_absolute() && path.ends_with("a/b.db"));
        assert_eq!(Url::parse(&url.to_string()).unwrap(), url);
        for text in ["sqlite:", "chinook.db", "oracle:x", "postgres:x", "postgresql:/x"] {
            assert_eq!(Url::parse(text).unwrap_err().code(), Code::BadUrl, "{text}");
        }
    }

    #[test]
    fn a_password_is_neither_shown_nor_in_a_message() {
        let url = Url::parse("postgres://ann:se%63ret@h/db").unwrap();
        assert_eq!(url.password_in_text().unwrap().reveal(), "secret");
        assert!(!format!("{url} {url:?} {url:#?}").contains("secret"));
        for text in [
            "postgres:ann:secret@h/db",
            "postgres://ann:secret@h:port/db",
            "postgres://ann:secret@h/db?color=1",
            "postgres://ann:secret%zz@h/db",
            "postgres://ann@h/db?password=secret&sslmode=maybe",
        ] {
            let failure = Url::parse(text).unwrap_err();
            assert_eq!(failure.code(), Code::BadUrl, "{text}");
            assert!(!failure.full_message().contains("secret"), "{}", failure.full_message());
        }
    }
}
