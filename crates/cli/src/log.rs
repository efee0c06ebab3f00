//! The log on standard error, as `--log` and `--log-format` want it.

use crate::args::{Arguments, Command, LogFormat, LogLevel};
use std::io;
use tracing::level_filters::LevelFilter;

/// Starts the log. Called once, before the command.
pub(crate) fn start(arguments: &Arguments) {
    let level = match arguments.log.unwrap_or(default_level(&arguments.command)) {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    match arguments.log_format {
        LogFormat::Text => log.with_ansi(crate::output::colours()).with_target(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
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
