//! `syncline deploy`: puts system tables, tracking and scripts into the consolidated database.

use crate::args::{DeployOptions, with_dir};
use crate::config::Config;
use crate::scripts::files;
use model::Failure;
use serde_json::json;
use terminal::output;

/// Brings the database to what the models say, or prints what that would take.
pub(crate) fn run(options: &DeployOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let models = files::models(&config)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    let deployment = admin.deploy(&models, options.dry_run)?;

    if options.json {
        return output::json(&json!({
            "deployed": !options.dry_run,
            "statements": deployment.statements,
            "notices": deployment.notices,
        }));
    }
    if options.dry_run {
        for notice in &deployment.notices {
            // As comments, so that the whole output can be fed to a database.
            output::line(&format!("-- {}", output::one_line(notice)))?;
        }
        if deployment.statements.is_empty() {
            return output::line("-- nothing to do: the database matches the models");
        }
        return print_statements(&deployment.statements);
    }
    for notice in &deployment.notices {
        output::line(&format!("notice: {}", output::one_line(notice)))?;
    }
    match deployment.statements.len() as u64 {
        0 => output::line("nothing to do: the database matches the models"),
        count => {
            let next = "; next: `syncline user add NAME`, `syncline serve`";
            let next = match (admin.users()?.is_empty(), &options.dir.dir) {
                (true, dir) if dir.as_os_str() == "." => next.to_owned(),
                (true, dir) => with_dir(next, dir),
                (false, _) => String::new(),
            };
            let statements = output::counted(count, "statement");
            output::line(&format!("deployed to {} by {statements}{next}", config.consolidated))
        }
    }
}

/// Prints SQL that can be fed to a database.
pub(crate) fn print_statements(statements: &[String]) -> Result<(), Failure> {
    for statement in statements {
        let statement = statement.trim_end();
        let end = if statement.ends_with(';') { "" } else { ";" };
        output::line(&format!("{statement}{end}"))?;
    }
    Ok(())
}
