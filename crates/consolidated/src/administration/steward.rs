//! What the command line does with a consolidated database of any kind.

use super::fleet::KnownRemote;
use super::history::PastSynchronization;
use super::notes::{ConflictNote, Notes, RejectNote};
use super::resolution::{self, Resolution};
use super::{
    Deployment, Finding, InitialModel, MisfitClaim, NOT_DEPLOYED, PlannedScripts, Severity,
    StoredScript, Undeployment, User, deployed, fleet, history, notes, orphans, pending, planned,
    tell_differences, users,
};
use crate::connection::Administration;
use crate::deploy::difference::{self, Difference, Installed};
use crate::deploy::initial::{self, Candidate};
use crate::deploy::{self, ForeignKey, Intent, Plan, Schema, TableFacts, format, numbers};
use crate::identity::Binding;
use crate::shape::Past;
use crate::sql::{self, Sql};
use crate::sync_model::{Claim, ClaimTest, CoveredRows, Partition, SyncModel};
use crate::synchronization::expiry::Expiry;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

type Tables<S> = BTreeMap<String, <S as Schema>::Table>;

/// Why a table must not be deployed that can be planned: the refusal, and the same for `check`.
pub(crate) struct Doubt {
    pub(crate) refusal: Failure,
    pub(crate) finding: Finding,
}

/// A connection that administers a database.
pub(crate) trait Steward: Sql + Debug + Sized {
    type Schema: Schema;

    fn user_tables(&mut self) -> Result<Tables<Self::Schema>, Failure>;

    /// Completes the notices of a plan, and says what must not be deployed.
    fn doubts(&mut self, _: &mut Plan<Self::Schema>) -> Result<Vec<Doubt>, Failure> {
        Ok(Vec::new())
    }

    /// Makes the database what a plan says, or only says what it would do. Returns the statements.
    fn realize(
        &mut self,
        intent: &Intent<'_, Self::Schema>,
        plan: &mut Plan<Self::Schema>,
        dry_run: bool,
    ) -> Result<Vec<String>, Failure>;

    fn remove_everything(&mut self, dry_run: bool) -> Result<Undeployment, Failure>;

    /// Deployed objects that are missing or were changed.
    fn drift(&mut self) -> Result<Vec<Finding>, Failure>;

    /// How many rows of a child refer to nothing in a parent.
    fn count_orphans(
        &mut self,
        child: &<Self::Schema as Schema>::Table,
        parent: &<Self::Schema as Schema>::Table,
        key: &ForeignKey,
    ) -> Result<i64, Failure>;

    /// What else is wrong with the database, whatever the models say.
    fn faults(&mut self) -> Result<Vec<Finding>, Failure> {
        Ok(Vec::new())
    }

    /// The type of a column that this claim is no value of; none where it is one.
    fn misfit(
        &mut self,
        column: &<<Self::Schema as Schema>::Table as TableFacts>::Column,
        test: &ClaimTest,
        value: &str,
    ) -> Result<Option<String>, Failure>;

    /// What is good to know of a published table.
    fn remark(&self, _: &Tables<Self::Schema>, _: &str) -> Option<Finding> {
        None
    }

    /// See [`Administration::clock_unix_s`].
    fn clock(&mut self) -> Result<Option<i64>, Failure> {
        Ok(None)
    }

    /// Begins a generation: what remotes hold is compared, never assumed.
    fn new_generation(&mut self) -> Result<(), Failure>;

    fn require_deployed(&mut self) -> Result<(), Failure> {
        format::require(self)
    }

    fn deployed(&mut self) -> Result<&mut Self, Failure> {
        self.require_deployed()?;
        Ok(self)
    }
}

impl<T: Steward> Administration for T {
    fn answers(&mut self) -> Result<(), Failure> {
        self.require_deployed()
    }

    fn initial_model(
        &mut self,
        wanted: &[String],
        download_only: bool,
    ) -> Result<InitialModel, Failure> {
        let user_tables = self.user_tables()?;
        let candidates = user_tables.iter().map(|(name, table)| Candidate {
            name: name.clone(),
            refusal: initial_refusal::<T::Schema>(name, table),
            offered: T::Schema::is_offered(&user_tables, table),
        });
        let find = |name: &str| T::Schema::find(&user_tables, name).map(|(name, _)| name.clone());
        let mut model = initial::model(candidates.collect(), &find, wanted, download_only)?;
        if !download_only {
            let tables = model.tables.iter().map(String::as_str);
            model.notices.extend(numbers::notice(&user_tables, tables));
        }
        Ok(model)
    }

    fn deploy(&mut self, models: &[SyncModel], dry_run: bool) -> Result<Deployment, Failure> {
        let user_tables = self.user_tables()?;
        let mut plan = deploy::plan::<T::Schema>(&user_tables, models)?;
        let doubts = self.doubts(&mut plan)?;
        Failure::all(doubts.into_iter().map(|doubt| doubt.refusal).collect())?;
        plan.notices.extend(numbers_of_new(self, &user_tables, &plan)?);
        let statements =
            self.realize(&Intent { user_tables: &user_tables, models }, &mut plan, dry_run)?;
        Ok(Deployment { statements, notices: plan.notices })
    }

    fn undeploy(&mut self, dry_run: bool) -> Result<Undeployment, Failure> {
        self.remove_everything(dry_run)
    }

    fn check(&mut self, models: &[SyncModel]) -> Result<Vec<Finding>, Failure> {
        self.require_deployed()?;
        let user_tables = self.user_tables()?;
        let mut plan = deploy::plan::<T::Schema>(&user_tables, models)?;
        let doubts = self.doubts(&mut plan)?;
        let intent = Intent { user_tables: &user_tables, models };
        let (pending, undeclared) = pending(self.realize(&intent, &mut plan, true))?;
        let mut findings = self.drift()?;
        if findings.is_empty() && pending > 0 {
            let message = format!("{NOT_DEPLOYED}; deploy would run {pending} statements");
            findings.push(Finding { severity: Severity::Error, table: None, message });
        }
        let count = |child: &_, parent: &_, key: &_| self.count_orphans(child, parent, key);
        findings.extend(orphans::findings(&user_tables, &plan, count)?);
        findings.extend(self.faults()?);
        findings.extend(plan.notices.iter().map(|notice| Finding {
            severity: Severity::Notice,
            table: None,
            message: notice.clone(),
        }));
        let published = plan.tables().map(|table| &table.published.name);
        findings.extend(published.filter_map(|name| self.remark(&user_tables, name)));
        findings.extend(undeclared);
        findings.extend(doubts.into_iter().map(|doubt| doubt.finding));
        tell_differences(&mut findings, &differences(self, &user_tables, models)?);
        Ok(findings)
    }

    fn planned_scripts(&mut self, models: &[SyncModel]) -> Result<PlannedScripts, Failure> {
        planned::scripts(deploy::plan::<T::Schema>(&self.user_tables()?, models)?)
    }

    fn differences(&mut self, models: &[SyncModel]) -> Result<Vec<Difference>, Failure> {
        let user_tables = self.user_tables()?;
        differences(self, &user_tables, models)
    }

    fn clock_unix_s(&mut self) -> Result<Option<i64>, Failure> {
        self.clock()
    }

    fn scripts(&mut self) -> Result<Vec<StoredScript>, Failure> {
        deployed::scripts(self.deployed()?)
    }

    fn publications(
        &mut self,
    ) -> Result<Vec<(ScriptVersion, PublicationName, Vec<String>)>, Failure> {
        deployed::publications(self.deployed()?)
    }

    fn users(&mut self) -> Result<Vec<User>, Failure> {
        users::list(self.deployed()?)
    }

    fn add_user(
        &mut self,
        name: &UserName,
        password_hash: &str,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        users::add(self.deployed()?, name, password_hash, claims)
    }

    fn claims(&mut self, name: &UserName) -> Result<BTreeMap<String, String>, Failure> {
        users::claims(self.deployed()?, name)
    }

    fn set_claims(
        &mut self,
        name: &UserName,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        users::set_claims(self.deployed()?, name, claims)
    }

    fn misfit_claims(
        &mut self,
        models: &[SyncModel],
        claims: &BTreeMap<String, String>,
    ) -> Result<Vec<MisfitClaim>, Failure> {
        misfits(self, models, claims)
    }

    fn set_password(&mut self, name: &UserName, password_hash: &str) -> Result<(), Failure> {
        users::set_password(self.deployed()?, name, password_hash)
    }

    fn set_expiry(&mut self, name: &UserName, expiry: Expiry) -> Result<(), Failure> {
        users::set_expiry(self.deployed()?, name, expiry)
    }

    fn set_locked(&mut self, name: &UserName, locked: bool) -> Result<(), Failure> {
        users::set_locked(self.deployed()?, name, locked)
    }

    fn remove_user(&mut self, name: &UserName) -> Result<(), Failure> {
        users::remove(self.deployed()?, name)
    }

    fn remotes(&mut self, only: Option<&RemoteId>) -> Result<Vec<KnownRemote>, Failure> {
        fleet::remotes(self.deployed()?, only)
    }

    fn synchronizations(
        &mut self,
        remote_id: &RemoteId,
    ) -> Result<Vec<PastSynchronization>, Failure> {
        history::of_remote(self.deployed()?, remote_id)
    }

    fn bind_remote(&mut self, remote_id: &RemoteId, binding: &Binding) -> Result<(), Failure> {
        fleet::bind(self.deployed()?, remote_id, binding)
    }

    fn forget_remote(&mut self, remote_id: &RemoteId) -> Result<(), Failure> {
        fleet::forget(self.deployed()?, remote_id)
    }

    fn rotate_keys(&mut self) -> Result<(), Failure> {
        fleet::rotate_keys(self.deployed()?)
    }

    fn declare_restored(&mut self) -> Result<(), Failure> {
        self.deployed()?.new_generation()
    }

    fn rejects(&mut self, wanted: &Notes) -> Result<Vec<RejectNote>, Failure> {
        notes::rejects(self.deployed()?, wanted)
    }

    fn purge_rejects(&mut self, seconds: i64) -> Result<u64, Failure> {
        notes::purge_rejects(self.deployed()?, seconds)
    }

    fn conflicts(&mut self, wanted: &Notes) -> Result<Vec<ConflictNote>, Failure> {
        notes::conflicts(self.deployed()?, wanted)
    }

    fn resolve_conflict(
        &mut self,
        id: i64,
        resolution: &Resolution,
        force: bool,
    ) -> Result<(), Failure> {
        let note = notes::conflicts(self.deployed()?, &Notes::of(id))?.pop();
        let missing = || Failure::new(Code::NoSuchNote, format!("there is no conflict {id}"));
        let note = note.ok_or_else(missing)?;
        let tables = self.user_tables()?;
        let table = T::Schema::find(&tables, &note.table).map(|(_, table)| table);
        resolution::resolve(self, (&note, table), resolution, force)
    }

    fn purge_conflicts(&mut self, seconds: i64) -> Result<u64, Failure> {
        notes::purge_conflicts(self.deployed()?, seconds)
    }
}

/// Those of these claims that the conditions of the models compare with a column of another type.
fn misfits<T: Steward>(
    steward: &mut T,
    models: &[SyncModel],
    claims: &BTreeMap<String, String>,
) -> Result<Vec<MisfitClaim>, Failure> {
    let tables = steward.user_tables()?;
    let mut misfits = Vec::new();
    for (name, model) in models.iter().flat_map(|model| &model.tables) {
        let (table, column, test) = match &model.rows {
            CoveredRows::Partition(Partition::Column { column, test }) => (name, column, test),
            CoveredRows::Partition(Partition::Mapping { table, matched, test, .. }) => {
                (table, matched, test)
            }
            _ => continue,
        };
        let Claim::User(claim) = test.claim() else { continue };
        let found = T::Schema::find(&tables, table).and_then(|(_, table)| table.column(column));
        let (Some(value), Some(compared)) = (claims.get(claim), found) else { continue };
        if let Some(column_type) = steward.misfit(compared, test, value)? {
            let (claim, table, column) = (claim.clone(), table.clone(), column.clone());
            let misfit = MisfitClaim { claim, table, column, column_type };
            if !misfits.contains(&misfit) {
                misfits.push(misfit);
            }
        }
    }
    Ok(misfits)
}

/// Tells once of tables that are numbered: with the deployment that publishes them first.
fn numbers_of_new<T: Steward>(
    steward: &mut T,
    user_tables: &Tables<T::Schema>,
    plan: &Plan<T::Schema>,
) -> Result<Option<String>, Failure> {
    let known = match format::is_known(steward)? {
        true => {
            steward.bookkeep("list the tables", "SELECT table_name FROM {}syncline_table", &[])?
        }
        false => Vec::new(),
    };
    let known: BTreeSet<String> = known.iter().map(|row| sql::text(row, 0)).collect();
    let uploaded = plan.tables().filter(|table| table.published.direction.uploads());
    let new = uploaded.map(|it| it.published.name.as_str()).filter(|name| !known.contains(*name));
    Ok(numbers::notice(user_tables, new))
}

/// Why a model to start from leaves a table out.
fn initial_refusal<S: Schema>(name: &str, table: &S::Table) -> Option<Failure> {
    let too_wide = || deploy::too_wide(name, table.stored_columns().len());
    S::unsupported(table).or_else(|| S::initial_refusal(table)).or_else(too_wide)
}

/// What models, database and deployment disagree about.
fn differences<T: Steward>(
    steward: &mut T,
    user_tables: &Tables<T::Schema>,
    models: &[SyncModel],
) -> Result<Vec<Difference>, Failure> {
    let installed = |name: &str, table: &<T::Schema as Schema>::Table| Installed {
        columns: table.stored_columns(),
        key: table.key().to_vec(),
        offered: initial_refusal::<T::Schema>(name, table).is_none()
            && T::Schema::is_offered(user_tables, table),
    };
    let tables = user_tables.iter();
    let database = tables.map(|(name, table)| (name.clone(), installed(name, table))).collect();
    let find = |name: &str| T::Schema::find(user_tables, name).map(|(name, _)| name.clone());
    let past = Past::read(steward)?;
    Ok(difference::differences(models, &database, &find, past.deployed()))
}
