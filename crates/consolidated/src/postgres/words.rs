//! How PostgreSQL is spoken to where bookkeeping is the same on every database.

use crate::deploy::SystemTables;
use crate::postgres::deploy::system_tables;
use crate::postgres::errors::failed;
use crate::postgres::link::{Call, Link, Row};
use crate::sql::{Bound, Sql, TextRow, Words};
use model::{Code, Failure};
use postgres_types::ToSql;
use serde_json::Value as Json;

/// PostgreSQL's words.
#[derive(Debug)]
pub(crate) struct PostgresWords;

impl Words for PostgresWords {
    const SYSTEM: SystemTables = system_tables::SYSTEM;
    const DEPLOYED: &'static str =
        "SELECT '1' WHERE to_regclass('syncline.syncline_system') IS NOT NULL";
    const PREFIX: &'static str = "syncline.";
    const RANDOM: &'static str = "(random() * 9007199254740992)::bigint";
    const RANDOM_KEY: &'static str =
        "replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')";
    const RANDOM_DIGITS: &'static str = "replace(gen_random_uuid()::text, '-', '')";
    const NOW: &'static str = "now()";
    const NOW_UNIX_S: &'static str = "extract(epoch FROM now())::bigint";
    const UNBIND: &'static str = "UPDATE {}syncline_remote SET epoch = epoch + 1,
             bound_users = (bound_users::jsonb - ?1::text)::text
         WHERE CASE WHEN bound_users LIKE '[%'
             THEN bound_users::jsonb @> to_jsonb(?1::text) END";

    const SAME: &'static str = "IS NOT DISTINCT FROM";

    fn literal(value: &Json) -> Result<String, &'static str> {
        let part = |name: &str| value.get(name).and_then(Json::as_str);
        let text = match value {
            Json::Null => return Ok("NULL".to_owned()),
            Json::Number(number) => number.to_string(),
            Json::String(text) => text.clone(),
            _ => match (part("blob"), part("real")) {
                (Some(digits), _) => format!("\\x{digits}"),
                (_, Some(number)) => number.to_owned(),
                _ => return Err("a value in its note does not read"),
            },
        };
        // What begins with a question mark is a parameter of a statement of bookkeeping.
        let text = text.replace('\\', "\\\\").replace('\'', "''").replace('?', "\\077");
        Ok(format!("E'{text}'"))
    }

    fn utc(time: &str) -> String {
        format!("to_char({time} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
    }

    fn ago(seconds: &str) -> String {
        format!("now() - make_interval(secs => {seconds})")
    }

    fn age_s(time: &str) -> String {
        format!("floor(extract(epoch FROM now() - {time}))::int8")
    }

    fn hex(bytes: &str) -> String {
        format!("encode({bytes}, 'hex')")
    }

    fn unhex(digits: &str) -> String {
        format!("decode({digits}, 'hex')")
    }
}

impl Sql for Link {
    type Words = PostgresWords;

    fn run(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<Vec<TextRow>, Failure> {
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.query(&sql.replace('?', "$"), &values).map_err(failed(doing))?;
        let garbled =
            |error| Failure::new(Code::Drift, format!("cannot {doing}: no text")).source(error);
        let read = |row: &Row| {
            (0..row.columns().len()).map(|at| row.try_get(at).map_err(garbled)).collect()
        };
        rows.iter().map(read).collect()
    }

    fn run_all(&mut self, doing: &str, statements: &[Bound<'_>]) -> Result<Vec<u64>, Failure> {
        let parameters = statements.iter().map(|(_, values)| {
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect::<Vec<_>>()
        });
        let parameters = parameters.collect::<Vec<_>>();
        let texts: Vec<String> = statements.iter().map(|(sql, _)| sql.replace('?', "$")).collect();
        let own = texts.iter().zip(&parameters).map(|(sql, values)| Call::new(sql, values));
        let begin = std::iter::once(Call::new("BEGIN", &[]));
        let calls: Vec<Call<'_>> = begin.chain(own).chain([Call::new("COMMIT", &[])]).collect();
        let answers = self.begin(&calls).map_err(failed(doing));
        if answers.is_err() {
            self.roll_back();
        }
        Ok(answers?[1..=statements.len()].iter().map(|answer| answer.affected).collect())
    }
}
