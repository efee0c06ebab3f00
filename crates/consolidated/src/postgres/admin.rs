//! What PostgreSQL does for the command line.

use crate::administration::steward::{Doubt, Steward};
use crate::administration::{Finding, Undeployment};
use crate::connection::Administration;
use crate::deploy::{ForeignKey, Intent, format};
use crate::postgres::connect::{NO_SEARCH_PATH, Role};
use crate::postgres::deploy::installed::text;
use crate::postgres::deploy::plan::{Plan, PostgresSchema};
use crate::postgres::deploy::tables::{self, UserColumn, UserTable};
use crate::postgres::deploy::{self, check};
use crate::postgres::download::claims;
use crate::postgres::download::guard::Guard;
use crate::postgres::download::typed_claim::TypedClaim;
use crate::postgres::errors::failed;
use crate::postgres::incarnation;
use crate::postgres::link::Link;
use crate::postgres::words::PostgresWords;
use crate::sql::{Bound, Sql, TextRow};
use crate::sync_model::ClaimTest;
use crate::url::PostgresUrl;
use model::Failure;
use std::collections::BTreeMap;

/// The schemas of the search path that exist, in their order.
const SEARCH_PATH: &str = "SELECT unnest(current_schemas(false))::text";

/// One connection for administration.
#[derive(Debug)]
pub(super) struct Admin {
    link: Link,
    url: PostgresUrl,
    search_path: Vec<String>,
}

/// Connects to an existing database.
pub(crate) fn administer(url: &PostgresUrl) -> Result<Box<dyn Administration>, Failure> {
    Ok(Box::new(Admin::open(url)?))
}

impl Admin {
    pub(super) fn open(url: &PostgresUrl) -> Result<Admin, Failure> {
        let mut link = Link::open(url, Role::Administer)?;
        let rows = link.query(SEARCH_PATH, &[]).map_err(failed("read the search path"))?;
        let search_path = rows.iter().map(|row| text(row, 0)).collect::<Result<_, _>>()?;
        link.batch(NO_SEARCH_PATH).map_err(failed("set up the session"))?;
        format::is_known(&mut link)?;
        Ok(Admin { link, url: url.clone(), search_path })
    }
}

impl Sql for Admin {
    type Words = PostgresWords;

    fn run(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<Vec<TextRow>, Failure> {
        self.link.run(doing, sql, values)
    }

    fn run_all(&mut self, doing: &str, statements: &[Bound<'_>]) -> Result<Vec<u64>, Failure> {
        self.link.run_all(doing, statements)
    }
}

impl Steward for Admin {
    type Schema = PostgresSchema;

    fn user_tables(&mut self) -> Result<BTreeMap<String, UserTable>, Failure> {
        tables::read(&mut self.link, &self.search_path)
    }

    fn doubts(&mut self, plan: &mut Plan) -> Result<Vec<Doubt>, Failure> {
        let mut doubtful: Vec<_> =
            plan.tables().filter_map(|it| it.details.doubt.as_ref()).collect();
        doubtful.dedup();
        let doubts =
            doubtful.iter().map(|it| Doubt { refusal: it.refusal(), finding: it.finding() });
        Ok(doubts.collect())
    }

    fn realize(
        &mut self,
        intent: &Intent<'_, PostgresSchema>,
        plan: &mut Plan,
        dry_run: bool,
    ) -> Result<Vec<String>, Failure> {
        deploy::deploy(&mut self.link, &self.url, plan, dry_run, intent)
    }

    fn remove_everything(&mut self, dry_run: bool) -> Result<Undeployment, Failure> {
        let statements = deploy::undeploy(&mut self.link, &self.url, dry_run)?;
        Ok(Undeployment { statements, left: Vec::new() })
    }

    fn drift(&mut self) -> Result<Vec<Finding>, Failure> {
        let mut findings = check::drift(&mut self.link)?;
        findings.extend(check::restored(&mut self.link)?);
        Ok(findings)
    }

    fn count_orphans(
        &mut self,
        child: &UserTable,
        parent: &UserTable,
        key: &ForeignKey,
    ) -> Result<i64, Failure> {
        Guard::of(child, parent, &key.columns).count(&mut self.link)
    }

    fn faults(&mut self) -> Result<Vec<Finding>, Failure> {
        check::set_back(&mut self.link)
    }

    fn misfit(
        &mut self,
        column: &UserColumn,
        test: &ClaimTest,
        value: &str,
    ) -> Result<Option<String>, Failure> {
        let (claim, cast) = (test.claim().clone(), column.cast.clone());
        let typed = TypedClaim { claim, cast, list: matches!(test, ClaimTest::IsIn(_)) };
        let fits = claims::is_value(&mut self.link, &typed, value)?;
        Ok((!fits).then_some(typed.cast))
    }

    fn clock(&mut self) -> Result<Option<i64>, Failure> {
        let sql = "SELECT extract(epoch FROM clock_timestamp())::bigint";
        let rows = self.link.query(sql, &[]).map_err(failed("read the clock"))?;
        Ok(rows.first().and_then(|row| row.try_get(0).ok()))
    }

    fn remark(&self, user_tables: &BTreeMap<String, UserTable>, name: &str) -> Option<Finding> {
        check::remark(user_tables, name)
    }

    fn new_generation(&mut self) -> Result<(), Failure> {
        incarnation::renew(&mut self.link, "an operator declared the restore")
    }
}
