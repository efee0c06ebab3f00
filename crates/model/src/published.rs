//! The tables of a remote's publications, as both sides know them.

use serde::{Deserialize, Serialize};

/// Which way the rows of a table travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Up and down.
    Both,
    /// From the consolidated database only; remotes may not change the table.
    DownloadOnly,
    /// From the remotes only; nothing is sent back.
    UploadOnly,
}

impl Direction {
    /// Whether remotes may upload changes of the table.
    pub fn uploads(self) -> bool {
        self != Direction::DownloadOnly
    }

    /// Whether remotes receive the table.
    pub fn downloads(self) -> bool {
        self != Direction::UploadOnly
    }
}

/// One published table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedTable {
    /// The table's name, the same at both ends.
    pub name: String,
    /// The published columns, in the order in which rows carry them.
    pub columns: Vec<String>,
    /// Positions in `columns` of the primary key's columns, in key order.
    pub key: Vec<u16>,
    /// Which way rows travel.
    pub direction: Direction,
    /// Whether its rows may be compressed on their way. No part of its own digest.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub compress: bool,
    /// Whether the application's triggers at a remote fire for downloaded rows. No part of its own
    /// digest.
    #[serde(default, skip_serializing_if = "is_no")]
    pub fires: bool,
    /// SQL that creates the table and its indexes at a remote that lacks it.
    pub create: Vec<String>,
    /// Digest of all of the above but `compress` and `fires`: a remote that holds another one gets
    /// the whole table again.
    pub fingerprint: String,
}

fn yes() -> bool {
    true
}

fn is_yes(yes: &bool) -> bool {
    *yes
}

fn is_no(yes: &bool) -> bool {
    !*yes
}

impl PublishedTable {
    /// Number of values in a row.
    pub fn width(&self) -> usize {
        self.columns.len()
    }
}

/// Every table of one remote's publications, parents before children.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteSchema {
    /// The tables. Rows on the wire name a table by its position here.
    pub tables: Vec<PublishedTable>,
    /// Digest of all tables.
    pub fingerprint: String,
}
