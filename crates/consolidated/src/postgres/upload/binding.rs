//! Only the bind, for benchmarks: uploaded rows become the parameters of a statement.
//!
//! This needs no database. It needs the details of a table that a deployment notes; the published
//! table is enough here.

use crate::catalog::{Catalog, DeployedRows};
use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::upload::batch::Batch;
use crate::postgres::values::{ColumnType, NumericAs};
use crate::synchronization::Session;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::{UploadedRow, event_of};
use model::{
    Code, DatabaseId, Direction, Failure, PublishedTable, RemoteId, ScriptVersion, UserName,
};
use postgres_types::Type;
use std::collections::BTreeMap;

/// A table `purchase` as if it were deployed, and a session that uploads to it.
#[derive(Debug)]
pub struct Binding {
    table: Table,
    session: Session,
}

impl Binding {
    /// With the columns of the published measurements and the scripts of a generated model.
    pub fn of_purchase() -> Result<Binding, Failure> {
        let name = ScriptVersion::new("v1")?;
        let (published, details) = purchase();
        let json = |error| Failure::new(Code::Bug, "a table does not encode").source(error);
        let version = || name.as_str().to_owned();
        let script = |event: &str, text: &str| {
            (version(), published.name.clone(), event.to_owned(), text.to_owned())
        };
        let rows = DeployedRows {
            versions: vec![version()],
            publications: vec![(version(), "all".to_owned(), published.name.clone())],
            tables: vec![(
                version(),
                serde_json::to_string(&published).map_err(json)?,
                "consolidated_wins".to_owned(),
                serde_json::to_string(&details).map_err(json)?,
            )],
            scripts: vec![
                script("upload_insert", "INSERT INTO purchase SELECT * FROM {inserts}"),
                script(
                    "upload_update",
                    "UPDATE purchase AS t SET cost = u.cost FROM {updates} AS u",
                ),
                script("upload_delete", "DELETE FROM purchase AS t USING {deletes} AS d"),
            ],
            ..DeployedRows::default()
        };
        let database_id = DatabaseId("benchmark".to_owned());
        let mut catalog = Catalog::<TableDetails>::new(1, database_id.clone(), rows)?;
        let (script_version, schema) = catalog.schema(None, &[])?;
        let session = Session {
            by_scripts: Default::default(),
            publications: std::sync::Arc::default(),
            ends: false,
            is_session: false,
            authenticates: Default::default(),
            database_id,
            deployment: 1,
            remote_id: RemoteId::new("remote")?,
            user: UserName::new("user")?,
            owner: UserName::new("user")?,
            claims: BTreeMap::new(),
            script_version,
            schema,
            held: crate::synchronization::Held::Untold,
            waiting: Default::default(),
            acknowledge: false,
            fetched_by_writer: false,
            asks_for_times: false,
            counted: None,
            passed: Default::default(),
        };
        let deployed = catalog.tables(&session)?.into_iter().next();
        let missing = || Failure::new(Code::Bug, "a table was not found again");
        Ok(Binding { table: Table::new(deployed.ok_or_else(missing)?), session })
    }

    /// Binds all of `rows`, as an upload does; how many bytes the parameters have.
    pub fn bind(&self, change: Change, rows: &[u8]) -> Result<usize, Failure> {
        let statement = self.table.required(event_of(change))?;
        let width = self.table.deployed.published.width();
        let mut batch = Batch::new(&self.table, statement, &self.session);
        let (mut row, mut rest) = (UploadedRow::default(), rows);
        while !rest.is_empty() {
            rest = row.read(rest, change, width)?;
            batch.add(&row).map_err(|reason| Failure::new(reason.code, reason.message))?;
        }
        batch.finish();
        Ok(batch.bytes())
    }
}

fn purchase() -> (PublishedTable, TableDetails) {
    let columns = [
        ("emp_id", Type::INT4),
        ("purch_id", Type::INT4),
        ("cust_id", Type::INT4),
        ("cost", Type::NUMERIC),
        ("order_date", Type::TIMESTAMP),
        ("notes", Type::VARCHAR),
    ];
    let kind = |kind: &Type| ColumnType::of(kind.name(), kind.oid(), false, NumericAs::Text);
    let published = PublishedTable {
        compress: true,
        fires: false,
        name: "purchase".to_owned(),
        columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        key: vec![0, 1],
        direction: Direction::Both,
        create: Vec::new(),
        fingerprint: "purchase".to_owned(),
    };
    let details = TableDetails {
        schema: "public".to_owned(),
        name: "purchase".to_owned(),
        columns: columns.iter().map(|(_, it)| kind(it)).collect(),
        ..TableDetails::default()
    };
    (published, details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ValueRef, write_value};

    #[test]
    fn rows_become_the_arrays_of_their_statement() {
        let binding = Binding::of_purchase().unwrap();
        let mut rows = Vec::new();
        for value in [
            ValueRef::Integer(1),
            ValueRef::Integer(2),
            ValueRef::Integer(3),
            ValueRef::Text(b"4.5"),
            ValueRef::Text(b"2026-01-17 12:34:56"),
            ValueRef::Null,
        ] {
            write_value(&mut rows, value);
        }
        let one = binding.bind(Change::Insert, &rows).unwrap();
        let two = binding.bind(Change::Insert, &rows.repeat(2)).unwrap();
        assert!(two > one, "{two} bytes of two rows, {one} of one");
        let both_images = binding.bind(Change::Update, &rows.repeat(2)).unwrap();
        assert_eq!(both_images - one, two - one + 6 * 20, "six more arrays, with their headers");
        rows[0] = 0xFF;
        assert!(binding.bind(Change::Insert, &rows).is_err());
    }
}
