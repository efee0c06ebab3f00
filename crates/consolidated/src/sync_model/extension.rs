//! Adds tables and columns to the text of a model. The rest of the text is not changed.

use super::toml_key;
use crate::deploy::difference::{Difference, Disagreement};
use model::{Code, Failure};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// `text` with everything that the database has and the model does not publish.
pub fn extend(text: &str, differences: &[Difference]) -> Result<String, Failure> {
    let file = DeTable::parse(text)
        .map_err(|error| Failure::new(Code::ConfigInvalid, error.message().replace('\n', " ")))?;
    let tables = file.get_ref().get("table").and_then(|tables| tables.get_ref().as_table());
    // Where something is put in, and what; from the end, so that places stay what they are.
    let mut insertions: Vec<(usize, String)> = Vec::new();
    let mut sections = String::new();
    let mut added: Vec<(&str, Range<usize>, bool, Vec<String>)> = Vec::new();
    for new in differences.iter().filter(|new| new.what == Disagreement::NotPublished) {
        let Some(column) = &new.column else {
            sections.push_str(&format!("\n[table.{}]\n", toml_key(&new.table)));
            continue;
        };
        let section = tables.into_iter().flat_map(|tables| tables.iter());
        let mut section =
            section.filter(|(name, _)| Some(name.get_ref().as_ref()) == new.section.as_deref());
        let list = section.next().and_then(|(_, section)| section.get_ref().as_table());
        let Some(list) = list.and_then(|section| section.get("columns")) else { continue };
        let DeValue::Array(items) = list.get_ref() else { continue };
        let after = items.iter().last().map(toml::Spanned::span);
        let place = after.clone().unwrap_or(list.span().start..list.span().start + 1);
        let quoted = toml::Value::String(column.clone()).to_string();
        match added.iter_mut().find(|(table, ..)| *table == new.table) {
            Some((.., columns)) => columns.push(quoted),
            None => added.push((&new.table, place, after.is_some(), vec![quoted])),
        }
    }
    for (_, place, follows, columns) in added {
        let list = columns.join(", ");
        insertions.push((place.end, if follows { format!(", {list}") } else { list }));
    }
    insertions.sort();
    let mut extended = text.to_owned();
    for (at, what) in insertions.into_iter().rev() {
        extended.insert_str(at, &what);
    }
    if !extended.ends_with('\n') && !sections.is_empty() {
        extended.push('\n');
    }
    extended.push_str(&sections);
    Ok(extended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(table: &str, column: Option<&str>) -> Difference {
        Difference {
            script_version: "v1".into(),
            table: table.into(),
            column: column.map(str::to_owned),
            what: Disagreement::NotPublished,
            section: column.map(|_| table.to_owned()),
        }
    }

    #[test]
    fn what_the_owner_wrote_stays() {
        let text = "script_version = \"v1\" # ours\n[table.item]\ncolumns = [\n  \"id\", # key\n  \
                    \"qty\", # how many\n]\n[table.empty]\ncolumns = []";
        let differences = [
            new("empty", Some("id")),
            new("item", Some("price")),
            new("item", Some("say \"so\"")),
            new("new table", None),
        ];
        let extended = extend(text, &differences).unwrap();
        assert_eq!(
            extended,
            "script_version = \"v1\" # ours\n[table.item]\ncolumns = [\n  \"id\", # key\n  \
             \"qty\", \"price\", 'say \"so\"', # how many\n]\n[table.empty]\ncolumns = [\"id\"]\n\
             \n[table.\"new table\"]\n"
        );
        super::super::SyncModel::parse(&extended, "model.toml").unwrap();
    }
}
