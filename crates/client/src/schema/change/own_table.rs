//! A table that the user created and that is published. It is used as it is, if that is possible.

use crate::connection::explain;
use crate::schema::{Affinity, LocalTable};
use model::{Code, Failure, PublishedTable};
use rusqlite::Connection;

fn differs(published: &PublishedTable, message: String, hint: &str) -> Failure {
    Failure::new(Code::RemoteSchemaDiffers, message).table(&published.name).hint(hint)
}

/// It has not all published columns.
pub(super) fn lacks(published: &PublishedTable, columns: &[&str]) -> Failure {
    let (noun, pronoun) = if columns.len() == 1 { ("column", "it") } else { ("columns", "them") };
    let message =
        format!("table {} lacks the published {noun} {}", published.name, columns.join(", "));
    let table = &published.name;
    let hint = format!(
        "add {pronoun} with ALTER TABLE {table} ADD COLUMN, or rename your table and synchronize \
         again"
    );
    differs(published, message, &hint)
}

/// Keys that the center tells apart must be two here as well: of two rows with one key, the second
/// would overwrite the first.
pub(super) fn require_as_many_keys(
    published: &PublishedTable,
    local: &LocalTable,
) -> Result<(), Failure> {
    let Some(center) = as_published(published)? else { return Ok(()) };
    for key in &local.key {
        let (Some(here), Some(there)) = (local.column(&key.name), center.column(&key.name)) else {
            continue;
        };
        let is_key = |at: &&crate::schema::IndexColumn| at.name.eq_ignore_ascii_case(&key.name);
        let Some(wanted) = center.key.iter().find(is_key) else { continue };
        let binary = key.collation.eq_ignore_ascii_case("BINARY");
        let folds = !binary && !key.collation.eq_ignore_ascii_case(&wanted.collation);
        let name = &published.name;
        if folds && here.affinity == Affinity::Text {
            let message = format!(
                "column {} of table {name} compares keys under {}, so different keys of the \
                 consolidated database would be one row",
                key.name, key.collation
            );
            let hint = "declare the key COLLATE BINARY, or rename your table and synchronize again";
            return Err(differs(published, message, hint));
        }
        let reads_numbers =
            |affinity| matches!(affinity, Affinity::Integer | Affinity::Real | Affinity::Numeric);
        if reads_numbers(here.affinity) && there.affinity == Affinity::Text {
            let message = format!(
                "column {} of table {name} turns text into numbers, so different keys of the \
                 consolidated database, such as '1' and '01', would be one row",
                key.name
            );
            let hint = "declare the key TEXT, or rename your table and synchronize again";
            return Err(differs(published, message, hint));
        }
    }
    Ok(())
}

/// The table as the center would have made it here. None where its SQL needs what is not there,
/// such as a collation of an application.
fn as_published(published: &PublishedTable) -> Result<Option<LocalTable>, Failure> {
    let Some(create) = published.create.first() else { return Ok(None) };
    let scratch = Connection::open_in_memory().map_err(explain)?;
    match scratch.execute_batch(create) {
        Ok(()) => LocalTable::read(&scratch, &published.name).map_err(explain),
        Err(_) => Ok(None),
    }
}
