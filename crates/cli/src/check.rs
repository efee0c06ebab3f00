//! `syncline check`: whether model, database and deployment agree.

use crate::args::CheckOptions;
use crate::claims;
use crate::config::Config;
use crate::scripts::files;
use consolidated::{Administration, Finding, Severity};
use model::{Code, Failure};
use serde_json::{Value, json};
use std::path::Path;
use terminal::output;

/// Prints what was found; fails if any of it is an error.
pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let findings = match find(options) {
        Err(failure) if options.json => {
            let finding = Finding {
                severity: Severity::Error,
                table: failure.table_name().map(str::to_owned),
                message: format!("{}; {}", failure.full_message(), failure.hint_text()),
            };
            let (found, error) = (vec![to_json(&finding)], output::failure_json(&failure));
            output::json(&json!({ "errors": 1, "findings": found, "error": error }))?;
            return Err(failure);
        }
        found => found?,
    };
    report(&findings, options)
}

fn find(options: &CheckOptions) -> Result<Vec<Finding>, Failure> {
    let config = Config::read(&options.dir.dir)?;
    let models = files::models(&config)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    let mut findings = admin.check(&models)?;
    findings.extend(claim_findings(admin.as_mut(), &config)?);
    findings.extend(certificate_finding(&config, &options.dir.dir)?);
    Ok(findings)
}

fn report(findings: &[Finding], options: &CheckOptions) -> Result<(), Failure> {
    let errors = findings.iter().filter(|one| one.severity == Severity::Error).count() as u64;
    if options.json {
        let found: Vec<Value> = findings.iter().map(to_json).collect();
        output::json(&json!({ "errors": errors, "findings": found }))?;
    } else {
        for finding in findings {
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

/// Claims that no model uses, of users or of JWTs, and users without a claim that a model uses.
fn claim_findings(
    admin: &mut dyn Administration,
    config: &Config,
) -> Result<Vec<Finding>, Failure> {
    let (used, users) = (claims::used(&admin.scripts()?), admin.users()?);
    let of_jwts = config.server.meaning().jwt.claims.into_iter();
    let of_jwts = of_jwts.filter(|claim| !used.contains(claim));
    let of_jwts = of_jwts
        .map(|claim| format!("jwt_claims names the claim {claim}, which no deployed model uses"));
    let unused = users.iter().flat_map(|user| claims::unused(&used, &user.name, &user.claims));
    let missing = used.iter().filter_map(|claim| {
        let without = users.iter().filter(|user| !user.claims.contains_key(claim));
        let names: Vec<_> = without.map(|user| &user.name).collect();
        (!names.is_empty()).then(|| claims::missing_at(claim, &names))
    });
    let notice = |message| Finding { severity: Severity::Notice, table: None, message };
    Ok(unused.chain(of_jwts).chain(missing).map(notice).collect())
}

/// A certificate that cannot be used, or ends soon.
fn certificate_finding(config: &Config, dir: &Path) -> Result<Option<Finding>, Failure> {
    let named = (&config.server.tls_certificate, &config.server.tls_key);
    let (Some(certificate), Some(key)) = named else { return Ok(None) };
    let clock = client::Components::system(&std::env::temp_dir())?.clock;
    let ends = certificates::read_own(&dir.join(certificate), &dir.join(key))
        .and_then(|own| own.cert.first().map_or(Ok(i64::MAX), certificates::ends_unix_s));
    let (severity, failure) = match ends {
        Ok(ends) => match certificates::ending(ends, clock.unix_ms().div_euclid(1000)) {
            Some(ending) => (Severity::Notice, ending),
            None => return Ok(None),
        },
        Err(unusable) => (Severity::Error, unusable),
    };
    let message = format!("{}: {}", failure.code(), failure.full_message());
    Ok(Some(Finding { severity, table: None, message }))
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
