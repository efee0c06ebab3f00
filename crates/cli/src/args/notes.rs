//! `syncline rejects` and `syncline conflicts`: the center's records of single rows.

use super::Dir;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

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
    pub(crate) action: RejectsAction,
}

/// Shows and resolves conflicts between uploaded changes and other changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline conflicts list --dir sales                     the newest, one per line
  syncline conflicts show 17 --dir sales                  one with its rows
  syncline conflicts list --table price --newer-than 7d   some of them
  syncline conflicts resolve 17 --take loser              the row becomes the one that lost
  syncline conflicts resolve 17 --set qty=12              the row gets this value
  syncline conflicts purge --older-than 30d --dir sales   remove older ones")]
pub(crate) struct ConflictsOptions {
    #[command(subcommand)]
    pub(crate) action: ConflictsAction,
}

/// What to do with rejects.
#[derive(Debug, Subcommand)]
pub(crate) enum RejectsAction {
    /// Lists them, the oldest first
    List(ListNotes),
    /// Shows all details of one
    Show(ShowNote),
    /// Removes them; rejects that their remotes have not received yet are kept
    Purge(PurgeNotes),
}

/// What to do with conflicts.
#[derive(Debug, Subcommand)]
pub(crate) enum ConflictsAction {
    /// Lists them, the oldest first
    List {
        #[command(flatten)]
        list: ListNotes,
        /// Only those that this rule decided, such as `merge`, `latest by changed` or `scripts`
        #[arg(long, value_name = "RULE")]
        rule: Option<String>,
    },
    /// Shows all details of one
    Show(ShowNote),
    /// Changes the row of a conflict, as any other program may, and removes the conflict
    Resolve(ResolveConflict),
    /// Removes them
    Purge(PurgeNotes),
}

/// Which of them to list.
#[derive(Debug, Args)]
pub(crate) struct ListNotes {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Only those of this remote
    #[arg(long, value_name = "ID")]
    pub(crate) remote: Option<String>,

    /// Only those of this table
    #[arg(long, value_name = "T")]
    pub(crate) table: Option<String>,

    /// Only those that are not older than this: 90s, 15m, 12h, 30d, 4w
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub(crate) newer_than: Option<i64>,

    /// Show the newest N
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which one to show.
#[derive(Debug, Args)]
pub(crate) struct ShowNote {
    /// Its number, which `list` shows
    #[arg(value_name = "ID")]
    pub(crate) id: i64,

    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the row of a conflict should be.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("wanted").required(true).multiple(true)))]
pub(crate) struct ResolveConflict {
    /// Its number, which `list` shows
    #[arg(value_name = "ID")]
    pub(crate) id: i64,

    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Take what lost: the row, or the delete
    #[arg(long, value_name = "WHAT", value_enum, group = "wanted")]
    pub(crate) take: Option<Taken>,

    /// Give a column of the row this value (repeatable)
    #[arg(long, value_name = "COLUMN=VALUE", value_parser = parse_set, group = "wanted",
          conflicts_with = "take")]
    pub(crate) set: Vec<(String, String)>,

    /// Make a column of the row NULL (repeatable)
    #[arg(long, value_name = "COLUMN", group = "wanted", conflicts_with = "take")]
    pub(crate) null: Vec<String>,

    /// Also if the row has changed since
    #[arg(long)]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which of two rows to take.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Taken {
    Loser,
}

/// Which of them to remove.
#[derive(Debug, Args)]
pub(crate) struct PurgeNotes {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Only those that are at least this old: 90s, 15m, 12h, 30d, 4w [default: all]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub(crate) older_than: Option<i64>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    let (column, value) =
        text.split_once('=').ok_or("give a column and its value: COLUMN=VALUE")?;
    Ok((column.to_owned(), value.to_owned()))
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
