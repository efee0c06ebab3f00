//! The scripts that users can write, as the next deployment would have them, for people.

use super::{PlannedScript, PlannedScripts, TableConflicts, Way};
use crate::deploy::own::{TableScript, exported};
use crate::deploy::{Plan, Schema};
use crate::script::Event;
use model::{Failure, PublishedTable};

/// Those of `plan`.
pub(super) fn scripts<S: Schema>(plan: Plan<S>) -> Result<PlannedScripts, Failure> {
    let (mut scripts, mut conflicts) = (Vec::new(), Vec::new());
    for version in &plan.versions {
        for script in &version.scripts {
            scripts.push(PlannedScript {
                script_version: version.script_version.clone(),
                table: String::new(),
                event: script.event,
                exported: None,
                file: script.file.clone(),
                outdated: false,
                way: Some(if script.is_ignored() { Way::Ignored } else { Way::AtEvent }),
            });
        }
        for table in &version.tables {
            conflicts.extend(table.published.direction.uploads().then(|| TableConflicts {
                script_version: version.script_version.clone(),
                table: table.published.name.clone(),
                detection: table.detection,
                rule: table.conflict_rule.clone(),
            }));
            for event in Event::own_of_tables() {
                let generated = table.generated.iter().find(|(of, _)| *of == event);
                let generated = generated.map(|(_, text)| text.as_str());
                let in_force = table.scripts.iter().find(|script| script.event == event);
                if generated.is_none() && in_force.is_none() {
                    continue;
                }
                let own = in_force.filter(|script| script.is_own());
                scripts.push(PlannedScript {
                    script_version: version.script_version.clone(),
                    table: table.published.name.clone(),
                    event,
                    exported: generated.map(exported),
                    file: own.and_then(|script| script.file.clone()),
                    outdated: own.zip(generated).is_some_and(|(own, text)| own.is_outdated(text)),
                    way: in_force.map(|it| way::<S>(it, &table.published)).transpose()?,
                });
            }
        }
    }
    Ok(PlannedScripts { scripts, conflicts, mistakes: plan.mistakes })
}

fn way<S: Schema>(script: &TableScript, table: &PublishedTable) -> Result<Way, Failure> {
    if script.is_ignored() {
        return Ok(Way::Ignored);
    }
    if script.event.is_around() {
        return Ok(Way::AtEvent);
    }
    if !script.event.is_upload() {
        return Ok(Way::Once);
    }
    let parsed = script.parse(table)?;
    Ok(match parsed.statements().any(|one| one.batch().is_some()) {
        true => Way::Set,
        false if S::SENDS_ROWS_TOGETHER => Way::Together,
        false => Way::RowByRow,
    })
}
