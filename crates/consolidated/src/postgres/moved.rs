//! Applies pending changes of remotes to rows that have another key now.
//!
//! A remote names a row by the key that it knows. If the row has got another key since
//! (`key_log.rs`), a change under the old key would find no row, or another row that has taken the
//! key and may look the same. So each change is rebased onto the current keys of its row and of the
//! rows to which it refers.
//!
//! Invariants:
//! M1. An upload is applied together only if no key change is unseen in its tables and in those to
//!     which they refer. This is checked after its last write: a transaction that changes a key
//!     that the upload used must wait for it, or is visible.
//! M2. In a careful upload, every row is looked up before it is applied. The unseen changes of that
//!     time must be all that are unseen at the end, in all of these tables. Otherwise all rows are
//!     applied again.
//! M3. If a key change that the remote has not received is no longer in the log, a change of a row
//!     that is not as the remote knew it is rejected, because it may be meant for another row.
//!
//! If a watermark belongs to another place, or there is none, it is not known what the remote has
//! received. Then only rows that are missing under their key are looked up.

use super::batch::Batch;
use super::careful::{Careful, Group, batches};
use super::catalog::Table;
use super::fetch::unreadable;
use super::image::Decoder;
use super::key_change::{Marks, mark};
use super::key_log;
use super::link::{Call, Link};
use super::links::{ForeignKey, Links};
use super::outline::Outline;
use super::snapshot::Snapshot;
use super::upload::{Stop, Upload, stopped};
use super::watermark::{Mark, Place};
use crate::rebase::{Rebased, rebase, values};
use crate::synchronization::{Change, Held, UploadRequest};
use crate::uploaded_row::{UploadedRow, key_of};
use model::{Failure, PublishedTable, Value, ValueRef, skip_row, write_value};
use postgres_types::ToSql;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// What a remote has seen of the tables that an upload may have to follow.
pub(super) struct Question<'a> {
    remote_id: &'a str,
    names: Vec<&'a str>,
    seen: Vec<Snapshot>,
}

impl<'a> Question<'a> {
    /// About the tables of which it is known; none where there is nothing to ask.
    pub(super) fn known(
        place: Place,
        upload: Upload<'a>,
        outline: &Outline,
    ) -> Option<Question<'a>> {
        let remote_id = upload.request.session.remote_id.as_str();
        let mut question = Question { remote_id, names: Vec::new(), seen: Vec::new() };
        for table in concerned(upload, outline.tables()) {
            if let Some(seen) = seen(place, upload, table) {
                question.names.push(&upload.tables[table].deployed.published.name);
                question.seen.push(seen);
            }
        }
        (!question.names.is_empty()).then_some(question)
    }

    /// Whether it is known of every table of which it matters for what is not found.
    pub(super) fn is_whole(place: Place, upload: Upload<'_>, outline: &Outline) -> bool {
        let known = |table: usize| seen(place, upload, table).is_some();
        let tables = concerned(upload, outline.tables()).into_iter();
        tables.filter(|table| outline.speaks_of_rows(*table)).all(known)
    }

    /// For [`key_log::ANY`] and [`key_log::LAST`].
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.names, &self.seen, &self.remote_id]
    }
}

/// The tables whose changed keys concern an upload to `tables`.
fn concerned(upload: Upload<'_>, tables: BTreeSet<usize>) -> BTreeSet<usize> {
    let heeds = |table: usize| upload.tables[table].deployed.details.heeds.iter();
    let names: HashSet<&String> = tables.into_iter().flat_map(heeds).collect();
    let known = upload.tables.iter().enumerate();
    known.filter(|(_, t)| names.contains(&t.deployed.published.name)).map(|(at, _)| at).collect()
}

/// What the remote has seen of the table; none where that is not known.
fn seen(place: Place, upload: Upload<'_>, table: usize) -> Option<Snapshot> {
    let UploadRequest { session, marks, held_marks, .. } = upload.request;
    // The marks are in the order of the present tables. The upload is in the order of the remote's
    // tables, which may have an older shape: the log of the table continues.
    let older = match &session.held {
        Held::Older(held) => held.schema.tables.get(table).map(|table| &table.fingerprint),
        _ => None,
    };
    let fingerprint = older.unwrap_or(&upload.tables[table].deployed.published.fingerprint);
    let mut presented = marks.iter().chain(*held_marks);
    let held = presented.find(|it| it.fingerprint == *fingerprint && it.watermark.is_some())?;
    let mark = Mark::read(held.watermark.as_ref()?)?;
    mark.snapshot.filter(|_| mark.place == place)
}

/// What the remote has seen of a table in which something is unseen.
#[derive(Debug)]
struct Seen {
    snapshot: Snapshot,
    /// It is known.
    certain: bool,
}

/// The changed keys that a remote has not heard of.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// What the remote has seen of each table that is concerned. Where nothing is unseen yet it may
    /// be when the upload ends.
    concerned: BTreeMap<usize, Rc<Seen>>,
    /// Those of them in which anything is unseen.
    seen: BTreeMap<usize, Rc<Seen>>,
    /// The last of them, by the name of the table, and whether others are forgotten.
    last: BTreeMap<String, (i64, bool)>,
    /// Keys that were asked about.
    asked: Marks,
    /// By table and key: the key that the row has now; none where it is gone and another row came
    /// to its key.
    known: HashMap<(usize, Vec<u8>), Option<Vec<u8>>>,
    /// Keys that the upload itself gives to rows or takes from them, where anything is unseen.
    own: Marks,
    /// Images of new rows with keys that others have left, by table.
    taken: BTreeMap<usize, Vec<Vec<u8>>>,
}

/// How a row is to be applied.
pub(super) enum Rebasing {
    AsItIs,
    Onto(Rebased),
    /// Its row is gone, or the one that it refers to, and another has the key.
    Replaced,
}

impl Moves {
    /// Those that concern the upload.
    pub(super) fn of(
        link: &mut Link,
        upload: Upload<'_>,
        outline: &Outline,
    ) -> Result<Moves, Stop> {
        let place = link.place();
        let mut moves = Moves::default();
        for table in concerned(upload, outline.tables()) {
            let seen = match seen(place, upload, table) {
                Some(snapshot) => Seen { snapshot, certain: true },
                None if outline.speaks_of_rows(table) => {
                    Seen { snapshot: Snapshot::of_nothing(), certain: false }
                }
                None => continue,
            };
            moves.concerned.insert(table, Rc::new(seen));
        }
        moves.last = moves.last(link, upload)?;
        for (table, seen) in &moves.concerned {
            if moves.last.contains_key(&upload.tables[*table].deployed.published.name) {
                moves.seen.insert(*table, seen.clone());
            }
        }
        if moves.seen.is_empty() {
            return Ok(moves);
        }
        outline.visit(upload, &mut |table, row| {
            let published = &upload.tables[table].deployed.published;
            if row.change != Change::Update && moves.seen.contains_key(&table) {
                moves.own.insert(mark(table, &row.key(published, table).1));
                moves.own.insert(mark(table, &row.new_key(published, table).1));
            }
            Ok(())
        })?;
        Ok(moves)
    }

    /// The last entries that are unseen now.
    fn last(
        &self,
        link: &mut Link,
        upload: Upload<'_>,
    ) -> Result<BTreeMap<String, (i64, bool)>, Stop> {
        if self.concerned.is_empty() {
            return Ok(BTreeMap::new());
        }
        let name = |table: &usize| upload.tables[*table].deployed.published.name.as_str();
        let names: Vec<&str> = self.concerned.keys().map(name).collect();
        let seen: Vec<&Snapshot> = self.concerned.values().map(|seen| &seen.snapshot).collect();
        let remote_id = upload.request.session.remote_id.as_str();
        let parameters: [&(dyn ToSql + Sync); 3] = [&names, &seen, &remote_id];
        let rows =
            link.query(key_log::LAST, &parameters).map_err(stopped("look for changed keys"))?;
        let read =
            |row: &super::link::Row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)));
        Ok(rows.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?)
    }

    /// Whether rows of the table may have got other keys since the remote was here, so long ago
    /// that it is forgotten. What a row is not found under it may still have.
    pub(super) fn are_forgotten(&self, upload: Upload<'_>, table: usize) -> bool {
        let name = &upload.tables[table].deployed.published.name;
        self.seen.get(&table).is_some_and(|seen| seen.certain)
            && self.last.get(name).is_some_and(|(_, forgotten)| *forgotten)
    }

    /// No row that was looked up has another key.
    pub(super) fn are_still(&self) -> bool {
        self.known.is_empty()
    }

    /// Tells `row` over the keys that its row, and those that it refers to, have now.
    pub(super) fn tell(
        &self,
        links: &Links,
        tables: &[Arc<Table>],
        table: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Rebasing, Failure> {
        if self.known.is_empty() {
            return Ok(Rebasing::AsItIs);
        }
        let published = &tables[table].deployed.published;
        let mut after: Vec<Value> = row.old.iter().copied().map(ValueRef::to_owned).collect();
        let mut references: Vec<(usize, model::Value)> = Vec::new();
        let mut replaced = false;
        for (key, columns) in references_of(links, tables, table) {
            let was = tuple(&row.old, &columns);
            let known = |value: &Vec<u8>| self.known.get(&(key.parent, value.clone()));
            if row.change != Change::Insert
                && let Some(Some(now)) = known(&was)
            {
                let now = values(now)?.into_iter().map(ValueRef::to_owned).collect();
                if let Some(now) = key.after_update(now) {
                    columns.iter().zip(now).for_each(|(column, value)| after[*column] = value);
                }
            }
            let wants = tuple(&row.new, &columns);
            let changed = row.change == Change::Insert || was != wants;
            if !changed || self.own.contains(&mark(key.parent, &wants)) {
                continue;
            }
            match known(&wants).filter(|_| row.change != Change::Delete) {
                Some(Some(now)) => {
                    let now = values(now)?.into_iter().map(ValueRef::to_owned);
                    references.extend(columns.iter().copied().zip(now));
                }
                Some(None) => replaced = true,
                None => {}
            }
        }
        if row.change != Change::Insert {
            match self.known.get(&(table, key_of(published, &row.old))) {
                Some(Some(now)) => {
                    let key = published.key.iter().map(|at| usize::from(*at));
                    key.zip(values(now)?).for_each(|(at, value)| after[at] = value.to_owned());
                }
                Some(None) => replaced = true,
                None => {}
            }
        }
        if replaced {
            return Ok(Rebasing::Replaced);
        }
        let after: Vec<ValueRef<'_>> = after.iter().map(Value::as_ref).collect();
        let rebased = rebase(row, published, &row.old, &after);
        let rebased = {
            let now = rebased.row(published.width())?;
            let mut new = now.new.clone();
            references.iter().for_each(|(column, value)| new[*column] = value.as_ref());
            Rebased::of(row.change, published, &now.old, &new)
        };
        let same = rebased.row(published.width())?;
        Ok(match same.old == row.old && same.new == row.new {
            true => Rebasing::AsItIs,
            false => Rebasing::Onto(rebased),
        })
    }

    /// Keys of rows that are to be looked up for `row`: as images of their tables.
    fn ask(
        &mut self,
        careful: (&Links, Upload<'_>),
        table: usize,
        row: &UploadedRow<'_>,
        images: &mut BTreeMap<usize, Vec<Vec<u8>>>,
    ) {
        let (links, upload) = careful;
        let published = |at: usize| &upload.tables[at].deployed.published;
        let mut ask = |at: usize, key: Vec<ValueRef<'_>>| {
            if !key.contains(&ValueRef::Null) && self.asked.insert(mark(at, &encoded(&key))) {
                images.entry(at).or_default().push(image_of(published(at), &key));
            }
        };
        for (key, columns) in references_of(links, upload.tables, table) {
            // Where it is not known what the remote has seen, it may refer to a row of its own.
            if !self.seen.get(&key.parent).is_some_and(|seen| seen.certain) {
                continue;
            }
            if row.change != Change::Insert {
                ask(key.parent, picked(&row.old, &columns));
            }
            if row.change != Change::Delete {
                ask(key.parent, picked(&row.new, &columns));
            }
        }
        if let Some(seen) = self.seen.get(&table)
            && (seen.certain || row.change != Change::Insert)
        {
            let key: Vec<usize> = published(table).key.iter().map(|at| usize::from(*at)).collect();
            let image = if row.change == Change::Insert { &row.new } else { &row.old };
            ask(table, picked(image, &key));
        }
    }
}

/// Looks up the rows that `group` speaks of, and those that they refer to.
pub(super) fn look(careful: &mut Careful<'_, '_>, group: &Group) -> Result<(), Stop> {
    if careful.moves.seen.is_empty() {
        return Ok(());
    }
    let (upload, table) = (careful.upload, group.table);
    let published = &upload.tables[table].deployed.published;
    let mut moves = std::mem::take(&mut careful.moves);
    let mut images = BTreeMap::new();
    for bytes in &group.rows {
        let row = careful.read(table, group.change, bytes)?;
        moves.ask((&careful.links, upload), table, &row, &mut images);
    }
    careful.moves = moves;
    for (table, images) in images {
        learn(careful, table, images)?;
    }
    if group.change == Change::Insert {
        for bytes in &group.rows {
            let key = careful.read(table, group.change, bytes)?.key(published, table);
            if careful.moves.known.contains_key(&key) {
                careful.moves.taken.entry(table).or_default().push(bytes.clone());
            }
        }
    }
    Ok(())
}

/// Asks the log about the keys of `images`.
fn learn(careful: &mut Careful<'_, '_>, table: usize, images: Vec<Vec<u8>>) -> Result<(), Stop> {
    let Some(seen) = careful.moves.seen.get(&table) else { return Ok(()) };
    let (snapshot, certain) = (seen.snapshot.text(), seen.certain);
    let this = careful.table(table);
    let (published, columns) = (&this.deployed.published, &this.deployed.details.columns);
    let key: Vec<_> = published.key.iter().map(|at| &columns[usize::from(*at)]).collect();
    let statement = key_log::whereabouts(this)?;
    let mut asked = Vec::with_capacity(images.len());
    for image in images {
        // No row has a value that a key cannot have.
        let row = careful.read(table, Change::Delete, &image)?;
        let mut batch = Batch::new(this, &statement, careful.upload.request.session);
        if batch.add(&row).is_ok() {
            asked.push(image);
        }
    }
    careful.flush()?;
    careful
        .link
        .flight(&[Call::new(key_log::SEE, &[&snapshot])])
        .map_err(stopped("look for changed keys"))?;
    let mut found = Vec::new();
    let twice = key.repeat(2);
    careful.ask(table, Change::Delete, &statement, &asked, &mut |row| {
        let mut was = Vec::new();
        Decoder::new(row, twice.iter().copied())?.write(row, &mut was)?;
        let now = skip_row(&was, key.len())?.to_vec();
        was.truncate(was.len() - now.len());
        found.push((was, now));
        Ok(())
    })?;
    let mut here = HashSet::new();
    if !certain && !found.is_empty() {
        let image = |(was, _): &(Vec<u8>, Vec<u8>)| Ok(image_of(published, &values(was)?));
        let images = found.iter().map(image).collect::<Result<Vec<_>, Failure>>()?;
        here = careful.present(table, Change::Delete, &images)?;
    }
    for (was, now) in found {
        if !here.contains(&was) {
            let now = (!values(&now)?.contains(&ValueRef::Null)).then_some(now);
            careful.moves.known.insert((table, was), now);
        }
    }
    Ok(())
}

/// Whether no key has changed since the beginning (M2). Also records which keys mean the remote's
/// own rows from now on.
pub(super) fn settle(careful: &mut Careful<'_, '_>) -> Result<bool, Stop> {
    let upload = careful.upload;
    for (table, rows) in std::mem::take(&mut careful.moves.taken) {
        let statement = key_log::own(careful.table(table))?;
        let batches = batches(careful.table(table), &statement, upload, Change::Insert, &rows)?;
        careful.select(&batches, &mut |_| Ok(()))?;
    }
    careful.flush()?;
    Ok(careful.moves.last(careful.link, upload)? == careful.moves.last)
}

/// The foreign keys of a table to whole keys, each with its columns in the order of that key.
fn references_of<'l>(
    links: &'l Links,
    tables: &'l [Arc<Table>],
    table: usize,
) -> impl Iterator<Item = (&'l ForeignKey, Vec<usize>)> {
    links.of(table).filter_map(move |key| {
        let parent = &tables[key.parent].deployed.published;
        let place = |at: &u16| key.referred.iter().position(|known| *known == usize::from(*at));
        let columns = parent.key.iter().map(|at| place(at).map(|place| key.columns[place]));
        let whole = parent.key.len() == key.referred.len();
        columns.collect::<Option<Vec<_>>>().filter(|_| whole).map(|columns| (key, columns))
    })
}

fn picked<'r>(image: &[ValueRef<'r>], columns: &[usize]) -> Vec<ValueRef<'r>> {
    columns.iter().map(|column| image[*column]).collect()
}

fn encoded(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(&mut bytes, *value));
    bytes
}

fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    encoded(&picked(image, columns))
}

/// A row of which only the key is known.
fn image_of(table: &PublishedTable, key: &[ValueRef<'_>]) -> Vec<u8> {
    let mut image = vec![ValueRef::Null; table.width()];
    for (at, value) in table.key.iter().zip(key) {
        image[usize::from(*at)] = *value;
    }
    encoded(&image)
}
