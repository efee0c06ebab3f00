//! Resolves the words of a model against the database: names, keys, foreign keys.

use super::{ANCESTORS_MAX, Rows, Selection, Table};
use crate::script;
use crate::sync_model::{CoveredRows, Parent, Partition, SyncModel, TableModel};
use model::{Code, Failure};

/// What a selection must know of a table of the database.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// The name and the key, as the database spells them.
    pub(crate) table: Table,
    /// All columns.
    pub(crate) columns: Vec<String>,
    /// The foreign keys: the parent as the database spells it, referring and parent columns.
    pub(crate) foreign_keys: Vec<(String, Vec<(String, String)>)>,
}

/// The selection of the table that `model` calls `name`. `find` finds a table of the database by
/// its name in a model.
pub(crate) fn resolve(
    model: &SyncModel,
    name: &str,
    find: &dyn Fn(&str) -> Option<Shape>,
) -> Result<Selection, Failure> {
    let table_model = model.tables.get(name);
    let table_model = table_model
        .ok_or_else(|| Failure::new(Code::Bug, format!("the model has no table {name}")))?;
    let missing = "there is no such table";
    let shape = find(name).ok_or_else(|| mistake(model, name, table_model.line, missing))?;
    Resolver { model, find }.selection(name, table_model, shape, &mut Vec::new())
}

struct Resolver<'a> {
    model: &'a SyncModel,
    find: &'a dyn Fn(&str) -> Option<Shape>,
}

impl Resolver<'_> {
    /// `below` are the tables that have led here, children first.
    fn selection(
        &self,
        name: &str,
        table_model: &TableModel,
        shape: Shape,
        below: &mut Vec<String>,
    ) -> Result<Selection, Failure> {
        let mistake = |message: &str| mistake(self.model, name, table_model.line, message);
        let has = |shape: &Shape, column: &str| match shape.columns.iter().any(|c| c == column) {
            true => Ok(column.to_owned()),
            false => {
                let table = &shape.table.name;
                Err(mistake(&format!("table {table} has no column {column}")))
            }
        };
        let rows = match &table_model.rows {
            CoveredRows::All => Rows::All,
            CoveredRows::Partition(Partition::Column { column, test }) => {
                Rows::Column { column: has(&shape, column)?, test: test.clone() }
            }
            CoveredRows::Partition(Partition::Mapping {
                column,
                table,
                selected,
                matched,
                test,
            }) => {
                let mapping = (self.find)(table)
                    .ok_or_else(|| mistake(&format!("there is no mapping table {table}")))?;
                if mapping.table.key.is_empty() {
                    let message = format!("the mapping table {table} has no primary key");
                    return Err(mistake(&message));
                }
                Rows::Mapping {
                    column: has(&shape, column)?,
                    selected: has(&mapping, selected)?,
                    matched: has(&mapping, matched)?,
                    mapping: mapping.table,
                    test: test.clone(),
                }
            }
            CoveredRows::Partition(Partition::Custom(condition)) => {
                check_parameters(condition).map_err(|message| mistake(&message))?;
                Rows::Custom(condition.clone())
            }
            CoveredRows::Parent(parent) => {
                below.push(shape.table.name.clone());
                let above = self.parent(parent, below).map_err(|message| mistake(&message))?;
                let (above_name, above_model, above) = above;
                let link = link(&shape, parent, &above).map_err(|message| mistake(&message))?;
                for (column, _) in &link {
                    has(&shape, column)?;
                }
                let parent = self.selection(above_name, above_model, above, below)?;
                Rows::Parent { link, parent: Box::new(parent) }
            }
        };
        Ok(Selection { table: shape.table, rows })
    }

    /// The parent in the model and in the database.
    fn parent(
        &self,
        parent: &Parent,
        below: &[String],
    ) -> Result<(&String, &TableModel, Shape), String> {
        let shape = (self.find)(&parent.table)
            .ok_or_else(|| format!("there is no parent table {}", parent.table))?;
        if below.contains(&shape.table.name) {
            return Err(format!("{} is its own ancestor", shape.table.name));
        }
        if below.len() > ANCESTORS_MAX {
            return Err(format!("there are more than {ANCESTORS_MAX} levels of parents"));
        }
        let named = |name: &str| {
            (self.find)(name).is_some_and(|found| found.table.name == shape.table.name)
        };
        let found = self.model.tables.iter().find(|(name, _)| named(name));
        let (name, table_model) = found
            .ok_or_else(|| format!("the parent {} has no section in the model", parent.table))?;
        Ok((name, table_model, shape))
    }
}

/// The columns that link a row to its parent.
fn link(child: &Shape, parent: &Parent, above: &Shape) -> Result<Vec<(String, String)>, String> {
    let name = &above.table.name;
    let keys = child.foreign_keys.iter().filter(|(to, _)| to == name).map(|(_, columns)| columns);
    let Some(columns) = &parent.columns else {
        let keys: Vec<_> = keys.collect();
        return match keys.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(format!(
                "no foreign key refers to {name}; write {{ table = \"{name}\", columns = […] }}"
            )),
            _ => Err(format!(
                "several foreign keys refer to {name}; write {{ table = \"{name}\", columns = […] \
                 }}"
            )),
        };
    };
    let of_key = |key: &&Vec<(String, String)>| {
        key.len() == columns.len() && columns.iter().all(|c| key.iter().any(|(from, _)| from == c))
    };
    if let Some(key) = { keys }.find(of_key) {
        return Ok(key.clone());
    }
    if columns.is_empty() || columns.len() != above.table.key.len() {
        let (has, named) = (above.table.key.len(), columns.len());
        return Err(format!("the key of {name} has {has} columns, but {named} are named"));
    }
    Ok(columns.iter().cloned().zip(above.table.key.iter().cloned()).collect())
}

/// A custom condition is asked of rows that lie in the database, so it sees who synchronizes and
/// no uploaded row.
fn check_parameters(condition: &str) -> Result<(), String> {
    for name in script::parameter_names(condition) {
        let session = ["s.remote_id", "s.username"];
        let known = session.contains(&name.strip_prefix("ml ").unwrap_or(name).trim());
        if !known && script::claim(name).is_none() {
            return Err(format!(
                "a custom condition cannot have {{{name}}}; it has {{u.NAME}}, {{s.remote_id}} \
                 and {{s.username}}"
            ));
        }
    }
    Ok(())
}

fn mistake(model: &SyncModel, table: &str, line: usize, message: &str) -> Failure {
    let file = &model.file_name;
    Failure::new(Code::ModelMismatch, format!("{file}: line {line}: table {table}: {message}"))
        .table(table)
}
