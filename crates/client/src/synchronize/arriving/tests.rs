//! What is kept, presented and put together.

use super::merge::merge;
use super::*;
use crate::progress::partial::AGAIN_BYTES_MAX;
use crate::testing::Site;
use model::{Spill, ValueRef, write_value};
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
    let kept = ResumedTable { table: 0, first: None, segments: vec![segment], deletes: vec![] };
    partial::set(connection, &kept).unwrap();
    keep(&site, false, 1 << 20);
    keep(&site, true, AGAIN_BYTES_MAX as usize);
    assert_eq!(resumed(&site), [kept]);
    keep(&site, true, 2 << 20);
    assert_eq!(resumed(&site), []);
}

fn frame<const N: usize>(operation: Operation, rows: &[[ValueRef<'_>; N]]) -> RowsFrame {
    let mut bytes = Vec::new();
    rows.iter().flatten().for_each(|value| write_value(&mut bytes, *value));
    RowsFrame { table: 0, operation, count: rows.len() as u32, bytes }
}

fn frames(spill: &Spill) -> Vec<RowsFrame> {
    let (mut frames, mut reader) = (Vec::new(), spill.reader());
    while let Some(payload) = reader.next_chunk().unwrap() {
        frames.push(RowsFrame::from_payload(payload.into_owned()).unwrap());
    }
    frames
}

// S3, S4: what was kept is of an older state than the rest, and some of it than the other.
#[test]
fn what_was_kept_gives_way_to_what_is_said_later_of_its_key() {
    use Operation::{Delete, Upsert};
    use ValueRef::{Integer, Text};
    let site = Site::new("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    let (connection, spills) = (&site.remote.connection, &site.remote.spills);
    let tables = crate::schema::tables(connection).unwrap();
    partial::create(connection).unwrap();
    let row = |key, text: &'static str| [Integer(key), Text(text.as_bytes())];
    let key = |key| [Integer(key)];
    for (again, kept) in [
        (false, frame(Upsert, &[1, 2, 3, 4, 9].map(|key| row(key, "old")))),
        (false, frame(Delete, &[5, 6, 7, 8].map(key))),
        (true, frame(Upsert, &[row(4, "newer"), row(5, "back")])),
        (true, frame(Delete, &[6, 9].map(key))),
    ] {
        let count = kept.count;
        partial::keep(connection, (0, again, count), &kept.into_payload()).unwrap();
    }

    let segments = vec![Segment { token: vec![1].into(), position: vec![2].into() }];
    let resumed =
        ResumedTable { table: 0, first: None, segments: segments.clone(), deletes: segments };
    let download = TableDownload {
        token: Some(vec![3].into()),
        continued: true,
        ..TableDownload::new(DownloadMode::Refresh)
    };
    let begin = DownloadBegin { tables: vec![download], ..DownloadBegin::default() };
    let arriving = Arriving::begin(&begin, &[resumed], 0).unwrap();
    let mut rest = Download::new(begin, spills);
    rest.keep_rows(frame(Upsert, &[row(1, "new")])).unwrap();
    rest.keep_rows(frame(Delete, &[2, 7].map(key))).unwrap();

    let whole = merge(connection, rest, &tables, &arriving, spills).unwrap();
    let later = frame(Upsert, &[row(4, "newer"), row(5, "back")]);
    let rows = [frame(Upsert, &[row(3, "old")]), later, frame(Upsert, &[row(1, "new")])];
    assert_eq!(frames(&whole.upserts), rows);
    let deletes = [vec![8], vec![6, 9], vec![2, 7]];
    let deletes = deletes.map(|keys| keys.into_iter().map(key).collect::<Vec<_>>());
    assert_eq!(frames(&whole.deletes[0]), deletes.map(|keys| frame(Delete, &keys)));
    assert_eq!((whole.upsert_rows, whole.delete_rows), (4, 5));
}
