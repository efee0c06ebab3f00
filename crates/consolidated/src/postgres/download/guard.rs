//! A foreign key that decides which rows a remote has.

use crate::postgres::deploy::tables::UserTable;
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use crate::quote::{ident, join};
use model::{Code, Failure};
use serde::{Deserialize, Serialize};

/// A foreign key that decides which rows a remote has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::postgres) struct Guard {
    /// Published names.
    pub(in crate::postgres) child: String,
    pub(in crate::postgres) parent: String,
    /// `FROM` and `WHERE` of the children without a parent, which are `c`.
    pub(super) orphans: String,
    /// The key of the child, in SQL.
    key: String,
}

impl Guard {
    /// `columns` of the child refer to those of the parent.
    pub(in crate::postgres) fn of(
        child: &UserTable,
        parent: &UserTable,
        columns: &[(String, String)],
    ) -> Guard {
        let given = columns.iter().map(|(here, _)| format!("c.{} IS NOT NULL", ident(here)));
        let same =
            columns.iter().map(|(here, there)| format!("p.{} = c.{}", ident(there), ident(here)));
        let given = given.collect::<Vec<_>>().join(" AND ");
        let same = same.collect::<Vec<_>>().join(" AND ");
        Guard {
            child: child.published_name(),
            parent: parent.published_name(),
            orphans: format!(
                "FROM {} AS c WHERE {given} AND NOT EXISTS (SELECT FROM {} AS p WHERE {same})",
                child.sql_name(),
                parent.sql_name(),
            ),
            key: join(&child.key, ", ", |column| format!("c.{}", ident(column))),
        }
    }

    /// How many there are, and a sum that tells which.
    pub(super) fn digest(&self) -> String {
        format!(
            "SELECT count(*)::text || ':' || \
             coalesce(sum(hashtextextended(ROW({})::text, 0)), 0)::text {}",
            self.key, self.orphans
        )
    }

    /// How many there are.
    pub(in crate::postgres) fn count(&self, link: &mut Link) -> Result<i64, Failure> {
        let sql = format!("SELECT count(*) {}", self.orphans);
        let rows = link.query(&sql, &[]).map_err(failed("count rows without a parent"))?;
        let count = rows.first().and_then(|row| row.try_get(0).ok());
        count.ok_or_else(|| Failure::new(Code::Bug, "a count has no row"))
    }
}
