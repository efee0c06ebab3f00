//! What is kept, presented and put together.

use super::merge::merge;
use super::*;
use crate::progress::partial::AGAIN_BYTES_MAX;
use crate::testing::Site;
use model::{ValueRef, write_value};
use protocol::{DownloadMode, RowsFrame, TableDownload};

fn resumed(site: &Site) -> Vec<ResumedTable> {
    let tables = crate::schema::tables(&site.remote.connection).unwrap();
    partial::presented(&site.remote.connection, &tables).unwrap()
}

fn keep(site: &Site, again: bool, bytes: usize) {
    let payload =
        RowsFrame { table: 0, operation: Operation::Upsert, count: 1, bytes: vec![0; bytes] };
    partial::keep(&site.remote.connection, (0, again, 1), &payload.into_payload()).unwrap();
}

// S9: a remote whose downloads are cut for ever, and whose rows change at the center all the time,
// kept each of their images.
#[test]
fn what_has_come_again_too_often_is_not_gone_on_with() {
    let site = Site::new("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    let connection = &site.remote.connection;
    partial::create(connection).unwrap();
    let segment = Segment { token: vec![1].into(), position: vec![2].into() };
    let kept = ResumedTable { table: 0, first: None, segments: vec![segment] };
    partial::set(connection, &kept).unwrap();
    keep(&site, false, 1 << 20);
    keep(&site, true, AGAIN_BYTES_MAX as usize);
    assert_eq!(resumed(&site), [kept]);
    keep(&site, true, 2 << 20);
    assert_eq!(resumed(&site), []);
}

fn rows(operation: Operation, rows: &[&[ValueRef<'_>]]) -> RowsFrame {
    let mut bytes = Vec::new();
    rows.iter().flat_map(|row| row.iter()).for_each(|value| write_value(&mut bytes, *value));
    RowsFrame { table: 0, operation, count: rows.len() as u32, bytes }
}

// S3, S4: what was kept is of an older state than the rest.
#[test]
fn a_row_that_was_kept_gives_way_to_what_the_rest_says_of_its_key() {
    use ValueRef::{Integer, Text};
    let site = Site::new("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    let (connection, spills) = (&site.remote.connection, &site.remote.spills);
    let tables = crate::schema::tables(connection).unwrap();
    partial::create(connection).unwrap();
    let old = Text(b"old");
    let kept: Vec<[ValueRef<'_>; 2]> = (1..=4).map(|key| [Integer(key), old]).collect();
    let kept: Vec<&[ValueRef<'_>]> = kept.iter().map(|row| row.as_slice()).collect();
    let payload = rows(Operation::Upsert, &kept).into_payload();
    partial::keep(connection, (0, false, 4), &payload).unwrap();
    let payload = rows(Operation::Upsert, &[&[Integer(4), Text(b"newer")]]).into_payload();
    partial::keep(connection, (0, true, 1), &payload).unwrap();

    let segment = Segment { token: vec![1].into(), position: vec![2].into() };
    let resumed = ResumedTable { table: 0, first: None, segments: vec![segment] };
    let download = TableDownload {
        token: Some(vec![3].into()),
        continued: true,
        ..TableDownload::new(DownloadMode::Refresh)
    };
    let begin = DownloadBegin { tables: vec![download], ..DownloadBegin::default() };
    let arriving = Arriving::begin(&begin, &[resumed], 0).unwrap();
    let mut rest = Download::new(begin, spills);
    rest.keep_rows(rows(Operation::Upsert, &[&[Integer(1), Text(b"new")]])).unwrap();
    rest.keep_rows(rows(Operation::Delete, &[&[Integer(2)]])).unwrap();

    let whole = merge(connection, rest, &tables, &arriving, spills).unwrap();
    let mut frames = Vec::new();
    let mut reader = whole.upserts.reader();
    while let Some(payload) = reader.next_chunk().unwrap() {
        frames.push(RowsFrame::from_payload(payload.into_owned()).unwrap());
    }
    let wanted = [[Integer(3), old], [Integer(4), Text(b"newer")], [Integer(1), Text(b"new")]];
    let wanted = wanted.map(|row| rows(Operation::Upsert, &[row.as_slice()]));
    assert_eq!(frames, wanted);
    assert_eq!((whole.upsert_rows, whole.delete_rows), (3, 1));
}
