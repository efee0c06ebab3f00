//! Finds out whether there are departures before it reads them.
//!
//! Most tables have none since the remote's last download. Then the cursor over their departures,
//! which is expensive to plan, need not run.
//!
//! Invariant Q1: a cursor is skipped only if no entry in the snapshot of this download meets the
//! cursor's condition on entries, with the cursor's values. So the cursor would have found nothing,
//! whatever other transactions do in the meantime (S2, S6).

use crate::download::time::Times;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::cursor::Source;
use crate::postgres::download::moment;
use crate::postgres::download::snapshot::{Snapshot, Xid8};
use crate::postgres::link::{Answer, Call};
use crate::postgres::statement::{Statement, Value};
use crate::synchronization::FetchRequest;
use postgres_types::ToSql;
use std::sync::Arc;

/// A table whose log is looked at.
struct Log<'t> {
    table: &'t Arc<Table>,
    question: &'t Statement,
    /// The remote's last download, if it is still worth something.
    since: Snapshot,
}

/// The questions of one download.
pub(in crate::postgres) struct Questions<'t> {
    logs: Vec<Log<'t>>,
    own_upload: Xid8,
}

/// The tables from which nothing has departed, with the values for which that is true.
#[derive(Debug)]
pub(in crate::postgres) struct DepartureProbe {
    quiet: Vec<(Arc<Table>, Snapshot)>,
    own_upload: Xid8,
}

impl<'t> Questions<'t> {
    /// About those of `tables` that the remote holds.
    pub(in crate::postgres) fn new(
        tables: &'t [Arc<Table>],
        request: &FetchRequest<'_>,
        own_upload: Xid8,
    ) -> Questions<'t> {
        let logs = tables.iter().zip(request.marks).filter_map(|(table, held)| {
            let question = table.departed.as_ref()?;
            Some(Log { table, question, since: moment::shown(held)? })
        });
        Questions { logs: logs.collect(), own_upload }
    }

    /// The values of their parameters, in their order.
    pub(in crate::postgres) fn values<'a>(
        &'a self,
        request: &'a FetchRequest<'a>,
    ) -> Vec<Vec<Value<'a>>> {
        let values = self.logs.iter().map(|Log { question, since, .. }| {
            let (session, since, own_upload) = (request.session, Some(since), self.own_upload);
            let source = Source { session, since, own_upload, times: Times::default() };
            question.slots.iter().map(|slot| source.value(slot)).collect()
        });
        values.collect()
    }

    /// The calls that ask them.
    pub(in crate::postgres) fn calls<'a>(
        &'a self,
        parameters: &'a [Vec<&'a (dyn ToSql + Sync)>],
    ) -> impl Iterator<Item = Call<'a>> {
        self.logs.iter().zip(parameters).map(|(log, p)| Call::new(&log.question.sql, p))
    }

    /// What the answers say.
    pub(in crate::postgres) fn understand(&self, answers: &[Answer]) -> DepartureProbe {
        let quiet = self.logs.iter().zip(answers).filter(|(_, answer)| answer.affected == 0);
        let quiet = quiet.map(|(log, _)| (log.table.clone(), log.since.clone()));
        DepartureProbe { quiet: quiet.collect(), own_upload: self.own_upload }
    }
}

impl DepartureProbe {
    /// Whether a cursor over the departures from `table`, with these values, finds nothing.
    pub(in crate::postgres) fn is_about(
        &self,
        table: &Arc<Table>,
        since: &Snapshot,
        own_upload: Xid8,
    ) -> bool {
        let same = |(of, at): &(Arc<Table>, Snapshot)| Arc::ptr_eq(of, table) && at == since;
        self.own_upload == own_upload && self.quiet.iter().any(same)
    }
}
