//! Foreign keys between the tables of an upload, and the new values of keys to which they refer.
//!
//! `ON UPDATE` changes rows that refer to a changed key. This is not a conflict with the remote:
//! its own foreign key did the same, or it does not have one. So a later row of the upload is
//! rebased onto the result ([`Links::tell`]). If another session has changed the row, there is
//! still a conflict.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link as Connection};
use crate::postgres::values::ColumnType;
use crate::postgres::values::row_decoder::Decoder;
use crate::quote::ident;
use crate::synchronization::change::Change;
use crate::upload::detached::Reference;
use crate::upload::rebase::{Rebased, values};
use crate::upload::uploaded_row::UploadedRow;
use model::{Failure, PublishedTable, SpillMap, Spills, Value, ValueRef, write_value};
use std::sync::Arc;

/// Most foreign keys that are followed one behind the other.
const STEPS_MAX: usize = 16;

/// Child, parent and action of every foreign key between the given tables, with their columns.
const READ: &str = "SELECT c.at::int4, p.at::int4, o.confupdtype::text,
    ARRAY(SELECT a.attname::text FROM unnest(o.conkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.num ORDER BY k.at),
    ARRAY(SELECT a.attname::text FROM unnest(o.confkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.confrelid AND a.attnum = k.num ORDER BY k.at),
    ARRAY(SELECT pg_get_expr(d.adbin, d.adrelid)
          FROM unnest(o.conkey) WITH ORDINALITY AS k(num, at)
          LEFT JOIN pg_attrdef AS d ON d.adrelid = o.conrelid AND d.adnum = k.num ORDER BY k.at)
FROM unnest($1::text[]) WITH ORDINALITY AS c(name, at)
JOIN pg_constraint AS o ON o.conrelid = c.name::regclass AND o.contype = 'f'
JOIN unnest($1::text[]) WITH ORDINALITY AS p(name, at) ON o.confrelid = p.name::regclass
ORDER BY o.oid";

/// A foreign key over published columns. Tables and columns are positions.
#[derive(Debug)]
pub(super) struct ForeignKey {
    child: usize,
    pub(super) columns: Vec<usize>,
    pub(super) parent: usize,
    pub(super) referred: Vec<usize>,
    /// The number of these columns of the parent: foreign keys to the same ones have the same.
    place: u32,
    /// As PostgreSQL spells the action.
    on_update: String,
    /// What `SET DEFAULT` makes of the columns; none where another action is declared, or where a
    /// default calls a function, which may answer otherwise the next time.
    defaults: Option<Vec<Value>>,
}

impl ForeignKey {
    /// What its action makes of the columns of a child when what they refer to becomes `now`; none
    /// where it leaves them as they are.
    fn action(&self, now: Vec<Value>) -> Option<Vec<Value>> {
        match self.on_update.as_str() {
            "c" => Some(now),
            "n" => Some(vec![Value::Null; self.columns.len()]),
            "d" => self.defaults.clone(),
            _ => None,
        }
    }

    /// The same for a committed key change of another session: if no action has changed the child,
    /// the program that changed the key did.
    pub(super) fn after_update(&self, now: Vec<Value>) -> Option<Vec<Value>> {
        match self.on_update.as_str() {
            "n" | "d" => self.action(now),
            _ => Some(now),
        }
    }
}

/// The foreign keys of an upload. What is noted of values may be about all of its rows. So what
/// there is no memory for lies on disk, by the place of the columns and the value.
#[derive(Debug)]
pub(super) struct Links {
    keys: Vec<ForeignKey>,
    /// Old values, and what they are now.
    moved: SpillMap,
    /// Values that rows should have had, and those that they have kept.
    kept: SpillMap,
    /// Values that rows of the upload leave, and whether others come to them, where the remote says
    /// which rows stay.
    taken: SpillMap,
}

/// What is noted of a value that rows leave.
const LEFT: &[u8] = &[0];
const TAKEN: &[u8] = &[1];

impl Links {
    /// None.
    pub(super) fn none(spills: &Arc<Spills>) -> Links {
        let values = || SpillMap::new(spills);
        Links { keys: Vec::new(), moved: values(), kept: values(), taken: values() }
    }

    /// Between `tables`.
    pub(super) fn read(
        link: &mut Connection,
        tables: &[Arc<Table>],
        spills: &Arc<Spills>,
    ) -> Result<Links, Failure> {
        let name = |table: &Arc<Table>| {
            let details = &table.deployed.details;
            let name = || format!("{}.{}", ident(&details.schema), ident(&details.name));
            table.deployed.is_known().then(name)
        };
        let names: Vec<Option<String>> = tables.iter().map(name).collect();
        let mut links = Links::none(spills);
        for row in link.query(READ, &[&names]).map_err(failed("read foreign keys"))? {
            let place = |at: usize| row.try_get::<i32>(at).map(|number| number as usize - 1);
            let (child, parent) = (place(0).map_err(unreadable)?, place(1).map_err(unreadable)?);
            let positions = |at: usize, table: usize| -> Result<Option<Vec<usize>>, Failure> {
                let names: Vec<String> = row.try_get(at).map_err(unreadable)?;
                let published = &tables[table].deployed.published.columns;
                let position = |name: &String| published.iter().position(|known| known == name);
                Ok(names.iter().map(position).collect())
            };
            let (columns, referred) = (positions(3, child)?, positions(4, parent)?);
            let (Some(columns), Some(referred)) = (columns, referred) else { continue };
            let on_update: String = row.try_get(2).map_err(unreadable)?;
            let texts: Vec<Option<String>> = row.try_get(5).map_err(unreadable)?;
            let constant = texts.iter().flatten().all(|text| !text.contains('('));
            let defaults = match on_update == "d" && constant {
                true => Some(defaults(link, &tables[child], &columns, &texts)?),
                false => None,
            };
            let known = links.place(parent, &referred);
            let place = known.unwrap_or(links.keys.len() as u32);
            let key = ForeignKey { child, columns, parent, referred, place, on_update, defaults };
            links.keys.push(key);
        }
        Ok(links)
    }

    /// No value that is referred to has changed, or should have.
    pub(super) fn are_still(&self) -> bool {
        self.moved.is_empty() && self.kept.is_empty()
    }

    /// The place of columns of a parent that a foreign key refers to.
    fn place(&self, parent: usize, referred: &[usize]) -> Option<u32> {
        let same = |key: &&ForeignKey| key.parent == parent && key.referred == referred;
        self.keys.iter().find(same).map(|key| key.place)
    }

    /// Takes note that a row of `table` was `old` and is `new`.
    pub(super) fn moved(
        &mut self,
        table: usize,
        old: &[ValueRef<'_>],
        new: &[ValueRef<'_>],
    ) -> Result<(), Failure> {
        note(&self.keys, &mut self.moved, table, old, new)
    }

    /// Takes note that a row of `table` should have been `new` and is `now`.
    pub(super) fn kept(
        &mut self,
        table: usize,
        new: &[ValueRef<'_>],
        now: &[ValueRef<'_>],
    ) -> Result<(), Failure> {
        note(&self.keys, &mut self.kept, table, new, now)
    }

    /// Takes note that a row of `table`, which others had left with what refers to it, is where it
    /// was.
    pub(super) fn returned(&mut self, table: usize, image: &[ValueRef<'_>]) -> Result<(), Failure> {
        for key in self.keys.iter().filter(|key| key.parent == table) {
            let value = tuple(image, &key.referred);
            self.moved.add(at(key.place, &value), value)?;
        }
        Ok(())
    }

    /// Takes note of the values that a row of the upload leaves and that others may come to.
    pub(super) fn leaves(&mut self, table: usize, row: &UploadedRow<'_>) -> Result<(), Failure> {
        if !matches!(row.change, Change::Update | Change::KeyChange) {
            return Ok(());
        }
        for key in self.keys.iter().filter(|key| key.parent == table) {
            let value = tuple(&row.old, &key.referred);
            if tuple(&row.new, &key.referred) != value {
                self.taken.set(&at(key.place, &value), LEFT)?;
            }
        }
        Ok(())
    }

    /// Some are left.
    pub(super) fn any_left(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Takes note of those that a row of the upload comes to.
    pub(super) fn takes(&mut self, table: usize, row: &UploadedRow<'_>) -> Result<(), Failure> {
        if row.change == Change::Delete {
            return Ok(());
        }
        for key in self.keys.iter().filter(|key| key.parent == table) {
            let value = tuple(&row.new, &key.referred);
            let comes = row.change == Change::Insert || tuple(&row.old, &key.referred) != value;
            let place = at(key.place, &value);
            if comes && self.taken.get(&place)?.is_some() {
                self.taken.set(&place, TAKEN)?;
            }
        }
        Ok(())
    }

    /// Whether a row that refers to `value` as before stays there: another row of the upload takes
    /// the value from the one that had it. The remote's own `ON UPDATE` has taken the row along,
    /// and the user has set it back.
    fn stays(&self, key: &ForeignKey, value: &[u8]) -> Result<bool, Failure> {
        if !self.any_left() {
            return Ok(false);
        }
        Ok(self.taken.get(&at(key.place, value))?.is_some_and(|taken| *taken == *TAKEN))
    }

    /// All foreign keys.
    pub(super) fn references(&self) -> Vec<Reference> {
        let keys = self.keys.iter().map(|key| Reference {
            child: key.child,
            columns: key.columns.clone(),
            parent: key.parent,
            referred: key.referred.clone(),
        });
        keys.collect()
    }

    /// The foreign keys of a table.
    pub(super) fn of(&self, child: usize) -> impl Iterator<Item = &ForeignKey> {
        self.keys.iter().filter(move |key| key.child == child)
    }

    /// What an image of `table` refers to, by the position of the foreign key.
    pub(super) fn referring(&self, table: usize, image: &[ValueRef<'_>]) -> Vec<(usize, Vec<u8>)> {
        let keys = self.keys.iter().enumerate().filter(|(_, key)| key.child == table);
        keys.map(|(at, key)| (at, tuple(image, &key.columns))).collect()
    }

    /// What may be referred to of an image of `table`, by the position of the foreign key.
    pub(super) fn referred(&self, table: usize, image: &[ValueRef<'_>]) -> Vec<(usize, Vec<u8>)> {
        let keys = self.keys.iter().enumerate().filter(|(_, key)| key.parent == table);
        keys.map(|(at, key)| (at, tuple(image, &key.referred))).collect()
    }

    /// The same, by the foreign keys that let none of it change while another row refers to it.
    pub(super) fn held_fast(&self, table: usize, image: &[ValueRef<'_>]) -> Vec<(usize, Vec<u8>)> {
        let mut referred = self.referred(table, image);
        referred.retain(|(at, _)| matches!(self.keys[*at].on_update.as_str(), "a" | "r"));
        referred
    }

    /// Rebases `row` onto what became of the keys that it refers to; none where nothing has.
    pub(super) fn tell(
        &self,
        position: usize,
        table: &PublishedTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Rebased>, Failure> {
        let owned = |image: &[ValueRef<'_>]| -> Vec<Value> {
            image.iter().map(|value| ValueRef::to_owned(*value)).collect()
        };
        let mut told: Option<(Vec<Value>, Vec<Value>)> = None;
        for key in self.keys.iter().filter(|key| key.child == position) {
            let (saw, wants) = (tuple(&row.old, &key.columns), tuple(&row.new, &key.columns));
            let updates = matches!(row.change, Change::Update | Change::KeyChange);
            let stays = updates && saw == wants && self.stays(key, &wants)?;
            if row.change != Change::Insert
                && let Some(now) = self.after_update(key, &saw)?
            {
                let (old, new) = told.get_or_insert_with(|| (owned(&row.old), owned(&row.new)));
                for (column, value) in key.columns.iter().zip(now) {
                    if !stays && row.new[*column].identical(row.old[*column]) {
                        new[*column] = value.clone();
                    }
                    old[*column] = value;
                }
            }
            let changed = row.change == Change::Insert || saw != wants || stays;
            let is_asked = changed && row.change != Change::Delete && !self.kept.is_empty();
            if is_asked && let Some(kept) = self.kept.get(&at(key.place, &wants))? {
                let (_, new) = told.get_or_insert_with(|| (owned(&row.old), owned(&row.new)));
                for (column, value) in key.columns.iter().zip(values(&kept)?) {
                    new[*column] = value.to_owned();
                }
            }
        }
        Ok(told.map(|(old, new)| {
            let [old, new] = [&old, &new]
                .map(|image| image.iter().map(Value::as_ref).collect::<Vec<ValueRef<'_>>>());
            Rebased::of(row.change, table, &old, &new)
        }))
    }

    /// What a foreign key's action has made of the values of a child that referred to `saw`.
    fn after_update(&self, key: &ForeignKey, saw: &[u8]) -> Result<Option<Vec<Value>>, Failure> {
        let Some(now) = self.became(key.parent, &key.referred, saw, STEPS_MAX)? else {
            return Ok(None);
        };
        Ok(key.action(now))
    }

    /// What the values of these columns of a row of `table` have become: by a change of the row
    /// itself, or of one that it refers to.
    fn became(
        &self,
        table: usize,
        columns: &[usize],
        saw: &[u8],
        steps: usize,
    ) -> Result<Option<Vec<Value>>, Failure> {
        if let Some(place) = self.place(table, columns)
            && let Some(now) = self.moved.get(&at(place, saw))?
        {
            return Ok(Some(values(&now)?.into_iter().map(ValueRef::to_owned).collect()));
        }
        if steps == 0 {
            return Ok(None);
        }
        let seen = values(saw)?;
        let mut now: Option<Vec<Value>> = None;
        for key in self.keys.iter().filter(|key| key.child == table && key.on_update == "c") {
            let places: Option<Vec<usize>> =
                key.columns.iter().map(|column| columns.iter().position(|c| c == column)).collect();
            let Some(places) = places else { continue };
            let part = tuple(&seen, &places);
            let Some(became) = self.became(key.parent, &key.referred, &part, steps - 1)? else {
                continue;
            };
            let whole =
                now.get_or_insert_with(|| seen.iter().map(|v| ValueRef::to_owned(*v)).collect());
            places.iter().zip(became).for_each(|(place, value)| whole[*place] = value);
        }
        Ok(now)
    }
}

/// The defaults of columns of `table`, which are constants, as a row has them.
fn defaults(
    link: &mut Connection,
    table: &Table,
    columns: &[usize],
    texts: &[Option<String>],
) -> Result<Vec<Value>, Failure> {
    let kinds: Vec<&ColumnType> =
        columns.iter().map(|at| &table.deployed.details.columns[*at]).collect();
    let value = |(kind, text): (&&ColumnType, &Option<String>)| {
        let value = format!("({})::{}", text.as_deref().unwrap_or("NULL"), kind.cast);
        if kind.read_as_text() { format!("({value})::text") } else { value }
    };
    let values_sql: Vec<String> = kinds.iter().zip(texts).map(value).collect();
    let sql = format!("SELECT {}", values_sql.join(", "));
    let mut image = Vec::new();
    link.stream(&[Call::new(&sql, &[])], &mut |_, row| {
        Decoder::new(row, kinds.iter().copied())?.write(row, &mut image)
    })
    .map_err(failed("read the defaults of a foreign key"))?;
    Ok(values(&image)?.into_iter().map(ValueRef::to_owned).collect())
}

fn note(
    keys: &[ForeignKey],
    became: &mut SpillMap,
    table: usize,
    from: &[ValueRef<'_>],
    to: &[ValueRef<'_>],
) -> Result<(), Failure> {
    for key in keys.iter().filter(|key| key.parent == table) {
        let (from, to) = (tuple(from, &key.referred), tuple(to, &key.referred));
        if from != to {
            became.add(at(key.place, &from), to)?;
        }
    }
    Ok(())
}

/// A value of the columns at a place.
fn at(place: u32, value: &[u8]) -> Vec<u8> {
    [&place.to_be_bytes(), value].concat()
}

/// Columns of an image, encoded.
fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    columns.iter().for_each(|column| write_value(&mut bytes, image[*column]));
    bytes
}
