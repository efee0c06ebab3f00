//! Prints what a synchronization did.

use super::silent_triggers;
use super::summary::Summary;
use crate::args::SyncOptions;
use crate::remote::left_behind;
use client::{Authentication, Report};
use model::Failure;
use terminal::output;

/// Prints what a synchronization did.
pub(super) fn told(
    report: &Report,
    options: &SyncOptions,
    summary: &mut Summary,
) -> Result<(), Failure> {
    summary.succeeded(report);
    if report.took_new_identity {
        output::notice(&format!(
            "this file is a copy of another remote; it is remote {} from now on",
            report.remote_id
        ));
    }
    if let Some(warning) = report.authentication.as_deref().and_then(warning) {
        output::warning(&warning);
    }
    for waiting in &report.waiting {
        output::warning(&format!(
            "table {} was left out, and what is pending for it stays here: {}",
            waiting.table, waiting.message
        ));
    }
    left_behind::warn(&report.left_behind);
    silent_triggers::warn(&report.silent_triggers);
    for table in &report.no_longer_published {
        output::warning(&output::one_line(&format!(
            "table {table} is no longer published: its rows stay here, and what is written into it \
             is not uploaded"
        )));
    }
    if options.json {
        output::json(&summary.to_json())
    } else if options.ping {
        output::line(&output::one_line(&format!(
            "the server answers and accepts user {} ({} ms)",
            report.user, summary.duration_ms
        )))
    } else {
        output::line(&output::one_line(&summary.to_text(&options.file)))
    }
}

/// What the user should know of the password; none where all is well.
fn warning(authentication: &Authentication) -> Option<String> {
    const DAY_S: u64 = 24 * 60 * 60;
    if authentication.status < Authentication::EXPIRES_SOON {
        return None;
    }
    let when = match authentication.expires_in_s {
        None => "soon".to_owned(),
        Some(seconds) if seconds < DAY_S => "within a day".to_owned(),
        Some(seconds) => format!("in {}", output::counted(seconds / DAY_S, "day")),
    };
    let words = authentication.message.as_ref().map(|words| format!(": {words}"));
    let words = words.unwrap_or_else(|| "; change it with --new-password-file".to_owned());
    Some(output::one_line(&format!("the password expires {when}{words}")))
}
