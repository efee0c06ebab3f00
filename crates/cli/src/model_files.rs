//! `syncline model`: extends edited models, and compares them with database and deployment.

use crate::args::{Dir, ModelAction, ModelOptions};
use crate::config::Config;
use crate::scripts::files;
use consolidated::{Difference, Disagreement, SyncModel};
use model::{Code, Failure};
use std::fs;
use terminal::output;

/// Does what was asked with the models.
pub(crate) fn run(options: &ModelOptions) -> Result<(), Failure> {
    match &options.action {
        ModelAction::Add(dir) => add(dir),
        ModelAction::Diff { dir, json } => diff(dir, *json),
    }
}

fn diff(dir: &Dir, json: bool) -> Result<(), Failure> {
    let config = Config::read(&dir.dir)?;
    let models = files::models(&config)?;
    let differences = consolidated::administer(&config.consolidated)?.differences(&models)?;
    if json {
        return output::json(&serde_json::json!(differences));
    }
    for difference in &differences {
        output::line(&output::one_line(&format!("{}: {difference}", difference.script_version)))?;
    }
    match differences.is_empty() {
        true => output::line("tables and columns of model, database and deployment agree"),
        false => Ok(()),
    }
}

/// Adds what is new to every model.
fn add(dir: &Dir) -> Result<(), Failure> {
    let config = Config::read(&dir.dir)?;
    let mut admin = consolidated::administer(&config.consolidated)?;
    let mut count = 0;
    for (path, model) in config.models.iter().zip(files::models(&config)?) {
        let differences = admin.differences(std::slice::from_ref(&model))?;
        let new: Vec<Difference> = { differences }
            .into_iter()
            .filter(|difference| difference.what == Disagreement::NotPublished)
            .collect();
        if new.is_empty() {
            continue;
        }
        let unreadable = |error| {
            let message = format!("cannot read {}", path.display());
            Failure::new(Code::ConfigUnreadable, message).source(error)
        };
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let extended = consolidated::extend(&text, &new)?;
        // What cannot be read must not take the place of what can.
        let extended_model = SyncModel::parse(&extended, &path.display().to_string())?;
        fs::write(path, &extended).map_err(|error| {
            let message = format!("cannot write {}", path.display());
            Failure::new(Code::CannotWrite, message).source(error)
        })?;
        for added in &new {
            let what = match &added.column {
                Some(column) => format!("column {column} of table {}", added.table),
                None => format!("table {}", added.table),
            };
            output::line(&output::one_line(&format!("{}: added {what}", path.display())))?;
        }
        for added in new.iter().filter(|added| added.column.is_none()) {
            let published = |names: &Vec<String>| names.contains(&added.table);
            if !extended_model.publications.values().any(published) {
                output::warning(&format!("table {} is in no publication", added.table));
            }
        }
        count += new.len();
    }
    match count {
        0 => output::line("nothing to add: the models publish what the database has"),
        _ => output::line("next: look at it, then `syncline deploy`"),
    }
}
