//! What a remote stores about its server and user. It is recorded only when it changes.

pub(crate) mod trust;

use crate::apply::{first_fill, rejects};
use crate::capture::change_log;
use crate::connection::{begin_immediate, explain};
use crate::progress;
use crate::progress::facts;
use crate::progress::state::State;
use crate::schema;
use crate::schema::history::History;
use crate::transport::Trust;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use rusqlite::Connection;

/// What a remote remembers. Never a password, a token or a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The server's URL.
    pub server: Option<String>,
    /// Who authenticates.
    pub user: Option<UserName>,
    /// The remote's identity; a random one is drawn by the first synchronization.
    pub remote_id: Option<RemoteId>,
    /// The script version; the server's default if none.
    pub script_version: Option<ScriptVersion>,
    /// The publications; all of the script version if empty.
    pub publications: Vec<PublicationName>,
    /// Which servers are believed, and what is shown to them. Of certificates and keys only the
    /// paths, which should be absolute.
    pub trust: Option<Trust>,
}

impl Settings {
    /// What an attempt says to the server, where this differs from what the file remembers.
    pub(crate) fn overlay(&self, state: &mut State) {
        if self.user.is_some() {
            state.user.clone_from(&self.user);
        }
        if self.script_version.is_some() {
            state.script_version.clone_from(&self.script_version);
        }
        if !self.publications.is_empty() {
            state.publications.clone_from(&self.publications);
        }
    }

    /// The server has accepted them: they are remembered, once.
    pub(crate) fn accepted(&mut self, connection: &Connection) -> Result<(), Failure> {
        match std::mem::take(self) {
            nothing if nothing == Settings::default() => Ok(()),
            settings => store(connection, &settings),
        }
    }
}

/// What the file remembers.
pub(crate) fn read(connection: &Connection) -> Result<Settings, Failure> {
    let state = State::read(connection)?;
    Ok(Settings {
        server: state.server,
        user: state.user,
        remote_id: state.remote_id,
        script_version: state.script_version,
        publications: state.publications,
        trust: trust::read(connection)?,
    })
}

fn publications_text(settings: &Settings) -> Result<String, Failure> {
    serde_json::to_string(&settings.publications)
        .map_err(|error| Failure::new(Code::Bug, "publications do not write").source(error))
}

/// Each setting as its name and text; none if it is missing.
fn texts<'a>(
    settings: &'a Settings,
    publications: &'a str,
    trust: Option<&'a str>,
) -> [(&'static str, Option<&'a str>); 6] {
    [
        ("server", settings.server.as_deref()),
        ("user", settings.user.as_ref().map(UserName::as_str)),
        ("remote_id", settings.remote_id.as_ref().map(RemoteId::as_str)),
        ("script_version", settings.script_version.as_ref().map(ScriptVersion::as_str)),
        ("publications", (!settings.publications.is_empty()).then_some(publications)),
        (trust::FACT, trust),
    ]
}

/// Stores the values that are given.
pub(crate) fn remember(connection: &Connection, settings: &Settings) -> Result<(), Failure> {
    require_possible(connection, settings)?;
    store(connection, settings)
}

/// Refuses what this file cannot become.
pub(crate) fn require_possible(
    connection: &Connection,
    settings: &Settings,
) -> Result<(), Failure> {
    settings.trust.as_ref().map(trust::text).transpose()?;
    let known = read(connection)?;
    let state = State::read(connection)?;
    let used = state.nonce_attempt.is_some() || state.counter.0 != 0;
    if let (Some(old), Some(new)) = (&known.remote_id, &settings.remote_id)
        && used
        && old != new
    {
        let message = format!("the remote is known as {old} and cannot become {new}");
        return Err(Failure::new(Code::RemoteIdInUse, message));
    }
    if let Some(user) = &settings.user {
        refuse_another_user(connection, &state, user)?;
    }
    Ok(())
}

fn store(connection: &Connection, settings: &Settings) -> Result<(), Failure> {
    let publications = publications_text(settings)?;
    let trust = settings.trust.as_ref().map(trust::text).transpose()?;
    let transaction = begin_immediate(connection)?;
    for (name, text) in texts(settings, &publications, trust.as_deref()) {
        if let Some(text) = text {
            facts::set(&transaction, name, text).map_err(explain)?;
        }
    }
    transaction.commit().map_err(explain)
}

/// Pending changes were made with the rights of one user and must not be uploaded with those of
/// another.
fn refuse_another_user(
    connection: &Connection,
    state: &State,
    user: &UserName,
) -> Result<(), Failure> {
    let Some(last) = &state.synchronized_user else { return Ok(()) };
    if last == user {
        return Ok(());
    }
    let mut waits = state.frozen.is_some();
    for table in schema::tables(connection)?.iter().filter(|table| table.uploads()) {
        waits |=
            change_log::has_entries(connection, table, state.open_generation).map_err(explain)?;
    }
    if !waits {
        return Ok(());
    }
    let message = format!("changes of user {last} are pending and cannot be uploaded by {user}");
    Err(Failure::new(Code::UserChangeRefused, message))
}

/// Forgets identity and agreements, captured changes and rejects. Tables stay known, so that
/// their rows do not count as new at this remote.
pub(crate) fn reset(connection: &Connection) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    let mut history = History::read(&transaction)?;
    history.forget_watermarks();
    history.write(&transaction)?;
    let forget = || -> rusqlite::Result<()> {
        for name in schema::our_row_tables(&transaction)? {
            transaction.execute_batch(&format!("DELETE FROM {}", crate::sql::ident(&name)))?;
        }
        rejects::clear(&transaction)?;
        rejects::lost_conflicts::clear(&transaction)?;
        rejects::settled::clear(&transaction)?;
        first_fill::remove(&transaction)?;
        progress::forget_agreements(&transaction)?;
        facts::forget(
            &transaction,
            &[
                "remote_id",
                "database_id",
                "synchronized_user",
                "progress_last_used",
                "progress_frozen",
                "frozen_generation",
                "schema_fingerprint",
                "orphans",
            ],
        )
    };
    forget().map_err(explain)?;
    transaction.commit().map_err(explain)
}
