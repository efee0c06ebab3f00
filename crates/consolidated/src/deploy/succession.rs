//! Completes a plan by what becomes of the shapes that remotes may hold.

use super::plan::{Plan, narrow};
use super::schema::Schema;
use super::table::TableFacts;
use crate::shape::{self, Past, Planned, Succession};
use crate::sql::{Sql, Words};
use crate::sync_model::SyncModel;
use model::Failure;
use std::collections::BTreeMap;

/// What a plan follows from.
pub(crate) struct Intent<'a, S: Schema> {
    pub(crate) user_tables: &'a BTreeMap<String, S::Table>,
    pub(crate) models: &'a [SyncModel],
}

impl<S: Schema> Intent<'_, S> {
    /// Gives the tables of a plan their final fingerprints, and adds the statements about shapes.
    pub(crate) fn complete<Q: Sql>(&self, sql: &mut Q, plan: &mut Plan<S>) -> Result<(), Failure> {
        let Intent { user_tables, models } = *self;
        let mut planned = Vec::new();
        for version in &mut plan.versions {
            let script_version = version.script_version.to_string();
            planned.extend(version.tables.iter_mut().map(|table| Planned {
                script_version: script_version.clone(),
                published: &mut table.published,
                outward: &mut table.outward,
            }));
        }
        let columns = |table: &S::Table| table.stored_columns().into_iter().collect();
        let database =
            user_tables.iter().map(|(name, table)| (name.clone(), columns(table))).collect();
        plan.shapes = shape::succeed(
            &Past::read(sql)?,
            planned,
            &mut plan.notices,
            &Succession {
                models,
                database: &database,
                find: &|name| S::find(user_tables, name).map(|(name, _)| name.clone()),
                narrow: &|version, table, columns| {
                    narrow::<S>(user_tables, models, version, table, columns)
                },
                prefix: Q::Words::PREFIX,
            },
        )?;
        Ok(())
    }
}
