//! Whether own cursors compare times with what the database stamps.
//!
//! A `timestamp` has no zone. The database stamps it with its own local time, and a session of ours
//! would take it for UTC. So the model has to say which zone it is in, and may not say it where a
//! `timestamptz` is compared.

use crate::postgres::deploy::details::TableDetails;
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use crate::postgres::link::line::Signature;
use crate::postgres::statement::{Slot, Statement, time};
use crate::script::{Mistake, Piece, Script};
use model::Failure;
use postgres_types::Type;

/// The zone that sessions of the database have, unless they say otherwise.
const ZONE: &str = "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'";

/// Names of the zone in which local time is that of UTC.
const UTC: [&str; 8] =
    ["UTC", "Etc/UTC", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"];

/// What is wrong with the times of one statement, each with its place. `understand` lets the
/// database understand a statement as a download does.
pub(super) fn wrong_times(
    link: &mut Link,
    script: &Script,
    (statement, begins): (&Statement, &[usize]),
    details: &TableDetails,
    understand: impl FnOnce(&mut Link, &str) -> Option<Signature>,
) -> Result<Vec<Mistake>, Failure> {
    let zone = details.time_zone.as_deref();
    let times = script.pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
        Piece::Parameter(of) if script.parameters[*of].is_time() => Some((at, *of)),
        _ => None,
    });
    let times: Vec<(usize, usize)> = times.collect();
    let Some((sql, numbers)) = untyped(script, statement, &times, zone) else {
        return Ok(Vec::new());
    };
    // Where the database cannot tell by what a time is compared with, nothing is wrong for certain.
    let Some(Signature { parameters, .. }) = understand(link, &sql) else { return Ok(Vec::new()) };
    let mut wrong = Vec::new();
    for ((at, _), number) in times.into_iter().zip(numbers) {
        let place = script.place_of(begins[at], begins);
        let message = match (parameters.get(number - 1), zone) {
            (Some(&Type::TIMESTAMPTZ), Some(_)) => {
                "it is compared with a timestamptz, which is a moment \
                 everywhere: leave out time_zone, or compare a timestamp without time zone"
                    .to_owned()
            }
            (Some(&Type::TIMESTAMP), None) => match zone_of(link)? {
                Some(local) => format!(
                    "it is compared with a timestamp without time zone, and the time zone of the \
                     database is {local}: give the model time_zone = \"{local}\", or make the \
                     column a timestamptz"
                ),
                None => continue,
            },
            _ => continue,
        };
        wrong.push(Mistake { at: place, message });
    }
    Ok(wrong)
}

/// The statement with its `times` as parameters without types, and their numbers; none without
/// times.
fn untyped(
    script: &Script,
    statement: &Statement,
    times: &[(usize, usize)],
    zone: Option<&str>,
) -> Option<(String, Vec<usize>)> {
    let (mut sql, mut numbers) = (statement.sql.clone(), Vec::new());
    let (mut from, mut last) = (0, statement.slots.len());
    for (_, of) in times {
        let slot = Slot::Session(script.parameters[*of].clone());
        let number = 1 + statement.slots.iter().position(|known| *known == slot)?;
        let typed = time(number, zone);
        // Each stands for itself. The first has the number, so that none is missing.
        let own = match numbers.contains(&number) {
            true => {
                last += 1;
                last
            }
            false => number,
        };
        let at = from + sql.get(from..)?.find(&typed)?;
        let bare = format!("${own}");
        sql.replace_range(at..at + typed.len(), &bare);
        from = at + bare.len();
        numbers.push(own);
    }
    (!times.is_empty()).then_some((sql, numbers))
}

/// The database's zone, unless it is UTC.
fn zone_of(link: &mut Link) -> Result<Option<String>, Failure> {
    let rows = link.query(ZONE, &[]).map_err(failed("read the time zone"))?;
    let zone: Option<String> = rows.first().and_then(|row| row.try_get(0).ok());
    Ok(zone.filter(|zone| !UTC.contains(&zone.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::connect::Role;
    use crate::url::Url;
    use harness::postgres::Cluster;

    // DT1: the hour before clocks are put back comes twice, and rows of the second one are later.
    #[test]
    fn no_local_time_that_can_still_come_is_before_a_time() {
        let database = Cluster::shared().database();
        let Url::Postgres(url) = Url::parse(&database.url()).unwrap() else { panic!() };
        let mut link = Link::open(&url, Role::Administer).unwrap();
        for (zone, around) in [
            ("Europe/Berlin", "2026-10-25 01:00Z"),
            ("Europe/Berlin", "2026-03-29 01:00Z"),
            ("America/St_Johns", "2026-11-01 04:30Z"),
            ("Australia/Lord_Howe", "2026-04-04 15:00Z"),
        ] {
            let handed = time(1, Some(zone)).replace("$1::int8", "us");
            let sql = format!(
                "WITH moments AS (
                     SELECT timestamptz '{around}' + n * interval '10 minutes' AS at
                     FROM generate_series(-30, 30) AS n),
                 handed AS (
                     SELECT at, (extract(epoch FROM at) * 1000000)::int8 AS us FROM moments)
                 SELECT count(*), count(*) FILTER (WHERE late.at AT TIME ZONE '{zone}' < {handed})
                 FROM handed JOIN moments AS late ON late.at >= handed.at"
            );
            let rows = link.query(&sql, &[]).unwrap();
            let counts: (i64, i64) = (rows[0].try_get(0).unwrap(), rows[0].try_get(1).unwrap());
            assert_eq!(counts, (61 * 62 / 2, 0), "{zone}");
        }
    }
}
