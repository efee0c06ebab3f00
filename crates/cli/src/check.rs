//! `syncline check`: whether model, database and what was deployed still agree.

use crate::args::CheckOptions;
use crate::config::Config;
use crate::output;
use crate::user::unused_claims;
use consolidated::{Finding, Severity};
use model::{Code, Failure};
use serde_json::{Value, json};

/// Prints what was found; fails if any of it is an error.
pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let models = config.read_models()?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    let mut findings = admin.check(&models)?;
    for user in admin.users()? {
        for warning in unused_claims(admin.as_mut(), &user.name, &user.claims)? {
            findings.push(Finding { severity: Severity::Notice, table: None, message: warning });
        }
    }
    let errors = findings.iter().filter(|one| one.severity == Severity::Error).count() as u64;
    if options.json {
        let found: Vec<Value> = findings.iter().map(to_json).collect();
        output::json(&json!({ "errors": errors, "findings": found }))?;
    } else {
        for finding in &findings {
            output::line(&output::one_line(&to_text(finding)))?;
        }
    }
    match errors {
        0 if options.json => Ok(()),
        0 => output::line("model, database and deployment agree"),
        _ => Err(Failure::new(Code::Drift, format!("{} found", output::counted(errors, "error")))
            .hint("correct them, then run `syncline deploy`")),
    }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Notice => "notice",
    }
}

fn to_text(Finding { severity, table, message }: &Finding) -> String {
    let place = table.as_ref().map(|table| format!("table {table}: ")).unwrap_or_default();
    format!("{}: {place}{message}", name(*severity))
}

fn to_json(Finding { severity, table, message }: &Finding) -> Value {
    json!({ "severity": name(*severity), "table": table, "message": message })
}
