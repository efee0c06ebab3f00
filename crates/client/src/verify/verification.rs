//! What a comparison is asked for, and what came of it.

use protocol::Credential;

/// How a comparison is asked for.
#[derive(Debug, Clone)]
pub struct VerifyRequest {
    /// What proves the user.
    pub credential: Credential,
    /// The program that asks, for the server's log.
    pub client: String,
    /// How many of the rows that differ are named in each table.
    pub named_max: usize,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Verification {
    /// The tables that are downloaded, in the order of the schema.
    pub tables: Vec<VerifiedTable>,
    /// A session token to use instead of the password.
    pub token: Option<String>,
}

impl Verification {
    /// Rows that differ.
    pub fn differences(&self) -> u64 {
        self.tables.iter().map(|table| table.missing + table.extra + table.different).sum()
    }
}

/// What came of the comparison of one table.
#[derive(Debug, Default)]
pub struct VerifiedTable {
    /// Its name.
    pub name: String,
    /// It waits until the operator deploys, and was not compared.
    pub waits: bool,
    /// Ranges whose sums were compared.
    pub ranges: u64,
    /// Rows that the remote lacks.
    pub missing: u64,
    /// Rows that only the remote has.
    pub extra: u64,
    /// Rows with other values.
    pub different: u64,
    /// Rows among those that were looked at singly that the next synchronization is for.
    pub left_out: u64,
    /// The first of the rows that differ.
    pub rows: Vec<DifferingRow>,
    /// Its position in the schema.
    pub(super) position: u16,
    /// The keys of the rows that differ; none where they are more than one Hello can ask for.
    pub(super) wanted: Option<Vec<Vec<u8>>>,
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingRow {
    /// In which way.
    pub how: How,
    /// Its key, for people.
    pub key: String,
}

/// How a row differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The remote lacks it.
    Missing,
    /// Only the remote has it.
    Extra,
    /// It has other values.
    Different,
}

impl How {
    /// For people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Missing => "missing",
            How::Extra => "extra",
            How::Different => "different",
        }
    }
}
