//! The scripts of a script version that belong to no table.

use crate::script::{Event, Mistake, Script, own};
use model::{Code, Failure};
use std::collections::BTreeMap;

/// The scripts of a script version that belong to no table, and what holds without them.
#[derive(Debug, Default)]
pub(crate) struct VersionScripts {
    scripts: BTreeMap<Event, Script>,
    /// What they say, and the name of the version: for messages.
    texts: BTreeMap<Event, String>,
    name: String,
    /// A row that the database refuses cancels the upload, if no script decides otherwise.
    pub(crate) cancels: bool,
}

impl VersionScripts {
    /// Of the rows of all scripts: script version, table, event, text.
    pub(super) fn read(
        scripts: &[(String, String, String, String)],
        version: &str,
        cancels: bool,
    ) -> Result<VersionScripts, Failure> {
        let of_version = scripts.iter().filter(|row| row.0 == version && row.1.is_empty());
        let (mut scripts, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for (_, _, event, text) in of_version {
            let event = Event::from_name(event).ok_or_else(|| {
                let message = format!("script version {version} has an unknown event {event}");
                Failure::new(Code::ScriptFailed, message)
            })?;
            scripts.insert(event, Script::stored_of_version(text, event)?);
            texts.insert(event, own::read(text).1.to_owned());
        }
        Ok(VersionScripts { scripts, texts, name: version.to_owned(), cancels })
    }

    /// What is wrong with the script of an event, with its place, for people.
    pub(crate) fn told(&self, event: Event, mistake: &Mistake) -> String {
        let text = self.texts.get(&event).map_or("", String::as_str);
        format!("scripts/{}/{event}.sql:{}", self.name, mistake.told(text))
    }

    /// The script of an event, unless it does nothing.
    pub(crate) fn script(&self, event: Event) -> Option<&Script> {
        self.scripts.get(&event).filter(|script| !script.is_ignored())
    }
}
