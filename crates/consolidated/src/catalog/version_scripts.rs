//! The scripts of a script version that run around rows, for a table or for the whole version.

use crate::script::secrets::Secrets;
use crate::script::{Event, Mistake, Parameter, Phase, Script, own, parameter_names, passed};
use crate::synchronization::Session;
use crate::synchronization::authenticates::Authenticates;
use crate::synchronization::counted::Counted;
use model::{Code, Failure};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The scripts of a script version that run around rows, and what holds without them.
#[derive(Debug, Default)]
pub(crate) struct VersionScripts {
    /// By event and table. Those of the version have no name of a table.
    scripts: BTreeMap<(Event, String), Written>,
    /// The parts of a synchronization in which there is something to run.
    phases: BTreeSet<Phase>,
    /// A script asks for `{s.last_download}` or `{s.last_table_download}`.
    pub(crate) ask_for_times: bool,
    /// Of the version: for messages.
    name: String,
    /// A row that the database refuses cancels the upload, if no script decides otherwise.
    pub(crate) cancels: bool,
    /// The model wants one connection for a whole synchronization.
    session: bool,
    /// The authentication parameters that scripts name which run once the user is accepted.
    passed: BTreeSet<u8>,
}

/// A script, and what the user wrote: for messages.
#[derive(Debug)]
struct Written {
    script: Arc<Script>,
    text: String,
}

impl VersionScripts {
    /// Of the rows of all scripts: script version, table, event, text.
    pub(super) fn read(
        rows: &[(String, String, String, String)],
        version: &str,
        (cancels, session): (bool, bool),
    ) -> Result<VersionScripts, Failure> {
        let mut read =
            VersionScripts { name: version.to_owned(), cancels, session, ..Default::default() };
        for (_, table, event, text) in rows.iter().filter(|row| row.0 == version) {
            let event = Event::from_name(event).ok_or_else(|| {
                let message = format!("script version {version} has an unknown event {event}");
                Failure::new(Code::ScriptFailed, message)
            })?;
            if event.fact().phase != Phase::Authenticate {
                read.passed.extend(parameter_names(text).filter_map(passed));
            }
            if !event.is_around() {
                continue;
            }
            let script = Script::stored_of_version(text, event)?;
            if script.is_ignored() {
                continue;
            }
            read.phases.insert(event.fact().phase);
            if event == Event::TimeStatistics {
                // The scripts of rows are timed where others may run between them.
                read.phases.insert(Phase::Upload);
            }
            let asks = |one: &Script| one.parameters.iter().any(Parameter::is_time);
            read.ask_for_times |= script.statements().any(asks);
            let (script, text) = (Arc::new(script), own::read(text).1.to_owned());
            read.scripts.insert((event, table.clone()), Written { script, text });
        }
        Ok(read)
    }

    /// What the database must not repeat of what it is given, once the user is accepted.
    pub(crate) fn secrets(&self, session: &Session) -> Secrets {
        Secrets::of(self.passed.iter().filter_map(|number| session.passed.get(*number)))
    }

    /// What is wrong with a script, with its place, for people.
    pub(crate) fn told(
        &self,
        session: &Session,
        (event, table): (Event, Option<&str>),
        mistake: &Mistake,
    ) -> String {
        let written = self.written(table, event);
        let text = written.map_or("", |written| written.text.as_str());
        let message = self.secrets(session).told(&mistake.message, None);
        let (version, told) = (&self.name, Mistake { message, ..*mistake }.told(text));
        match table {
            Some(table) => format!("scripts/{version}/{table}/{event}.sql:{told}"),
            None => format!("scripts/{version}/{event}.sql:{told}"),
        }
    }

    /// The script of the whole version for an event, unless it does nothing.
    pub(crate) fn script(&self, event: Event) -> Option<&Script> {
        self.of(None, event).map(Arc::as_ref)
    }

    /// The script of an event for a table, or for the version, unless it does nothing.
    pub(crate) fn of(&self, table: Option<&str>, event: Event) -> Option<&Arc<Script>> {
        self.written(table, event).map(|written| &written.script)
    }

    fn written(&self, table: Option<&str>, event: Event) -> Option<&Written> {
        if self.scripts.is_empty() {
            return None;
        }
        self.scripts.get(&(event, table.unwrap_or_default().to_owned()))
    }

    /// Whether a synchronization has one connection from its begin to its end.
    pub(crate) fn is_session(&self) -> bool {
        self.session || self.runs(Phase::Connection)
    }

    /// Which of them have a say in who a user is.
    pub(crate) fn authenticates(&self) -> Authenticates {
        match self.script(Event::AuthenticateUser) {
            Some(_) => Authenticates::Instead,
            None if self.runs(Phase::Authenticate) => Authenticates::Behind,
            None => Authenticates::Nothing,
        }
    }

    /// Where scripts at the end hear of a synchronization: what is to be counted of one.
    pub(crate) fn counting(&self) -> Option<Counted> {
        let has = |wanted| self.scripts.keys().any(|(event, _)| *event == wanted);
        let times_scripts = has(Event::TimeStatistics);
        (times_scripts || has(Event::SynchronizationStatistics))
            .then(|| Counted::new(times_scripts))
    }

    /// Whether there is anything to run in this part of a synchronization.
    pub(crate) fn runs(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }
}
