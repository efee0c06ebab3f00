//! `syncline check`: whether model, database and deployment agree.

mod surroundings;

use crate::args::CheckOptions;
use crate::claims;
use crate::config::Config;
use crate::scripts::files;
use consolidated::{Administration, Difference, Disagreement, Finding, Severity};
use model::{Code, Failure};
use serde_json::{Value, json};
use server::ClientCertificates;
use std::path::Path;
use terminal::output;

/// Prints what was found; fails if any of it is an error.
pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let failed = find(options, &mut findings).err();
    report(&findings, failed, options)
}

/// Adds what it finds. What fails on the way does not keep the rest from being found, as far as
/// that needs nothing of it.
fn find(options: &CheckOptions, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let now_unix_s =
        client::Components::system(&std::env::temp_dir())?.clock.unix_ms().div_euclid(1000);
    findings.extend(surroundings::of_files(&config.consolidated));
    findings.extend(
        config.server.spill_dir.iter().flat_map(|dir| surroundings::of_spill(Path::new(dir))),
    );
    let tls = [certificate_finding, authority_finding];
    findings.extend(tls.iter().flat_map(|find| find(&config, &options.dir.dir, now_unix_s)));
    let models = files::models(&config)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    match admin.check(&models) {
        Ok(found) => findings.extend(found),
        Err(failure) => {
            // Without a deployment nothing differs from it.
            let differences = admin.differences(&models).unwrap_or_default();
            let told = |table: &str| {
                let mut all = std::iter::once(&failure).chain(failure.others());
                all.any(|it| it.table_name() == Some(table))
            };
            let untold = differences.iter().filter(|it| it.column.is_some() || !told(&it.table));
            findings.extend(untold.map(differing));
            return Err(failure);
        }
    }
    findings.extend(claim_findings(admin.as_mut(), &config)?);
    findings.extend(surroundings::of_clock(now_unix_s, admin.as_mut())?);
    Ok(())
}

/// A difference that keeps the models from being planned, or may do so.
fn differing(difference: &Difference) -> Finding {
    let severity = match difference.what {
        Disagreement::NotPublished => Severity::Notice,
        _ => Severity::Error,
    };
    Finding { severity, table: None, message: difference.to_string() }
}

fn report(
    findings: &[Finding],
    failed: Option<Failure>,
    options: &CheckOptions,
) -> Result<(), Failure> {
    let is_error = |one: &&Finding| one.severity == Severity::Error;
    let errors = findings.iter().filter(is_error).count() as u64;
    if options.json {
        let of_failure = failed.as_ref().map(Finding::of).unwrap_or_default();
        let errors = errors + of_failure.len() as u64;
        let found: Vec<Value> = of_failure.iter().chain(findings).map(to_json).collect();
        let mut told = json!({ "errors": errors, "findings": found });
        if let Some(failure) = &failed {
            told["error"] = output::failure_json(failure);
        }
        output::json(&told)?;
    } else {
        for finding in findings {
            output::line(&output::one_line(&to_text(finding)))?;
        }
    }
    match (failed, errors) {
        (Some(failure), _) => Err(failure),
        (None, 0) if options.json => Ok(()),
        (None, 0) => output::line("model, database and deployment agree"),
        (None, _) => {
            Err(Failure::new(Code::Drift, format!("{} found", output::counted(errors, "error")))
                .hint("correct them, then run `syncline deploy`"))
        }
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
fn certificate_finding(config: &Config, dir: &Path, now_unix_s: i64) -> Option<Finding> {
    let named = (&config.server.tls_certificate, &config.server.tls_key);
    let (Some(certificate), Some(key)) = named else { return None };
    let ends = certificates::read_own(&dir.join(certificate), &dir.join(key))
        .and_then(|own| own.cert.first().map_or(Ok(i64::MAX), certificates::ends_unix_s));
    ending("the certificate of the server", ends, now_unix_s)
}

/// Authorities of remotes that cannot be read, or of which one ends soon.
fn authority_finding(config: &Config, dir: &Path, now_unix_s: i64) -> Option<Finding> {
    // Where no remote is asked for a certificate, the server does not read the file.
    let tls = config.server.meaning().tls;
    let path = dir.join(tls.client_ca.filter(|_| tls.client != ClientCertificates::Off)?);
    let ends = certificates::read_roots(&path).and_then(|_| {
        let ends: Result<Vec<i64>, Failure> =
            certificates::read_chain(&path)?.iter().map(certificates::ends_unix_s).collect();
        Ok(ends?.into_iter().min().unwrap_or(i64::MAX))
    });
    ending(&format!("an authority in {}", path.display()), ends, now_unix_s)
}

/// What cannot be used, or ends then.
fn ending(what: &str, ends: Result<i64, Failure>, now_unix_s: i64) -> Option<Finding> {
    let (severity, failure) = match ends {
        Ok(ends) => (Severity::Notice, certificates::ending(what, ends, now_unix_s)?),
        Err(unusable) => (Severity::Error, unusable),
    };
    let (code, hint) = (failure.code(), failure.hint_text());
    let message = format!("{code}: {}; {hint}", failure.full_message());
    Some(Finding { severity, table: None, message })
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
