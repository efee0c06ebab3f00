//! The files of the scripts that users write.
//!
//! `scripts/VERSION/TABLE/EVENT.sql` below the folder of `syncline.toml`, and
//! `scripts/VERSION/EVENT.sql` for events that belong to no table. In the place of a version
//! `_all` stands for all of them; a version's own file goes before. What a file name cannot hold is
//! percent-encoded.

use crate::config::Config;
use consolidated::{Event, ScriptFile, SyncModel};
use model::{Code, Failure, ScriptVersion};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of all scripts.
const FOLDER: &str = "scripts";

/// Stands for all script versions.
const ALL: &str = "_all";

/// A file is read as a whole.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What some file system does not take in a name.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b'%')
    .add(b'/')
    .add(b'\\')
    .add(b':')
    .add(b'*')
    .add(b'?')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'|')
    .add(b' ');

/// Where the script of an event stands.
pub(super) fn path(dir: &Path, version: &ScriptVersion, table: &str, event: Event) -> PathBuf {
    let file = format!("{event}.sql");
    dir.join(FOLDER).join(encoded(version.as_str())).join(encoded(table)).join(file)
}

/// A name as that of a file. A name that would be hidden, or stand for all versions, is encoded
/// too.
fn encoded(name: &str) -> String {
    let text = utf8_percent_encode(name, ENCODED).to_string();
    match name {
        ALL => text.replacen('_', "%5F", 1),
        _ if name.starts_with('.') => text.replacen('.', "%2E", 1),
        _ => text,
    }
}

/// The sync models, with the scripts that the user wrote.
pub(crate) fn models(config: &Config) -> Result<Vec<SyncModel>, Failure> {
    let mut models = config.read_models()?;
    let folder = config.dir.join(FOLDER);
    if folder.is_dir() {
        add_to(&mut models, &folder)?;
    }
    Ok(models)
}

/// Adds the files below a folder to the models that they are for. A mistake is told by the
/// deployment, together with those inside the files.
pub(crate) fn add_to(models: &mut [SyncModel], folder: &Path) -> Result<(), Failure> {
    let mut found = Found::default();
    found.versions(folder)?;
    let known = |name: &String| models.iter().any(|model| model.script_version.as_str() == name);
    for version in found.own.keys().filter(|name| !known(name)) {
        let folder = shown(&folder.join(encoded(version)));
        found.mistakes.push(format!("{folder}: no model has the script version {version}"));
    }
    for model in models.iter_mut() {
        model.own_scripts.extend(found.for_all.clone());
        let own = found.own.remove(model.script_version.as_str());
        model.own_scripts.extend(own.unwrap_or_default());
    }
    if let Some(model) = models.first_mut() {
        model.misplaced_scripts = found.mistakes;
    }
    Ok(())
}

type Scripts = BTreeMap<(String, Event), ScriptFile>;

/// What a folder of scripts has.
#[derive(Default)]
struct Found {
    for_all: Scripts,
    own: BTreeMap<String, Scripts>,
    mistakes: Vec<String>,
}

impl Found {
    fn versions(&mut self, folder: &Path) -> Result<(), Failure> {
        for (entry, path) in entries(folder)? {
            if !path.is_dir() {
                self.misplaced(
                    &path,
                    "a script stands in VERSION/TABLE/EVENT.sql, or VERSION/EVENT.sql",
                );
                continue;
            }
            let Some(version) = self.decoded(&entry, &path) else { continue };
            let for_all = entry == ALL;
            let mut scripts = Scripts::new();
            for (entry, path) in entries(&path)? {
                if path.is_dir() {
                    let Some(table) = self.decoded(&entry, &path) else { continue };
                    self.table(&path, &table, for_all, &mut scripts)?;
                } else {
                    self.of_no_table(&entry, (&path, for_all), &mut scripts)?;
                }
            }
            match for_all {
                true => self.for_all = scripts,
                false => drop(self.own.insert(version, scripts)),
            }
        }
        Ok(())
    }

    fn table(
        &mut self,
        folder: &Path,
        table: &str,
        for_all: bool,
        scripts: &mut Scripts,
    ) -> Result<(), Failure> {
        for (entry, path) in entries(folder)? {
            if path.is_dir() {
                self.misplaced(&path, "a folder of a table has files only");
                continue;
            }
            let Some(event) = entry.strip_suffix(".sql") else { continue };
            match Event::from_name(event) {
                Some(event) if !event.is_of_table() => {
                    self.misplaced(&path, "the event belongs to no table: VERSION/EVENT.sql");
                }
                Some(event) if event.may_be_own() => {
                    self.add((&path, for_all), (table, event), scripts)?;
                }
                Some(event) => {
                    self.misplaced(&path, &format!("{event} is always generated by the model"));
                }
                None => self.unknown(&path, event),
            }
        }
        Ok(())
    }

    /// A file that belongs to a whole version.
    fn of_no_table(
        &mut self,
        entry: &str,
        (path, for_all): (&Path, bool),
        scripts: &mut Scripts,
    ) -> Result<(), Failure> {
        let Some(event) = entry.strip_suffix(".sql") else { return Ok(()) };
        match Event::from_name(event) {
            Some(event) if event.is_of_version() => {
                return self.add((path, for_all), ("", event), scripts);
            }
            Some(_) => self.misplaced(path, "the event belongs to a table: TABLE/EVENT.sql"),
            None => self.unknown(path, event),
        }
        Ok(())
    }

    /// Reads the script for an event of a table, or of none.
    fn add(
        &mut self,
        (path, for_all): (&Path, bool),
        (table, event): (&str, Event),
        scripts: &mut Scripts,
    ) -> Result<(), Failure> {
        match text(path)? {
            Ok(text) => {
                let file = ScriptFile { name: shown(path), text, for_all };
                scripts.insert((table.to_owned(), event), file);
            }
            Err(why) => self.misplaced(path, why),
        }
        Ok(())
    }

    fn unknown(&mut self, path: &Path, event: &str) {
        let why = Event::refusal(event).map_or_else(events, str::to_owned);
        self.misplaced(path, &format!("there is no event {event}: {why}"));
    }

    fn decoded(&mut self, entry: &str, path: &Path) -> Option<String> {
        let decoded = percent_decode_str(entry).decode_utf8().ok().map(|name| name.into_owned());
        if decoded.is_none() {
            self.misplaced(path, "the name is not percent-encoded UTF-8");
        }
        decoded
    }

    fn misplaced(&mut self, path: &Path, why: &str) {
        self.mistakes.push(format!("{}:1:1: {why}", shown(path)));
    }
}

/// Which events there are to write for.
pub(super) fn events() -> String {
    let names: Vec<&str> = Event::own().map(Event::name).collect();
    format!("there are {}", names.join(", "))
}

/// A path as messages name it: without the folder that it is relative to.
pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// For `map_err`: that a file or folder cannot be read.
fn unreadable(path: &Path, what: &str) -> impl Fn(std::io::Error) -> Failure {
    let (message, hint) =
        (format!("cannot read {}", shown(path)), format!("check the {what} and its permissions"));
    move |error| {
        Failure::new(Code::ConfigUnreadable, message.clone()).hint(hint.clone()).source(error)
    }
}

/// What is in a folder, by name; hidden files are not.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let unreadable = unreadable(folder, "folder");
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(&unreadable)? {
        let entry = entry.map_err(&unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            entries.push((name, entry.path()));
        }
    }
    entries.sort();
    Ok(entries)
}

/// The text of a file, or what is wrong with it. Editors write line ends and marks of their own.
fn text(path: &Path) -> Result<Result<String, &'static str>, Failure> {
    let unreadable = unreadable(path, "file");
    if fs::metadata(path).map_err(&unreadable)?.len() > FILE_BYTES_MAX {
        return Ok(Err("the file is larger than 1 MiB"));
    }
    let bytes = fs::read(path).map_err(&unreadable)?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Err("the file is not UTF-8")) };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match text.contains('\0') {
        true => Ok(Err("the file has a zero byte")),
        false => Ok(Ok(text.replace("\r\n", "\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_table_is_that_of_a_folder() {
        for (name, folder) in [
            ("visit", "visit"),
            ("Full Name", "Full%20Name"),
            ("a/b%2F", "a%2Fb%252F"),
            ("..", "%2E."),
            ("_all", "%5Fall"),
            ("_ALL", "_ALL"),
            ("größe", "gr%C3%B6%C3%9Fe"),
        ] {
            assert_eq!(encoded(name), folder);
            assert_eq!(percent_decode_str(folder).decode_utf8().unwrap(), name);
        }
    }
}
