//! The options of commands that take something away.

use clap::Args;
use model::Failure;
use serde_json::json;
use terminal::confirm::confirmed;
use terminal::output;

/// Whether to do it, to ask first, or only to say what would be done.
#[derive(Debug, Clone, Args)]
pub(crate) struct Consent {
    /// Do it without a question; necessary where there is no terminal
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Consent {
    /// Whether to do what `will` says. A dry run only says it.
    pub(crate) fn is_given(&self, will: &str, json: bool) -> Result<bool, Failure> {
        if !self.dry_run {
            return confirmed(self.yes, will);
        }
        match json {
            true => output::json(&json!({ "dry_run": will }))?,
            false => output::line(&output::one_line(will))?,
        }
        Ok(false)
    }
}
