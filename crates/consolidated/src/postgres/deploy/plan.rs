//! What PostgreSQL says of its tables to a plan, and how it spells what a plan decides.

use crate::catalog::deciding;
use crate::deploy::{self, ForeignKey, KeyAction, Schema, TableFacts, TablePlanner, Wanted};
use crate::digest::digest;
use crate::download::resume;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::deploy::key_spelling::{Doubt, KeySpelling, initial_refusal};
use crate::postgres::deploy::remote_ddl;
use crate::postgres::deploy::scripts::{self, Generator};
use crate::postgres::deploy::tables::{self, UserColumn, UserTable};
use crate::postgres::dialect::Postgres;
use crate::postgres::download::guard::Guard;
use crate::postgres::download::typed_claim::TypedClaim;
use crate::postgres::optimize::plan_cache::{self, Probe};
use crate::postgres::optimize::round_trip_proof::{RoundTripProof, upload_scripts};
use crate::postgres::tracking::{self, Tracking};
use crate::postgres::values::datetime::Times;
use crate::postgres::values::{ColumnType, Kind, NumericAs};
use crate::quote::idents;
use crate::script::{Event, Script};
use crate::selection::Rows;
use crate::sync_model::{ClaimTest, StoredAs, TimesAs, Wins};
use model::{Direction, Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};

/// A database of PostgreSQL.
#[derive(Debug)]
pub(in crate::postgres) struct PostgresSchema;

pub(in crate::postgres) type Plan = deploy::Plan<PostgresSchema>;

type Planner<'a> = TablePlanner<'a, PostgresSchema>;

/// Digits that SQLite's NUMERIC affinity keeps.
const NUMERIC_DIGITS_MAX: i32 = 15;

impl Schema for PostgresSchema {
    type Table = UserTable;
    type Values = Vec<ColumnType>;
    type Details = TableDetails;
    type Tracking = Tracking;

    const FENCES_SEE_STORED_ROWS: bool = false;
    const HAS_TIME_ZONES: bool = true;
    const SENDS_ROWS_TOGETHER: bool = true;
    const GENERATED_COLUMNS_CROSS: bool = false;

    fn find<'t>(
        tables: &'t BTreeMap<String, UserTable>,
        name: &str,
    ) -> Option<(&'t String, &'t UserTable)> {
        tables::find(tables, name)
    }

    fn unsupported(table: &UserTable) -> Option<Failure> {
        tables::unsupported(table)
    }

    fn initial_refusal(table: &UserTable) -> Option<Failure> {
        initial_refusal(table)
    }

    fn is_offered(_: &BTreeMap<String, UserTable>, table: &UserTable) -> bool {
        table.is_on_path()
    }

    fn can_decide(column: &UserColumn, wins: &Wins) -> bool {
        scripts::can_decide(column, wins)
    }

    fn is_number(column: &UserColumn) -> bool {
        scripts::NUMBERS.contains(&&*column.cast)
    }

    fn can_keep(kept: &UserColumn, from: &UserColumn) -> bool {
        kept.cast == from.cast || kept.cast == "text"
    }

    fn keeping(losers: &UserTable, columns: &[String]) -> String {
        format!(
            "INSERT INTO {} ({})\nSELECT {}\nFROM {{inserts}} AS r",
            losers.sql_name(),
            idents("", columns),
            idents("r.", columns),
        )
    }

    fn notices(name: &str, table: &UserTable) -> Vec<String> {
        let hidden = format!(
            "{name} has row security: rows that the server's database user does not see are not \
             synchronized"
        );
        Vec::from_iter(table.row_security.then_some(hidden))
    }

    fn values(planner: &Planner<'_>, columns: &[String]) -> Result<Vec<ColumnType>, Failure> {
        let (table, table_model) = (planner.table, planner.table_model);
        for wanted in table_model.stored_as.keys() {
            let numeric = table.column(wanted).is_some_and(|c| c.is_numeric() && !c.domain);
            if !(numeric && columns.contains(wanted)) {
                return Err(planner.wrong(&format!(
                    "`as` names {wanted}, which is not a published column of type numeric"
                )));
            }
        }
        let kind = |column: &UserColumn| {
            ColumnType::of(&column.cast, column.oid, column.domain, NumericAs::Text)
        };
        for wanted in table_model.times.keys() {
            let column = table.column(wanted).filter(|_| columns.contains(wanted));
            if !column.is_some_and(|column| kind(column).is_moment()) {
                return Err(planner.wrong(&format!(
                    "`times` names {wanted}, which is not a published column of type timestamp or \
                     timestamptz"
                )));
            }
            if is_compared(table, wanted) {
                return Err(planner.wrong(&format!(
                    "`times` names {wanted}, which is part of a key: remotes compare its text"
                )));
            }
        }
        let of = |column: &UserColumn| {
            let numeric = match table_model.stored_as.get(&column.name) {
                Some(StoredAs::Text) => NumericAs::Text,
                Some(StoredAs::Real) => NumericAs::Real,
                Some(StoredAs::Integer) => NumericAs::Integer,
                None => match column.numeric_digits() {
                    Some(digits) if digits <= NUMERIC_DIGITS_MAX => NumericAs::Numeric,
                    _ => NumericAs::Text,
                },
            };
            let kind = ColumnType::of(&column.cast, column.oid, column.domain, numeric);
            let is_text = kind.kind == Kind::Numeric(NumericAs::Text);
            let scale = column.scale().filter(|_| is_text).and_then(|it| u16::try_from(it).ok());
            let times = match table_model.times.get(&column.name) {
                Some(TimesAs::Rfc3339) => Times::Rfc3339,
                Some(TimesAs::Sqlite) | None => kind.times,
            };
            ColumnType { encoding: table.encoding, scale, times, ..kind }
        };
        Ok(columns.iter().filter_map(|name| table.column(name)).map(of).collect())
    }

    fn create(
        table: &UserTable,
        columns: &[String],
        types: &Vec<ColumnType>,
        foreign_keys: &[usize],
    ) -> (Vec<String>, Vec<String>) {
        remote_ddl::create(table, columns, types, foreign_keys)
    }

    fn known_by(table: &UserTable, columns: &[String], types: &Vec<ColumnType>) -> Vec<ColumnType> {
        let known = |(name, it): (&String, &ColumnType)| {
            // Those who hold the older notation keep their rows.
            let is_free = it.times == Times::Sqlite && !is_compared(table, name);
            let times = if is_free { Times::Full } else { it.times };
            ColumnType { scale: None, times, ..it.clone() }
        };
        columns.iter().zip(types).map(known).collect()
    }

    /// Values that travel in another form are other values to a remote.
    fn fingerprint(outward: &PublishedTable, types: &Vec<ColumnType>) -> String {
        digest(&[&serde_json::json!((outward, types)).to_string()])
    }

    fn scripts(
        planner: &Planner<'_>,
        published: &PublishedTable,
        types: &Vec<ColumnType>,
    ) -> Vec<(Event, String)> {
        generator(planner, published, types).scripts()
    }

    fn details(
        planner: &Planner<'_>,
        published: &PublishedTable,
        types: Vec<ColumnType>,
        scripts: &BTreeMap<Event, Script>,
        local: Vec<String>,
    ) -> TableDetails {
        let (table, selection) = (planner.table, planner.selection);
        let generator = generator(planner, published, &types);
        let departures = generator.departures();
        let departed = scripts.get(&Event::DownloadDeleteCursor);
        let logs = if selection.departs() { selection.logs() } else { vec![&selection.table] };
        let watched = logs
            .iter()
            .filter(|_| planner.table_model.direction.downloads())
            .map(|table| (table.name.clone(), planner.version.user_tables[&table.name].sql_name()));
        TableDetails {
            schema: table.schema.clone(),
            name: table.name.clone(),
            verbatim: verbatim(planner, published, &types, scripts),
            depends_on: logs.iter().map(|table| table.name.clone()).collect(),
            watched: watched.collect(),
            deciding: deciding::of(selection, published, |name| {
                planner.version.user_tables[name].sql_name()
            }),
            parameters: selection.claims().iter().map(ToString::to_string).collect(),
            claims: typed_claims(planner),
            selection: if selection.is_all() { String::new() } else { selection.to_string() },
            afresh: selection.is_custom(),
            kept: plan_cache::scripts(table, selection, scripts),
            cursors: resume::cursors_of(scripts),
            kept_by_refresh: planner.table_model.kept_by_refresh,
            time_zone: planner.version.model.time_zone.clone(),
            departed: departed.and_then(|script| Some(Probe::new(departures?, script))),
            guards: guards(planner),
            may_leave: planner.table_model.may_leave,
            added: planner.added(&published.columns),
            losers: planner.losers(&published.columns).ok().flatten(),
            remade: !table.triggers.is_empty() || planner.table_model.conflict.clamped().is_some(),
            heeds: heeds(planner),
            local,
            takers: takers(planner.version.user_tables, table, published.direction),
            references: planner.references(&published.columns),
            written: planner.written_unseen(&published.columns),
            deletes_act: deletes_act(planner.version.user_tables, planner.name),
            // Only rows that are tracked carry a version.
            stamping: planner.tracked.contains_key(planner.name).then(|| upload_scripts(scripts)),
            spelling: KeySpelling::of(table, &published.columns, &types),
            doubt: Doubt::of(table, &published.columns, &types),
            columns: types,
        }
    }

    fn writes_as_it_likes(details: &mut TableDetails) {
        (details.verbatim, details.stamping, details.remade) = (None, None, true);
        // It may do what actions of foreign keys do.
        details.deletes_act = true;
    }

    fn notice_of_sessions(_: &model::ScriptVersion) -> Option<String> {
        None
    }

    fn tracking(table: &UserTable, wanted: &Wanted) -> Option<Tracking> {
        Some(tracking::of(table, wanted))
    }
}

fn generator<'a>(
    planner: &Planner<'a>,
    published: &'a PublishedTable,
    types: &'a [ColumnType],
) -> Generator<'a> {
    let (user_tables, tracked) = (planner.version.user_tables, planner.tracked);
    Generator {
        table: planner.table,
        columns: &published.columns,
        types,
        direction: published.direction,
        rule: &planner.table_model.conflict,
        selection: planner.selection,
        may_leave: planner.table_model.may_leave,
        unseen: unseen(planner, &published.columns),
        dialect: Postgres { user_tables, tracked },
    }
}

/// `latest` stores a future time as now, and it is unknown which functions a custom condition
/// calls.
/// Whether remotes compare the texts of a column: it is part of the key, or refers to another one.
fn is_compared(table: &UserTable, name: &String) -> bool {
    let refers = |key: &ForeignKey| key.columns.iter().any(|(child, _)| child == name);
    table.key.contains(name) || table.foreign_keys.iter().any(refers)
}

fn verbatim(
    planner: &Planner<'_>,
    published: &PublishedTable,
    types: &[ColumnType],
    scripts: &BTreeMap<Event, Script>,
) -> Option<RoundTripProof> {
    let clamps = planner.table_model.conflict.clamped().is_some();
    if clamps || planner.selection.is_custom() || !published.direction.uploads() {
        return None;
    }
    let kinds = types.iter().map(|column| column.kind);
    let columns: Vec<_> = published.columns.iter().map(String::as_str).zip(kinds).collect();
    RoundTripProof::of(planner.table, &columns, scripts, planner.tracked.contains_key(planner.name))
}

/// The foreign keys that decide which rows a remote has: its own and those above it.
fn guards(planner: &Planner<'_>) -> Vec<Guard> {
    let (mut guards, mut child) = (Vec::new(), planner.selection);
    while let Rows::Parent { link, parent } = &child.rows {
        if planner.version.is_guarded(child) {
            let tables = planner.version.user_tables;
            let (child, parent) = (&tables[&child.table.name], &tables[&parent.table.name]);
            guards.push(Guard::of(child, parent, link));
        }
        child = parent;
    }
    guards
}

/// The tables whose rows those that are uploaded to this one may refer to.
fn heeds(planner: &Planner<'_>) -> Vec<String> {
    let parents = planner.table.foreign_keys.iter().map(|key| key.parent.as_str());
    let all: BTreeSet<&str> = parents.chain([planner.name]).collect();
    let logged = all.into_iter().filter(|name| planner.tracked.contains_key(*name));
    logged.map(str::to_owned).collect()
}

/// The claims that must be values of a type, here and above.
fn typed_claims(planner: &Planner<'_>) -> Vec<TypedClaim> {
    let mut claims = Vec::new();
    let mut deciding = Some(planner.selection);
    while let Some(selection) = deciding {
        deciding = None;
        let (table, column, test) = match &selection.rows {
            Rows::Column { column, test } => (&selection.table, column, test),
            Rows::Mapping { mapping, matched, test, .. } => (mapping, matched, test),
            Rows::Parent { parent, .. } => {
                deciding = Some(parent);
                continue;
            }
            Rows::All | Rows::Custom(_) => continue,
        };
        let column = planner.version.user_tables[&table.name].column(column);
        let Some(cast) = column.map(|column| column.cast.clone()) else { continue };
        if !matches!(cast.as_str(), "text" | "character varying" | "bpchar") {
            let list = matches!(test, ClaimTest::IsIn(_));
            claims.push(TypedClaim { claim: test.claim().clone(), cast, list });
        }
    }
    claims
}

/// Columns that decide who receives a row and that an older shape does not have. What a
/// condition of one's own looks at is not known, so these are all.
fn unseen<'a>(planner: &Planner<'a>, columns: &[String]) -> Vec<&'a UserColumn> {
    let place = planner.selection.place();
    let decides = |name: &str| planner.selection.is_custom() || place.contains(&name);
    let lacks = |column: &&UserColumn| {
        planner.part && decides(&column.name) && !columns.contains(&column.name)
    };
    planner.table.columns.iter().filter(lacks).collect()
}

/// The tables, by their published names, whose deletes take rows of `table` along, whatever is
/// between them. If no download tells a remote what became of a row, also those whose deletes may
/// change rows.
fn takers(
    tables: &BTreeMap<String, UserTable>,
    table: &UserTable,
    direction: Direction,
) -> Vec<String> {
    let takes = |key: &&ForeignKey| match direction.downloads() {
        true => key.on_delete == KeyAction::Cascade,
        false => key.on_delete.writes() || key.on_update.writes(),
    };
    let mut takers = BTreeSet::new();
    let mut open = vec![table];
    while let Some(child) = open.pop() {
        for key in child.foreign_keys.iter().filter(takes) {
            if takers.insert(key.parent.clone()) {
                open.extend(tables.get(&key.parent));
            }
        }
    }
    takers.into_iter().collect()
}

/// Whether actions of foreign keys follow when a row of the table `name` is deleted.
fn deletes_act(tables: &BTreeMap<String, UserTable>, name: &str) -> bool {
    let mut keys = tables.values().flat_map(|table| &table.foreign_keys);
    keys.any(|key| key.parent == name && key.on_delete.writes())
}
