//! `syncline undeploy`: removes everything Syncline created from the consolidated database.

use crate::args::UndeployOptions;
use crate::config::Config;
use crate::deploy::print_statements;
use consolidated::Undeployment;
use model::Failure;
use serde_json::{Value, json};
use terminal::confirm::confirmed;
use terminal::output::{self, counted};

/// Removes every object; the user's tables and rows stay.
pub(crate) fn run(options: &UndeployOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    let planned = admin.undeploy(true)?.statements;
    let (dry_run, json) = (options.consent.dry_run, options.json);
    if planned.is_empty() {
        let nothing = "nothing to do: the database has no object of Syncline";
        return match (json, dry_run) {
            (true, true) => output::json(&json!({ "dry_run": nothing, "statements": planned })),
            (true, false) => output::json(&json_of(&Undeployment::default())),
            (false, true) => output::line(&format!("-- {nothing}")),
            (false, false) => output::line(nothing),
        };
    }
    if dry_run && !json {
        return print_statements(&planned);
    }
    // Also what somebody has half removed by hand can be removed.
    let remotes = match admin.remotes(None) {
        Ok(remotes) => counted(remotes.len() as u64, "remote"),
        Err(_) => "all remotes".to_owned(),
    };
    let will = format!(
        "undeploy removes from {} all that Syncline created, by {}: users, conflicts, rejects and \
         the state of {remotes}, which must all start over. Your own tables and rows stay",
        config.consolidated,
        counted(planned.len() as u64, "statement"),
    );
    if dry_run {
        return output::json(&json!({ "dry_run": will, "statements": planned }));
    }
    if !confirmed(options.consent.yes, &will)? {
        return Ok(());
    }
    let undeployment = admin.undeploy(false)?;
    if json {
        return output::json(&json_of(&undeployment));
    }
    output::line(&format!(
        "removed every object of Syncline from {} by {}",
        config.consolidated,
        counted(undeployment.statements.len() as u64, "statement")
    ))?;
    for left in &undeployment.left {
        output::line(&format!("notice: {}", output::one_line(left)))?;
    }
    Ok(())
}

fn json_of(undeployment: &Undeployment) -> Value {
    let Undeployment { statements, left } = undeployment;
    json!({ "undeployed": true, "statements": statements, "left": left })
}
