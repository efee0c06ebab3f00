//! The progress bar of a synchronization, only on a terminal.

use client::Step;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use terminal::output;

/// Before, nobody can say how fast it is and how long it takes.
const TIME_LEFT_AFTER: Duration = Duration::from_secs(2);

/// Held while the line is drawn.
static LINE: Mutex<()> = Mutex::new(());

/// Lets nothing be drawn as long as the guard is there, and clears the line.
pub(super) fn stopped() -> MutexGuard<'static, ()> {
    let line = line();
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // What cannot be cleared is no reason to go on.
        let _ = stderr.write_all(b"\r\x1b[2K");
    }
    line
}

fn line() -> MutexGuard<'static, ()> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows how far a synchronization is. Dropping it clears the line.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// What is filled now, and how old the bar was when that began.
    filling: Option<(&'static str, Duration)>,
}

impl Progress {
    /// A bar on standard error, if that is a terminal.
    pub(crate) fn new() -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(spinner())
        });
        Progress { bar, filling: None }
    }

    /// Shows this step.
    pub(crate) fn show(&mut self, step: &Step) {
        if let Step::Retrying { failure } = step {
            self.clear();
            output::notice(&format!("{failure}; synchronizing once more"));
        }
        let Some(bar) = self.bar.clone() else { return };
        let (bar, _line) = (&bar, line());
        match step {
            Step::Connecting => spin(bar, "connecting".to_owned()),
            Step::Uploading { rows_done, rows_total } => {
                self.fill(bar, "uploading", *rows_done, *rows_total);
            }
            Step::Waiting => spin(bar, "waiting for the server".to_owned()),
            Step::Downloading { rows, rows_total: Some(total) } if rows <= total => {
                self.fill(bar, "downloading", *rows, *total);
            }
            Step::Downloading { rows, .. } => {
                spin(bar, format!("downloading, {} rows", HumanCount(*rows)));
            }
            Step::Resuming { rows, .. } => {
                let rows = HumanCount(*rows);
                spin(bar, format!("going on behind {rows} rows of a download that was cut"));
            }
            Step::Applying { rows_done, rows_total } => {
                self.fill(bar, "applying", *rows_done, *rows_total);
            }
            Step::Retrying { .. } | Step::PasswordChanged => {}
        }
    }

    fn fill(&mut self, bar: &ProgressBar, message: &'static str, done: u64, total: u64) {
        if total == 0 {
            return spin(bar, message.to_owned());
        }
        let began = match self.filling {
            Some((filling, began)) if filling == message => began,
            _ => {
                bar.reset_eta();
                self.filling = Some((message, bar.elapsed()));
                bar.elapsed()
            }
        };
        bar.set_style(filling(bar.elapsed().saturating_sub(began) >= TIME_LEFT_AFTER));
        bar.set_length(total);
        bar.set_message(message);
        bar.set_position(done);
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            let _line = line();
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

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg}").unwrap_or(ProgressStyle::default_spinner())
}

fn filling(with_time_left: bool) -> ProgressStyle {
    let template = match with_time_left {
        true => "{msg:11} {bar:20} {human_pos}/{human_len} rows, {rate}/s, {eta} left",
        false => "{msg:11} {bar:30} {human_pos}/{human_len} rows",
    };
    let rate = |state: &ProgressState, text: &mut dyn fmt::Write| {
        // A terminal that takes no text has no use for an error either.
        let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
    };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    style.with_key("rate", rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::sync::Arc;

    /// A terminal on which everything that is written stays.
    #[derive(Debug, Clone, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn counts_have_separators_and_the_time_left_comes_after_two_seconds() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(None, target).with_elapsed(TIME_LEFT_AFTER);
        let mut progress = Progress { bar: Some(bar), filling: None };
        let shown = |progress: &mut Progress, step: Step| {
            terminal.0.lock().unwrap().clear();
            progress.show(&step);
            terminal.0.lock().unwrap().clone()
        };
        let uploading = || Step::Uploading { rows_done: 1000, rows_total: 2_500_000 };
        let early = shown(&mut progress, uploading());
        assert!(early.contains("1,000/2,500,000 rows") && !early.contains("left"), "{early}");
        // As if it had begun with the bar, two seconds ago.
        progress.filling = Some(("uploading", Duration::ZERO));
        let late = shown(&mut progress, uploading());
        assert!(late.contains("1,000/2,500,000 rows, "), "{late}");
        assert!(late.contains("/s, ") && late.contains(" left"), "{late}");
        let applying = Step::Applying { rows_done: 1000, rows_total: 2_500_000 };
        let next = shown(&mut progress, applying);
        assert!(next.contains("applying") && !next.ends_with(" left"), "{next}");
        let unknown = Step::Downloading { rows: 1_234_567, rows_total: None };
        let unknown = shown(&mut progress, unknown);
        assert!(unknown.contains("downloading, 1,234,567 rows"), "{unknown}");
    }
}
