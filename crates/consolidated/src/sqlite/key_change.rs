//! Key changes of an upload: an `UPDATE` of the key, so that the database's own `ON UPDATE` acts.
//!
//! They are applied before the rest of the upload, parents first, because the other rows use the
//! new keys. A row whose new key is taken waits. Deletes of the same upload that free a key go
//! first. If rows wait for each other in a ring, one of them gets a temporary key. Then every other
//! row of the upload is rebased onto the effects (`effects.rs`).
//!
//! Invariant: a key change happens as a whole or not at all. If it is not possible, rows of the
//! upload under its new key belong to the row that kept the old one.

mod passing;
mod rebasing;
mod staying;

pub(super) use passing::Passing;
pub(super) use rebasing::{Rebasing, rebase_over_key_changes};

use super::catalog::CatalogTable;
use super::constraint::is_as_seen;
use super::effects::Effects;
use super::errors::{RowFault, failed as failing, script_failed};
use super::followers;
use super::moves;
use super::stretch::end_of_log;
use super::tables::UserTable;
use super::upload::{Attempt, Parked, Refused, RowOutcome};
use super::values::{Bind, write_row};
use crate::quote::{ident, idents};
use crate::rebase::{Rebased, values};
use crate::script::Event;
use crate::synchronization::{Change, UploadRequest};
use crate::uploaded_row::{RowId, UploadedRow, each_row, key_of};
use model::{Code, Failure, PublishedTable, Value, ValueRef};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What must be known of an upload with key changes.
pub(super) struct Moving {
    /// By table, where its log ended before.
    begins: Vec<i64>,
    pub(super) effects: Effects,
    /// Keys that rows of the upload give up, of tables with key changes.
    given_up: HashSet<RowId>,
    /// Keys that rows of the upload come to, of such tables, where the remote says which rows stay.
    taken: HashSet<RowId>,
    /// Deletes that were applied first.
    pub(super) done: HashSet<RowId>,
    /// By the new key of a key change that cannot be: the key that its row has kept.
    kept: HashMap<RowId, Vec<u8>>,
    /// By the spare key of a row that is to be deleted: the key that it had.
    aside: HashMap<RowId, Vec<u8>>,
    /// Rows of the remote that go to the row which takes the key of one that is to be deleted.
    following: Vec<Parked>,
    /// Rows that were moved out of the way, and then could not get their key.
    pub(super) stuck: Refused,
    /// No row is waited for any more.
    pub(super) settling: bool,
}

/// Applies the key changes of the upload, and whatever must go before them.
pub(super) fn apply_first(attempt: &mut Attempt<'_>) -> Result<(), Failure> {
    attempt.name_rows(true)?;
    let with_key_changes = count(attempt)?;
    let given_up = given_up(attempt, &with_key_changes)?;
    let taken = staying::taken(attempt, &with_key_changes)?;
    let mut begins = Vec::new();
    for table in attempt.tables {
        begins.push(match table.published.direction.downloads() {
            true => end_of_log(attempt.connection, &table.published.name)?,
            false => 0,
        });
    }
    attempt.passing = Some(Passing::of(attempt)?);
    attempt.moving = Some(Moving {
        begins,
        effects: Effects::begin(attempt.connection, attempt.tables)?,
        given_up,
        taken,
        done: HashSet::new(),
        kept: HashMap::new(),
        aside: HashMap::new(),
        following: Vec::new(),
        stuck: Refused::new(),
        settling: false,
    });
    for position in with_key_changes {
        (attempt.request.batches)(&mut |batch| match batch.table == position
            && batch.change == Change::KeyChange
        {
            true => attempt.batch(batch),
            false => Ok(()),
        })?;
        let waiting = attempt.parked.take(attempt.spills).to_vec()?;
        waiting.iter().for_each(|parked| attempt.hold(parked.row.len() + parked.id.1.len()));
        let later = settle(attempt, waiting)?;
        attempt.put_off.extend(later);
    }
    for parked in std::mem::take(&mut attempt.put_off) {
        attempt.parked.push(&parked)?;
    }
    let (connection, tables) = (attempt.connection, attempt.tables);
    let Some(moving) = &mut attempt.moving else { return Ok(()) };
    moving.effects.end(connection, tables)?;
    for parked in std::mem::take(&mut moving.following) {
        if let RowOutcome::InTheWay(_) = attempt.retry(&parked)? {
            attempt.parked.push(&parked)?;
        }
    }
    Ok(())
}

/// The tables with key changes, parents first.
fn count(attempt: &Attempt<'_>) -> Result<Vec<usize>, Failure> {
    let mut found = vec![false; attempt.tables.len()];
    (attempt.request.batches)(&mut |batch| {
        found[batch.table] |= batch.change == Change::KeyChange;
        Ok(())
    })?;
    Ok((0..found.len()).filter(|position| found[*position]).collect())
}

fn given_up(attempt: &Attempt<'_>, wanted: &[usize]) -> Result<HashSet<RowId>, Failure> {
    let mut keys = HashSet::new();
    let published = |position: usize| &attempt.tables[position].published;
    let goes = |position: usize, change| {
        matches!(change, Change::KeyChange | Change::Delete) && wanted.contains(&position)
    };
    each_row(attempt.request.batches, &published, goes, |position, row| {
        keys.insert(row.key(published(position), position));
        Ok(())
    })?;
    Ok(keys)
}

/// Gives rows the keys for which they wait, as far as possible. Returns those that wait for
/// another unique value.
fn settle(attempt: &mut Attempt<'_>, mut waiting: Vec<Parked>) -> Result<Vec<Parked>, Failure> {
    let mut placed: HashSet<RowId> = HashSet::new();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        for parked in waiting {
            if let RowOutcome::InTheWay(_) = attempt.retry(&parked)? {
                still.push(parked);
            }
        }
        waiting = still;
        if waiting.len() < before {
            continue;
        }
        let mut spots = Vec::new();
        for parked in &waiting {
            spots.push(spot_of(attempt, parked)?);
        }
        match free_one(attempt, &waiting, &spots)? {
            Freed::Nothing => {}
            Freed::ByDelete => continue,
            Freed::Never(blocked) => {
                let parked = waiting.remove(blocked);
                refuse(attempt, &parked, placed.contains(&parked.id))?;
                continue;
            }
        }
        let Some(one) = in_a_ring(&spots) else { return Ok(waiting) };
        match placed.insert(waiting[one].id.clone()) && place(attempt, &waiting[one])? {
            true => {}
            false => {
                let parked = waiting.remove(one);
                refuse(attempt, &parked, placed.contains(&parked.id))?;
            }
        }
    }
    Ok(waiting)
}

/// What was done for those that wait.
enum Freed {
    Nothing,
    /// A key is free, because the row that had it was deleted.
    ByDelete,
    /// This one waits for a key that will not be free.
    Never(usize),
}

/// Applies a delete that frees a key for which a row waits; or finds a row that waits for a row
/// that stays.
fn free_one(
    attempt: &mut Attempt<'_>,
    waiting: &[Parked],
    spots: &[Spot],
) -> Result<Freed, Failure> {
    for (index, (parked, spot)) in waiting.iter().zip(spots).enumerate() {
        let Some(occupant) = spot.occupant.as_ref().filter(|_| spot.is_taken()) else { continue };
        if spots.iter().any(|other| other.own.as_ref() == Some(occupant)) {
            continue;
        }
        let id = (parked.table, occupant.clone());
        let Some(moving) = &mut attempt.moving else { continue };
        let goes = moving.given_up.contains(&id) && moving.done.insert(id.clone());
        return Ok(match goes && delete_first(attempt, &id)? {
            true => Freed::ByDelete,
            false => Freed::Never(index),
        });
    }
    Ok(Freed::Nothing)
}

/// Applies the delete of the row `id`, if the upload has one.
fn delete_first(attempt: &mut Attempt<'_>, id: &RowId) -> Result<bool, Failure> {
    let (batches, tables) = (attempt.request.batches, attempt.tables);
    let published = &tables[id.0].published;
    let mut found = None;
    batches(&mut |batch| {
        if batch.table != id.0 || batch.change != Change::Delete || found.is_some() {
            return Ok(());
        }
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, published.width())?;
            if row.key(published, id.0) == *id {
                let bytes = row.bytes.to_vec();
                let (table, change) = (id.0, Change::Delete);
                found = Some(Parked { table, change, row: bytes, id: id.clone() });
                return Ok(());
            }
        }
        Ok(())
    })?;
    let Some(parked) = found else { return Ok(false) };
    if let Some(reason) = attempt.refused.reason(id)? {
        let mut row = UploadedRow::default();
        row.read(&parked.row, parked.change, published.width())?;
        attempt.reject(&tables[id.0], id.0, &row, reason)?;
        return Ok(false);
    }
    let (followers, aside) = put_aside(attempt, &parked)?;
    if aside.is_none() && !followers.is_empty() {
        let mut row = UploadedRow::default();
        row.read(&parked.row, parked.change, published.width())?;
        attempt.reject(&tables[id.0], id.0, &row, followers::reason())?;
        return Ok(false);
    }
    if let Some(key) = aside {
        let Some(moving) = &mut attempt.moving else { return Ok(false) };
        // It is deleted with the others.
        moving.done.remove(id);
        moving.aside.insert((id.0, key), id.1.clone());
        moving.following.extend(followers);
        return Ok(true);
    }
    Ok(attempt.retry(&parked)? == RowOutcome::Done)
}

/// Moves a row that is to be deleted out of the way, with its children: those that the upload gives
/// another parent would go with it. Only where foreign keys take all children along, and where
/// nothing is known to stand against the delete. Returns the rows of the remote that do not go with
/// it, and the key that it has got.
fn put_aside(
    attempt: &Attempt<'_>,
    parked: &Parked,
) -> Result<(Vec<Parked>, Option<Vec<u8>>), Failure> {
    let table = &attempt.tables[parked.table];
    let Some(links) = attempt.links else { return Ok((Vec::new(), None)) };
    let mut row = UploadedRow::default();
    row.read(&parked.row, parked.change, table.published.width())?;
    let rebased = match rebase_over_key_changes(attempt, table, parked.table, &row)? {
        Rebasing::AsItIs => Rebased::of(row.change, &table.published, &row.old, &row.new),
        Rebasing::Onto(rebased) => rebased,
        Rebasing::Gone => return Ok((Vec::new(), None)),
    };
    let rebased = rebased.row(table.published.width())?;
    let Some(now) = attempt.fetch(table, &rebased)? else { return Ok((Vec::new(), None)) };
    let followers = followers::of(attempt, parked.table, &rebased)?;
    let referring = links.user_tables.values().flat_map(|child| &child.foreign_keys);
    let mut referring = referring.filter(|key| key.parent == table.published.name);
    let all_go = !referring.any(|key| key.on_update != "CASCADE");
    let aside = match all_go && followers.are_known && is_as_seen(&now, &rebased)? {
        true => move_away(attempt, table, &rebased)?,
        false => None,
    };
    Ok((followers.rows, aside))
}

/// Deletes of rows that were put aside, and are still there: they are left out of a new attempt.
pub(super) fn still_aside(attempt: &Attempt<'_>) -> Result<Refused, Failure> {
    let mut refused = Refused::new();
    let Some(moving) = &attempt.moving else { return Ok(refused) };
    for ((position, aside), key) in &moving.aside {
        let table = &attempt.tables[*position];
        let mut row = UploadedRow::default();
        row.new.resize(table.published.width(), ValueRef::Null);
        for (column, value) in table.published.key.iter().zip(values(aside)?) {
            row.new[usize::from(*column)] = value;
        }
        row.old.clone_from(&row.new);
        if Spot::of(attempt, table, &row)?.own.is_some() {
            let reason = (Code::RowRefused, "the row could not be deleted".to_owned());
            refused.insert((*position, key.clone()), reason);
        }
    }
    Ok(refused)
}

/// Rejects a row that cannot get its key. One that was moved out of the way is left out of a new
/// attempt, so that it has the key that it had.
fn refuse(attempt: &mut Attempt<'_>, parked: &Parked, placed: bool) -> Result<(), Failure> {
    let tables = attempt.tables;
    let table = &tables[parked.table];
    let mut row = UploadedRow::default();
    row.read(&parked.row, parked.change, table.published.width())?;
    let reason = (Code::RowKeyTaken, "another row has the new key".to_owned());
    if placed && let Some(moving) = &mut attempt.moving {
        moving.stuck.insert(parked.id.clone(), reason);
        return Ok(());
    }
    attempt.reject(table, parked.table, &row, reason)
}

/// Whose keys a key change is about.
#[derive(Debug)]
pub(super) struct Spot {
    /// The key of the row that is to have another one, as the centre spells it.
    pub(super) own: Option<Vec<u8>>,
    /// That of the row that has the new one.
    pub(super) occupant: Option<Vec<u8>>,
}

impl Spot {
    pub(super) fn of(
        attempt: &Attempt<'_>,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Spot, Failure> {
        let published = &table.published;
        let names = key_names(published);
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            idents("", &names),
            ident(&published.name),
            numbered(&names, 1, " AND "),
        );
        let look = |image: &[ValueRef<'_>]| -> rusqlite::Result<Option<Vec<u8>>> {
            let mut statement = attempt.connection.prepare_cached(&sql)?;
            for (index, column) in published.key.iter().enumerate() {
                statement.raw_bind_parameter(index + 1, Bind(image[usize::from(*column)]))?;
            }
            let mut rows = statement.raw_query();
            let Some(found) = rows.next()? else { return Ok(None) };
            let mut key = Vec::new();
            write_row(&mut key, found, names.len())?;
            Ok(Some(key))
        };
        let looking = failing("look for the rows of a key change");
        let own = look(&row.old).map_err(&looking)?;
        let occupant = look(&row.new).map_err(&looking)?;
        Ok(Spot { own, occupant })
    }

    /// Another row has the new key.
    pub(super) fn is_taken(&self) -> bool {
        self.occupant.is_some() && self.occupant != self.own
    }
}

fn spot_of(attempt: &Attempt<'_>, parked: &Parked) -> Result<Spot, Failure> {
    let table = &attempt.tables[parked.table];
    let mut row = UploadedRow::default();
    row.read(&parked.row, parked.change, table.published.width())?;
    match rebase_over_key_changes(attempt, table, parked.table, &row)? {
        Rebasing::AsItIs => Spot::of(attempt, table, &row),
        Rebasing::Gone => Ok(Spot { own: None, occupant: None }),
        Rebasing::Onto(rebased) => Spot::of(attempt, table, &rebased.row(table.published.width())?),
    }
}

/// A row that waits for itself by way of others.
fn in_a_ring(spots: &[Spot]) -> Option<usize> {
    let next = |at: usize| {
        let occupant = spots[at].occupant.as_ref().filter(|_| spots[at].is_taken())?;
        spots.iter().position(|other| other.own.as_ref() == Some(occupant))
    };
    (0..spots.len()).find_map(|begin| {
        let mut at = begin;
        for _ in 0..spots.len() {
            at = next(at)?;
        }
        Some(at)
    })
}

/// Gives a row a temporary key, so that the others of its ring can move.
fn place(attempt: &mut Attempt<'_>, parked: &Parked) -> Result<bool, Failure> {
    let tables = attempt.tables;
    let table = &tables[parked.table];
    let mut row = UploadedRow::default();
    row.read(&parked.row, parked.change, table.published.width())?;
    let rebased = match rebase_over_key_changes(attempt, table, parked.table, &row)? {
        Rebasing::AsItIs => Rebased::of(row.change, &table.published, &row.old, &row.new),
        Rebasing::Onto(rebased) => rebased,
        Rebasing::Gone => return Ok(false),
    };
    let rebased = rebased.row(table.published.width())?;
    let now = attempt.fetch(table, &rebased.as_seen())?;
    let Some(now) = now else { return Ok(false) };
    if !is_as_seen(&now, &rebased)? && table.script(Event::ResolveConflict).is_none() {
        return Ok(false);
    }
    Ok(move_away(attempt, table, &rebased)?.is_some())
}

/// Gives the row to which `row` applies a temporary key, and returns it.
fn move_away(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(links) = attempt.links else { return Ok(None) };
    let Some(user_table) = links.user_tables.get(&table.published.name) else { return Ok(None) };
    let columns = &table.published.columns;
    // One column is enough; one that refers to nothing is best.
    let refers = |name: &String| {
        user_table.foreign_keys.iter().any(|key| key.columns.iter().any(|(from, _)| from == name))
    };
    let mut candidates: Vec<u16> = table.published.key.clone();
    candidates.sort_by_key(|column| refers(&columns[usize::from(*column)]));
    for number in 0..SPARE_KEYS_MAX {
        for column in &candidates {
            let column = usize::from(*column);
            let value = spare(user_table, &columns[column], number);
            let mut placed = row.as_seen();
            placed.new[column] = value.as_ref();
            if Spot::of(attempt, table, &placed)?.occupant.is_some() {
                continue;
            }
            let setting = failing("give a row a spare key");
            let checks = |on: &str| {
                let sql = format!("PRAGMA ignore_check_constraints = {on}");
                attempt.connection.execute_batch(&sql).map_err(&setting)
            };
            checks("ON")?;
            let fault = rename(attempt, table, &placed);
            checks("OFF")?;
            if fault?.is_none() {
                return Ok(Some(key_of(&table.published, &placed.new)));
            }
        }
    }
    Ok(None)
}

/// Spare keys that are tried before a ring is rejected.
const SPARE_KEYS_MAX: i64 = 64;

fn spare(table: &UserTable, column: &str, number: i64) -> Value {
    let declared = table.column(column).map(|column| column.declared_type.to_ascii_uppercase());
    let declared = declared.unwrap_or_default();
    let has = |part: &str| declared.contains(part);
    if has("INT") {
        Value::Integer(i64::MIN / 2 + number)
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        Value::Real(-1e300 + number as f64 * 1e290)
    } else if has("BLOB") {
        Value::Blob(format!("syncline parked {number}").into_bytes())
    } else {
        Value::Text(format!("syncline parked {number}").into_bytes())
    }
}

/// Refuses an update whose keys differ even for the remote's own database, from a remote without
/// key changes.
pub(super) fn require_one_key(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<(), Failure> {
    let spot = Spot::of(attempt, table, row)?;
    match spot.own.is_some() && spot.occupant != spot.own {
        true => Err(Failure::new(Code::MalformedMessage, "an update with two keys")
            .table(table.published.name.as_str())),
        false => Ok(()),
    }
}

/// The columns of the key, in key order.
fn key_names(published: &PublishedTable) -> Vec<&str> {
    published.key.iter().map(|c| published.columns[usize::from(*c)].as_str()).collect()
}

/// `"a" = ?1, "b" = ?2`, from the parameter `first` on.
fn numbered(names: &[&str], first: usize, separator: &str) -> String {
    let each = names.iter().enumerate();
    let each = each.map(|(at, name)| format!("{} = ?{}", ident(name), first + at));
    each.collect::<Vec<_>>().join(separator)
}

/// Gives the row with the old key of `row` its new one, and nothing else.
pub(super) fn rename(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<Option<(RowFault, String)>, Failure> {
    let published = &table.published;
    let names = key_names(published);
    let set = numbered(&names, 1, ", ");
    let condition = numbered(&names, 1 + names.len(), " AND ");
    let sql = format!("UPDATE OR ABORT {} SET {set} WHERE {condition}", ident(&published.name));
    let event = Event::UploadKeyChange;
    let bound = attempt.connection.prepare_cached(&sql).and_then(|mut statement| {
        let new = published.key.iter().map(|column| row.new[usize::from(*column)]);
        let old = published.key.iter().map(|column| row.old[usize::from(*column)]);
        for (index, value) in new.chain(old).enumerate() {
            statement.raw_bind_parameter(index + 1, Bind(value))?;
        }
        Ok(statement)
    });
    let mut statement =
        bound.map_err(|error| script_failed(error, &published.name, event.name()))?;
    Ok(attempt.execute(&mut statement, &sql, (table, row, event))?.err())
}

/// Whether the key that `row` takes is one that another row of the upload has yet to give up.
pub(super) fn waits(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> bool {
    let Some(moving) = &attempt.moving else { return false };
    match row.change {
        Change::KeyChange => true,
        Change::Insert => !moving.settling && is_given_up(attempt, table, position, row),
        Change::Update | Change::Delete => false,
    }
}

/// Whether another row of the upload gives up the key that `row` takes.
pub(super) fn is_given_up(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> bool {
    let new_key = || row.new_key(&table.published, position);
    attempt.moving.as_ref().is_some_and(|moving| moving.given_up.contains(&new_key()))
}

/// Takes note that a row keeps its key.
pub(super) fn failed(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) {
    if row.change == Change::KeyChange
        && let Some(moving) = &mut attempt.moving
    {
        let new = row.new_key(&table.published, position);
        moving.kept.insert(new, key_of(&table.published, &row.old));
    }
}

impl Attempt<'_> {
    /// Where the log of a table ended before the upload.
    pub(super) fn log_end_before(&self, position: usize) -> i64 {
        self.moving.as_ref().map_or(0, |moving| moving.begins[position])
    }
}

impl Moving {
    /// Ends the upload's key changes, and notes that the remote knows those that it asked for.
    pub(super) fn finish(
        self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        request: &UploadRequest<'_>,
    ) -> Result<(), Failure> {
        self.effects.forget(connection, tables)?;
        let remote = request.session.remote_id.as_str();
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| {
            change == Change::KeyChange && published(position).direction.downloads()
        };
        each_row(request.batches, &published, wanted, |position, row| {
            let published = published(position);
            let key = key_of(published, &row.old);
            let since = self.begins[position];
            moves::made_by(connection, published, &values(&key)?, since, remote)
        })
    }
}
