//! The model that `init` writes: every table, all columns, both directions.

use super::tables::{self, UserTable};
use crate::admin::InitialModel;
use crate::sync_model::toml_key;
use model::{Code, Failure};
use std::collections::BTreeMap;

const HEADER: &str = "\
# What is synchronized. Deploy changes with `syncline deploy`.

script_version = \"v1\"

# Every user is subscribed to every publication. A publication without `tables` has them all.
[publication.all]

# Options of a table:
#   columns   = [\"a\", \"b\"]     published columns; default: all. The key is always published
#   direction = \"both\"         both | download_only | upload_only
#   conflict  = \"consolidated_wins\"
#               consolidated_wins   the row stays as it is at the centre
#               remote_wins         the row becomes what the remote made of it
#               merge               column by column; where both changed one, the centre's stays
#               { latest = \"COLUMN\" }   the later value in COLUMN wins, future ones count as now
";

/// Writes the model for `wanted` tables, or for all that can be synchronized.
pub(super) fn model(
    user_tables: &BTreeMap<String, UserTable>,
    wanted: &[String],
) -> Result<InitialModel, Failure> {
    let mut toml = HEADER.to_owned();
    let mut warnings = Vec::new();
    let mut count = 0;
    let mut chosen: Vec<&UserTable> = Vec::new();
    for name in wanted {
        let table = tables::find(user_tables, name).ok_or_else(|| {
            Failure::new(Code::ModelMismatch, format!("there is no table {name}"))
                .table(name.as_str())
        })?;
        if let Some(failure) = tables::unsupported(table) {
            return Err(failure);
        }
        chosen.push(table);
    }
    if wanted.is_empty() {
        chosen.extend(user_tables.values().filter(|table| !is_shadow(table, user_tables)));
    }
    for table in chosen {
        match tables::unsupported(table) {
            None => {
                toml.push_str(&format!("\n[table.{}]\n", toml_key(&table.name)));
                count += 1;
            }
            Some(failure) => {
                toml.push_str(&format!(
                    "\n# [table.{}]\n# left out: {}\n",
                    toml_key(&table.name),
                    failure.message()
                ));
                warnings.push(format!("{}; it is left out", failure.message()));
            }
        }
    }
    if count == 0 {
        let message = "the database has no table with a primary key";
        return Err(Failure::new(Code::ModelMismatch, message)
            .hint("create the tables first; `syncline init` reads them"));
    }
    Ok(InitialModel { toml, tables: count, warnings })
}

/// The tables behind a virtual table are its own business, and no warning.
fn is_shadow(table: &UserTable, user_tables: &BTreeMap<String, UserTable>) -> bool {
    let owner = table.name.rsplit_once('_').and_then(|(owner, _)| user_tables.get(owner));
    !table.ordinary && owner.is_some_and(|owner| !owner.ordinary)
}
