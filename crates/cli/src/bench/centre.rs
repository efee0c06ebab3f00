//! The consolidated database of a run: created for it, filled, counted and removed.

mod postgres;
mod sqlite;

pub(super) use postgres::FILLFACTOR;

use super::ceiling::{Ceiling, Load};
use super::client::{CLAIM, PASSWORD_HASH, user_of};
use super::layout::{Layout, notes_len};
use super::processors::Processors;
use super::purchase::{Purchase, Table, employee_id};
use super::tally::Tally;
use crate::args::Model;
use consolidated::{SyncModel, Url};
use model::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The name of everything that a run makes.
pub(super) const NAME: &str = "syncline_bench";

/// What a run needs of a database, beside what a server does.
pub(super) trait Centre {
    /// The database as the server opens it.
    fn url(&self) -> &Url;

    /// The folder of the run, for everything that is no database.
    fn folder(&self) -> &Path;

    /// Whether it has decimal numbers, which remotes hold as text.
    fn has_decimals(&self) -> bool;

    /// Writes rows as any other program does.
    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure>;

    /// Gives rows the cost that they have here, as any other program does.
    fn update(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure>;

    /// Does now what a database does after many changes, so that it does not do so later.
    fn settle(&mut self) -> Result<(), Failure>;

    /// The rows of every employee.
    fn tallies(&mut self) -> Result<BTreeMap<i64, Tally>, Failure>;

    /// Lets the database's work for this run, as far as it has begun, use these processors only.
    fn pin(&mut self, processors: &Processors) -> Result<(), Failure>;

    /// Processor time of the database so far; none where it cannot be separated from the server's.
    fn cpu(&self) -> Option<Duration>;

    /// What the database can do without us.
    fn ceiling(&mut self, load: &Load, processors: Option<&Processors>)
    -> Result<Ceiling, Failure>;

    /// What it is, and what was set up.
    fn settings(&mut self) -> Result<Value, Failure>;

    /// Removes what was made.
    fn remove(self: Box<Self>) -> Result<(), Failure>;
}

/// Makes the tables of a model in a place of their own, and empty ones until there are `published`.
pub(super) fn create(url: &Url, model: Model, published: u32) -> Result<Box<dyn Centre>, Failure> {
    match url {
        Url::Sqlite(path) => Ok(Box::new(sqlite::Sqlite::create(path, model, published)?)),
        Url::Postgres(url) => Ok(Box::new(postgres::Postgres::create(url, model, published)?)),
    }
}

/// The tables of a model, parents first.
pub(super) fn tables(model: Model) -> &'static [Table] {
    match model {
        Model::OrderLines => &Table::ALL,
        Model::Purchase | Model::Overlapping | Model::Merge => &[Table::Purchase],
    }
}

/// The names of the tables that stay empty.
fn empty_tables(model: Model, published: u32) -> impl Iterator<Item = String> {
    let first = 1 + tables(model).len() as u32;
    (first..=published).map(|number| format!("purchase_{number:05}"))
}

/// Creates the tables. `schema` is written before their names, and `with` after their definitions.
fn create_tables(model: Model, published: u32, schema: &str, with: &str) -> String {
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

/// Deploys the model, and adds the user of every client.
pub(super) fn deploy(centre: &dyn Centre, layout: &Layout) -> Result<(), Failure> {
    let condition = match layout.model {
        Model::Overlapping => format!("emp_id IN {{u.{CLAIM}}}"),
        Model::Purchase | Model::OrderLines | Model::Merge => format!("emp_id = {{u.{CLAIM}}}"),
    };
    let mut text = format!("script_version = \"{NAME}\"\n");
    for table in tables(layout.model) {
        text.push_str(&format!("[table.{}]\n", table.name()));
        text.push_str(&match table {
            Table::Purchase => format!("partition = \"{condition}\"\n"),
            Table::Line => "parent = \"purchase\"\n".to_owned(),
        });
    }
    for name in empty_tables(layout.model, layout.tables) {
        text.push_str(&format!("[table.{name}]\npartition = \"{condition}\"\n"));
    }
    let model = SyncModel::parse(&text, "the model of the benchmark")?;
    let mut admin = consolidated::administer(centre.url())?;
    admin.deploy(&[model], false)?;
    for client in 0..layout.clients {
        let employees = layout.employees_of(client).into_iter();
        let ids: Vec<String> =
            employees.map(|employee| employee_id(employee).to_string()).collect();
        let claims = BTreeMap::from([(CLAIM.to_owned(), ids.join(","))]);
        admin.add_user(&user_of(client)?, PASSWORD_HASH, &claims)?;
    }
    Ok(())
}

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
