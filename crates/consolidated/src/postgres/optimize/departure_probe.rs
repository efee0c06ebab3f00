//! Finds out whether there are departures before it reads them.
//!
//! Most tables have none since the remote's last download. Then the cursor over their departures,
//! which is expensive to plan, need not run.
//!
//! Invariant Q1: a cursor is skipped only if no entry in the snapshot of this download meets the
//! cursor's condition on entries, with the cursor's values. So the cursor would have found nothing,
//! whatever other transactions do in the meantime (S2, S6).

use crate::postgres::catalog::table::Table;
use crate::postgres::download::cursor::{Source, Value};
use crate::postgres::download::moment;
use crate::postgres::download::snapshot::{Snapshot, Xid8};
use crate::postgres::link::{Answer, Call};
use crate::synchronization::FetchRequest;
use postgres_types::ToSql;
use std::sync::Arc;

/// A table whose log is looked at.
struct Log<'t> {
    table: &'t Arc<Table>,
    /// The remote's last download, if it is still worth something.
    since: Snapshot,
}

/// The questions of one download.
pub(in crate::postgres) struct Questions<'t> {
    logs: Vec<Log<'t>>,
    own_upload: Xid8,
}

/// A table from which nothing has departed.
#[derive(Debug)]
struct Quiet {
    table: Arc<Table>,
    since: Snapshot,
    own_upload: Xid8,
}

/// The tables from which nothing has departed.
#[derive(Debug, Default)]
pub(in crate::postgres) struct DepartureProbe(Vec<Quiet>);

impl<'t> Questions<'t> {
    /// About those of `tables` that the remote holds.
    pub(in crate::postgres) fn new(
        tables: &'t [Arc<Table>],
        request: &FetchRequest<'_>,
        own_upload: Xid8,
    ) -> Questions<'t> {
        let logs = tables.iter().zip(request.marks).filter_map(|(table, held)| {
            table.departed.as_ref()?;
            Some(Log { table, since: moment::shown(held)? })
        });
        Questions { logs: logs.collect(), own_upload }
    }

    /// The values of their parameters, in their order.
    pub(in crate::postgres) fn values<'a>(
        &'a self,
        request: &'a FetchRequest<'a>,
    ) -> Vec<Vec<Value<'a>>> {
        let values = self.logs.iter().filter_map(|log| {
            let source = Source {
                session: request.session,
                since: Some(&log.since),
                own_upload: self.own_upload,
            };
            Some(log.table.departed.as_ref()?.slots.iter().map(|slot| source.value(slot)).collect())
        });
        values.collect()
    }

    /// The calls that ask them.
    pub(in crate::postgres) fn calls<'a>(
        &'a self,
        parameters: &'a [Vec<&'a (dyn ToSql + Sync)>],
    ) -> impl Iterator<Item = Call<'a>> {
        let statements = self.logs.iter().filter_map(|log| log.table.departed.as_ref());
        statements.zip(parameters).map(|(statement, p)| Call::new(&statement.sql, p))
    }

    /// What the answers say.
    pub(in crate::postgres) fn understand(&self, answers: &[Answer]) -> DepartureProbe {
        let quiet = self.logs.iter().zip(answers).filter(|(_, answer)| answer.affected == 0);
        let quiet = quiet.map(|(log, _)| Quiet {
            table: log.table.clone(),
            since: log.since.clone(),
            own_upload: self.own_upload,
        });
        DepartureProbe(quiet.collect())
    }
}

impl DepartureProbe {
    /// Whether a cursor over the departures from `table`, with these values, finds nothing.
    pub(in crate::postgres) fn is_about(
        &self,
        table: &Arc<Table>,
        since: Option<&Snapshot>,
        own_upload: Xid8,
    ) -> bool {
        self.0.iter().any(|quiet| {
            Arc::ptr_eq(&quiet.table, table)
                && Some(&quiet.since) == since
                && quiet.own_upload == own_upload
        })
    }
}
