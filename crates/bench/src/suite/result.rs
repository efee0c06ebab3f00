//! The result of a run, which it has written to its file.

use super::plan::Run;
use crate::figures::settings;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The result in a file, if that is complete and of exactly this run.
pub(super) fn result_of(file: &Path, run: &Run) -> Option<Value> {
    let json = read_json(file)?;
    let is_complete = json["rows_per_second"].is_number() && json["error"].is_null();
    (is_complete && settings::are_those_of(&json, &run.options)).then_some(json)
}

/// What is in a file, whatever run wrote it.
pub(super) fn read_json(file: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}
