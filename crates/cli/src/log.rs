//! The log, as `--log`, `--log-format` and `--log-file` want it.
//!
//! It goes to standard error, or to a file that is rotated (`log/file.rs`). Where standard error is
//! the journal of systemd, each line begins with its level in the form that the journal reads
//! (`log/journal.rs`).

mod file;
mod journal;

use crate::args::{Arguments, Command, LogFormat, LogLevel};
use file::LogFile;
use journal::WithPriority;
use model::Failure;
use std::io;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts the log. Called once, before the command.
pub(crate) fn start(arguments: &Arguments) -> Result<(), Failure> {
    let level = match arguments.log.unwrap_or(default_level(&arguments.command)) {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let (writer, on_stderr) = match &arguments.log_file {
        Some(path) => (BoxMakeWriter::new(LogFile::open(path)?), false),
        None => (BoxMakeWriter::new(io::stderr), true),
    };
    let in_journal = on_stderr && journal::is_stderr();
    let colours = on_stderr && !in_journal && crate::output::colours();
    let log = tracing_subscriber::fmt().with_max_level(level).with_ansi(colours);
    let log = log.with_writer(writer);
    match (arguments.log_format, in_journal) {
        (LogFormat::Text, false) => log.with_target(false).init(),
        (LogFormat::Text, true) => log.with_target(false).map_event_format(WithPriority).init(),
        (LogFormat::Json, false) => log.json().flatten_event(true).init(),
        (LogFormat::Json, true) => {
            log.json().flatten_event(true).map_event_format(WithPriority).init();
        }
    }
    Ok(())
}

// A server without a word about its synchronizations would be a riddle; every other command says
// on standard output what it did.
fn default_level(command: &Command) -> LogLevel {
    match command {
        Command::Serve(_) => LogLevel::Info,
        _ => LogLevel::Warn,
    }
}
