//! `syncline undeploy`: removes everything Syncline created from the consolidated database.

use crate::args::UndeployOptions;
use crate::config::Config;
use model::Failure;
use std::io::{self, IsTerminal};
use terminal::output::{self, counted};

/// Removes every object; the user's tables and rows stay.
pub(crate) fn run(options: &UndeployOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    if !options.yes && io::stdin().is_terminal() && !confirmed(&config) {
        return output::line("nothing was changed");
    }
    let undeployment = admin.undeploy()?;
    match undeployment.statements.len() as u64 {
        0 => output::line("nothing to do: the database has no object of Syncline")?,
        count => output::line(&format!(
            "removed every object of Syncline from {} by {}",
            config.consolidated,
            counted(count, "statement")
        ))?,
    }
    for left in &undeployment.left {
        output::line(&format!("notice: {}", output::one_line(left)))?;
    }
    Ok(())
}

/// Asks on the terminal. Scripts have none, and are not asked. No answer is a no.
fn confirmed(config: &Config) -> bool {
    output::question(&format!(
        "{}: users, conflicts, rejects and the state of all remotes are removed, and every remote \
         must start over. Your own tables stay. Continue? [y/N]",
        config.consolidated
    ));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok()
        && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}
