//! Shapes of tables that remotes may hold, in this database.

use super::deploy::table_exists;
use super::errors::failed;
use super::plan::{self, Plan};
use super::tables::{self, UserTable};
use crate::shape::{self, Past, Planned, Succession};
use crate::sync_model::SyncModel;
use crate::synchronization::{Held, Session};
use model::Failure;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// Notes that the remote holds the tables of today, for as long as older ones are kept for it.
pub(super) fn note_held(connection: &Connection, session: &Session) -> Result<(), Failure> {
    if !matches!(session.held, Held::Same { note: true }) {
        return Ok(());
    }
    connection
        .prepare_cached(
            "UPDATE syncline_remote SET held_deployment = ?2
             WHERE remote_id = ?1 AND held_deployment IS NOT ?2",
        )
        .and_then(|mut s| s.execute(params![session.remote_id.as_str(), session.deployment]))
        .map_err(failed("note what the remote holds"))?;
    Ok(())
}

/// Completes a plan by what becomes of the shapes.
pub(super) type Succeed<'a> = dyn Fn(&Connection, &mut Plan) -> Result<(), Failure> + 'a;

/// Gives the tables of a plan their final fingerprints, and adds the statements about shapes.
pub(super) fn succession<'a>(
    user_tables: &'a BTreeMap<String, UserTable>,
    models: &'a [SyncModel],
) -> impl Fn(&Connection, &mut Plan) -> Result<(), Failure> + 'a {
    move |connection, plan| {
        plan.shapes = succeed(connection, user_tables, models, plan)?;
        Ok(())
    }
}

fn succeed(
    connection: &Connection,
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
    plan: &mut Plan,
) -> Result<Vec<String>, Failure> {
    let past = read(connection)?;
    let mut planned = Vec::new();
    for version in &mut plan.versions {
        let script_version = version.script_version.to_string();
        planned.extend(version.tables.iter_mut().map(|table| Planned {
            script_version: script_version.clone(),
            published: &mut table.published,
            outward: &mut table.outward,
        }));
    }
    let columns = |table: &UserTable| table.stored_columns().into_iter().collect();
    let database = user_tables.iter().map(|(name, table)| (name.clone(), columns(table))).collect();
    shape::succeed(
        &past,
        planned,
        &mut plan.notices,
        &Succession {
            models,
            database: &database,
            find: &|name| tables::find(user_tables, name).map(|table| table.name.clone()),
            narrow: &|version, table, columns| {
                plan::narrow(user_tables, models, version, table, columns)
            },
            prefix: "",
        },
    )
}

pub(super) fn read(connection: &Connection) -> Result<Past, Failure> {
    let exists = |table: &str, column: &str| {
        table_exists(connection, table).unwrap_or(false)
            && connection.column_exists(Some("main"), table, column).unwrap_or(false)
    };
    Past::read("", &exists, &mut |sql| {
        let mut statement = connection.prepare(sql).map_err(failed("read the shapes"))?;
        let width = statement.column_count();
        statement
            .query_map([], |row| (0..width).map(|at| row.get(at)).collect())
            .and_then(Iterator::collect)
            .map_err(failed("read the shapes"))
    })
}
