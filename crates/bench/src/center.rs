//! The consolidated database of a run: created for it, filled, counted and removed.

pub(crate) mod database;
mod postgres;
mod sqlite;
pub(crate) mod tables;

use crate::client::account::{CLAIM, PASSWORD_HASH, user_of};
use crate::layout::Layout;
use crate::options::Model;
use crate::purchase::{Table, employee_id};
use consolidated::{SyncModel, Url};
use database::Center;
use model::{Code, Failure};
use std::collections::BTreeMap;
use std::path::Path;
use tables::{NAME, empty_tables, tables};

/// Adds the scripts below a folder to the models that they are for.
pub type AddScripts = fn(&mut [SyncModel], &Path) -> Result<(), Failure>;

/// Makes the tables of a model in a place of their own, and empty ones until there are `published`.
pub(crate) fn create(url: &Url, model: Model, published: u32) -> Result<Box<dyn Center>, Failure> {
    match url {
        Url::Sqlite(path) => Ok(Box::new(sqlite::Sqlite::create(path, model, published)?)),
        Url::Postgres(url) => Ok(Box::new(postgres::Postgres::create(url, model, published)?)),
    }
}

/// Deploys the model, with the scripts of a folder if there is one, and adds the user of every
/// client.
pub(crate) fn deploy(
    center: &dyn Center,
    layout: &Layout,
    scripts: Option<(AddScripts, &Path)>,
) -> Result<(), Failure> {
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
    let mut models = [SyncModel::parse(&text, "the model of the benchmark")?];
    if let Some((add_scripts, dir)) = scripts {
        add_scripts(&mut models, dir)?;
        let [model] = &models;
        if model.own_scripts.is_empty() && model.misplaced_scripts.is_empty() {
            let message = format!("{} has no script for {NAME}", dir.display());
            return Err(Failure::new(Code::ScriptInvalid, message));
        }
    }
    let mut admin = consolidated::administer(center.url())?;
    admin.deploy(&models, false)?;
    for client in 0..layout.clients {
        let employees = layout.employees_of(client).into_iter();
        let ids: Vec<String> =
            employees.map(|employee| employee_id(employee).to_string()).collect();
        let claims = BTreeMap::from([(CLAIM.to_owned(), ids.join(","))]);
        admin.add_user(&user_of(client)?, PASSWORD_HASH, &claims)?;
    }
    Ok(())
}
