//! The log, with the options `--log`, `--log-format` and `--log-file`.
//!
//! It is written to standard error, or to a file that is rotated (`log/file.rs`). If standard error
//! is the journal of systemd, each line begins with its level, in the form that the journal reads
//! (`log/journal.rs`).

mod file;
mod journal;

use crate::args::{Arguments, Command, LogFormat};
use crate::config::log_level::LogLevel;
use file::LogFile;
use journal::WithPriority;
use model::Failure;
use std::io;
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// Starts the log. Called once, before the command.
pub(crate) fn start(arguments: &Arguments) -> Result<(), Failure> {
    let level = filter(arguments.log.unwrap_or(default_level(&arguments.command)));
    let (writer, on_stderr) = match &arguments.log_file {
        Some(path) => {
            let file = LogFile::open(path)?;
            // Called once: there is none yet.
            let _ = FILE.set(file.clone());
            (BoxMakeWriter::new(file), false)
        }
        None => (BoxMakeWriter::new(io::stderr), true),
    };
    let in_journal = on_stderr && journal::is_stderr();
    let colors = on_stderr && !in_journal && terminal::output::colors();
    let (level, handle) = reload::Layer::new(level);
    let ours = filter_fn(|metadata| is_ours(metadata.target()));
    let all = tracing_subscriber::registry().with(level).with(ours);
    let log = tracing_subscriber::fmt::layer().with_ansi(colors).with_writer(writer);
    match (arguments.log_format, in_journal) {
        (LogFormat::Text, false) => all.with(log.with_target(false)).init(),
        (LogFormat::Text, true) => {
            all.with(log.with_target(false).map_event_format(WithPriority)).init();
        }
        (LogFormat::Json, false) => all.with(log.json().flatten_event(true)).init(),
        (LogFormat::Json, true) => {
            all.with(log.json().flatten_event(true).map_event_format(WithPriority)).init();
        }
    }
    if arguments.log.is_none() {
        // Called once: there is none yet.
        let _ = LEVEL.set(handle);
    }
    Ok(())
}

/// Whether a crate of ours says it. Those of others would print passwords byte by byte, or repeat
/// what is wrong with a certificate.
fn is_ours(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or(target);
    name == "syncline" || name.starts_with("syncline_")
}

/// Changes the level, where the command line has not settled it.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// The file of `--log-file`.
static FILE: OnceLock<LogFile> = OnceLock::new();

/// Goes on with the log file that is at its path now.
pub(crate) fn reopen() {
    // Logged only when the file is free again: the log takes it for every line.
    if let Some(Err(failure)) = FILE.get().map(LogFile::reopen) {
        tracing::error!(error = %failure.full_message(), "the log goes on in its former file");
    }
}

/// Logs as much as the file of a server says, unless `--log` says it.
pub(crate) fn follow(file: Option<LogLevel>) {
    let Some(level) = LEVEL.get() else { return };
    if let Err(error) = level.reload(filter(file.unwrap_or(LogLevel::Info))) {
        tracing::error!(%error, "cannot change the level of the log");
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

// A server without a word about its synchronizations would be a riddle; every other command says
// on standard output what it did.
fn default_level(command: &Command) -> LogLevel {
    match command {
        Command::Serve(_) => LogLevel::Info,
        _ => LogLevel::Warn,
    }
}
