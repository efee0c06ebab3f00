//! The level before each line, for systemd's journal.

use std::fmt;
use std::fs::File;
use std::io;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Where systemd says which device and inode its journal reads from.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Whether standard error goes to the journal. The variable alone does not prove it: programs
/// inherit it although their output goes elsewhere.
pub(super) fn is_stderr() -> bool {
    let Ok(stream) = std::env::var(JOURNAL_STREAM) else { return false };
    stderr_identity().is_some_and(|identity| identity == stream)
}

#[cfg(unix)]
fn stderr_identity() -> Option<String> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn stderr_identity() -> Option<String> {
    None
}

/// Lines of another format, each with its level as `<6>` in front.
pub(super) struct WithPriority<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for WithPriority<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The level as syslog numbers it.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
