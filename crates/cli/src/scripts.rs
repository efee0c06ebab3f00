//! `syncline scripts`: the deployed SQL that runs at the consolidated database.

use crate::args::{ScriptsAction, ScriptsOptions};
use crate::config::Config;
use model::Failure;
use terminal::output;

/// Does what was asked with scripts.
pub(crate) fn run(options: &ScriptsOptions) -> Result<(), Failure> {
    match &options.action {
        ScriptsAction::Show(dir) => show(&Config::read(&dir.dir)?),
    }
}

/// Prints publications and scripts; headings are SQL comments, so that the whole is SQL.
fn show(config: &Config) -> Result<(), Failure> {
    let mut admin = consolidated::administer(&config.consolidated)?;
    let scripts = admin.scripts()?;
    for (version, publication, tables) in admin.publications()? {
        let tables = tables.join(", ");
        output::line(&output::one_line(&format!(
            "-- script version {version}, publication {publication}: {tables}"
        )))?;
    }
    for script in &scripts {
        let heading = format!(
            "-- script version {}, table {}, event {}",
            script.script_version,
            script.table,
            script.event.name()
        );
        output::line(&format!("\n{}\n{}", output::one_line(&heading), script.script.trim_end()))?;
    }
    if scripts.is_empty() {
        output::line("-- no scripts are deployed")?;
    }
    Ok(())
}
