//! What the command line does with a consolidated database.

use super::errors::failed;
use super::tables::{self, UserTable};
use super::{ServeLock, check, connect, deploy, fleet, notes, orphans, plan, shapes};
use crate::admin::{self, Deployment, Finding, InitialModel, StoredScript, Undeployment, User};
use crate::connection::Administration;
use crate::difference::{self, Difference, Present};
use crate::fleet::KnownRemote;
use crate::identity::Binding;
use crate::initial::{self, Candidate};
use crate::notes::{ConflictNote, Notes, RejectNote};
use crate::sync_model::SyncModel;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One connection for administration.
#[derive(Debug)]
pub(crate) struct Admin {
    connection: Connection,
    path: PathBuf,
}

impl Admin {
    /// Opens an existing database.
    pub(crate) fn open(path: &Path) -> Result<Admin, Failure> {
        let connection = connect(path, false)?;
        deploy::require_known_format(&connection)?;
        Ok(Admin { connection, path: path.to_owned() })
    }

    fn change_user(
        &mut self,
        name: &UserName,
        sql: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<(), Failure> {
        self.require_deployed()?;
        let changed = self.connection.execute(sql, values).map_err(failed("change the user"))?;
        if changed == 1 { Ok(()) } else { Err(admin::no_such_user(name)) }
    }

    fn user_tables(&self) -> Result<BTreeMap<String, UserTable>, Failure> {
        tables::read(&self.connection)
    }

    fn require_deployed(&self) -> Result<(), Failure> {
        match deploy::table_exists(&self.connection, "syncline_system")? {
            true => Ok(()),
            false => Err(Failure::new(Code::NotDeployed, "nothing is deployed in this database")),
        }
    }
}

impl Admin {
    /// For what the system tables of an older program lack.
    fn require_completed(&self) -> Result<(), Failure> {
        self.require_deployed()?;
        deploy::require_present_format(&self.connection)
    }
}

impl Administration for Admin {
    fn initial_model(
        &mut self,
        wanted: &[String],
        download_only: bool,
    ) -> Result<InitialModel, Failure> {
        let user_tables = self.user_tables()?;
        let candidate = |table: &UserTable| Candidate {
            name: table.name.clone(),
            refusal: tables::unsupported(table),
            offered: !tables::is_shadow(table, &user_tables),
        };
        let candidates = user_tables.values().map(candidate).collect();
        let find = |name: &str| tables::find(&user_tables, name).map(|table| table.name.clone());
        initial::model(candidates, &find, wanted, download_only)
    }

    fn deploy(&mut self, models: &[SyncModel], dry_run: bool) -> Result<Deployment, Failure> {
        let user_tables = self.user_tables()?;
        let mut plan = plan::plan(&user_tables, models)?;
        let succeed = shapes::succession(&user_tables, models);
        let statements = deploy::deploy(&mut self.connection, &mut plan, dry_run, &succeed)?;
        Ok(Deployment { statements, notices: plan.notices })
    }

    fn undeploy(&mut self) -> Result<Undeployment, Failure> {
        let lock = ServeLock::take(&self.path)?;
        let undeployment = deploy::undeploy(&mut self.connection)?;
        lock.remove(&self.path)?;
        Ok(undeployment)
    }

    fn check(&mut self, models: &[SyncModel]) -> Result<Vec<Finding>, Failure> {
        self.require_deployed()?;
        if let Some(finding) = admin::older_format(self.require_completed())? {
            return Ok(vec![finding]);
        }
        let user_tables = self.user_tables()?;
        let mut plan = plan::plan(&user_tables, models)?;
        let succeed = shapes::succession(&user_tables, models);
        let pending = deploy::deploy(&mut self.connection, &mut plan, true, &succeed);
        let (pending, undeclared) = admin::pending(pending)?;
        let mut findings = check::findings(&self.connection, &plan, pending)?;
        findings.extend(undeclared);
        admin::tell_differences(&mut findings, &self.differences(models)?);
        findings.extend(orphans::findings(&self.connection, &user_tables, &plan.published())?);
        Ok(findings)
    }

    fn differences(&mut self, models: &[SyncModel]) -> Result<Vec<Difference>, Failure> {
        let user_tables = self.user_tables()?;
        let present = |table: &UserTable| Present {
            columns: table.stored_columns(),
            key: table.key.clone(),
            offered: tables::unsupported(table).is_none()
                && !tables::is_shadow(table, &user_tables),
        };
        let tables = user_tables.iter();
        let database = tables.map(|(name, table)| (name.clone(), present(table))).collect();
        let find = |name: &str| tables::find(&user_tables, name).map(|table| table.name.clone());
        let past = shapes::read(&self.connection)?;
        Ok(difference::differences(models, &database, &find, past.deployed()))
    }

    fn scripts(&mut self) -> Result<Vec<StoredScript>, Failure> {
        self.require_deployed()?;
        let mut statement = self
            .connection
            .prepare(
                "SELECT s.script_version, s.table_name, s.event, s.script
                 FROM syncline_script AS s JOIN syncline_script_version USING (script_version)
                 JOIN syncline_table AS t USING (script_version, table_name)
                 ORDER BY syncline_script_version.position, t.position",
            )
            .map_err(failed("read the scripts"))?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(failed("read the scripts"))?;
        admin::gather_scripts(rows)
    }

    fn publications(
        &mut self,
    ) -> Result<Vec<(ScriptVersion, PublicationName, Vec<String>)>, Failure> {
        self.require_deployed()?;
        let mut statement = self
            .connection
            .prepare(
                "SELECT script_version, publication, table_name FROM syncline_publication
                 ORDER BY script_version, publication, table_name",
            )
            .map_err(failed("read the publications"))?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String, String)>>>)
            .map_err(failed("read the publications"))?;
        admin::group_publications(rows)
    }

    fn users(&mut self) -> Result<Vec<User>, Failure> {
        self.require_deployed()?;
        let mut statement = self
            .connection
            .prepare(
                "SELECT user_name, claims, password_hash LIKE '!%' FROM syncline_user
                 ORDER BY user_name",
            )
            .map_err(failed("read the users"))?;
        let rows = statement
            .query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
            })
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(failed("read the users"))?;
        rows.into_iter()
            .map(|(name, claims, locked)| {
                let claims = admin::claims_from(&claims)?;
                Ok(User { name: UserName::new(name)?, claims, locked })
            })
            .collect()
    }

    fn add_user(
        &mut self,
        name: &UserName,
        password_hash: &str,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        self.require_deployed()?;
        let added = self
            .connection
            .execute(
                "INSERT INTO syncline_user VALUES (?1, ?2, random(), ?3) ON CONFLICT DO NOTHING",
                params![name.as_str(), password_hash, admin::claims_text(claims)],
            )
            .map_err(failed("add the user"))?;
        match added {
            1 => Ok(()),
            _ => Err(Failure::new(Code::UserExists, format!("user {name} exists"))),
        }
    }

    fn claims(&mut self, name: &UserName) -> Result<BTreeMap<String, String>, Failure> {
        self.require_deployed()?;
        let claims: Option<String> = self
            .connection
            .query_row(
                "SELECT claims FROM syncline_user WHERE user_name = ?1",
                [name.as_str()],
                |row| row.get(0),
            )
            .optional()
            .map_err(failed("read the user"))?;
        admin::claims_from(&claims.ok_or_else(|| admin::no_such_user(name))?)
    }

    fn set_claims(
        &mut self,
        name: &UserName,
        claims: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let sql = "UPDATE syncline_user SET claims = ?2 WHERE user_name = ?1";
        self.change_user(name, sql, &[&name.as_str(), &admin::claims_text(claims)])
    }

    fn set_password(&mut self, name: &UserName, password_hash: &str) -> Result<(), Failure> {
        let sql = "UPDATE syncline_user
                   SET password_hash = iif(password_hash LIKE '!%', '!', '') || ?2,
                       password_version = random()
                   WHERE user_name = ?1";
        self.change_user(name, sql, &[&name.as_str(), &password_hash])
    }

    fn set_locked(&mut self, name: &UserName, locked: bool) -> Result<(), Failure> {
        let sql = match locked {
            true => {
                "UPDATE syncline_user SET password_hash = '!' || ltrim(password_hash, '!'),
                     password_version = random() WHERE user_name = ?1"
            }
            false => {
                "UPDATE syncline_user SET password_hash = ltrim(password_hash, '!')
                 WHERE user_name = ?1"
            }
        };
        self.change_user(name, sql, &[&name.as_str()])
    }

    fn remove_user(&mut self, name: &UserName) -> Result<(), Failure> {
        let sql = "DELETE FROM syncline_user WHERE user_name = ?1";
        self.require_completed()?;
        // The other way round a namesake could come between.
        fleet::unbind(&self.connection, name)?;
        self.change_user(name, sql, &[&name.as_str()])
    }

    fn remotes(&mut self, only: Option<&RemoteId>) -> Result<Vec<KnownRemote>, Failure> {
        self.require_completed()?;
        fleet::remotes(&self.connection, only)
    }

    fn bind_remote(&mut self, remote_id: &RemoteId, binding: &Binding) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::bind(&self.connection, remote_id, binding)
    }

    fn forget_remote(&mut self, remote_id: &RemoteId) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::forget(&self.connection, remote_id)
    }

    fn rotate_keys(&mut self) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::rotate_keys(&self.connection)
    }

    fn declare_restored(&mut self) -> Result<(), Failure> {
        self.require_completed()?;
        fleet::declare_restored(&self.connection)
    }
    fn rejects(&mut self, wanted: Notes) -> Result<Vec<RejectNote>, Failure> {
        self.require_completed()?;
        notes::rejects(&self.connection, wanted)
    }

    fn purge_rejects(&mut self, seconds: i64) -> Result<u64, Failure> {
        self.require_completed()?;
        notes::purge_rejects(&self.connection, seconds)
    }

    fn conflicts(&mut self, wanted: Notes) -> Result<Vec<ConflictNote>, Failure> {
        self.require_completed()?;
        notes::conflicts(&self.connection, wanted)
    }

    fn purge_conflicts(&mut self, seconds: i64) -> Result<u64, Failure> {
        self.require_completed()?;
        notes::purge_conflicts(&self.connection, seconds)
    }
}
