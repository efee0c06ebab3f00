//! What is deployed, for people: scripts and publications.

use super::StoredScript;
use crate::script::{Event, own};
use crate::sql::{Sql, text};
use model::{Code, Failure, PublicationName, ScriptVersion};

/// Every script, in the order of versions, tables and events.
pub(super) fn scripts<Q: Sql>(sql: &mut Q) -> Result<Vec<StoredScript>, Failure> {
    let query = "SELECT s.script_version, s.table_name, s.event, s.script
                 FROM {}syncline_script AS s
                 JOIN {}syncline_script_version AS v ON v.script_version = s.script_version
                 JOIN {}syncline_table AS t
                     ON t.script_version = s.script_version AND t.table_name = s.table_name
                 ORDER BY v.position, t.position";
    let mut scripts = Vec::new();
    for row in sql.bookkeep("read the scripts", query, &[])? {
        let [version, table, event, script] = [0, 1, 2, 3].map(|column| text(&row, column));
        let event = Event::from_name(&event)
            .ok_or_else(|| Failure::new(Code::ScriptFailed, format!("unknown event {event}")))?;
        let script_version = ScriptVersion::new(version)?;
        let (own, script) = own::read(&script);
        let script = script.to_owned();
        scripts.push(StoredScript { script_version, table, event, script, own });
    }
    order_by_event(&mut scripts);
    Ok(scripts)
}

/// Puts the scripts of each table into the order of their events; versions and tables stay.
fn order_by_event(scripts: &mut [StoredScript]) {
    let same_table = |a: &StoredScript, b: &StoredScript| {
        a.table == b.table && a.script_version == b.script_version
    };
    for scripts in scripts.chunk_by_mut(same_table) {
        scripts.sort_by_key(|script| script.event);
    }
}

/// Every publication with its tables, by name.
#[allow(clippy::type_complexity, reason = "version, publication, tables: three plain columns")]
pub(super) fn publications<Q: Sql>(
    sql: &mut Q,
) -> Result<Vec<(ScriptVersion, PublicationName, Vec<String>)>, Failure> {
    let query = "SELECT script_version, publication, table_name FROM {}syncline_publication";
    let mut rows = sql.bookkeep("read the publications", query, &[])?;
    rows.sort();
    let mut publications: Vec<(ScriptVersion, PublicationName, Vec<String>)> = Vec::new();
    for row in rows {
        let [version, publication, table] = [0, 1, 2].map(|column| text(&row, column));
        match publications.last_mut() {
            Some((v, p, tables)) if v.as_str() == version && p.as_str() == publication => {
                tables.push(table);
            }
            _ => publications.push((
                ScriptVersion::new(version)?,
                PublicationName::new(publication)?,
                vec![table],
            )),
        }
    }
    Ok(publications)
}
