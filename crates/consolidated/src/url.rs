//! Names a consolidated database: `sqlite:PATH`.

use model::{Code, Failure};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a consolidated database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    /// An SQLite file, absolute.
    Sqlite(PathBuf),
}

impl Url {
    /// Understands `sqlite:PATH`; a relative path is taken from the current folder.
    pub fn parse(text: &str) -> Result<Url, Failure> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        match scheme {
            "sqlite" if !rest.is_empty() => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let path = std::path::absolute(Path::new(path))
                    .map_err(|error| bad(format!("`{text}` is not a path")).source(error))?;
                Ok(Url::Sqlite(path))
            }
            "sqlite" => Err(bad(format!("`{text}` names no file"))),
            "" => Err(bad(format!("`{text}` is not a database URL"))),
            other => Err(bad(format!("databases of the kind `{other}:` are not supported"))),
        }
    }
}

fn bad(message: String) -> Failure {
    Failure::new(Code::BadUrl, message).hint("sqlite:PATH names an SQLite database")
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_become_absolute_and_other_kinds_are_refused() {
        let url = Url::parse("sqlite:a/b.db").unwrap();
        let Url::Sqlite(path) = &url;
        assert!(path.is_absolute() && path.ends_with("a/b.db"));
        assert_eq!(Url::parse(&url.to_string()).unwrap(), url);
        for text in ["sqlite:", "chinook.db", "oracle:x"] {
            assert_eq!(Url::parse(text).unwrap_err().code(), Code::BadUrl, "{text}");
        }
    }
}
