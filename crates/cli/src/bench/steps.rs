//! How far a run is: a bar on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Steps around the timed sets: prepare, first synchronization, rows, comparison, ceiling.
const OTHER_STEPS: u64 = 5;

/// How often the bar shows that the program lives.
const TICK: Duration = Duration::from_millis(100);

/// The steps of a run. Dropping it clears the line.
pub(super) struct Steps(Option<ProgressBar>);

impl Steps {
    /// A bar on standard error, if that is a terminal.
    pub(super) fn new(sets: u32) -> Steps {
        Steps(io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {bar:30} {msg}")
                .unwrap_or(ProgressStyle::default_bar());
            let length = Some(u64::from(sets) + OTHER_STEPS);
            let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
            bar.set_style(style);
            bar.enable_steady_tick(TICK);
            bar
        }))
    }

    /// The next step begins.
    pub(super) fn next(&self, what: impl Into<String>) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
            bar.set_message(what.into());
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
