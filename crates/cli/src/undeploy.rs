//! `syncline undeploy`: removes everything Syncline created from the consolidated database.

use crate::args::UndeployOptions;
use crate::config::Config;
use crate::output;
use model::Failure;

/// Removes every object; the user's tables and rows stay.
pub(crate) fn run(options: &UndeployOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let statements = consolidated::administer(&config.consolidated)?.undeploy()?;
    match statements.len() as u64 {
        0 => output::line("nothing to do: the database has no object of Syncline"),
        count => output::line(&format!(
            "removed every object of Syncline from {} by {}",
            config.consolidated,
            output::counted(count, "statement")
        )),
    }
}
