//! What the user declares: tables, columns, directions, conflict rules, publications.

use model::{Code, Direction, Failure, PublicationName, ScriptVersion};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A sync model: one TOML file, one script version.
#[derive(Debug, Clone)]
pub struct SyncModel {
    /// The file, for messages.
    pub file_name: String,
    /// The script version that it generates.
    pub script_version: ScriptVersion,
    /// Publications and their tables.
    pub publications: BTreeMap<PublicationName, Vec<String>>,
    /// The tables, by name as written.
    pub tables: BTreeMap<String, TableModel>,
}

/// One table of a model.
#[derive(Debug, Clone)]
pub struct TableModel {
    /// The published columns, all if none.
    pub columns: Option<Vec<String>>,
    /// Which way rows travel.
    pub direction: Direction,
    /// What happens when two changed the same row.
    pub conflict: ConflictRule,
}

/// What happens when a row was changed at a remote and, meanwhile, by somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictRule {
    /// The row stays as it is at the centre; the remote receives it.
    ConsolidatedWins,
    /// The row becomes what the remote made of it.
    RemoteWins,
    /// The row with the later value in this column wins; values in the future count as now.
    /// An update beats a delete.
    Latest(String),
    /// Each column that only one side changed keeps that change; where both did, the centre's.
    /// An update beats a delete.
    Merge,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    script_version: String,
    #[serde(default)]
    publication: BTreeMap<String, PublicationFile>,
    table: BTreeMap<String, TableFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicationFile {
    tables: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct TableFile {
    columns: Option<Vec<String>>,
    direction: Option<Direction>,
    conflict: Option<ConflictFile>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ConflictFile {
    Named(String),
    Latest { latest: String },
}

impl SyncModel {
    /// Reads the text of a model file; every mistake is named with its line.
    pub fn parse(text: &str, file_name: &str) -> Result<SyncModel, Failure> {
        let invalid =
            |message: String| Failure::new(Code::ConfigInvalid, format!("{file_name}: {message}"));
        let file: ModelFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.as_bytes()[..span.start.min(text.len())]
                    .iter()
                    .filter(|b| **b == b'\n')
                    .count()
                    + 1
            });
            invalid(format!("line {line}: {}", error.message().replace('\n', " ")))
        })?;
        let mut tables = BTreeMap::new();
        for (name, table) in file.table {
            let conflict = match table.conflict {
                None => ConflictRule::ConsolidatedWins,
                Some(ConflictFile::Latest { latest }) => ConflictRule::Latest(latest),
                Some(ConflictFile::Named(rule)) => match rule.as_str() {
                    "consolidated_wins" => ConflictRule::ConsolidatedWins,
                    "remote_wins" => ConflictRule::RemoteWins,
                    "merge" => ConflictRule::Merge,
                    other => {
                        return Err(invalid(format!(
                            "table {name}: unknown conflict rule \"{other}\"; known are \
                             \"consolidated_wins\", \"remote_wins\", \"merge\" and \
                             {{ latest = \"COLUMN\" }}"
                        )));
                    }
                },
            };
            let direction = table.direction.unwrap_or(Direction::Both);
            tables.insert(name, TableModel { columns: table.columns, direction, conflict });
        }
        if tables.is_empty() {
            return Err(invalid("no table is published".into()));
        }
        let named =
            |name: String| PublicationName::new(name).map_err(|f| invalid(f.full_message()));
        let mut publications = BTreeMap::new();
        for (name, publication) in file.publication {
            let all = || tables.keys().cloned().collect();
            publications.insert(named(name)?, publication.tables.unwrap_or_else(all));
        }
        if publications.is_empty() {
            publications.insert(named("all".into())?, tables.keys().cloned().collect());
        }
        Ok(SyncModel {
            file_name: file_name.to_owned(),
            script_version: ScriptVersion::new(file.script_version)
                .map_err(|failure| invalid(failure.full_message()))?,
            publications,
            tables,
        })
    }
}

/// `name` as a TOML key.
pub(crate) fn toml_key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if bare {
        return name.to_owned();
    }
    // Not what the library writes for a value: a value may span lines, a key may not.
    let mut quoted = String::from("\"");
    for character in name.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_says_what_it_leaves_out() {
        let model = SyncModel::parse(
            "script_version = \"v1\"\n[table.a]\n\
             [table.\"Order Line\"]\nconflict = { latest = \"m\" }\n",
            "model.toml",
        )
        .unwrap();
        assert_eq!(model.tables["a"].conflict, ConflictRule::ConsolidatedWins);
        assert_eq!(model.tables["a"].direction, Direction::Both);
        assert_eq!(model.tables["Order Line"].conflict, ConflictRule::Latest("m".into()));
        let all = PublicationName::new("all").unwrap();
        assert_eq!(model.publications[&all].len(), 2);
    }

    #[test]
    fn every_name_can_be_a_key() {
        for name in ["plain", "", "Order Line", "it's \"big\"", "back\\slash", "a\nb\tc\u{7f}", "ö"]
        {
            let text = format!("script_version = \"v1\"\n[table.{}]\n", toml_key(name));
            let model = SyncModel::parse(&text, "model.toml").unwrap();
            assert_eq!(model.tables.keys().collect::<Vec<_>>(), [name], "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, needle) in [
            ("script_version = \"v1\"\n[table.a]\ncolour = 1\n", "line 3: unknown field `colour`"),
            (
                "script_version = \"v1\"\n[table.a]\ndirection = \"up\"\n",
                "line 3: unknown variant `up`",
            ),
            (
                "script_version = \"v1\"\n[table.a]\nconflict = \"mine\"\n",
                "unknown conflict rule \"mine\"",
            ),
            ("script_version = \"v1\"\n[table]\n", "no table"),
            ("[table.a]\n", "missing field `script_version`"),
        ] {
            let failure = SyncModel::parse(text, "model.toml").unwrap_err();
            assert_eq!(failure.code(), Code::ConfigInvalid);
            assert!(failure.message().contains(needle), "{}", failure.message());
        }
    }
}
