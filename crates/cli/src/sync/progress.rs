//! The progress bar of a synchronization, only on a terminal.

use client::Step;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use terminal::output;

/// Shows how far a synchronization is. Dropping it clears the line.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar on standard error, if that is a terminal.
    pub(crate) fn new() -> Progress {
        Progress(io::stderr().is_terminal().then(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(spinner())
        }))
    }

    /// Shows this step.
    pub(crate) fn show(&mut self, step: &Step) {
        if let Step::Retrying { failure } = step {
            self.clear();
            output::notice(&format!("{failure}; synchronizing once more"));
        }
        let Some(bar) = &self.0 else { return };
        match step {
            Step::Connecting => spin(bar, "connecting".to_owned()),
            Step::Uploading { rows_done, rows_total } => {
                fill(bar, "uploading", *rows_done, *rows_total);
            }
            Step::Waiting => spin(bar, "waiting for the server".to_owned()),
            Step::Downloading { rows, rows_total: Some(total) } if rows <= total => {
                fill(bar, "downloading", *rows, *total);
            }
            Step::Downloading { rows, .. } => spin(bar, format!("downloading, {rows} rows")),
            Step::Resuming { rows, .. } => {
                spin(bar, format!("going on behind {rows} rows of a download that was cut"));
            }
            Step::Applying { rows_done, rows_total } => {
                fill(bar, "applying", *rows_done, *rows_total);
            }
            Step::Retrying { .. } | Step::PasswordChanged => {}
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn spin(bar: &ProgressBar, message: String) {
    bar.set_style(spinner());
    bar.set_message(message);
    bar.tick();
}

fn fill(bar: &ProgressBar, message: &'static str, done: u64, total: u64) {
    if total == 0 {
        return spin(bar, message.to_owned());
    }
    bar.set_style(filling());
    bar.set_length(total);
    bar.set_message(message);
    bar.set_position(done);
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg}").unwrap_or(ProgressStyle::default_spinner())
}

fn filling() -> ProgressStyle {
    ProgressStyle::with_template("{msg:11} {bar:30} {human_pos}/{human_len} rows {eta}")
        .unwrap_or(ProgressStyle::default_bar())
}
