//! What the user declares: tables, columns, partitions, conflict rules, publications.

mod conflict;
mod extension;
mod partition;

pub use conflict::{ConflictRule, Listed, Wins};
pub use extension::extend;
pub(crate) use partition::{Claim, ClaimTest, Parent, Partition};

use crate::script::Event;
use conflict::RuleFile;
use model::{Code, Direction, Failure, PublicationName, ScriptVersion};
use partition::{ParentFile, PartitionFile};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// A sync model: one TOML file, one script version.
#[derive(Debug, Clone)]
pub struct SyncModel {
    /// The file, for messages.
    pub file_name: String,
    /// The script version that it generates.
    pub script_version: ScriptVersion,
    /// Whether downloads are to be acknowledged at once, not with the next synchronization.
    pub acknowledge: bool,
    /// Publications and their tables.
    pub publications: BTreeMap<PublicationName, Vec<String>>,
    /// The tables, by name as written.
    pub tables: BTreeMap<String, TableModel>,
    /// Tables that were published and are gone.
    pub dropped_tables: Vec<String>,
    /// Tables that are not published on purpose.
    pub unpublished: Vec<String>,
    /// The time zone of the local times that own cursors compare with the last download.
    pub time_zone: Option<String>,
    /// A row that the database refuses cancels the upload, if no script decides otherwise.
    pub cancels: bool,
    /// A synchronization has one connection from its begin to its end.
    pub session: bool,
    /// No script is generated that the user can write.
    pub only_own: bool,
    /// The scripts that the user wrote, by the table's name as written and event. Those that belong
    /// to no table have an empty name.
    pub own_scripts: BTreeMap<(String, Event), ScriptFile>,
    /// What is wrong with files of scripts that are for no event, each with its place.
    pub misplaced_scripts: Vec<String>,
}

/// A file with a script of the user's.
#[derive(Debug, Clone)]
pub struct ScriptFile {
    /// Its name, for messages.
    pub name: String,
    /// What it says.
    pub text: String,
    /// It is for all script versions, and a table that it is not for is no mistake.
    pub for_all: bool,
}

/// One table of a model.
#[derive(Debug, Clone)]
pub struct TableModel {
    /// The published columns, all if none.
    pub columns: Option<Vec<String>>,
    /// Numeric columns that are not what their type alone makes of them at remotes.
    pub stored_as: BTreeMap<String, StoredAs>,
    /// Columns of a moment that have another notation at remotes.
    pub times: BTreeMap<String, TimesAs>,
    /// Which way rows travel.
    pub direction: Direction,
    /// What happens when two changed the same row.
    pub conflict: ConflictRule,
    /// The table of the database that keeps the rows that lose.
    pub keep_losers: Option<String>,
    /// Which rows belong to a partition.
    pub rows: CoveredRows,
    /// Whether an upload may move a row out of its own partition.
    pub may_leave: bool,
    /// Whether rows may be compressed on their way.
    pub compress: bool,
    /// Whether the application's triggers at remotes fire for downloaded rows.
    pub fires: bool,
    /// Whether remotes keep the rows that a refresh does not return.
    pub kept_by_refresh: bool,
    /// Columns that have got another name: new and old.
    pub renamed: BTreeMap<String, String>,
    /// Columns that were published and are gone.
    pub dropped: Vec<String>,
    /// Columns that are not published on purpose.
    pub unpublished: Vec<String>,
    /// Columns that remotes of this script version know under other names: theirs and the
    /// database's.
    pub names: BTreeMap<String, String>,
    /// What the table was called before.
    pub renamed_from: Option<String>,
    /// Where `partition` or `parent` is in the file; the table's own line without them.
    pub line: usize,
}

/// What a numeric column is at remotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredAs {
    /// Text: exact, but compared as text.
    Text,
    /// A double.
    Real,
    /// An integer where it is whole.
    Integer,
}

/// The notation of a moment at remotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimesAs {
    /// `2026-12-01 08:00:00`, as SQLite's functions write it.
    Sqlite,
    /// `2026-12-01T08:00:00Z`.
    Rfc3339,
}

/// Which rows of a table a partition covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoveredRows {
    /// All of them.
    All,
    /// Those that meet a condition.
    Partition(Partition),
    /// Those whose parent is covered.
    Parent(Parent),
}

impl TableModel {
    /// What remotes call a column of the database.
    pub(crate) fn outward(&self, column: &str) -> String {
        let named = self.names.iter().find(|(_, inward)| *inward == column);
        named.map_or(column, |(outward, _)| outward).to_owned()
    }

    /// What is wrong with the names, for a table that publishes these columns.
    pub(crate) fn wrong_names(&self, columns: &[String]) -> Option<String> {
        let stranger = self.names.values().find(|inward| !columns.contains(inward));
        if let Some(column) = stranger {
            return Some(format!("`names` names {column}, which is not published"));
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut outward = columns.iter().map(|column| self.outward(column));
        outward
            .find(|name| !seen.insert(name.to_ascii_lowercase()))
            .map(|name| format!("`names` gives two columns the name {name}"))
    }

    /// The same of a table of which only these columns are known.
    pub(crate) fn narrowed(&self, columns: &[String]) -> TableModel {
        let known = |name: &String| columns.contains(name);
        let conflict = self.conflict.narrowed(columns);
        let mut narrowed = TableModel { conflict, ..self.clone() };
        narrowed.columns = Some(columns.to_vec());
        narrowed.names.clear();
        narrowed.stored_as.retain(|name, _| known(name));
        narrowed.times.retain(|name, _| known(name));
        narrowed
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    script_version: String,
    #[serde(default)]
    acknowledge: bool,
    #[serde(default)]
    publication: BTreeMap<String, PublicationFile>,
    table: BTreeMap<String, Spanned<TableFile>>,
    #[serde(default)]
    dropped_tables: Vec<String>,
    #[serde(default)]
    unpublished: Vec<String>,
    scripts: Option<ScriptsFile>,
    on_error: Option<OnErrorFile>,
    #[serde(default)]
    session: bool,
    time_zone: Option<String>,
}

/// Where scripts come from.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum ScriptsFile {
    /// From the model, unless there is a file.
    Generated,
    /// From files alone.
    Own,
}

/// What becomes of an upload with a row that the database refuses.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OnErrorFile {
    /// The row is rejected.
    Reject,
    /// Nothing of the upload is applied.
    Cancel,
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
    #[serde(rename = "as")]
    stored_as: BTreeMap<String, StoredAs>,
    times: BTreeMap<String, TimesAs>,
    direction: Option<Direction>,
    conflict: Option<RuleFile>,
    keep_losers: Option<String>,
    partition: Option<Spanned<PartitionFile>>,
    parent: Option<Spanned<ParentFile>>,
    may_leave: Option<Spanned<bool>>,
    compress: Option<bool>,
    remote_triggers: Option<Spanned<RemoteTriggersFile>>,
    refresh: Option<RefreshFile>,
    renamed: BTreeMap<String, String>,
    dropped: Vec<String>,
    unpublished: Vec<String>,
    names: BTreeMap<String, String>,
    renamed_from: Option<String>,
}

/// What a refresh does with the rows of a remote that it does not return.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum RefreshFile {
    Delete,
    Keep,
}

/// What the application's triggers at a remote do for downloaded rows.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum RemoteTriggersFile {
    Off,
    Fire,
}

impl SyncModel {
    /// Reads the text of a model file; every mistake is named with its line.
    pub fn parse(text: &str, file_name: &str) -> Result<SyncModel, Failure> {
        let invalid =
            |message: String| Failure::new(Code::ConfigInvalid, format!("{file_name}: {message}"));
        let file: ModelFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, &span));
            let message = error.message().replace('\n', " ");
            invalid(format!("line {line}: {}", misplaced(&message).unwrap_or(message)))
        })?;
        let mut tables = BTreeMap::new();
        for (name, table) in file.table {
            let table = read_table(table, text).map_err(|(line, message)| {
                invalid(format!("line {line}: table {name}: {message}"))
            })?;
            tables.insert(name, table);
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
            acknowledge: file.acknowledge,
            publications,
            tables,
            dropped_tables: file.dropped_tables,
            unpublished: file.unpublished,
            time_zone: file.time_zone,
            cancels: file.on_error == Some(OnErrorFile::Cancel),
            session: file.session,
            only_own: file.scripts == Some(ScriptsFile::Own),
            own_scripts: BTreeMap::new(),
            misplaced_scripts: Vec::new(),
        })
    }
}

/// The keys of a model that belong to no section.
const TOP_KEYS: [&str; 8] = [
    "script_version",
    "acknowledge",
    "dropped_tables",
    "unpublished",
    "scripts",
    "on_error",
    "session",
    "time_zone",
];

/// What to say of a key that stands below a section and is none of it. A key belongs to the section
/// before it, which is easily overlooked.
fn misplaced(message: &str) -> Option<String> {
    let (key, _) = message.strip_prefix("unknown field `")?.split_once('`')?;
    TOP_KEYS.contains(&key).then(|| {
        format!("`{key}` belongs to the top of the file, before the first section in brackets")
    })
}

/// The line that something begins in.
fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = &text.as_bytes()[..span.start.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// One table of the file, or what is wrong with it and in which line.
fn read_table(table: Spanned<TableFile>, text: &str) -> Result<TableModel, (usize, String)> {
    let own_line = line_of(text, &table.span());
    let table = table.into_inner();
    let conflict = match table.conflict {
        None => ConflictRule::ConsolidatedWins,
        Some(rule) => rule.read().map_err(|message| (own_line, message))?,
    };
    let direction = table.direction.unwrap_or(Direction::Both);
    let (mut rows, mut line) = (CoveredRows::All, own_line);
    if let Some(partition) = table.partition {
        line = line_of(text, &partition.span());
        let read = partition.into_inner().read();
        let partition = read.map_err(|message| (line, format!("partition: {message}")))?;
        rows = CoveredRows::Partition(partition);
    }
    if let Some(parent) = table.parent {
        line = line_of(text, &parent.span());
        if rows != CoveredRows::All {
            return Err((line, "a table has either partition or parent, not both".into()));
        }
        rows = CoveredRows::Parent(parent.into_inner().into());
    }
    let may_leave = match table.may_leave {
        Some(leave) if rows == CoveredRows::All || !direction.uploads() => {
            let line = line_of(text, &leave.span());
            return Err((line, "may_leave needs a partition or parent, and uploads".into()));
        }
        leave => leave.is_some_and(Spanned::into_inner),
    };
    let fires = match table.remote_triggers {
        Some(triggers) if *triggers.get_ref() == RemoteTriggersFile::Fire => {
            let line = line_of(text, &triggers.span());
            let needs = "remote_triggers = \"fire\" needs a table that remotes download";
            direction.downloads().then_some(true).ok_or((line, needs.to_owned()))?
        }
        _ => false,
    };
    Ok(TableModel {
        columns: table.columns,
        stored_as: table.stored_as,
        times: table.times,
        direction,
        conflict,
        keep_losers: table.keep_losers,
        rows,
        may_leave,
        compress: table.compress.unwrap_or(true),
        fires,
        kept_by_refresh: table.refresh == Some(RefreshFile::Keep),
        renamed: table.renamed,
        dropped: table.dropped,
        unpublished: table.unpublished,
        names: table.names,
        renamed_from: table.renamed_from,
        line,
    })
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
        assert!(!model.acknowledge);
        let latest = ConflictRule::Compare { column: "m".into(), wins: Wins::Later };
        assert_eq!(model.tables["Order Line"].conflict, latest);
        let all = PublicationName::new("all").unwrap();
        assert_eq!(model.publications[&all].len(), 2);
    }

    #[test]
    fn a_model_says_which_rows_it_covers() {
        let model = SyncModel::parse(
            "script_version = \"v1\"\n[table.a]\npartition = \"b = {u.b}\"\nmay_leave = true\n\
             [table.c]\nparent = \"a\"\n[table.d]\nparent = { table = \"c\", columns = [\"x\"] }\n\
             [table.e]\npartition = { custom = \"t.x > 3\" }\n",
            "model.toml",
        )
        .unwrap();
        let rows = |name: &str| model.tables[name].rows.clone();
        let parent = |table: &str, columns| Parent { table: table.into(), columns };
        let test = ClaimTest::Is(Claim::User("b".into()));
        let column = Partition::Column { column: "b".into(), test };
        assert_eq!(rows("a"), CoveredRows::Partition(column));
        assert!(model.tables["a"].may_leave);
        assert_eq!(model.tables["a"].line, 3);
        assert_eq!(rows("c"), CoveredRows::Parent(parent("a", None)));
        assert_eq!(rows("d"), CoveredRows::Parent(parent("c", Some(vec!["x".into()]))));
        assert_eq!(rows("e"), CoveredRows::Partition(Partition::Custom("t.x > 3".into())));
    }

    #[test]
    fn triggers_at_remotes_fire_only_for_what_is_downloaded() {
        let read = |options: &str| {
            let text = format!("script_version = \"v1\"\n[table.a]\n{options}");
            SyncModel::parse(&text, "model.toml")
        };
        assert!(read("remote_triggers = \"fire\"").unwrap().tables["a"].fires);
        assert!(!read("remote_triggers = \"off\"").unwrap().tables["a"].fires);
        assert!(!read("").unwrap().tables["a"].fires);
        let idle = "direction = \"upload_only\"\nremote_triggers = ";
        assert!(!read(&format!("{idle}\"off\"")).unwrap().tables["a"].fires);
        let failure = read(&format!("{idle}\"fire\"")).unwrap_err();
        assert_eq!(failure.code(), Code::ConfigInvalid);
        assert_eq!(
            failure.message(),
            "model.toml: line 4: table a: remote_triggers = \"fire\" needs a table that remotes \
             download"
        );
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
            ("script_version = \"v1\"\n[table.a]\ncolor = 1\n", "line 3: unknown field `color`"),
            (
                "script_version = \"v1\"\n[table.a]\ndirection = \"up\"\n",
                "line 3: unknown variant `up`",
            ),
            (
                "script_version = \"v1\"\n[table.a]\nconflict = \"mine\"\n",
                "unknown conflict rule \"mine\"",
            ),
            (
                "script_version = \"v1\"\n[table.a]\ncolumns = [\"b\"]\npartition = \"b > 3\"\n",
                "line 4: table a: partition: expected IN, found >",
            ),
            (
                "script_version = \"v1\"\n[table.a]\npartition = { sql = \"b > 3\" }\n",
                "line 3: expected a condition or { custom = \"SQL\" }",
            ),
            (
                "script_version = \"v1\"\n[table.a]\nparent = \"b\"\npartition = \"b = {u.b}\"\n",
                "line 3: table a: a table has either partition or parent, not both",
            ),
            (
                "script_version = \"v1\"\n[table.a]\nmay_leave = true\n",
                "line 3: table a: may_leave needs a partition or parent",
            ),
            (
                "script_version = \"v1\"\n[table.a]\n\ndropped_tables = [\"b\"]\n",
                "line 4: `dropped_tables` belongs to the top of the file, before the first section",
            ),
            (
                "[publication.all]\nscript_version = \"v1\"\n[table.a]\n",
                "line 2: `script_version` belongs to the top of the file",
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
