//! Prints what a synchronization did.

use super::summary::Summary;
use crate::args::SyncOptions;
use client::Report;
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
    for waiting in &report.waiting {
        output::warning(&format!(
            "table {} was left out, and what is pending for it stays here: {}",
            waiting.table, waiting.message
        ));
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
