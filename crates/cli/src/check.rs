//! `syncline check`: whether model, database and what was deployed still agree.

use crate::args::CheckOptions;
use crate::config::Config;
use crate::output;
use consolidated::Severity;
use model::{Code, Failure};

/// Prints what was found; fails if any of it is an error.
pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let models = config.read_models()?;
    let findings = consolidated::administer(&config.consolidated)?.check(&models)?;

    let mut errors = 0;
    for finding in &findings {
        let severity = match finding.severity {
            Severity::Error => {
                errors += 1;
                "error"
            }
            Severity::Notice => "notice",
        };
        let place = finding.table.as_ref().map(|table| format!("table {table}: "));
        let place = place.as_deref().unwrap_or_default();
        output::line(&output::one_line(&format!("{severity}: {place}{}", finding.message)))?;
    }
    match errors {
        0 => output::line("model, database and deployment agree"),
        _ => Err(Failure::new(Code::Drift, format!("{} found", output::counted(errors, "error")))
            .hint("correct them, then run `syncline deploy`")),
    }
}
