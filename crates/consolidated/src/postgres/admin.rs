//! What the command line does with a consolidated database.

use super::connect::Role;
use super::errors::failed;
use super::link::Link;
use super::plan::Plan;
use super::present::{self, is_deployed, require_known_format, text};
use super::spelling::{self, Doubt};
use super::tables::{self, UserTable};
use super::{check, deploy, fleet, notes, plan, reached, shapes};
use crate::admin::{self, Deployment, Finding, InitialModel, StoredScript, Undeployment, User};
use crate::connection::Administration;
use crate::difference::{self, Difference, Present};
use crate::fleet::KnownRemote;
use crate::identity::Binding;
use crate::initial::{self, Candidate};
use crate::notes::{ConflictNote, Notes, RejectNote};
use crate::sync_model::SyncModel;
use crate::url::PostgresUrl;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use postgres_types::ToSql;
use std::collections::BTreeMap;

/// The schemas of the search path that exist, in their order.
const SEARCH_PATH: &str = "SELECT unnest(current_schemas(false))::text";

/// From here on every name is written with its schema, by us and by the database.
const NO_SEARCH_PATH: &str = "SET search_path = pg_catalog";

/// A value that no former password had.
pub(super) const NEW_PASSWORD_VERSION: &str = "(random() * 9007199254740992)::bigint";

/// One connection for administration.
#[derive(Debug)]
pub(crate) struct Admin {
    link: Link,
    url: PostgresUrl,
    search_path: Vec<String>,
}

impl Admin {
    /// Connects to an existing database.
    pub(crate) fn open(url: &PostgresUrl) -> Result<Admin, Failure> {
        let mut link = Link::open(url, Role::Administer)?;
        let rows = link.query(SEARCH_PATH, &[]).map_err(failed("read the search path"))?;
        let search_path = rows.iter().map(|row| text(row, 0)).collect::<Result<_, _>>()?;
        link.batch(NO_SEARCH_PATH).map_err(failed("set up the session"))?;
        require_known_format(&mut link)?;
        Ok(Admin { link, url: url.clone(), search_path })
    }

    fn user_tables(&mut self) -> Result<BTreeMap<String, UserTable>, Failure> {
        tables::read(&mut self.link, &self.search_path)
    }

    fn require_deployed(&mut self) -> Result<(), Failure> {
        match is_deployed(&mut self.link)? {
            true => Ok(()),
            false => Err(Failure::new(Code::NotDeployed, "nothing is deployed in this database")),
        }
    }

    /// Keys that remotes cannot use, of tables that are not deployed yet. For deployed tables, a
    /// notice says what it means.
    fn doubts(&mut self, plan: &mut Plan) -> Result<Vec<Doubt>, Failure> {
        let mut fresh = Vec::new();
        if plan.doubts.is_empty() {
            return Ok(fresh);
        }
        let deployed = match is_deployed(&mut self.link)? {
            true => present::deployed_keys(&mut self.link)?,
            false => Vec::new(),
        };
        for doubt in std::mem::take(&mut plan.doubts) {
            match deployed.contains(&(doubt.table.clone(), doubt.key.clone())) {
                true => plan.notices.push(doubt.notice()),
                false => fresh.push(doubt),
            }
        }
        Ok(fresh)
    }

    /// Notices about tables that uploads reach by foreign keys, and that the server may not read.
    fn unreadable_tables(
        &mut self,
        user_tables: &BTreeMap<String, UserTable>,
        plan: &Plan,
    ) -> Result<Vec<String>, Failure> {
        let published = plan.versions.iter().flat_map(|version| &version.tables);
        let uploaded = published.filter(|table| table.published.direction.uploads());
        let found = uploaded.filter_map(|table| user_tables.get(&table.published.name));
        reached::unreadable_tables(&mut self.link, &found.map(UserTable::sql_name).collect())
    }

    /// Runs a statement about one user, and tells whether there was one.
    fn change_user(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
        doing: &str,
    ) -> Result<bool, Failure> {
        self.require_deployed()?;
        let sql = format!("{sql} RETURNING user_name");
        let rows = self.link.query(&sql, values).map_err(failed(doing))?;
        Ok(!rows.is_empty())
    }

    fn change_known_user(
        &mut self,
        name: &UserName,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<(), Failure> {
        match self.change_user(sql, values, "change the user")? {
            true => Ok(()),
            false => Err(admin::no_such_user(name)),
        }
    }
}

impl Admin {
    /// For what the system tables of an older program lack.
    fn require_completed(&mut self) -> Result<(), Failure> {
        self.require_deployed()?;
        let format = present::format(&mut self.link)?;
        present::require_present_format(format.unwrap_or_default())
    }
}

impl Administration for Admin {
    fn initial_model(
        &mut self,
        wanted: &[String],
        download_only: bool,
    ) -> Result<InitialModel, Failure> {
        let user_tables = self.user_tables()?;
        let candidate = |(name, table): (&String, &UserTable)| Candidate {
            name: name.clone(),
            refusal: tables::unsupported(table).or_else(|| spelling::initial_refusal(table)),
            offered: table.is_on_path(),
        };
        let find = |wanted: &str| tables::find(&user_tables, wanted).map(|(name, _)| name.clone());
        let candidates = user_tables.iter().map(candidate).collect();
        initial::model(candidates, &find, wanted, download_only)
    }

    fn deploy(&mut self, models: &[SyncModel], dry_run: bool) -> Result<Deployment, Failure> {
        let user_tables = self.user_tables()?;
        let mut plan = plan::plan(&user_tables, models)?;
        plan.notices.extend(self.unreadable_tables(&user_tables, &plan)?);
        if let Some(doubt) = self.doubts(&mut plan)?.first() {
            return Err(doubt.refusal());
        }
        let succeed = shapes::succession(&user_tables, models);
        let statements = deploy::deploy(&mut self.link, &self.url, &mut plan, dry_run, &succeed)?;
        Ok(Deployment { statements, notices: plan.notices })
    }

    fn undeploy(&mut self) -> Result<Undeployment, Failure> {
        let statements = deploy::undeploy(&mut self.link, &self.url)?;
        Ok(Undeployment { statements, left: Vec::new() })
    }

    fn check(&mut self, models: &[SyncModel]) -> Result<Vec<Finding>, Failure> {
        self.require_deployed()?;
        if let Some(finding) = admin::older_format(self.require_completed())? {
            return Ok(vec![finding]);
        }
        let user_tables = self.user_tables()?;
        let mut plan = plan::plan(&user_tables, models)?;
        plan.notices.extend(self.unreadable_tables(&user_tables, &plan)?);
        let doubts = self.doubts(&mut plan)?;
        let succeed = shapes::succession(&user_tables, models);
        let pending = deploy::deploy(&mut self.link, &self.url, &mut plan, true, &succeed);
        let (pending, undeclared) = admin::pending(pending)?;
        let mut findings = check::findings(&mut self.link, &user_tables, &plan, pending)?;
        findings.extend(undeclared);
        findings.extend(doubts.iter().map(|doubt| doubt.finding()));
        admin::tell_differences(&mut findings, &self.differences(models)?);
        Ok(findings)
    }

    fn differences(&mut self, models: &[SyncModel]) -> Result<Vec<Difference>, Failure> {
        let user_tables = self.user_tables()?;
        let present = |table: &UserTable| Present {
            columns: table.stored_columns(),
            key: table.key.clone(),
            offered: tables::unsupported(table).is_none()
                && spelling::initial_refusal(table).is_none()
                && table.is_on_path(),
        };
        let tables = user_tables.iter();
        let database = tables.map(|(name, table)| (name.clone(), present(table))).collect();
        let find = |name: &str| tables::find(&user_tables, name).map(|(name, _)| name.clone());
        let past = shapes::read(&mut self.link)?;
        Ok(difference::differences(models, &database, &find, past.deployed()))
    }

    fn scripts(&mut self) -> Result<Vec<StoredScript>, Failure> {
        self.require_deployed()?;
        let sql = "SELECT s.script_version, s.table_name, s.event, s.script
                   FROM syncline.syncline_script AS s
                   JOIN syncline.syncline_script_version AS v USING (script_version)
                   JOIN syncline.syncline_table AS t USING (script_version, table_name)
                   ORDER BY v.position, t.position";
        let rows = self.link.query(sql, &[]).map_err(failed("read the scripts"))?;
        let rows = rows
            .iter()
            .map(|row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?, text(row, 3)?)))
            .collect::<Result<_, Failure>>()?;
        admin::gather_scripts(rows)
    }

    fn publications(
        &mut self,
    ) -> Result<Vec<(ScriptVersion, PublicationName, Vec<String>)>, Failure> {
        self.require_deployed()?;
        let sql = "SELECT script_version, publication, table_name
                   FROM syncline.syncline_publication
                   ORDER BY script_version COLLATE \"C\", publication COLLATE \"C\",
                       table_name COLLATE \"C\"";
        let rows = self.link.query(sql, &[]).map_err(failed("read the publications"))?;
        let rows: Vec<_> = rows
            .iter()
            .map(|row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?)))
            .collect::<Result<_, Failure>>()?;
        admin::group_publications(rows)
    }

    fn users(&mut self) -> Result<Vec<User>, Failure> {
        self.require_deployed()?;
        let sql = "SELECT user_name, claims, (password_hash LIKE '!%')::text
                   FROM syncline.syncline_user
                   ORDER BY user_name COLLATE \"C\"";
        let rows = self.link.query(sql, &[]).map_err(failed("read the users"))?;
        let user = |row| {
            let (name, claims) = (UserName::new(text(row, 0)?)?, text(row, 1)?);
            let locked = text(row, 2)? == "true";
            Ok(User { name, claims: admin::claims_from(&claims)?, locked })
        };
        rows.iter().map(user).collect()
    }

    fn add_user(
        &mut self,
        name: &UserName,
        password_hash: &str,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let sql = format!(
            "INSERT INTO syncline.syncline_user VALUES ($1, $2, {NEW_PASSWORD_VERSION}, $3)
             ON CONFLICT DO NOTHING"
        );
        let claims = admin::claims_text(claims);
        match self.change_user(&sql, &[&name.as_str(), &password_hash, &claims], "add the user")? {
            true => Ok(()),
            false => Err(Failure::new(Code::UserExists, format!("user {name} exists"))),
        }
    }

    fn claims(&mut self, name: &UserName) -> Result<BTreeMap<String, String>, Failure> {
        self.require_deployed()?;
        let sql = "SELECT claims FROM syncline.syncline_user WHERE user_name = $1";
        let rows = self.link.query(sql, &[&name.as_str()]).map_err(failed("read the user"))?;
        let row = rows.first().ok_or_else(|| admin::no_such_user(name))?;
        admin::claims_from(&text(row, 0)?)
    }

    fn set_claims(
        &mut self,
        name: &UserName,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let sql = "UPDATE syncline.syncline_user SET claims = $2 WHERE user_name = $1";
        self.change_known_user(name, sql, &[&name.as_str(), &admin::claims_text(claims)])
    }

    fn set_password(&mut self, name: &UserName, password_hash: &str) -> Result<(), Failure> {
        let sql = format!(
            "UPDATE syncline.syncline_user
             SET password_hash = CASE WHEN password_hash LIKE '!%' THEN '!' ELSE '' END || $2,
                 password_version = {NEW_PASSWORD_VERSION}
             WHERE user_name = $1"
        );
        self.change_known_user(name, &sql, &[&name.as_str(), &password_hash])
    }

    fn set_locked(&mut self, name: &UserName, locked: bool) -> Result<(), Failure> {
        let sql = match locked {
            true => format!(
                "UPDATE syncline.syncline_user
                 SET password_hash = '!' || ltrim(password_hash, '!'),
                     password_version = {NEW_PASSWORD_VERSION}
                 WHERE user_name = $1"
            ),
            false => "UPDATE syncline.syncline_user
                      SET password_hash = ltrim(password_hash, '!') WHERE user_name = $1"
                .to_owned(),
        };
        self.change_known_user(name, &sql, &[&name.as_str()])
    }

    fn remove_user(&mut self, name: &UserName) -> Result<(), Failure> {
        self.require_completed()?;
        match fleet::remove_user(&mut self.link, name)? {
            true => Ok(()),
            false => Err(admin::no_such_user(name)),
        }
    }

    fn remotes(&mut self, only: Option<&RemoteId>) -> Result<Vec<KnownRemote>, Failure> {
        self.require_completed()?;
        fleet::remotes(&mut self.link, only)
    }

    fn bind_remote(&mut self, remote_id: &RemoteId, binding: &Binding) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::bind(&mut self.link, remote_id, binding)
    }

    fn forget_remote(&mut self, remote_id: &RemoteId) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::forget(&mut self.link, remote_id)
    }

    fn rotate_keys(&mut self) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::rotate_keys(&mut self.link)
    }

    fn declare_restored(&mut self) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::declare_restored(&mut self.link)
    }
    fn rejects(&mut self, wanted: Notes) -> Result<Vec<RejectNote>, Failure> {
        self.require_completed()?;
        notes::rejects(&mut self.link, wanted)
    }

    fn purge_rejects(&mut self, seconds: i64) -> Result<u64, Failure> {
        self.require_completed()?;
        notes::purge_rejects(&mut self.link, seconds)
    }

    fn conflicts(&mut self, wanted: Notes) -> Result<Vec<ConflictNote>, Failure> {
        self.require_completed()?;
        notes::conflicts(&mut self.link, wanted)
    }

    fn purge_conflicts(&mut self, seconds: i64) -> Result<u64, Failure> {
        self.require_completed()?;
        notes::purge_conflicts(&mut self.link, seconds)
    }
}
