//! What belongs to a new row that lost its key to another one (S5).
//!
//! Two remotes give two rows the same key. At the center the second finds the row of the first and
//! loses, and its remote is told. Whatever the remote has entered for its own row would now belong
//! to the row of somebody else: rows that refer to it, and later changes of it. These are rejected
//! with it, also in uploads that come before the remote has heard.

use crate::catalog::reference::Reference;
use crate::catalog::table::CatalogTable;
use crate::synchronization::change::{Change, RowSource};
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, UploadedRow, each_row};
use crate::upload::verdict::key_is_taken;
use model::{Code, Failure, PublishedTable, RowReader, Spills, ValueRef, write_value};
use std::sync::Arc;

/// A table of an upload, with its foreign keys.
pub(crate) struct UploadedTable<'t> {
    published: &'t PublishedTable,
    references: &'t [Reference],
    /// Rows with these changes stay at the remote as they are.
    ignored: Vec<Change>,
}

impl<'t> UploadedTable<'t> {
    pub(crate) fn of<D>(table: &'t CatalogTable<D>, references: &'t [Reference]) -> Self {
        let changes = [Change::Insert, Change::Update, Change::Delete].into_iter();
        let ignored = changes.filter(|change| table.ignores(*change)).collect();
        UploadedTable { published: &table.published, references, ignored }
    }
}

/// New rows that lost their keys, and what belongs to them.
pub(crate) struct LostInserts<'l> {
    /// Those of this upload are among its rejects.
    pub(crate) rejected: &'l OwedRows,
    pub(crate) untold: &'l Untold,
}

/// Those of earlier uploads of which the remote may not have heard.
pub(crate) struct Untold {
    /// With a byte for each row that lost its key, and none for what belonged to it.
    rows: RowMap,
}

impl Untold {
    /// The codes with which they were rejected.
    pub(crate) const CODES: [Code; 2] = [Code::RowKeyTaken, Code::RowOfKeyTaken];

    /// None so far, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> Untold {
        Untold { rows: RowMap::within(spills) }
    }

    /// Adds a row that was rejected with the code of this number.
    pub(crate) fn add(&mut self, row: &RowId, code: u16) -> Result<(), Failure> {
        let what: &[u8] = if code == Code::RowKeyTaken.number() { &[1] } else { &[] };
        self.rows.put(row, what)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The rows of an upload that belong to new rows which lost their keys, with the reasons. Rows that
/// were rejected already are not among them.
pub(crate) fn belonging(
    tables: &[UploadedTable<'_>],
    batches: RowSource<'_>,
    lost: &LostInserts<'_>,
    spills: &Arc<Spills>,
) -> Result<OwedRows, Failure> {
    let mut belonging = OwedRows::within(spills);
    let links = links(tables);
    let published = |at: usize| tables[at].published;
    let referred = referred(tables, &links, batches, lost, spills)?;
    if referred.is_empty() && lost.untold.is_empty() {
        return Ok(belonging);
    }
    let is_linked = |at: usize| links.iter().any(|link| link.child == at);
    let wanted = |at: usize, change| {
        !tables[at].ignored.contains(&change) && (is_linked(at) || !lost.untold.is_empty())
    };
    each_row(batches, &published, wanted, |at, row| {
        let id = row.key(published(at), at);
        if lost.rejected.reason(&id)?.is_some() {
            return Ok(());
        }
        match lost.untold.rows.get(&id)?.as_deref() {
            Some([]) => return belonging.reject(&id, belongs_to_lost()),
            Some(_) => return belonging.reject(&id, key_is_taken()),
            None => {}
        }
        for (number, link) in links.iter().enumerate().filter(|(_, link)| link.child == at) {
            if let Some(values) = link.newly_refers_to(row)
                && referred.contains(&(number, values))?
            {
                return belonging.reject(&id, belongs_to_lost());
            }
        }
        Ok(())
    })?;
    Ok(belonging)
}

fn belongs_to_lost() -> Reason {
    let why = "the row that it belongs to was rejected, and another row has its key";
    (Code::RowOfKeyTaken, why.to_owned()).into()
}

/// A foreign key, by positions.
struct Link {
    child: usize,
    parent: usize,
    /// Column of the child, and of the parent.
    columns: Vec<(usize, usize)>,
}

impl Link {
    /// What a row refers to, encoded, unless it has referred to it before.
    fn newly_refers_to(&self, row: &UploadedRow<'_>) -> Option<Vec<u8>> {
        let from = || self.columns.iter().map(|(from, _)| *from);
        let moves = || from().any(|at| !row.old[at].identical(row.new[at]));
        let refers = match row.change {
            Change::Insert => true,
            Change::Update => moves(),
            Change::Delete => false,
        };
        let values = || from().map(|at| row.new[at]);
        let is_complete = refers && !values().any(|value| value == ValueRef::Null);
        is_complete.then(|| encoded(values()))
    }

    /// What refers to the row with this key has these values, encoded; none where the foreign key
    /// is to other columns.
    fn to_key(&self, parent: &PublishedTable, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let (mut reader, mut values) = (RowReader::new(key), Vec::new());
        for _ in &parent.key {
            values.push(reader.value()?);
        }
        let place = |to: usize| parent.key.iter().position(|at| usize::from(*at) == to);
        let places = self.columns.iter().map(|(_, to)| place(*to));
        let places = places.collect::<Option<Vec<usize>>>();
        Ok(places.map(|places| encoded(places.into_iter().map(|place| values[place]))))
    }
}

fn encoded<'v>(values: impl Iterator<Item = ValueRef<'v>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.for_each(|value| write_value(&mut bytes, value));
    bytes
}

fn links(tables: &[UploadedTable<'_>]) -> Vec<Link> {
    let mut links = Vec::new();
    for (child, table) in tables.iter().enumerate() {
        for reference in table.references {
            let is_parent = |it: &UploadedTable<'_>| it.published.name == reference.parent;
            let Some(parent) = tables.iter().position(is_parent) else { continue };
            let at = |table: &PublishedTable, name: &String| {
                table.columns.iter().position(|column| column == name)
            };
            let columns = reference.columns.iter().map(|(from, to)| {
                Some((at(table.published, from)?, at(tables[parent].published, to)?))
            });
            if let Some(columns) = columns.collect() {
                links.push(Link { child, parent, columns });
            }
        }
    }
    links
}

/// What rows have that refer to rows which lost their keys, by the number of the link.
fn referred(
    tables: &[UploadedTable<'_>],
    links: &[Link],
    batches: RowSource<'_>,
    lost: &LostInserts<'_>,
    spills: &Arc<Spills>,
) -> Result<RowMap, Failure> {
    let mut referred = RowMap::within(spills);
    let to =
        |parent: usize| links.iter().enumerate().filter(move |(_, link)| link.parent == parent);
    lost.untold.rows.visit(|(table, key), _| {
        for (number, link) in to(table) {
            if let Some(values) = link.to_key(tables[table].published, &key)? {
                referred.add(&(number, values))?;
            }
        }
        Ok::<(), Failure>(())
    })?;
    if !lost.rejected.has_rejects() {
        return Ok(referred);
    }
    let published = |at: usize| tables[at].published;
    let wanted = |at: usize, change| change != Change::Delete && to(at).next().is_some();
    each_row(batches, &published, wanted, |at, row| {
        let reason = lost.rejected.reason(&row.key(published(at), at))?;
        if reason.is_none_or(|reason| reason.code != Code::RowKeyTaken) {
            return Ok(());
        }
        for (number, link) in to(at) {
            referred.add(&(number, encoded(link.columns.iter().map(|(_, to)| row.new[*to]))))?;
        }
        Ok(())
    })?;
    Ok(referred)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Direction;

    fn table(name: &str, columns: &[&str]) -> PublishedTable {
        PublishedTable {
            compress: true,
            fires: false,
            name: name.into(),
            columns: columns.iter().map(|it| (*it).to_owned()).collect(),
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    #[test]
    fn a_link_knows_what_newly_refers() {
        let (parent, child) = (table("p", &["id", "code"]), table("c", &["id", "code"]));
        let columns = vec![("code".to_owned(), "code".to_owned())];
        let references = [Reference { parent: "p".into(), columns }];
        let tables = [
            UploadedTable { published: &parent, references: &[], ignored: vec![] },
            UploadedTable { published: &child, references: &references, ignored: vec![] },
        ];
        let links = links(&tables);
        let [link] = &links[..] else { panic!("one") };
        assert_eq!((link.child, link.parent, &link.columns[..]), (1, 0, &[(1, 1)][..]));
        // The foreign key is not to the key.
        assert_eq!(
            link.to_key(&parent, &encoded([ValueRef::Integer(1)].into_iter())).unwrap(),
            None
        );
        let image = |values: [ValueRef<'_>; 2]| encoded(values.into_iter());
        let (one, two) = (ValueRef::Integer(1), ValueRef::Integer(2));
        let refers = |change, bytes: &[u8]| {
            let mut row = UploadedRow::default();
            row.read(bytes, change, 2).unwrap();
            link.newly_refers_to(&row)
        };
        let two_alone = Some(encoded([two].into_iter()));
        assert_eq!(refers(Change::Insert, &image([one, two])), two_alone);
        assert_eq!(refers(Change::Insert, &image([one, ValueRef::Null])), None);
        let moved = [image([one, one]), image([one, two])].concat();
        assert_eq!(refers(Change::Update, &moved), two_alone);
        let stays = [image([one, two]), image([one, two])].concat();
        assert_eq!(refers(Change::Update, &stays), None);
        assert_eq!(refers(Change::Delete, &image([one, two])), None);
    }
}
