//! `syncline rejects` and `syncline conflicts`: the center's records of single rows.

use super::Dir;
use clap::{Args, Subcommand};

/// Shows uploaded rows that the consolidated database refused.
///
/// Every reject is kept until its remote has received it, and for `rejects_kept_days`. The remote
/// has it too: `syncline remote rejects FILE`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline rejects list --dir sales                     the newest, one per line
  syncline rejects show 17 --dir sales                  one with its row
  syncline rejects purge --older-than 30d --dir sales   remove those that their remotes have")]
pub(crate) struct RejectsOptions {
    #[command(subcommand)]
    pub(crate) action: NotesAction,
}

/// Shows conflicts between uploaded changes and other changes, with their results.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline conflicts list --dir sales                     the newest, one per line
  syncline conflicts show 17 --dir sales                  one with its rows
  syncline conflicts purge --older-than 30d --dir sales   remove older ones")]
pub(crate) struct ConflictsOptions {
    #[command(subcommand)]
    pub(crate) action: NotesAction,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum NotesAction {
    /// Lists them, the oldest first
    List {
        #[command(flatten)]
        dir: Dir,
        /// Show the newest N
        #[arg(long, value_name = "N", default_value_t = 1000,
              value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows all details of one
    Show {
        /// Its number, which `list` shows
        #[arg(value_name = "ID")]
        id: i64,
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes them; rejects that their remotes have not received yet are kept
    Purge {
        #[command(flatten)]
        dir: Dir,
        /// Only those that are at least this old: 90s, 15m, 12h, 30d, 4w [default: all]
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Option<i64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Seconds from a number with its unit.
pub(crate) fn parse_age(text: &str) -> Result<i64, String> {
    let wrong = || "an age is a number with its unit: 90s, 15m, 12h, 30d or 4w".to_owned();
    let digits = text.trim_end_matches(|it: char| !it.is_ascii_digit());
    let number: i64 = digits.parse().map_err(|_| wrong())?;
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    // A century is more than anything was kept.
    let seconds = number.checked_mul(unit).filter(|it| (0..=100 * 366 * 86_400).contains(it));
    seconds.ok_or_else(|| "an age is at most a century".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units_and_bounds() {
        assert_eq!(parse_age("90s"), Ok(90));
        assert_eq!(parse_age("2w"), Ok(1_209_600));
        for wrong in ["", "5", "d", "-1d", "1.5h", "9223372036854775807w", "1000000w", "1dd"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
