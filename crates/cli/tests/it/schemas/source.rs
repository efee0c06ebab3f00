//! Where the SQL of a schema comes from: a folder that is named, or one written alike.

use harness::Dialect;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

/// Names the folder with other schemas.
const FOLDER: &str = "SYNCLINE_TEST_SCHEMAS";

/// The schemas written for these tests.
const ALIKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/schemas/alike");

pub(crate) struct Source {
    pub(crate) text: String,
    /// Whether it is one of ours, of which is known what becomes of it.
    pub(crate) is_alike: bool,
}

impl Source {
    pub(crate) fn find(name: &str, dialect: Dialect) -> Source {
        let file = match dialect {
            Dialect::Sqlite => format!("{name}.sqlite.sql"),
            Dialect::Postgres => format!("{name}.postgres.sql"),
        };
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty());
        let named = folder.map(|folder| Path::new(&folder).join(&file)).filter(|it| it.exists());
        let is_alike = named.is_none();
        let path = named.unwrap_or_else(|| Path::new(ALIKE).join(&file));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Source { text, is_alike }
    }
}

impl Display for Source {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self.is_alike {
            true => write!(to, "written alike; {FOLDER} has no file of it"),
            false => write!(to, "from {FOLDER}"),
        }
    }
}
