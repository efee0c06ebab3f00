//! All output for people and programs.
//!
//! Lines, tables and JSON go to standard output, failures and warnings to standard error.
//!
//! Control characters from a database or a server never reach a terminal. So no row can move the
//! cursor or forge a second error line.

use model::{Code, Failure};
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints one line on standard output, at once.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n")) {
        Ok(()) => flushed(stdout.flush()),
        Err(error) => flushed(Err(error)),
    }
}

/// Whether a program that reads standard output has got its JSON.
static JSON_PRINTED: AtomicBool = AtomicBool::new(false);

/// Prints one JSON value on a line of its own.
pub fn json(value: &Value) -> Result<(), Failure> {
    JSON_PRINTED.store(true, Ordering::Relaxed);
    line(&value.to_string())
}

/// Whether [`json`] was called: its result says already what failed.
pub fn has_printed_json() -> bool {
    JSON_PRINTED.load(Ordering::Relaxed)
}

// A reader that has seen enough, as `head` does, is no failure.
fn flushed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::CannotWrite, "cannot write to standard output").source(error))
        }
        _ => Ok(()),
    }
}

/// Prints a table for people: a line of headings, then the rows.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    line(&table_text(headings, rows))
}

/// The text of a table, columns aligned, without a final line end.
pub fn table_text(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = aligned(headings.iter().copied(), &widths);
    for row in &rows {
        text.push('\n');
        text.push_str(&aligned(row.iter().map(String::as_str), &widths));
    }
    text
}

/// Prints names and values, a line each, the values below each other.
pub fn record(facts: &[(String, String)]) -> Result<(), Failure> {
    let widths = facts.iter().map(|(name, _)| one_line(name).chars().count());
    let width = widths.max().unwrap_or_default();
    for (name, value) in facts {
        let text = format!("{:width$}  {}", one_line(name), one_line(value));
        line(text.trim_end())?;
    }
    Ok(())
}

fn aligned<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, width) in cells.zip(widths) {
        text.push_str(cell);
        let blanks = width.saturating_sub(cell.chars().count()) + 2;
        text.extend(std::iter::repeat_n(' ', blanks));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Prints a failure as `error E2104: …`, then `hint: …`, on standard error, and so those beside it.
pub fn failure(failure: &Failure) {
    let (error, hint) = if colors() { ("\x1b[1;31m", "\x1b[36m") } else { ("", "") };
    let end = if colors() { "\x1b[0m" } else { "" };
    stderr(&format!(
        "{error}error {}:{end} {}\n{hint}hint:{end} {}",
        failure.code(),
        told(failure),
        one_line(failure.hint_text()),
    ));
    failure.others().iter().for_each(self::failure);
}

/// The message; of scripts with several mistakes, a line for each.
fn told(failure: &Failure) -> String {
    let message = failure.full_message();
    match failure.code() {
        Code::ScriptInvalid => message.lines().map(one_line).collect::<Vec<_>>().join("\n"),
        _ => one_line(&message),
    }
}

/// A failure for programs.
pub fn failure_json(failure: &Failure) -> Value {
    let mut told = serde_json::json!({
        "code": failure.code().to_string(),
        "message": failure.full_message(),
        "hint": failure.hint_text(),
        "retry": failure.retry(),
        "table": failure.table_name(),
    });
    if !failure.others().is_empty() {
        told["others"] = failure.others().iter().map(failure_json).collect();
    }
    told
}

/// Prints a warning on standard error.
pub fn warning(text: &str) {
    let (begin, end) = if colors() { ("\x1b[1;33m", "\x1b[0m") } else { ("", "") };
    stderr(&format!("{begin}warning:{end} {}", one_line(text)));
}

/// Prints a line on standard error that is neither failure nor warning.
pub fn notice(text: &str) {
    stderr(&one_line(text));
}

/// Prints a question on standard error; the answer is typed behind it.
pub fn question(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{} ", one_line(text)).and_then(|()| stderr.flush());
}

// If standard error is closed, there is no way to report it.
fn stderr(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether standard error shows colors: on a terminal, unless `NO_COLOR` is set.
pub fn colors() -> bool {
    io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether a terminal would not show the character, but obey it: control characters, breaks of
/// lines and paragraphs, and what turns the direction of the text around it.
fn commands_a_terminal(character: char) -> bool {
    const DIRECTIONS: [std::ops::RangeInclusive<char>; 4] = [
        '\u{200e}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
        '\u{61c}'..='\u{61c}',
    ];
    character.is_control() || DIRECTIONS.iter().any(|range| range.contains(&character))
}

/// The text with control characters made visible, so that it stays one harmless line.
pub fn one_line(text: &str) -> String {
    if !text.contains(commands_a_terminal) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    for character in text.trim_end().chars() {
        match character {
            '\n' | '\t' => line.push(' '),
            control if commands_a_terminal(control) => line.extend(control.escape_default()),
            other => line.push(other),
        }
    }
    line
}

/// `1 row`, `2 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let rows = [vec!["a".to_owned(), "bcd".to_owned()], vec!["efgh".to_owned(), String::new()]];
        assert_eq!(table_text(&["x", "yy"], &rows), "x     yy\na     bcd\nefgh");
    }

    #[test]
    fn a_message_cannot_forge_lines_or_move_the_cursor() {
        assert_eq!(one_line("a\nerror E1: b\x1b[2J"), "a error E1: b\\u{1b}[2J");
        assert_eq!(one_line("ends\n"), "ends");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
        assert_eq!(one_line("\u{2066}\u{61c}ä 漢"), "\\u{2066}\\u{61c}ä 漢");
    }
}
