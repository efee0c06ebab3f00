//! The progress of a run or a suite: a bar on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Failure;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Steps around the timed sets: prepare, first synchronization, rows, comparison, baseline.
const OTHER_STEPS: u64 = 5;

/// How often the bar shows that the program lives.
const TICK: Duration = Duration::from_millis(100);

/// The steps of a run. Dropping it clears the line.
pub(crate) struct Steps(Option<ProgressBar>);

impl Steps {
    /// A bar on standard error, if that is a terminal.
    pub(crate) fn new(sets: u32) -> Steps {
        Steps(bar(u64::from(sets) + OTHER_STEPS, "{spinner} {bar:30} {msg}"))
    }

    /// The next step begins.
    pub(crate) fn next(&self, what: impl Into<String>) {
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

/// The runs of a suite. Dropping it clears the line.
pub(crate) struct SuiteSteps(Option<ProgressBar>);

impl SuiteSteps {
    /// A bar on standard error, if that is a terminal.
    pub(crate) fn new(runs: u64) -> SuiteSteps {
        SuiteSteps(bar(runs, "{spinner} {bar:30} {pos} of {len}: {msg} ({elapsed})"))
    }

    /// The next run begins.
    pub(crate) fn next(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
            bar.set_message(what);
        }
    }

    /// Prints something without disturbing the bar.
    pub(crate) fn told(&self, print: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for SuiteSteps {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: u64, template: &str) -> Option<ProgressBar> {
    io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        bar.set_style(style);
        bar.enable_steady_tick(TICK);
        bar
    })
}
