//! What all connections of one server have in common.

use crate::cancellation::Cancellation;
use crate::connection::{Reader, Writer};
use crate::url::Url;
use crate::{postgres, sqlite};
use model::Failure;

/// Opens the connections of a server.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    /// Ends their work.
    pub cancellation: Cancellation,
}

impl Serving {
    /// Connects to apply uploads.
    pub fn open_writer(&self, url: &Url) -> Result<Box<dyn Writer>, Failure> {
        match url {
            Url::Sqlite(path) => Ok(Box::new(sqlite::Writer::open(path, self)?)),
            Url::Postgres(url) => Ok(Box::new(postgres::Writer::open(url, self)?)),
        }
    }

    /// Connects to read.
    pub fn open_reader(&self, url: &Url) -> Result<Box<dyn Reader>, Failure> {
        match url {
            Url::Sqlite(path) => Ok(Box::new(sqlite::Reader::open(path, self)?)),
            Url::Postgres(url) => Ok(Box::new(postgres::Reader::open(url, self)?)),
        }
    }
}
