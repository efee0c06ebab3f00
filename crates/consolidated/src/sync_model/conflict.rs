//! What happens when two changed the same row.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;

/// How the rule `merge` is shown. What is shown of a rule that merges begins so.
const MERGE: &str = "merge by column";

/// The rules that a model can name, for messages.
const KNOWN: &str = "\"consolidated_wins\", \"remote_wins\", \"merge\", { latest = \"COLUMN\" }, \
                     { earliest = \"COLUMN\" }, { maximum = \"COLUMN\" }, \
                     { minimum = \"COLUMN\" }, { priority = \"COLUMN\", order = [\"VALUE\"] } and \
                     { add = [\"COLUMN\"] }";

/// What happens if a row was changed at a remote and in the meantime by another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictRule {
    /// The row stays as it is at the center; the remote receives it.
    ConsolidatedWins,
    /// The row becomes what the remote made of it.
    RemoteWins,
    /// The row whose value in this column wins. An update beats a delete.
    Compare {
        /// The column that decides.
        column: String,
        /// Which of its values wins.
        wins: Wins,
    },
    /// Each column that only one side changed keeps that change; where both did, the center's.
    /// An update beats a delete.
    Merge {
        /// Numeric columns in which both changes count.
        added: Vec<String>,
    },
}

/// Which of two values of a column wins. Where neither does, the center's row stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wins {
    /// The later time; values in the future count as now.
    Later,
    /// The earlier time.
    Earlier,
    /// The greater value.
    Greater,
    /// The smaller value.
    Smaller,
    /// The one that stands earlier in the list. What is not in it comes after all of it.
    Listed(Vec<Listed>),
}

/// A value of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Listed {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl Wins {
    /// What the model calls it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Wins::Later => "latest",
            Wins::Earlier => "earliest",
            Wins::Greater => "maximum",
            Wins::Smaller => "minimum",
            Wins::Listed(_) => "priority",
        }
    }

    /// What the values of the column must be.
    pub(crate) fn wants(&self) -> &'static str {
        match self {
            Wins::Later | Wins::Earlier => "a date, time, number or text",
            Wins::Greater | Wins::Smaller => "of a type with an order",
            Wins::Listed(_) => "a text or a whole number",
        }
    }
}

impl ConflictRule {
    /// The columns in which both changes count.
    pub(crate) fn added(&self) -> &[String] {
        match self {
            ConflictRule::Merge { added } => added,
            _ => &[],
        }
    }

    /// Whether a time of the future in this column counts as now.
    pub(crate) fn clamps(&self, column: &str) -> bool {
        self.clamped() == Some(column)
    }

    /// The column in which times of the future count as now, and are stored so.
    pub(crate) fn clamped(&self) -> Option<&str> {
        match self {
            ConflictRule::Compare { column, wins: Wins::Later } => Some(column),
            _ => None,
        }
    }

    /// Whether the rule that is shown as `text` decides by column.
    pub(crate) fn merges(text: &str) -> bool {
        text.starts_with(MERGE)
    }

    /// The same where only these columns are known. Where the column that decides is not among
    /// them, the center does.
    pub(super) fn narrowed(&self, columns: &[String]) -> ConflictRule {
        match self {
            ConflictRule::Compare { column, .. } if !columns.contains(column) => {
                ConflictRule::ConsolidatedWins
            }
            ConflictRule::Merge { added } => {
                let known = added.iter().filter(|column| columns.contains(column));
                ConflictRule::Merge { added: known.cloned().collect() }
            }
            rule => rule.clone(),
        }
    }
}

impl fmt::Display for ConflictRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConflictRule::ConsolidatedWins => f.write_str("consolidated wins"),
            ConflictRule::RemoteWins => f.write_str("remote wins"),
            ConflictRule::Compare { column, wins } => write!(f, "{} by {column}", wins.word()),
            ConflictRule::Merge { added } if added.is_empty() => f.write_str(MERGE),
            ConflictRule::Merge { added } => write!(f, "{MERGE}, add {}", added.join(", ")),
        }
    }
}

/// A rule as the model has it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RuleFile {
    Named(String),
    Columns(Box<ColumnsFile>),
}

/// A rule that names columns. Only one of them may be there, `order` beside `priority`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ColumnsFile {
    latest: Option<String>,
    earliest: Option<String>,
    maximum: Option<String>,
    minimum: Option<String>,
    priority: Option<String>,
    order: Option<Vec<Listed>>,
    add: Option<NamesFile>,
}

/// One name, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamesFile {
    One(String),
    Several(Vec<String>),
}

impl RuleFile {
    /// The rule, or what is wrong with it.
    pub(super) fn read(self) -> Result<ConflictRule, String> {
        match self {
            RuleFile::Columns(file) => file.read(),
            RuleFile::Named(name) => match name.as_str() {
                "consolidated_wins" => Ok(ConflictRule::ConsolidatedWins),
                "remote_wins" => Ok(ConflictRule::RemoteWins),
                "merge" => Ok(ConflictRule::Merge { added: Vec::new() }),
                other => Err(format!("unknown conflict rule \"{other}\"; known are {KNOWN}")),
            },
        }
    }
}

impl ColumnsFile {
    fn read(self) -> Result<ConflictRule, String> {
        if self.priority.is_none() && self.order.is_some() {
            return Err("order needs priority = \"COLUMN\" beside it".to_owned());
        }
        let listed = match self.priority {
            Some(_) => Wins::Listed(list(self.order.unwrap_or_default())?),
            None => Wins::Listed(Vec::new()),
        };
        let compared = [
            (self.latest, Wins::Later),
            (self.earliest, Wins::Earlier),
            (self.maximum, Wins::Greater),
            (self.minimum, Wins::Smaller),
            (self.priority, listed),
        ];
        let compared = compared.into_iter().filter_map(|(column, wins)| Some((column?, wins)));
        let mut rules: Vec<ConflictRule> =
            compared.map(|(column, wins)| ConflictRule::Compare { column, wins }).collect();
        rules.extend(self.add.map(|names| match names {
            NamesFile::One(name) => ConflictRule::Merge { added: vec![name] },
            NamesFile::Several(added) => ConflictRule::Merge { added },
        }));
        match (rules.pop(), rules.is_empty()) {
            (Some(ConflictRule::Merge { added }), true) if added.is_empty() => {
                Err("add names no column".to_owned())
            }
            (Some(rule), true) => Ok(rule),
            _ => Err(format!("a table has one conflict rule; known are {KNOWN}")),
        }
    }
}

/// The list of a priority, if it can be one.
fn list(order: Vec<Listed>) -> Result<Vec<Listed>, String> {
    if order.is_empty() {
        return Err("priority needs order = [\"VALUE\", …], the value that wins first".to_owned());
    }
    let mut seen = BTreeSet::new();
    // A column of one type makes the same of a number and of its digits.
    let twice = order.iter().map(Listed::digits).find(|value| !seen.insert(value.clone()));
    match twice {
        Some(value) => Err(format!("order names {value} twice")),
        None => Ok(order),
    }
}

impl Listed {
    /// The value as text.
    pub(crate) fn digits(&self) -> String {
        match self {
            Listed::Number(number) => number.to_string(),
            Listed::Text(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync_model::SyncModel;

    fn read(conflict: &str) -> Result<ConflictRule, String> {
        let text = format!("script_version = \"v1\"\n[table.a]\nconflict = {conflict}\n");
        let model = SyncModel::parse(&text, "model.toml");
        model.map(|model| model.tables["a"].conflict.clone()).map_err(|f| f.message().to_owned())
    }

    #[test]
    fn a_rule_is_shown_as_the_model_names_it() {
        for (conflict, shown) in [
            ("\"consolidated_wins\"", "consolidated wins"),
            ("\"remote_wins\"", "remote wins"),
            ("\"merge\"", "merge by column"),
            ("{ latest = \"m\" }", "latest by m"),
            ("{ earliest = \"m\" }", "earliest by m"),
            ("{ maximum = \"m\" }", "maximum by m"),
            ("{ minimum = \"m\" }", "minimum by m"),
            ("{ priority = \"m\", order = [\"b\", 1, \"a\"] }", "priority by m"),
            ("{ add = \"m\" }", "merge by column, add m"),
            ("{ add = [\"m\", \"n\"] }", "merge by column, add m, n"),
        ] {
            let rule = read(conflict).unwrap();
            assert_eq!(rule.to_string(), shown);
            let merges = matches!(rule, ConflictRule::Merge { .. });
            assert_eq!(ConflictRule::merges(shown), merges, "{shown}");
        }
    }

    #[test]
    fn mistakes_in_a_rule_are_named() {
        for (conflict, needle) in [
            ("\"add\"", "line 2: table a: unknown conflict rule \"add\"; known are"),
            ("{}", "line 2: table a: a table has one conflict rule; known are"),
            ("{ latest = \"m\", add = \"n\" }", "a table has one conflict rule"),
            ("{ latest = \"m\", order = [1] }", "order needs priority"),
            ("{ priority = \"m\" }", "priority needs order"),
            ("{ priority = \"m\", order = [] }", "priority needs order"),
            ("{ priority = \"m\", order = [\"a\", \"b\", \"a\"] }", "order names a twice"),
            ("{ priority = \"m\", order = [1, \"1\"] }", "order names 1 twice"),
            ("{ priority = \"m\", order = [1.5] }", "line 3: data did not match"),
            ("{ add = [] }", "add names no column"),
        ] {
            let message = read(conflict).unwrap_err();
            assert!(message.contains(needle), "{message}");
        }
    }

    #[test]
    fn an_older_shape_follows_the_rule_as_far_as_it_knows_the_columns() {
        let known = ["n".to_owned(), "o".to_owned()];
        for (conflict, shown) in [
            ("{ maximum = \"m\" }", "consolidated wins"),
            ("{ maximum = \"n\" }", "maximum by n"),
            ("{ add = [\"m\", \"n\"] }", "merge by column, add n"),
            ("{ add = \"m\" }", "merge by column"),
        ] {
            assert_eq!(read(conflict).unwrap().narrowed(&known).to_string(), shown);
        }
    }
}
