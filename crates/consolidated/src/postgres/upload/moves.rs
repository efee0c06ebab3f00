//! The keys of rows that have changed since a remote was here.
//!
//! A change under an old key is rebased onto the key that its row has now, and so are references
//! (`isolation/moved.rs` looks them up).

use crate::postgres::catalog::table::Table;
use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::download::watermark::{Mark, NumberSpace};
use crate::postgres::errors::unreadable;
use crate::postgres::link::Link;
use crate::postgres::links::{ForeignKey, Links};
use crate::postgres::tracking::key_log;
use crate::postgres::upload::isolation::group::Groups;
use crate::postgres::upload::marks::{Marks, mark};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::rebase::{self, Rebased, rebase, values};
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, UploadedRow, key_of};
use model::{Failure, PublishedTable, Spills, Value, ValueRef};
use postgres_types::ToSql;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// What a remote has seen of the tables that an upload may have to follow.
pub(in crate::postgres) struct Question<'a> {
    remote_id: &'a str,
    names: Vec<&'a str>,
    seen: Vec<Snapshot>,
}

impl<'a> Question<'a> {
    /// About the tables of which it is known; none where there is nothing to ask.
    pub(in crate::postgres) fn known(
        space: NumberSpace,
        upload: Upload<'a>,
        outline: &UploadShape,
    ) -> Option<Question<'a>> {
        let remote_id = upload.request.session.remote_id.as_str();
        let mut question = Question { remote_id, names: Vec::new(), seen: Vec::new() };
        for table in concerned(upload, outline.tables()) {
            if let Some(seen) = seen(space, upload, table) {
                question.names.push(&upload.tables[table].deployed.published.name);
                question.seen.push(seen);
            }
        }
        (!question.names.is_empty()).then_some(question)
    }

    /// Whether it is known of every table of which it matters for what is not found.
    pub(in crate::postgres) fn is_whole(
        space: NumberSpace,
        upload: Upload<'_>,
        outline: &UploadShape,
    ) -> bool {
        let known = |table: usize| seen(space, upload, table).is_some();
        let tables = concerned(upload, outline.tables()).into_iter();
        tables.filter(|table| outline.speaks_of_rows(*table)).all(known)
    }

    /// For [`key_log::ANY`] and [`key_log::LAST`].
    pub(in crate::postgres) fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
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
fn seen(space: NumberSpace, upload: Upload<'_>, table: usize) -> Option<Snapshot> {
    let held = upload.request.held_mark(table, &upload.tables[table].deployed.published)?;
    let point = Mark::held(held)?.point;
    point.snapshot.filter(|_| point.space == space)
}

/// What the remote has seen of a table in which something is unseen.
#[derive(Debug)]
pub(in crate::postgres) struct Seen {
    pub(in crate::postgres) snapshot: Snapshot,
    /// It is known.
    pub(in crate::postgres) certain: bool,
}

/// The changed keys that a remote has not heard of.
pub(in crate::postgres) struct Moves {
    /// What the remote has seen of each table that is concerned. Where nothing is unseen yet it may
    /// be when the upload ends.
    concerned: BTreeMap<usize, Rc<Seen>>,
    /// Those of them in which anything is unseen.
    pub(in crate::postgres) seen: BTreeMap<usize, Rc<Seen>>,
    /// The last of them, by the name of the table, and whether others are forgotten.
    pub(in crate::postgres) last: BTreeMap<String, (i64, bool)>,
    /// Keys that were asked about.
    asked: Marks,
    /// By table and key: the key that the row has now; none where it is gone and another row came
    /// to its key.
    known: RowMap,
    /// Keys that the upload itself gives to rows or takes from them, where anything is unseen.
    own: Marks,
    /// New rows with keys that others have left.
    pub(in crate::postgres) taken: Groups,
}

/// What became of a row that a remote knows by its key.
pub(in crate::postgres) enum Fate {
    /// It has this key now.
    At(Vec<u8>),
    /// It is gone, and another row has its key.
    Replaced,
}

/// How a row is to be applied.
pub(in crate::postgres) enum Rebasing {
    AsItIs,
    Onto(Rebased),
    /// Its row is gone, or the one that it refers to, and another has the key.
    Replaced,
}

impl Moves {
    /// None.
    pub(in crate::postgres) fn none(spills: &Arc<Spills>) -> Moves {
        Moves {
            concerned: BTreeMap::new(),
            seen: BTreeMap::new(),
            last: BTreeMap::new(),
            asked: Marks::within(spills),
            known: RowMap::within(spills),
            own: Marks::within(spills),
            taken: Groups::within(spills),
        }
    }

    /// Those that concern the upload.
    pub(in crate::postgres) fn of(
        link: &mut Link,
        upload: Upload<'_>,
        outline: &UploadShape,
    ) -> Result<Moves, Stop> {
        let space = link.number_space();
        let mut moves = Moves::none(upload.spills);
        for table in concerned(upload, outline.tables()) {
            let seen = match seen(space, upload, table) {
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
                moves.own.add(mark(table, &row.key(published, table).1))?;
                moves.own.add(mark(table, &row.new_key(published, table).1))?;
            }
            Ok(())
        })?;
        Ok(moves)
    }

    /// The last entries that are unseen now.
    pub(in crate::postgres) fn last(
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
        let read = |row: &crate::postgres::link::Row| {
            Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)))
        };
        Ok(rows.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?)
    }

    /// Whether rows of the table may have got other keys since the remote was here, so long ago
    /// that it is forgotten. What a row is not found under it may still have.
    pub(in crate::postgres) fn are_forgotten(&self, upload: Upload<'_>, table: usize) -> bool {
        let name = &upload.tables[table].deployed.published.name;
        self.seen.get(&table).is_some_and(|seen| seen.certain)
            && self.last.get(name).is_some_and(|(_, forgotten)| *forgotten)
    }

    /// Takes note of the key that the row of a table has `now`; none where it is gone and another
    /// row came to its key.
    pub(in crate::postgres) fn learn(
        &mut self,
        row: &RowId,
        now: Option<&[u8]>,
    ) -> Result<(), Failure> {
        self.known.put(row, now.unwrap_or_default())
    }

    /// What is known of the row of a table that had this key.
    pub(in crate::postgres) fn of_row(&self, row: &RowId) -> Result<Option<Fate>, Failure> {
        let now = self.known.get(row)?;
        // Every key has a value.
        Ok(now.map(|now| if now.is_empty() { Fate::Replaced } else { Fate::At(now) }))
    }

    /// No row that was looked up has another key.
    pub(in crate::postgres) fn are_still(&self) -> bool {
        self.known.is_empty()
    }

    /// Tells `row` over the keys that its row, and those that it refers to, have now.
    pub(in crate::postgres) fn tell(
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
            let known = |value: &Vec<u8>| self.of_row(&(key.parent, value.clone()));
            if row.change != Change::Insert
                && let Some(Fate::At(now)) = known(&was)?
            {
                let now = values(&now)?.into_iter().map(ValueRef::to_owned).collect();
                if let Some(now) = key.after_update(now) {
                    columns.iter().zip(now).for_each(|(column, value)| after[*column] = value);
                }
            }
            let wants = tuple(&row.new, &columns);
            let changed = row.change == Change::Insert || was != wants;
            if !changed || self.own.contains(mark(key.parent, &wants))? {
                continue;
            }
            match known(&wants)?.filter(|_| row.change != Change::Delete) {
                Some(Fate::At(now)) => {
                    let now = values(&now)?.into_iter().map(ValueRef::to_owned);
                    references.extend(columns.iter().copied().zip(now));
                }
                Some(Fate::Replaced) => replaced = true,
                None => {}
            }
        }
        if row.change != Change::Insert {
            match self.of_row(&(table, key_of(published, &row.old)))? {
                Some(Fate::At(now)) => {
                    let key = published.key.iter().map(|at| usize::from(*at));
                    key.zip(values(&now)?).for_each(|(at, value)| after[at] = value.to_owned());
                }
                Some(Fate::Replaced) => replaced = true,
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
    pub(in crate::postgres) fn ask(
        &mut self,
        isolation: (&Links, Upload<'_>),
        table: usize,
        row: &UploadedRow<'_>,
        images: &mut BTreeMap<usize, Vec<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let (links, upload) = isolation;
        let published = |at: usize| &upload.tables[at].deployed.published;
        let mut ask = |at: usize, key: Vec<ValueRef<'_>>| {
            let asked = mark(at, &rebase::image(&key));
            if key.contains(&ValueRef::Null) || self.asked.contains(asked)? {
                return Ok::<(), Failure>(());
            }
            images.entry(at).or_default().push(image_of(published(at), &key));
            self.asked.add(asked)
        };
        for (key, columns) in references_of(links, upload.tables, table) {
            // Where it is not known what the remote has seen, it may refer to a row of its own.
            if !self.seen.get(&key.parent).is_some_and(|seen| seen.certain) {
                continue;
            }
            if row.change != Change::Insert {
                ask(key.parent, picked(&row.old, &columns))?;
            }
            if row.change != Change::Delete {
                ask(key.parent, picked(&row.new, &columns))?;
            }
        }
        if let Some(seen) = self.seen.get(&table)
            && (seen.certain || row.change != Change::Insert)
        {
            let key: Vec<usize> = published(table).key.iter().map(|at| usize::from(*at)).collect();
            let image = if row.change == Change::Insert { &row.new } else { &row.old };
            ask(table, picked(image, &key))?;
        }
        Ok(())
    }
}

/// The foreign keys of a table to whole keys, each with its columns in the order of that key.
fn references_of<'l>(
    links: &'l Links,
    tables: &'l [Arc<Table>],
    table: usize,
) -> impl Iterator<Item = (&'l ForeignKey, Vec<usize>)> {
    links.of(table).filter_map(move |key| {
        let parent = &tables[key.parent].deployed.published;
        let space = |at: &u16| key.referred.iter().position(|known| *known == usize::from(*at));
        let columns = parent.key.iter().map(|at| space(at).map(|space| key.columns[space]));
        let whole = parent.key.len() == key.referred.len();
        columns.collect::<Option<Vec<_>>>().filter(|_| whole).map(|columns| (key, columns))
    })
}

fn picked<'r>(image: &[ValueRef<'r>], columns: &[usize]) -> Vec<ValueRef<'r>> {
    columns.iter().map(|column| image[*column]).collect()
}

fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    rebase::image(&picked(image, columns))
}

/// A row of which only the key is known.
pub(in crate::postgres) fn image_of(table: &PublishedTable, key: &[ValueRef<'_>]) -> Vec<u8> {
    let mut image = vec![ValueRef::Null; table.width()];
    for (at, value) in table.key.iter().zip(key) {
        image[usize::from(*at)] = *value;
    }
    rebase::image(&image)
}
