//! Rows whose parent is missing.
//!
//! A foreign key makes sure that a row does not come before its parent, and that the parent is not
//! deleted before it. So a row that enters a partition with its parent is found by the log of the
//! parent. But foreign keys are not checked for replicas and restores (`session_replication_role =
//! replica`). If they are NOT VALID, older rows are not checked either (trap 26).
//!
//! Invariants:
//! O1. A session that writes a child or removes a parent without foreign keys leaves a mark in
//!     `syncline_logs.bypassed`. As long as the mark differs from `settled`, there may be
//!     orphans, and each download looks for them in its own snapshot.
//! O2. A watermark has a digest of the orphans of the table and of the tables that decide about it.
//!     So if there is another orphan, or one has found its parent, the whole table is sent again.
//! O3. If there are no orphans, nothing is added to the digest, and they are not searched for again
//!     until the mark changes. In this time the foreign key itself prevents them.

use crate::postgres::catalog::table::Table;
use crate::postgres::download::guard::Guard;
use crate::postgres::download::moment::{Digests, LogState};
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link};
use crate::quote::literal;
use model::{Code, Failure};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hasher;
use std::sync::Arc;

/// The result of [`Guard::digest`] without orphans.
const NONE: &str = "0:0";

/// What one connection knows of orphans.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Orphans {
    /// Marks of child and parent with which a guard was found to have none.
    clean: HashMap<String, Marks>,
    told: u64,
}

/// What is marked at child and parent.
type Marks = (Option<String>, Option<String>);

impl Orphans {
    /// Looks for orphans in the snapshot of a download, where there may be any.
    pub(in crate::postgres) fn look(
        &mut self,
        link: &mut Link,
        tables: &[Arc<Table>],
        logs: &HashMap<String, LogState>,
    ) -> Result<Digests, Failure> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let mut marks: HashMap<String, Marks> = HashMap::new();
        for guard in tables.iter().flat_map(|table| &table.deployed.details.guards) {
            let of = |name: &String| logs.get(name);
            let loose = [&guard.child, &guard.parent].map(|name| of(name).is_some_and(|l| l.loose));
            let mark = |name: &String| of(name).and_then(|log| log.bypassed.clone());
            let now = (mark(&guard.child), mark(&guard.parent));
            let sql = guard.digest();
            if loose.contains(&true) && self.clean.get(&sql) != Some(&now) {
                marks.insert(sql, now);
            }
        }
        if marks.is_empty() {
            return Ok(Digests::new());
        }
        let asked: BTreeSet<&String> = marks.keys().collect();
        let calls: Vec<Call<'_>> = asked.iter().map(|sql| Call::new(sql, &[])).collect();
        let answers = link.flight(&calls).map_err(failed("look for rows without a parent"))?;
        for (sql, answer) in asked.into_iter().zip(&answers) {
            let digest: Option<&str> = answer.rows.first().and_then(|row| row.try_get(0).ok());
            let unread = || Failure::new(Code::Bug, "a digest has no row");
            match digest.ok_or_else(unread)? {
                NONE => drop(self.clean.insert(sql.clone(), marks[sql].clone())),
                digest => drop(found.insert(sql.clone(), digest.to_owned())),
            }
        }
        let digests = digests(tables, &found);
        self.tell(&found);
        Ok(digests)
    }

    /// Once for each state of affairs.
    fn tell(&mut self, found: &BTreeMap<String, String>) {
        let mut hasher = SipHasher13::new();
        found.values().for_each(|digest| hasher.write(digest.as_bytes()));
        let state = hasher.finish128().h1;
        if found.is_empty() || state == self.told {
            return;
        }
        self.told = state;
        let counts = found.values().filter_map(|digest| digest.split(':').next());
        let rows: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
        tracing::warn!(
            rows,
            "rows without their parent are not downloaded; `syncline check` counts them"
        );
    }
}

fn digests(tables: &[Arc<Table>], found: &BTreeMap<String, String>) -> Digests {
    let mut digests = Digests::new();
    for table in tables {
        let mut hasher = SipHasher13::new();
        let mut any = false;
        for guard in &table.deployed.details.guards {
            if let Some(digest) = found.get(&guard.digest()) {
                any = true;
                hasher.write(guard.child.as_bytes());
                hasher.write(digest.as_bytes());
            }
        }
        if any {
            let name = table.deployed.published.name.clone();
            digests.insert(name, hasher.finish128().h1);
        }
    }
    digests
}

/// Records for every table without orphans that no search is needed. Behind a deployment.
pub(in crate::postgres) fn settle(link: &mut Link, guards: &[&Guard]) -> Result<(), Failure> {
    let doing = failed("look for rows without a parent");
    let sql = "SELECT table_name, bypassed::text FROM syncline.syncline_logs
               WHERE bypassed IS DISTINCT FROM settled";
    for row in link.query(sql, &[]).map_err(&doing)? {
        let table: String = row.try_get(0).map_err(unreadable)?;
        let mark: Option<String> = row.try_get(1).map_err(unreadable)?;
        let about = guards.iter().filter(|guard| [&guard.child, &guard.parent].contains(&&table));
        let none: String =
            about.map(|guard| format!("\n  AND NOT EXISTS (SELECT {})", guard.orphans)).collect();
        let mark = mark.map_or("NULL".to_owned(), |mark| literal(&mark));
        // A mark that another session leaves in the meantime stays.
        link.batch(&format!(
            "UPDATE syncline.syncline_logs SET settled = bypassed\n\
             WHERE table_name = {} AND bypassed IS NOT DISTINCT FROM {mark}::xid8{none}",
            literal(&table)
        ))
        .map_err(&doing)?;
    }
    Ok(())
}
