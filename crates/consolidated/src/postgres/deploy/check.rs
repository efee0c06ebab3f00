//! Compares the models, the deployment and the database.

use crate::administration::drift::{self, Strayed};
use crate::administration::{Finding, Severity, table_gone};
use crate::catalog::{self, Unserved};
use crate::postgres::deploy::installed::{Installed, OBJECTS, text};
use crate::postgres::deploy::tables::{UserTable, VERSION};
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use model::Failure;
use std::collections::BTreeMap;

/// Tables whose rows came from another server.
pub(in crate::postgres) fn restored(link: &mut Link) -> Result<Vec<Finding>, Failure> {
    let present = Installed::read(link)?;
    let finding = |table: &String| Finding {
        severity: Severity::Error,
        table: Some(table.clone()),
        message: format!(
            "{table} has row versions of another server: it was restored; deploy replaces them"
        ),
    };
    Ok(present.from_the_future.iter().map(finding).collect())
}

/// That a published table has rows which others write together with its own.
pub(in crate::postgres) fn remark(
    user_tables: &BTreeMap<String, UserTable>,
    name: &str,
) -> Option<Finding> {
    let writers = writers(user_tables, name);
    let message = format!(
        "uploaded rows are read back and compared, because {} may change them or other rows",
        writers.join(", ")
    );
    (!writers.is_empty()).then(|| notice_of(Some(name.to_owned()), message))
}

/// Tables with a trigger that sets row versions back.
pub(in crate::postgres) fn set_back(link: &mut Link) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let sql = "SELECT table_name FROM syncline.syncline_logs
               WHERE unstamped IS NOT NULL ORDER BY table_name";
    for row in link.query(sql, &[]).map_err(failed("look for versions that were set back"))? {
        let table = text(&row, 0)?;
        findings.push(notice_of(
            Some(table.clone()),
            format!(
                "a trigger of {table} that fires after syncline_stamp sets row versions back: each \
                 such change sends the whole table to every remote; give the trigger a name that \
                 sorts before, or let it keep {VERSION}"
            ),
        ));
    }
    Ok(findings)
}

/// Objects that are not Syncline's and that write when a row of the table is written (trap 8).
fn writers(user_tables: &BTreeMap<String, UserTable>, name: &str) -> Vec<String> {
    let triggers = user_tables.get(name).map_or(&[][..], |table| &table.triggers);
    let mut writers: Vec<String> =
        triggers.iter().map(|trigger| format!("trigger {trigger}")).collect();
    for (child, table) in user_tables {
        for key in table.foreign_keys.iter().filter(|key| key.parent == name) {
            let actions = [("DELETE", key.on_delete), ("UPDATE", key.on_update)];
            let writing = actions.into_iter().filter(|(_, action)| action.writes());
            writers.extend(
                writing.map(|(event, action)| format!("ON {event} {} of {child}", action.as_str())),
            );
        }
    }
    writers
}

fn notice_of(table: Option<String>, message: String) -> Finding {
    Finding { severity: Severity::Notice, table, message }
}

/// Deployed objects that are missing or have changed.
pub(in crate::postgres) fn drift(link: &mut Link) -> Result<Vec<Finding>, Failure> {
    let sql = format!(
        "SELECT o.kind, o.table_name, o.name, (a.name IS NULL)::text,\n\
             (o.table_name <> '' AND to_regclass(o.table_name) IS NULL)::text\n\
         FROM syncline.syncline_object AS o\n\
         LEFT JOIN (\n{OBJECTS}) AS a USING (kind, table_name, name)\n\
         WHERE a.definition IS DISTINCT FROM o.definition\n\
         ORDER BY o.table_name COLLATE \"C\", o.kind COLLATE \"C\", o.name COLLATE \"C\""
    );
    let rows = link.query(&sql, &[]).map_err(failed("compare the objects"))?;
    let strayed = rows.iter().map(|row| {
        let table = text(row, 1)?;
        Ok(Strayed {
            kind: text(row, 0)?,
            name: text(row, 2)?,
            table: Some(table).filter(|table| !table.is_empty()),
            table_is_gone: text(row, 4)? == "true",
            is_missing: text(row, 3)? == "true",
        })
    });
    Ok(drift::findings(strayed.collect::<Result<Vec<_>, Failure>>()?))
}

/// The tables among `$1`, names in SQL, that are gone or that this role may not read.
const UNREADABLE: &str = "SELECT relation, (to_regclass(relation) IS NULL)::text
    FROM unnest($1::text[]) AS w (relation)
    WHERE has_any_column_privilege(to_regclass(relation)::oid, 'SELECT') IS NOT TRUE";

/// What is told apart of the tables among `$1` that are not as they were deployed, as one text.
const LOOKS: &str = "SELECT string_agg(concat_ws(' ', relation, to_regclass(relation)::oid,
        has_any_column_privilege(to_regclass(relation)::oid, 'SELECT'),
        (SELECT string_agg(concat_ws(' ', t.oid, t.xmin), ' ' ORDER BY t.oid)
         FROM pg_trigger AS t WHERE t.tgrelid = to_regclass(relation)),
        (SELECT string_agg(a.attname::text, ' ' ORDER BY a.attnum)
         FROM pg_attribute AS a WHERE a.attrelid = to_regclass(relation))), ';' ORDER BY relation)
    FROM unnest($1::text[]) AS w (relation)";

/// Which of the `deployed` tables, by their names in SQL, are not as they were deployed, and why.
/// Refuses what is wrong with no table in particular.
pub(in crate::postgres) fn unserved(
    link: &mut Link,
    deployed: &[String],
) -> Result<Unserved, Failure> {
    let mut unserved = catalog::unserved(drift(link)?)?;
    let rows = link.query(UNREADABLE, &[&deployed]).map_err(failed("ask for privileges"))?;
    for row in &rows {
        let table = text(row, 0)?;
        let message = match text(row, 1)?.as_str() {
            "true" => table_gone(table.clone()).message,
            _ => format!("the role of the server may not read table {table}: grant it SELECT"),
        };
        unserved.entry(table).or_insert(message);
    }
    Ok(unserved)
}

/// Changes when something changes about these tables.
pub(in crate::postgres) fn looks(link: &mut Link, tables: &[&String]) -> Result<String, Failure> {
    let rows = link.query(LOOKS, &[&tables]).map_err(failed("look at tables again"))?;
    rows.first().map(|row| text(row, 0)).transpose().map(Option::unwrap_or_default)
}
