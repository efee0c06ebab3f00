//! The real client, on SQLite.

use super::account::PASSWORD;
use super::traffic::Traffic;
use crate::barrier::Assignment;
use crate::center::tables::tables;
use crate::checksum::Checksum;
use crate::options::{ClientsOn, Operation};
use crate::purchase::{Content, Purchase, Table, digest_of_values};
use client::{Components, Credential, Mode, Remote, Request, Settings, Transport};
use model::{Failure, RemoteId, UserName};

/// Rows of one INSERT statement.
const ROWS_PER_STATEMENT: usize = 500;

/// A remote, and the application that writes to it.
pub(super) struct RealClient {
    remote: Remote,
    credential: Credential,
    tables: &'static [Table],
}

impl RealClient {
    pub(super) fn open(
        user: UserName,
        remote_id: RemoteId,
        assignment: &Assignment,
        components: Components,
    ) -> Result<RealClient, Failure> {
        let mut remote = match assignment.clients_on {
            ClientsOn::File => {
                let path = assignment.folder.join(format!("{remote_id}.db"));
                Remote::open_or_create(&path, components)?
            }
            _ => Remote::in_memory(components)?,
        };
        remote.remember(&Settings {
            server: Some(assignment.server.clone()),
            user: Some(user),
            remote_id: Some(remote_id),
            ..Settings::default()
        })?;
        remote.compress(assignment.compression.method().as_slice());
        let tables = tables(assignment.layout.model);
        Ok(RealClient { remote, credential: Credential::Password(PASSWORD.to_owned()), tables })
    }

    pub(super) fn synchronize(
        &mut self,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    ) -> Result<Traffic, Failure> {
        let request = Request {
            mode: Mode::Full,
            credential: self.credential.clone(),
            client: concat!("syncline ", env!("CARGO_PKG_VERSION"), " bench").to_owned(),
        };
        let report = self.remote.synchronize(&request, connect, &mut |_| {})?;
        if let Some(token) = report.token {
            self.credential = Credential::Token(token);
        }
        Ok(Traffic {
            uploaded: report.uploaded.inserts + report.uploaded.updates + report.uploaded.deletes,
            downloaded: report.downloaded.upserts + report.downloaded.deletes,
            disputed: report.conflicts + report.rejected,
        })
    }

    pub(super) fn change(
        &mut self,
        operation: Operation,
        rows: &[Purchase],
    ) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let of_the_set = |table: Table| {
            format!(
                "WHERE emp_id = {} AND {} BETWEEN {} AND {}",
                first.employee(),
                table.id_column(),
                first.id(),
                last.id()
            )
        };
        let sql = |table: &Table| match operation {
            Operation::Download => String::new(),
            Operation::UploadInsert => inserts(*table, rows),
            Operation::UploadUpdate | Operation::Exchange => {
                let cost = first.with(Content::ByRemote).cost();
                format!("UPDATE {} SET cost = '{cost}' {};", table.name(), of_the_set(*table))
            }
            Operation::UploadDelete => {
                format!("DELETE FROM {} {};", table.name(), of_the_set(*table))
            }
        };
        // A parent goes last, and comes first.
        let all: String = match operation {
            Operation::UploadDelete => self.tables.iter().rev().map(sql).collect(),
            _ => self.tables.iter().map(sql).collect(),
        };
        self.remote.execute(&all)
    }

    pub(super) fn checksum(&self) -> Result<Checksum, Failure> {
        let mut checksum = Checksum::default();
        for table in self.tables {
            let query = format!("SELECT {} FROM {}", table.columns().join(", "), table.name());
            self.remote.for_each_row(&query, &mut |values| {
                checksum.add(digest_of_values(values)?);
                Ok(())
            })?;
        }
        Ok(checksum)
    }
}

fn inserts(table: Table, rows: &[Purchase]) -> String {
    let rows: Vec<&Purchase> = rows.iter().filter(|row| row.table() == table).collect();
    let mut sql = String::new();
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        sql.push_str(&format!(
            "INSERT INTO {} ({}) VALUES ",
            table.name(),
            table.columns().join(", ")
        ));
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                sql.push_str(", ");
            }
            row.write_sql(&mut sql);
        }
        sql.push(';');
    }
    sql
}
