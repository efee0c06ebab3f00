//! `syncline scripts`: the SQL that runs at the consolidated database.

pub(crate) mod files;

use crate::args::{CheckScriptsOptions, Dir, ExportOptions, ScriptsAction, ScriptsOptions};
use crate::config::Config;
use consolidated::{Detection, Event, PlannedScript, TableConflicts, Way};
use model::{Code, Failure};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use terminal::output;

/// Does what was asked with scripts.
pub(crate) fn run(options: &ScriptsOptions) -> Result<(), Failure> {
    match &options.action {
        ScriptsAction::Show { dir, json } => show(dir, *json),
        ScriptsAction::Export(options) => export(options),
        ScriptsAction::Check(options) => check(options),
    }
}

/// Prints publications and scripts; headings are SQL comments, so that the whole is SQL.
fn show(dir: &Dir, json: bool) -> Result<(), Failure> {
    let mut admin = consolidated::administer(&Config::read(&dir.dir)?.consolidated)?;
    let (scripts, publications) = (admin.scripts()?, admin.publications()?);
    if json {
        let publications = publications.iter().map(|(version, publication, tables)| {
            json!({ "script_version": version, "publication": publication, "tables": tables })
        });
        let scripts = scripts.iter().map(|script| {
            json!({
                "script_version": script.script_version, "table": script.table,
                "event": script.event.name(), "own": script.own, "script": script.script,
            })
        });
        let (publications, scripts): (Value, Value) = (publications.collect(), scripts.collect());
        return output::json(&json!({ "publications": publications, "scripts": scripts }));
    }
    for (version, publication, tables) in publications {
        let tables = tables.join(", ");
        output::line(&output::one_line(&format!(
            "-- script version {version}, publication {publication}: {tables}"
        )))?;
    }
    for script in &scripts {
        let heading = format!(
            "-- script version {}{}, event {}{}",
            script.script_version,
            of_table(&script.table),
            script.event.name(),
            if script.own { ", yours" } else { "" }
        );
        output::line(&format!("\n{}\n{}", output::one_line(&heading), script.script.trim_end()))?;
    }
    if scripts.is_empty() {
        output::line("-- no scripts are deployed")?;
    }
    Ok(())
}

fn of_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!(", table {table}") }
}

/// Writes what the models generate, for people to change.
fn export(options: &ExportOptions) -> Result<(), Failure> {
    let dir = &options.dir.dir;
    let event = options.event.as_deref().map(known_event).transpose()?;
    let wanted = |script: &&PlannedScript| {
        options.table.as_ref().is_none_or(|table| script.table.eq_ignore_ascii_case(table))
            && event.is_none_or(|event| script.event == event)
    };
    let (mut written, mut kept) = (0, 0);
    for script in planned(dir)?.scripts.iter().filter(wanted) {
        let Some(text) = &script.exported else { continue };
        let path = files::path(dir, &script.script_version, &script.table, script.event);
        if path.exists() && !options.force {
            output::notice(&format!("{} is there already", files::shown(&path)));
            kept += 1;
            continue;
        }
        write(&path, text)?;
        output::line(&files::shown(&path))?;
        written += 1;
    }
    match written + kept {
        0 => Err(Failure::new(Code::ModelMismatch, "no model generates such a script")
            .hint("`syncline scripts check` lists all scripts")),
        _ if kept > 0 => {
            output::notice("give --force to overwrite what is there");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn known_event(name: &str) -> Result<Event, Failure> {
    Event::from_name(name).filter(|event| event.may_be_own()).ok_or_else(|| {
        Failure::new(Code::ModelMismatch, format!("{name} is no event that a user can write"))
            .hint(files::events())
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).and_then(|()| fs::write(path, text)).map_err(|error| {
        Failure::new(Code::CannotWrite, format!("cannot write {}", files::shown(path)))
            .source(error)
    })
}

fn planned(dir: &Path) -> Result<consolidated::PlannedScripts, Failure> {
    let config = Config::read(dir)?;
    consolidated::administer(&config.consolidated)?.planned_scripts(&files::models(&config)?)
}

/// Lists the scripts that users can write, with where each comes from and how it runs.
fn check(options: &CheckScriptsOptions) -> Result<(), Failure> {
    let planned = planned(&options.dir.dir)?;
    if options.json {
        let scripts: Vec<Value> = planned.scripts.iter().map(to_json).collect();
        let conflicts: Vec<Value> = planned.conflicts.iter().map(conflicts_to_json).collect();
        output::json(&json!({
            "scripts": scripts,
            "conflicts": conflicts,
            "mistakes": planned.mistakes,
        }))?;
    } else {
        for script in &planned.scripts {
            output::line(&output::one_line(&to_text(script)))?;
        }
        for table in &planned.conflicts {
            output::line(&output::one_line(&conflicts_to_text(table)))?;
        }
    }
    planned.require_right()
}

fn origin(script: &PlannedScript) -> &'static str {
    if script.file.is_some() { "own" } else { "generated" }
}

fn to_text(script: &PlannedScript) -> String {
    let PlannedScript { script_version, table, event, way, .. } = script;
    let outdated = match script.outdated {
        true => " over a generated one that has changed since",
        false => "",
    };
    let way = way.map_or("see below".to_owned(), |way| format!("{}: {}", way.name(), way.reason()));
    let table = if table.is_empty() { String::new() } else { format!("{table} ") };
    format!("{script_version} {table}{event}: {}{outdated}, {way}", origin(script))
}

fn conflicts_to_text(table: &TableConflicts) -> String {
    let TableConflicts { script_version, table, detection, rule } = table;
    let (what, decides) = match detection {
        Some(detection) => (detection.told(), "scripts decide"),
        None => ("a row that is not as the remote saw it", rule.as_str()),
    };
    format!("{script_version} {table} conflicts: {what}; {decides}")
}

fn conflicts_to_json(table: &TableConflicts) -> Value {
    json!({
        "script_version": table.script_version.as_str(),
        "table": table.table,
        "detection": table.detection.map_or("rule", Detection::name),
        "rule": table.rule,
    })
}

fn to_json(script: &PlannedScript) -> Value {
    json!({
        "script_version": script.script_version.as_str(),
        "table": script.table,
        "event": script.event.name(),
        "origin": origin(script),
        "file": script.file,
        "outdated": script.outdated,
        "way": script.way.map(Way::name),
        "reason": script.way.map(Way::reason),
    })
}
