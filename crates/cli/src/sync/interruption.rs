//! Ctrl-C: what the program does when a signal asks it to end.

use super::progress;
use model::{Code, Failure};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{io, thread};
use terminal::output;

/// What a shell says of a program that SIGINT has ended.
pub(crate) const INTERRUPTED: i32 = 130;

fn failed(error: io::Error) -> Failure {
    Failure::new(Code::Bug, "cannot receive signals of the system").source(error)
}

/// Says when one of these signals has come. A second one ends the program at once, with this exit
/// code.
pub(crate) fn noted(signals: &[i32], exit_code: i32) -> Result<Arc<AtomicBool>, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in signals {
        flag::register_conditional_shutdown(*signal, exit_code, ended.clone()).map_err(failed)?;
        flag::register(*signal, ended.clone()).map_err(failed)?;
    }
    Ok(ended)
}

/// From now on SIGINT ends the program at once, as ever, and says `what` becomes of the rows. The
/// remote and the server are prepared for an end at any moment.
pub(crate) fn tell(what: &'static str) -> Result<(), Failure> {
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
