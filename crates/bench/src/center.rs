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
use model::Failure;
use std::collections::BTreeMap;
use tables::{NAME, empty_tables, tables};

/// Makes the tables of a model in a place of their own, and empty ones until there are `published`.
pub(crate) fn create(url: &Url, model: Model, published: u32) -> Result<Box<dyn Center>, Failure> {
    match url {
        Url::Sqlite(path) => Ok(Box::new(sqlite::Sqlite::create(path, model, published)?)),
        Url::Postgres(url) => Ok(Box::new(postgres::Postgres::create(url, model, published)?)),
    }
}

/// Deploys the model, and adds the user of every client.
pub(crate) fn deploy(center: &dyn Center, layout: &Layout) -> Result<(), Failure> {
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
    let mut admin = consolidated::administer(center.url())?;
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
