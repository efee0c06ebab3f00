//! Checks of the database before the first remote is served.

use super::catalog;
use super::connect::Role;
use super::errors::failed;
use super::incarnation::{self, Life};
use super::link::{Call, Link};
use crate::deploy::format;
use crate::postgres::deploy::installed::one;
use crate::serving::start_mark::{self, MARKS_MAX, Mark, Marked};
use crate::url::PostgresUrl;
use model::{Code, Failure};
use std::path::Path;

const PLACE: &str = "SELECT value FROM syncline.syncline_system WHERE name = 'database_id'";

const ADD: &str = "WITH mark AS (
    INSERT INTO syncline.syncline_system SELECT 'start ' || gen_random_uuid(),
        to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    RETURNING substr(name, 7) AS mark
)
INSERT INTO syncline.syncline_system SELECT 'last_start', mark FROM mark
ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING value";

const TRIM: &str =
    "DELETE FROM syncline.syncline_system WHERE name LIKE 'start %' AND name NOT IN (
    SELECT name FROM syncline.syncline_system WHERE name LIKE 'start %'
    ORDER BY value DESC LIMIT $1)";

/// Whether this is the database that it says it is, and has what its last start left. `dir` is the
/// folder of the configuration.
pub(crate) fn start(url: &PostgresUrl, dir: Option<&Path>) -> Result<(), Failure> {
    let mut link = Link::open(url, Role::Apply)?;
    // The first query of the system tables. If they do not exist, nothing is deployed.
    link.begin(&[Call::new(catalog::DEPLOYMENT, &[])]).map_err(catalog::not_deployed)?;
    format::require(&mut link)?;
    let life = Life::meet(&mut link, &Life::default())?;
    match dir {
        Some(dir) => start_mark::start(dir, &mut Started { link, life }),
        None => Ok(()),
    }
}

struct Started {
    link: Link,
    life: Life,
}

impl Marked for Started {
    fn place(&mut self) -> Result<Mark, Failure> {
        let database_id = one(&mut self.link, PLACE, "read the database's identity")?;
        let database_id = database_id
            .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed here"))?;
        let incarnation = self.life.incarnation.number.to_string();
        let timeline = self.life.incarnation.timeline;
        Ok(Mark { database_id, incarnation, timeline, mark: String::new() })
    }

    fn has(&mut self, mark: &str) -> Result<bool, Failure> {
        incarnation::has_mark(&mut self.link, mark)
    }

    fn renew(&mut self, reason: &str) -> Result<(), Failure> {
        incarnation::renew(&mut self.link, reason)?;
        self.life = Life::meet(&mut self.link, &Life::default())?;
        Ok(())
    }

    fn add(&mut self) -> Result<String, Failure> {
        let mark = one(&mut self.link, ADD, "note the start of the server")?;
        self.link.query(TRIM, &[&MARKS_MAX]).map_err(failed("note the start of the server"))?;
        mark.ok_or_else(|| Failure::new(Code::Bug, "the start of the server was not noted"))
    }
}
