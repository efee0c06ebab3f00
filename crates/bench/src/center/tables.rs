//! The tables of a run.

use crate::layout::notes_len;
use crate::options::Model;
use crate::purchase::Table;

/// The name of everything that a run makes.
pub(crate) const NAME: &str = "syncline_bench";

/// The tables of a model, parents first.
pub(crate) fn tables(model: Model) -> &'static [Table] {
    match model {
        Model::OrderLines => &Table::ALL,
        Model::Purchase | Model::Overlapping | Model::Merge => &[Table::Purchase],
    }
}

/// The names of the tables that stay empty.
pub(crate) fn empty_tables(model: Model, published: u32) -> impl Iterator<Item = String> {
    let first = 1 + tables(model).len() as u32;
    (first..=published).map(|number| format!("purchase_{number:05}"))
}

/// Creates the tables. `schema` is written before their names, and `with` after their definitions.
pub(crate) fn create_tables(model: Model, published: u32, schema: &str, with: &str) -> String {
    let create = |table: &Table| {
        let definition = table.definition(&format!("{schema}purchase"), notes_len(model));
        let mut sql = format!("CREATE TABLE {schema}{} ({definition}) {with};", table.name());
        if *table == Table::Line {
            // As `deploy` advises, or every download would read all lines.
            sql.push_str(&format!(
                "CREATE INDEX purchase_line_purchase ON {schema}purchase_line (emp_id, purch_id);"
            ));
        }
        sql
    };
    let create_empty = |name: String| {
        let definition = Table::Purchase.definition(schema, notes_len(model));
        format!("CREATE TABLE {schema}{name} ({definition}) {with};")
    };
    let with_rows = tables(model).iter().map(create);
    with_rows.chain(empty_tables(model, published).map(create_empty)).collect()
}

/// How full pages are made, also those of the bare table that ours is compared with.
pub(crate) const FILLFACTOR: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_tables_as_are_published() {
        for (model, published, made) in
            [(Model::Purchase, 1, 1), (Model::Purchase, 12, 12), (Model::OrderLines, 1, 2)]
        {
            let sql = create_tables(model, published, "", "");
            assert_eq!(sql.matches("CREATE TABLE").count(), made, "{sql}");
        }
    }
}
