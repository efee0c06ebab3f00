//! Ctrl-C while one synchronization or comparison runs.

use super::progress;
use model::{Code, Failure};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::thread;
use terminal::output;

/// What a shell says of a program that SIGINT has ended.
pub(crate) const INTERRUPTED: i32 = 130;

/// From now on SIGINT ends the program at once, as ever, and says `what` becomes of the rows. The
/// remote and the server are prepared for an end at any moment.
pub(crate) fn tell(what: &'static str) -> Result<(), Failure> {
    let failed =
        |error| Failure::new(Code::Bug, "cannot receive signals of the system").source(error);
    let mut signals = Signals::new([SIGINT]).map_err(failed)?;
    let waiting = move || {
        if signals.forever().next().is_some() {
            let _line = progress::stopped();
            output::notice(&format!("interrupted: {what}"));
            low_level::exit(INTERRUPTED);
        }
    };
    thread::Builder::new().name("interruption".to_owned()).spawn(waiting).map_err(failed)?;
    Ok(())
}
