//! Rows that were not applied while the others of their batch were.
//!
//! One statement finds them, and they are resolved as a set after all others. A row that a
//! generated script applied has the version of this transaction, and a row that it deleted is
//! missing. So the remaining rows of a batch are known without applying them one by one. A new row
//! whose key exists makes the whole attempt fail. In the next attempt such rows are searched for
//! first and set aside.
//!
//! Invariants:
//! F1. The rows found must be exactly as many as the statement did not change. Otherwise everything
//!     is undone and applied carefully.
//! F2. It makes no difference for these rows that the others are applied first: no trigger or rule
//!     of a user sees the rows, no action of a foreign key changes them, and none of them leaves
//!     the partition before others that need it.
//! F3. No other transaction changes keys that concern the upload until all rows are resolved (M1).

use super::batch::{self, BATCH_BYTES, Batch};
use super::careful::{Careful, Group};
use super::catalog::Table;
use super::conflict;
use super::details::TableDetails;
use super::fetch::unreadable;
use super::key_log;
use super::ledger::Ledger;
use super::link::{Call, Link};
use super::links::Links;
use super::moved::{Moves, Question};
use super::outline::Outline;
use super::parcel::{Numbers, Parcel};
use super::reached;
use super::sending::Missed;
use super::statement::{POSITION, Statement};
use super::tables::VERSION;
use super::upload::{Stop, Upload, stopped};
use super::verbatim;
use super::watermark::Place;
use crate::catalog::CatalogTable;
use crate::quote::{ident, join};
use crate::script::{Event, Script};
use crate::synchronization::{Change, Held};
use postgres_types::ToSql;
use std::collections::HashMap;

/// Whether triggers, rules or policies of users act on the rows of tables `$1`, or hide some.
const MEDDLES: &str = "SELECT 1 FROM pg_class AS c
WHERE c.oid = ANY (ARRAY(SELECT n::regclass::oid FROM unnest($1::text[]) AS n))
    AND (c.relhasrules OR c.relhassubclass OR c.relrowsecurity OR EXISTS (
        SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'
            AND p.pronamespace <> 'syncline'::regnamespace))
LIMIT 1";

/// Digest of the scripts that apply rows.
pub(super) fn digest(scripts: &HashMap<Event, Script>) -> String {
    verbatim::upload_scripts(scripts)
}

/// Finds rows of a table that were not applied: their positions in a batch, from 1.
#[derive(Debug)]
pub(super) struct Seeker {
    /// Rows without the version of this transaction, and missing rows.
    unstamped: Statement,
    /// Rows that are there.
    there: Statement,
}

impl Seeker {
    /// None where the scripts of `table` are not the generated ones, or leave no trace.
    pub(super) fn of(table: &CatalogTable<TableDetails>) -> Option<Seeker> {
        let stamping = table.details.stamping.as_ref()?;
        if *stamping != digest(table.scripts()) {
            return None;
        }
        Some(Seeker {
            unstamped: seeking(table, &|found| {
                format!("(SELECT t.{VERSION} {found}) IS DISTINCT FROM pg_current_xact_id()")
            })?,
            there: seeking(table, &|found| format!("(SELECT 1 {found}) IS NOT NULL"))?,
        })
    }
}

/// Each row is looked up by itself: a join might read the whole table instead.
fn seeking(
    table: &CatalogTable<TableDetails>,
    condition: &dyn Fn(&str) -> String,
) -> Option<Statement> {
    let (published, details) = (&table.published, &table.details);
    let key: Vec<&String> =
        published.key.iter().filter_map(|at| published.columns.get(usize::from(*at))).collect();
    let found = format!(
        "FROM {}.{} AS t WHERE {}",
        ident(&details.schema),
        ident(&details.name),
        join(&key, " AND ", |name| format!("t.{0} = k.{0}", ident(name))),
    );
    let text = format!("SELECT k.{POSITION}\nFROM {{keys}} AS k\nWHERE {}", condition(&found));
    let script = Script::parse(&text, published).ok()?;
    Some(Statement::of(&script, published, &details.columns))
}

/// Whether rows that an upload falls short by can be looked for, as far as is known beforehand.
pub(super) fn can_be_sought(place: Place, upload: Upload<'_>, outline: &Outline) -> bool {
    let table = |at: usize| -> &Table { &upload.tables[at] };
    let leaves = |at: usize| table(at).deployed.details.may_leave;
    !matches!(upload.request.session.held, Held::Older(_))
        && outline.tables().into_iter().all(|at| table(at).seeker.is_some())
        && (outline.is_of_one_kind() || !outline.updated().any(leaves))
        && Question::is_whole(place, upload, outline)
}

/// A parcel of which a statement has changed fewer rows than it has.
pub(super) struct Short<'p, 'a> {
    pub(super) parcel: &'p Parcel<'a>,
    pub(super) affected: u64,
    /// Those that were changed, where the statement says so.
    pub(super) positions: Vec<i32>,
    /// No other statement of the upload can have changed the rows, by a foreign key.
    pub(super) alone: bool,
}

impl Short<'_, '_> {
    /// The numbers of the rows that are missing, where they are known without a question.
    fn missing(&self) -> Option<Vec<u64>> {
        let told = self.affected == self.positions.len() as u64;
        let told = told && (self.alone || self.parcel.change == Change::Delete);
        told.then(|| self.parcel.numbers.without(&self.positions))
    }
}

/// The numbers of the rows that each parcel fell short by. None where that is not certain.
pub(super) fn find(
    link: &mut Link,
    upload: Upload<'_>,
    short: &[Short<'_, '_>],
) -> Result<Option<Vec<u64>>, Stop> {
    let mut numbers = Vec::new();
    let mut seeking = Vec::new();
    for short in short {
        if let Some(missing) = short.missing() {
            numbers.extend(missing);
            continue;
        }
        let parcel = short.parcel;
        let seeker = upload.tables[parcel.table].seeker.as_ref();
        let seeker = seeker.and_then(|seeker| match parcel.change {
            Change::Insert | Change::Update => Some(&seeker.unstamped),
            Change::Delete => Some(&seeker.there),
            Change::KeyChange => None,
        });
        let Some(seeker) = seeker else { return Ok(None) };
        let Some(values) = parcel.batch.asked_by(seeker, parcel.change) else { return Ok(None) };
        seeking.push((short, seeker, values));
    }
    let parameters: Vec<_> =
        seeking.iter().map(|(_, _, values)| batch::as_parameters(values)).collect();
    let questions = seeking.iter().zip(&parameters);
    let mut calls = Vec::new();
    reached::ask(&mut calls, questions.map(|((_, seeker, _), p)| Call::new(&seeker.sql, p)));
    if calls.is_empty() {
        return Ok(Some(numbers));
    }
    let answers = link.flight(&calls).map_err(stopped("look for rows that were not applied"))?;
    // In front of the answers is what was made of a setting.
    for ((short, ..), answer) in seeking.iter().zip(answers.iter().skip(1)) {
        let lacking = short.parcel.numbers.len().saturating_sub(short.affected);
        let found = answer.rows.len() as u64;
        let certain = match short.parcel.change {
            // A missing row needs no action.
            Change::Delete => found <= lacking,
            Change::Insert | Change::Update | Change::KeyChange => found == lacking,
        };
        if !certain {
            return Ok(None);
        }
        for row in &answer.rows {
            numbers.extend(short.parcel.numbers.at(row.try_get(0).map_err(unreadable)?));
        }
    }
    Ok(Some(numbers))
}

/// The tables with rows in SQL.
fn names(upload: Upload<'_>, outline: &Outline) -> Vec<String> {
    let details = |at: usize| &upload.tables[at].deployed.details;
    let details = outline.tables().into_iter().map(details);
    details.map(|details| format!("{}.{}", ident(&details.schema), ident(&details.name))).collect()
}

/// The numbers of new rows whose key exists. None if there are none, or if they are not needed.
pub(super) fn duplicates(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
) -> Result<Option<Vec<u64>>, Stop> {
    if !can_be_sought(link.place(), upload, outline) {
        return Ok(None);
    }
    let mut number = 0;
    let mut found = Vec::new();
    let mut asking: Option<(usize, Batch<'_>, Numbers)> = None;
    outline.visit(upload, &mut |at, row| {
        let this = number;
        number += 1;
        let table: &Table = &upload.tables[at];
        let Some(seeker) = table.seeker.as_ref().filter(|_| row.change == Change::Insert) else {
            return Ok(());
        };
        let fits = asking.as_ref().is_some_and(|(of, batch, _)| *of == at && !batch.is_full());
        if !fits {
            found.extend(present(link, asking.take())?);
            let batch = Batch::new(table, &seeker.there, upload.request.session);
            asking = Some((at, batch, Numbers::default()));
        }
        if let Some((_, batch, numbers)) = &mut asking
            && batch::misspelled_key(table, row).is_none()
            && batch.add(row).is_ok()
        {
            numbers.push(this);
        }
        Ok(())
    })?;
    found.extend(present(link, asking)?);
    Ok((!found.is_empty()).then_some(found))
}

fn present(link: &mut Link, asking: Option<(usize, Batch<'_>, Numbers)>) -> Result<Vec<u64>, Stop> {
    let Some((_, mut batch, numbers)) = asking.filter(|(_, batch, _)| batch.rows > 0) else {
        return Ok(Vec::new());
    };
    batch.finish();
    let values = batch.values();
    let parameters = batch::as_parameters(&values);
    let mut calls = Vec::new();
    reached::ask(&mut calls, std::iter::once(batch::query(&batch, &parameters)));
    let answers = link.flight(&calls).map_err(stopped("look for keys that are there"))?;
    let mut found = Vec::new();
    // In front of the answer is what was made of a setting.
    for row in answers.get(1).iter().flat_map(|answer| &answer.rows) {
        found.extend(numbers.at(row.try_get(0).map_err(unreadable)?));
    }
    found.sort_unstable();
    Ok(found)
}

/// Resolves the rows that were `missed`, after all others, and records the results in `ledger`.
/// Returns none if everything must be undone and applied carefully.
pub(super) fn settle(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
    missed: &Missed,
    ledger: Ledger,
) -> Result<Option<Ledger>, Stop> {
    let mut careful = Careful::new(link, upload, Links::default(), Moves::default());
    careful.ledger = ledger;
    let fell_short = missed.fell_short;
    let mut missed = missed.numbers.iter().copied().peekable();
    let (mut number, mut bytes) = (0, 0);
    let mut group: Option<Group> = None;
    let mut reaches = false;
    outline.visit(upload, &mut |table, row| {
        let this = number;
        number += 1;
        if missed.next_if_eq(&this).is_none() {
            return Ok(());
        }
        reaches |= reached::reaches(&upload.tables[table], row.change);
        let same = group.as_ref().is_some_and(|group| {
            (group.table, group.change) == (table, row.change) && bytes < BATCH_BYTES
        });
        if !same {
            if let Some(group) = group.take().filter(|_| !reaches) {
                conflict::resolve_missed(&mut careful, group)?;
                careful.write_conflicts()?;
            }
            bytes = 0;
        }
        bytes += row.bytes.len();
        let rows = || Group { table, change: row.change, rows: Vec::new() };
        group.get_or_insert_with(rows).rows.push(row.bytes.to_vec());
        Ok(())
    })?;
    if let Some(group) = group.filter(|_| !reaches) {
        conflict::resolve_missed(&mut careful, group)?;
    }
    if reaches || !careful.parked.is_empty() {
        return Ok(None);
    }
    careful.flush()?;
    let Careful { mut ledger, link, .. } = careful;
    if is_disturbed(link, upload, outline, fell_short)? {
        return Ok(None);
    }
    let leaves = |table: usize| upload.tables[table].deployed.details.may_leave;
    ledger.verbatim &= !outline.tables().into_iter().any(leaves);
    ledger.is_settled = true;
    Ok(Some(ledger))
}

/// Whether what was done may not stand (F2, F3).
fn is_disturbed(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
    fell_short: bool,
) -> Result<bool, Stop> {
    let names = names(upload, outline);
    let tables: [&(dyn ToSql + Sync); 1] = [&names];
    let question = Question::known(link.place(), upload, outline);
    let asked = question.as_ref().map(Question::parameters);
    let mut calls = Vec::new();
    if fell_short {
        calls.push(Call::new(MEDDLES, &tables));
    }
    calls.extend(asked.as_ref().map(|parameters| Call::new(key_log::ANY, parameters)));
    if calls.is_empty() {
        return Ok(false);
    }
    let answers = link.flight(&calls).map_err(stopped("look for what others did meanwhile"))?;
    Ok(answers.iter().any(|answer| !answer.rows.is_empty()))
}
