//! The system tables of a kind of database.

use model::{Code, Failure};

/// The system tables that this program makes and understands.
#[derive(Debug)]
pub(crate) struct SystemTables {
    /// The number of their layout.
    pub(crate) format: i64,
    /// The statements that make them, one a line.
    pub(crate) made: &'static str,
}

impl SystemTables {
    /// Refuses system tables of another layout, before anything else of them is read (trap 18).
    pub(crate) fn require(&self, format: i64) -> Result<(), Failure> {
        let text =
            format!("the system tables have format {format}; this program knows {}", self.format);
        match format == self.format {
            true => Ok(()),
            false => Err(Failure::new(Code::DeployedByAnother, text)),
        }
    }

    /// The statements that make them.
    pub(crate) fn statements(&self) -> Vec<String> {
        let lines = self.made.lines().filter(|line| !line.is_empty());
        lines.map(|line| line.trim_end_matches(';').to_owned()).collect()
    }
}
