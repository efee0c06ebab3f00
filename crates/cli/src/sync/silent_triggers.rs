//! Triggers of an application that do not fire for downloaded rows, for people and for programs.

use client::SilentTrigger;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use terminal::output;

/// What to do where the model does not let them fire.
const HINT: &str = "write remote_triggers = \"fire\" for the table in the model, or rebuild after \
                    each sync what they keep, such as an index";

/// Warns of them, table by table.
pub(super) fn warn(silent: &[SilentTrigger]) {
    for (table, triggers) in off(silent) {
        output::warning(&output::one_line(&format!(
            "triggers on table {table} do not fire for downloaded rows: {}; {HINT}",
            triggers.join(", ")
        )));
    }
    for SilentTrigger { table, trigger, why } in silent {
        if let Some(why) = why {
            output::warning(&output::one_line(&format!(
                "trigger {trigger} on table {table} does not fire for downloaded rows: {why}"
            )));
        }
    }
}

/// Those that the model does not let fire, by table.
fn off(silent: &[SilentTrigger]) -> BTreeMap<&str, Vec<&str>> {
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for SilentTrigger { table, trigger, .. } in silent.iter().filter(|it| it.why.is_none()) {
        tables.entry(table).or_default().push(trigger);
    }
    tables
}

/// The same; nothing where there are none.
pub(super) fn json(silent: &[SilentTrigger]) -> Option<Value> {
    let triggers = silent.iter().map(|SilentTrigger { table, trigger, why }| {
        let hint = why.is_none().then_some(HINT);
        json!({ "table": table, "trigger": trigger, "why": why, "hint": hint })
    });
    (!silent.is_empty()).then(|| json!(triggers.collect::<Vec<_>>()))
}
