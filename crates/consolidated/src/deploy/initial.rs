//! The model that `init` writes: every table, all columns, both directions.

use crate::administration::InitialModel;
use crate::sync_model::toml_key;
use model::{Code, Failure};

const HEADER: &str = "\
# What is synchronized, and who receives which rows. Deploy changes with `syncline deploy`.
#
# Without changes, every user receives every row of these tables, and may change it unless the
# table is `download_only`. Restrict this first, with lines below the [table.…]:
#
#   partition = \"rep = {u.rep}\"       only rows whose column `rep` equals the user's claim `rep`;
#                                     set it with `syncline user add ann --claim rep=7`
#   parent    = \"customer\"            only rows that refer to a selected row of `customer`
#   direction = \"download_only\"       remotes receive the rows but cannot change them
#   columns   = [\"id\", \"name\"]        only these columns
#
# To keep a table from all remotes, remove its [table.…].

script_version = \"v1\"
# acknowledge = true   # remotes say at once that a download is applied; `syncline fleet list`

# Every user may receive every publication. A publication without `tables` has all tables.
[publication.all]

# Options of a table:
#   columns   = [\"a\", \"b\"]     published columns; default: all. The key is always published
#   direction = \"both\"         both | download_only | upload_only
#   conflict  = \"consolidated_wins\"
#               consolidated_wins   the row at the center stays
#               remote_wins         the row of the remote replaces it
#               merge               column by column; if both changed one, the center's stays
#               { latest = \"COLUMN\" }   the later value in COLUMN wins; future times count as now
#   partition = \"COLUMN = {u.CLAIM}\"     which rows a remote receives; default: all
#               \"COLUMN IN {u.CLAIM}\"    a list with commas; also {s.username}, {s.remote_id}
#               \"COLUMN IN (SELECT COLUMN FROM TABLE WHERE COLUMN = {u.CLAIM})\"
#               { custom = \"SQL over t\" } any other; the whole table is sent every time
#   parent    = \"TABLE\"      instead of partition: rows belong to the remote of their parent
#   may_leave = true         uploads may move a row out of the remote's partition
#   compress  = false        its rows are never compressed on their way; default: true
#   remote_triggers = \"fire\"   triggers that applications have on it at remotes fire for
#               downloaded rows, as full-text indexes need it; default: \"off\"
";

/// The line of a table that remotes cannot change.
const DOWNLOAD_ONLY: &str = "direction = \"download_only\"\n";

/// A table that a model may name.
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// Why it cannot be synchronized, if it cannot.
    pub(crate) refusal: Option<Failure>,
    /// It is proposed although it was not named.
    pub(crate) offered: bool,
}

/// Writes the model for `wanted` tables, or for all that are offered, which remotes may change
/// unless it is `download_only`. `find` finds the name of a candidate by the given name.
pub(crate) fn model(
    mut candidates: Vec<Candidate>,
    find: &dyn Fn(&str) -> Option<String>,
    wanted: &[String],
    download_only: bool,
) -> Result<InitialModel, Failure> {
    let mut toml = HEADER.to_owned();
    let mut warnings = Vec::new();
    let mut tables = Vec::new();
    let mut refused = Vec::new();
    let mut chosen: Vec<Candidate> = Vec::new();
    for name in wanted {
        let missing = || {
            Failure::new(Code::ModelMismatch, format!("there is no table {name}"))
                .hint(
                    "give --table the name of a table, or leave --table out to publish all tables",
                )
                .table(name.as_str())
        };
        let found = find(name).ok_or_else(missing)?;
        let Some(position) = candidates.iter().position(|table| table.name == found) else {
            // Named twice.
            continue;
        };
        let table = candidates.swap_remove(position);
        if let Some(failure) = table.refusal {
            return Err(failure);
        }
        chosen.push(table);
    }
    if wanted.is_empty() {
        chosen.extend(candidates.into_iter().filter(|table| table.offered));
    }
    for table in chosen {
        match table.refusal {
            None => {
                toml.push_str(&format!("\n[table.{}]\n", toml_key(&table.name)));
                toml.push_str(if download_only { DOWNLOAD_ONLY } else { "" });
                tables.push(table.name);
            }
            Some(failure) => {
                toml.push_str(&format!(
                    "\n# [table.{}]\n# left out: {}\n",
                    toml_key(&table.name),
                    failure.message()
                ));
                warnings.push(format!("{}; it is left out", failure.message()));
                refused.push(failure);
            }
        }
    }
    match tables.is_empty() {
        true => Err(no_table(&refused)),
        false => Ok(InitialModel { toml, tables, warnings, notices: Vec::new() }),
    }
}

/// So many tables are told one by one.
const TOLD_MAX: usize = 10;

/// Why the model would be empty: every table that it might have was `refused`.
fn no_table(refused: &[Failure]) -> Failure {
    if refused.is_empty() {
        return Failure::new(Code::ModelMismatch, "the database has no table with a primary key")
            .hint("create the tables first; `syncline init` reads them");
    }
    let why = refused.iter().take(TOLD_MAX);
    let why = why.map(|failure| format!("{} (E{})", failure.message(), failure.code().number()));
    let mut why: Vec<String> = why.collect();
    if let more @ 1.. = refused.len().saturating_sub(TOLD_MAX) {
        why.push(format!("and {more} more"));
    }
    let message = format!("no table can be synchronized: {}", why.join("; "));
    Failure::new(Code::ModelMismatch, message)
        .hint("change the tables, or create others; `syncline init` reads them")
}
