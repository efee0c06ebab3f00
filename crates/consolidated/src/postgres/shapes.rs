//! Shapes of tables that remotes may hold, in this database.

use super::errors::failed;
use super::link::Link;
use super::migration;
use super::plan::{self, Plan};
use super::present::is_deployed;
use super::tables::{self, UserTable};
use crate::shape::{self, Past, Planned, Succession};
use crate::sync_model::SyncModel;
use crate::synchronization::{Held, Session};
use model::{Code, Failure};
use postgres_types::ToSql;
use std::collections::{BTreeMap, BTreeSet};

/// Notes that a remote holds the tables of this deployment.
pub(super) const NOTE_HELD: &str = "UPDATE syncline.syncline_remote SET held_deployment = $2
WHERE remote_id = $1 AND held_deployment IS DISTINCT FROM $2";

/// What [`NOTE_HELD`] is given, where that is worth a statement.
pub(super) struct HeldNote<'a> {
    remote_id: &'a str,
    deployment: i64,
}

impl<'a> HeldNote<'a> {
    pub(super) fn of(session: &'a Session) -> Option<HeldNote<'a>> {
        let (remote_id, deployment) = (session.remote_id.as_str(), session.deployment);
        matches!(session.held, Held::Same { note: true })
            .then_some(HeldNote { remote_id, deployment })
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.remote_id, &self.deployment]
    }
}

/// Completes a plan by what becomes of the shapes.
pub(super) type Succeed<'a> = dyn Fn(&mut Link, &mut Plan) -> Result<(), Failure> + 'a;

/// Gives the tables of a plan their final fingerprints, and adds the statements about shapes.
pub(super) fn succession<'a>(
    user_tables: &'a BTreeMap<String, UserTable>,
    models: &'a [SyncModel],
) -> impl Fn(&mut Link, &mut Plan) -> Result<(), Failure> + 'a {
    move |link, plan| {
        plan.shapes = succeed(link, user_tables, models, plan)?;
        Ok(())
    }
}

fn succeed(
    link: &mut Link,
    user_tables: &BTreeMap<String, UserTable>,
    models: &[SyncModel],
    plan: &mut Plan,
) -> Result<Vec<String>, Failure> {
    let past = read(link)?;
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
            find: &|name| tables::find(user_tables, name).map(|(name, _)| name.clone()),
            narrow: &|version, table, columns| {
                plan::narrow(user_tables, models, version, table, columns)
            },
            prefix: "syncline.",
        },
    )
}

pub(super) fn read(link: &mut Link) -> Result<Past, Failure> {
    let there = match is_deployed(link)? {
        true => migration::columns(link)?,
        false => BTreeSet::new(),
    };
    let exists = |table: &str, column: &str| there.contains(&(table.to_owned(), column.to_owned()));
    Past::read("syncline.", &exists, &mut |sql| {
        let rows = link.query(sql, &[]).map_err(failed("read the shapes"))?;
        let garbled = |error| Failure::new(Code::Drift, "the shapes cannot be read").source(error);
        let read = |row: &super::link::Row| {
            (0..row.len())
                .map(|at| row.try_get::<Option<String>>(at).map_err(garbled))
                .collect::<Result<Vec<_>, Failure>>()
        };
        rows.iter().map(read).collect()
    })
}
