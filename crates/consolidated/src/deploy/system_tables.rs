//! The system tables of a kind of database.

use model::{Code, Failure};

/// The system tables that this program makes and understands.
#[derive(Debug)]
pub(crate) struct SystemTables {
    /// The number of their layout.
    pub(crate) format: i64,
    /// The statements that make them, one a line.
    pub(crate) made: &'static str,
    /// The table that the layout before did not have.
    pub(crate) added: &'static str,
    /// The statement that adds what one of its tables lacks; otherwise they are the same.
    pub(crate) altered: &'static str,
}

impl SystemTables {
    /// Refuses system tables of another layout, before anything else of them is read (trap 18).
    pub(crate) fn require(&self, format: i64) -> Result<(), Failure> {
        match format == self.format {
            true => Ok(()),
            false => Err(self.other(format)),
        }
    }

    /// The same, but for the layout before, which `deploy` makes this one.
    pub(crate) fn require_known(&self, format: i64) -> Result<(), Failure> {
        match format == self.format || self.is_former(format) {
            true => Ok(()),
            false => Err(self.other(format)),
        }
    }

    pub(crate) fn is_former(&self, format: i64) -> bool {
        format == self.format - 1
    }

    fn other(&self, format: i64) -> Failure {
        let text =
            format!("the system tables have format {format}; this program knows {}", self.format);
        let failure = Failure::new(Code::DeployedByAnother, text);
        match self.is_former(format) {
            true => failure.hint("`syncline deploy` brings them to it, and no remote notices"),
            false => failure,
        }
    }

    /// The statements that make them.
    pub(crate) fn statements(&self) -> Vec<String> {
        let lines = self.made.lines().filter(|line| !line.is_empty());
        lines.map(|line| line.trim_end_matches(';').to_owned()).collect()
    }

    /// The statements that make them of those of the layout before, but for its number.
    pub(crate) fn upgrade(&self) -> Vec<String> {
        let added = self.statements().into_iter().filter(|line| line.contains(self.added));
        added.chain([self.altered.to_owned()]).collect()
    }
}
