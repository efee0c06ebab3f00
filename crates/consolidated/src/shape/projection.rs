//! Rows of an older shape as rows of the current table.
//!
//! Each value goes to the column with the same number. The other columns keep their values at the
//! center, and in a new row they get their defaults. A value without a column is reported with its
//! row, if the remote has entered or changed it (H3).

use super::left_out::{LeftOut, VALUE_CHARS_MAX};
use crate::administration::readable;
use crate::catalog::table::CatalogTable;
use crate::synchronization::change::{Change, UploadedRows};
use crate::synchronization::{Applied, Held, HeldSchema, UploadRequest};
use crate::upload::echo::Echo;
use model::{Code, Failure, PublishedTable, RowReader, Spills, Value, ValueRef, write_value};
use std::sync::Arc;

/// The value that a column takes where it cannot hold the one that was uploaded as it is: table,
/// column and value.
pub(crate) type Convert<'a> = &'a dyn Fn(usize, usize, ValueRef<'_>) -> Option<Value>;

/// Every column takes every value.
pub(crate) fn as_it_is(_: usize, _: usize, _: ValueRef<'_>) -> Option<Value> {
    None
}

/// Lets `apply` see an upload as one of today's tables. `tables` are in the order of the schema
/// that the remote holds; `convert` is asked for values of columns whose type has changed.
pub(crate) fn upload<D>(
    request: &UploadRequest<'_>,
    (tables, spills): (&[Arc<CatalogTable<D>>], &Arc<Spills>),
    convert: Convert<'_>,
    apply: impl FnOnce(&UploadRequest<'_>) -> Result<Applied, Failure>,
) -> Result<Applied, Failure> {
    let Held::Older(held) = &request.session.held else { return apply(request) };
    let left_out = LeftOut::within(spills);
    let tables: Vec<&PublishedTable> = tables.iter().map(|table| &table.published).collect();
    let batches = request.batches;
    let projected = UploadRequest {
        batches: &|visit| {
            batches(&mut |batch| {
                project(Onto { held, tables: &tables, convert }, &left_out, batch, visit)
            })
        },
        left_out: Some(&left_out),
        ..*request
    };
    let mut applied = apply(&projected)?;
    applied.updates += left_out.empty_rows();
    // Its positions of tables are not those of the session.
    applied.echo = Echo::default();
    let of_today = |at: usize| {
        let name = tables.get(at).map(|table| table.name.as_str());
        request.session.schema.tables.iter().position(|table| Some(table.name.as_str()) == name)
    };
    let unusual = std::mem::take(&mut applied.unusual).into_iter();
    applied.unusual = unusual.filter_map(|(at, rows)| Some((of_today(at)?, rows))).collect();
    Ok(applied)
}

/// What uploaded rows are projected from and onto.
#[derive(Clone, Copy)]
struct Onto<'a> {
    held: &'a HeldSchema,
    tables: &'a [&'a PublishedTable],
    convert: Convert<'a>,
}

fn project(
    onto: Onto<'_>,
    left_out: &LeftOut,
    batch: UploadedRows<'_>,
    visit: &mut dyn FnMut(UploadedRows<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let unknown = || Failure::new(Code::Bug, "rows of a table that is not known");
    let Onto { held, tables, convert } = onto;
    let from = held.schema.tables.get(batch.table).ok_or_else(unknown)?;
    let to = tables.get(batch.table).ok_or_else(unknown)?;
    let Some(projection) = held.projections.get(batch.table).ok_or_else(unknown)? else {
        return visit(batch);
    };
    let convert = &|column: usize, value: ValueRef<'_>| convert(batch.table, column, value);
    let row = &mut Projected { projection, from, to, convert, old: vec![], new: vec![] };
    let (mut change, mut count, mut rows) = (batch.change, 0, Vec::new());
    let mut rest = batch.rows;
    for _ in 0..batch.count {
        let (values, after) = Values::read(rest, batch.change, from.width())?;
        rest = after;
        let Some(now) = row.take(&values, batch, left_out)? else { continue };
        if now != change && count > 0 {
            visit(UploadedRows { table: batch.table, change, count, rows: &rows })?;
            (count, rows) = (0, Vec::new());
        }
        change = now;
        count += 1;
        for image in [&row.old, &row.new] {
            let values = image.iter().enumerate();
            values.for_each(|(at, value)| row.write(&mut rows, at, *value));
        }
    }
    match count {
        0 => Ok(()),
        _ => visit(UploadedRows { table: batch.table, change, count, rows: &rows }),
    }
}

/// The images of an uploaded row, in the remote's shape; the new one is empty for a delete, the
/// old one for an insert.
struct Values<'a> {
    old: Vec<ValueRef<'a>>,
    new: Vec<ValueRef<'a>>,
}

impl<'a> Values<'a> {
    fn read(
        rows: &'a [u8],
        change: Change,
        width: usize,
    ) -> Result<(Values<'a>, &'a [u8]), Failure> {
        let mut reader = RowReader::new(rows);
        let mut image = || (0..width).map(|_| reader.value()).collect::<Result<Vec<_>, Failure>>();
        let (old, new) = match change {
            Change::Insert => (Vec::new(), image()?),
            Change::Update => (image()?, image()?),
            Change::Delete => (image()?, Vec::new()),
        };
        Ok((Values { old, new }, reader.rest()))
    }

    /// The old value of a column; where the remote did not keep it twice, the new one.
    fn old(&self, at: usize) -> Option<ValueRef<'a>> {
        match self.old.get(at) {
            Some(ValueRef::Absent) => self.new.get(at).copied(),
            old => old.copied(),
        }
    }
}

/// A row in today's shape; the vectors are reused from row to row.
struct Projected<'a, 'r> {
    projection: &'a [Option<u16>],
    from: &'a PublishedTable,
    to: &'a PublishedTable,
    convert: &'a dyn Fn(usize, ValueRef<'_>) -> Option<Value>,
    old: Vec<ValueRef<'r>>,
    new: Vec<ValueRef<'r>>,
}

impl<'r> Projected<'_, 'r> {
    /// Takes a row, and says what of a change it is now; none if no value of it is left.
    fn take(
        &mut self,
        values: &Values<'r>,
        batch: UploadedRows<'_>,
        left_out: &LeftOut,
    ) -> Result<Option<Change>, Failure> {
        self.image(&values.old, |row| &mut row.old);
        self.image(&values.new, |row| &mut row.new);
        let lost = self.lost(values);
        let change = batch.change;
        // The table may have another key at the remote: there the row keeps its own.
        let moved =
            change == Change::Update && self.to.key.iter().any(|at| self.differs(usize::from(*at)));
        if lost.is_empty() && !moved {
            return Ok(Some(change));
        }
        // The remote has it under its new key.
        let row = (batch.table, self.key());
        let same = !(0..self.new.len()).any(|at| self.differs(at));
        let empty = moved || change == Change::Update && same;
        let reason = match moved {
            true => (Code::RowKeyFixed, "the change gives the row another key".to_owned()),
            false => {
                let gone = lost.join(", ");
                let why = format!("these columns of table {} are gone: {gone}", self.from.name);
                (Code::ColumnDropped, why)
            }
        };
        left_out.add(&row, (reason, empty), || {
            let mut image = Vec::new();
            values.new.iter().for_each(|value| write_value(&mut image, *value));
            readable::row(self.from, &image)
        })?;
        Ok((!empty).then_some(change))
    }

    fn image(&mut self, from: &[ValueRef<'r>], to: impl Fn(&mut Self) -> &mut Vec<ValueRef<'r>>) {
        let width = if from.is_empty() { 0 } else { self.to.width() };
        let mut image = vec![ValueRef::Null; width];
        for (value, place) in from.iter().zip(self.projection) {
            if let Some(place) = place.and_then(|at| image.get_mut(usize::from(at))) {
                *place = *value;
            }
        }
        *to(self) = image;
    }

    /// The remote's names of columns that are gone and that the remote has given a value, with it:
    /// if the name is used again, no other place has the value any more.
    fn lost(&self, values: &Values<'_>) -> Vec<String> {
        let mut lost = Vec::new();
        for (at, place) in self.projection.iter().enumerate() {
            let Some(new) = values.new.get(at).filter(|_| place.is_none()) else { continue };
            let old = values.old(at).unwrap_or(ValueRef::Null);
            if old != *new {
                let value: String = new.display().chars().take(VALUE_CHARS_MAX).collect();
                lost.push(format!("{} = {value}", self.from.columns[at]));
            }
        }
        lost
    }

    fn differs(&self, at: usize) -> bool {
        match (self.old.get(at), self.new.get(at)) {
            (Some(ValueRef::Absent), _) => false,
            (Some(old), Some(new)) => old != new,
            _ => false,
        }
    }

    /// The key that the row has at the remote.
    fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for at in self.to.key.iter().map(|at| usize::from(*at)) {
            self.write(&mut key, at, self.new.get(at).copied().unwrap_or(ValueRef::Null));
        }
        key
    }

    /// Writes a value of a column as the column takes it.
    fn write(&self, out: &mut Vec<u8>, column: usize, value: ValueRef<'_>) {
        match (self.convert)(column, value) {
            Some(converted) => write_value(out, converted.as_ref()),
            None => write_value(out, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::uploaded_row::RowId;
    use model::{Direction, RemoteSchema};

    fn table(columns: &[&str], key: &[u16]) -> PublishedTable {
        PublishedTable {
            compress: true,
            fires: false,
            name: "item".into(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            key: key.to_vec(),
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    fn rows(values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write_value(&mut bytes, *value));
        bytes
    }

    type Seen = Vec<(Change, u32, Vec<u8>)>;

    /// Projects (id, note, qty) onto (qty, id).
    fn check(change: Change, values: &[ValueRef<'_>]) -> (Seen, LeftOut) {
        let held = HeldSchema {
            schema: RemoteSchema {
                tables: vec![table(&["id", "note", "qty"], &[0])],
                fingerprint: String::new(),
            },
            projections: vec![Some(vec![Some(1), None, Some(0)])],
            ..HeldSchema::default()
        };
        let to = table(&["qty", "id"], &[1]);
        let (mut seen, left_out) = (Seen::new(), LeftOut::within(&Arc::new(Spills::default())));
        let bytes = rows(values);
        let batch = UploadedRows { table: 0, change, count: 1, rows: &bytes };
        let onto = Onto { held: &held, tables: &[&to], convert: &as_it_is };
        project(onto, &left_out, batch, &mut |batch| {
            seen.push((batch.change, batch.count, batch.rows.to_vec()));
            Ok(())
        })
        .unwrap();
        (seen, left_out)
    }

    fn told(left_out: &LeftOut) -> Vec<(RowId, Code)> {
        let mut told = Vec::new();
        left_out
            .visit(|row, left| {
                told.push((row, left.reason.0));
                Ok(())
            })
            .unwrap();
        told
    }

    const ID: ValueRef<'_> = ValueRef::Integer(7);
    const NOTE: ValueRef<'_> = ValueRef::Text(b"x");

    // H3, Trap 24: a value of a dropped column went with the schema, without a word.
    #[test]
    fn a_value_that_no_column_takes_is_told_and_the_rest_goes_where_it_belongs() {
        let (seen, left_out) = check(Change::Insert, &[ID, NOTE, ValueRef::Integer(3)]);
        assert_eq!(seen, [(Change::Insert, 1, rows(&[ValueRef::Integer(3), ID]))]);
        assert_eq!(told(&left_out), [((0, rows(&[ID])), Code::ColumnDropped)]);
    }

    #[test]
    fn what_nobody_has_entered_is_not_told() {
        for (change, values) in [
            (Change::Insert, vec![ID, ValueRef::Null, ValueRef::Integer(3)]),
            (Change::Delete, vec![ID, NOTE, ValueRef::Integer(3)]),
            (Change::Update, vec![ID, NOTE, ValueRef::Null, ID, NOTE, ValueRef::Integer(3)]),
            (
                Change::Update,
                vec![ID, ValueRef::Absent, ValueRef::Null, ID, NOTE, ValueRef::Integer(3)],
            ),
        ] {
            let (seen, left_out) = check(change, &values);
            assert_eq!((seen.len(), seen[0].0), (1, change));
            assert!(told(&left_out).is_empty(), "{values:?}");
        }
    }

    #[test]
    fn an_update_of_a_dropped_column_alone_touches_no_row() {
        let values = [ID, ValueRef::Null, ValueRef::Absent, ID, NOTE, ValueRef::Integer(3)];
        let (seen, left_out) = check(Change::Update, &values);
        assert_eq!(seen, []);
        assert_eq!(told(&left_out).len(), 1);
        assert_eq!(left_out.empty_rows(), 1);
    }

    #[test]
    fn a_row_whose_key_of_today_changes_is_refused() {
        let values = [ID, NOTE, ValueRef::Null, ValueRef::Integer(8), NOTE, ValueRef::Null];
        let (seen, left_out) = check(Change::Update, &values);
        assert_eq!(seen, []);
        let key = rows(&[ValueRef::Integer(8)]);
        assert_eq!(told(&left_out), [((0, key), Code::RowKeyFixed)]);
    }
}
