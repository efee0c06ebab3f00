//! The question before a command that takes something away.

use crate::output;
use model::{Code, Failure};
use std::io::{self, IsTerminal};

/// Whether the user wants what the command will do. `will` is a sentence that says it.
///
/// With `yes` it is done without a question. A terminal is asked, and no answer is a no. Where
/// there is none, [`Code::NotConfirmed`].
pub fn confirmed(yes: bool, will: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!("nothing was changed, because --yes is missing: {will}");
        return Err(Failure::new(Code::NotConfirmed, message));
    }
    output::question(&format!("{will}. Continue? [y/N]"));
    let mut answer = String::new();
    let answered = io::stdin().read_line(&mut answer).is_ok();
    let wanted = answered && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if !wanted {
        output::notice("nothing was changed");
    }
    Ok(wanted)
}
