//! A synchronization that downloads: receive, store, apply, commit.

use crate::center::Download;
use crate::site::{CREATE, Place, Site, connect, deletes, row, upserts};
use divan::Bencher;
use divan::counter::ItemsCount;
use model::ValueRef;
use protocol::DownloadMode;
use rusqlite::types::{ToSqlOutput, ValueRef as SqlValueRef};
use std::rc::Rc;
use syncline_client::Mode;

const ROWS: i64 = 1_000;
const PLACES: [Place; 2] = [Place::Memory, Place::Disk];

/// Applies a download to a remote of `existing` rows.
fn measure(bencher: Bencher<'_, '_>, place: Place, existing: i64, rows: i64, download: Download) {
    let download = Rc::new(download);
    bencher
        .counter(ItemsCount::new(rows as u64))
        .with_inputs(|| {
            let mut site = Site::with_rows(place, existing);
            site.prepare(&download);
            site
        })
        .bench_local_refs(|site| {
            let came = site.synchronize(Mode::DownloadOnly).downloaded;
            assert_eq!(came.upserts + came.deletes, rows as u64);
        });
}

#[divan::bench(args = PLACES, sample_count = 30)]
fn new_rows(bencher: Bencher<'_, '_>, place: Place) {
    let download = upserts(DownloadMode::Changes, ROWS..2 * ROWS, 0.12);
    measure(bencher, place, ROWS, ROWS, download);
}

#[divan::bench(args = PLACES, sample_count = 30)]
fn changed_rows(bencher: Bencher<'_, '_>, place: Place) {
    measure(bencher, place, ROWS, ROWS, upserts(DownloadMode::Changes, 0..ROWS, 0.34));
}

#[divan::bench(args = PLACES, sample_count = 30)]
fn deleted_rows(bencher: Bencher<'_, '_>, place: Place) {
    measure(bencher, place, ROWS, ROWS, deletes(0..ROWS));
}

/// Many rows in another order than they lie in.
#[divan::bench(args = PLACES, sample_count = 5)]
fn scattered_rows(bencher: Bencher<'_, '_>, place: Place) {
    const ROWS: i64 = 64_000;
    // A step that has no factor in common with the number of rows meets each once.
    let order = (0..ROWS).map(|n| n * 7_919 % ROWS);
    measure(bencher, place, ROWS, ROWS, upserts(DownloadMode::Changes, order, 0.34));
}

/// A whole table that is sent again to a remote that has it already.
#[divan::bench(args = [1_000, 100_000], sample_count = 5)]
fn refreshed_rows(bencher: Bencher<'_, '_>, rows: i64) {
    measure(bencher, Place::Disk, rows, rows, upserts(DownloadMode::Refresh, 0..rows, 0.12));
}

/// A remote that a local change waits at, so that every key is looked up among the changes.
#[divan::bench(sample_count = 30)]
fn changed_rows_beside_a_change(bencher: Bencher<'_, '_>) {
    let download = Rc::new(upserts(DownloadMode::Changes, 0..ROWS, 0.34));
    bencher
        .counter(ItemsCount::new(ROWS as u64))
        .with_inputs(|| {
            let mut site = Site::with_rows(Place::Memory, 2 * ROWS);
            site.writer().execute_batch("DELETE FROM purchase WHERE purch_id = 200001500").unwrap();
            site.prepare(&download);
            site
        })
        .bench_local_refs(|site| site.synchronize(Mode::DownloadOnly));
}

/// The first download into a new file; compare with `bare_fill`.
#[divan::bench(args = [10_000, 100_000, 1_000_000], sample_count = 3)]
fn first_fill(bencher: Bencher<'_, '_>, rows: i64) {
    let download = Rc::new(upserts(DownloadMode::Refresh, 0..rows, 0.12));
    bencher
        .counter(ItemsCount::new(rows as u64))
        .with_inputs(|| {
            let mut site = Site::new(Place::Disk);
            site.prepare(&download);
            site
        })
        .bench_local_refs(|site| site.synchronize(Mode::DownloadOnly));
}

/// What SQLite alone takes for the same rows: one transaction of a prepared INSERT into the same
/// table of a new file, with the same durability.
#[divan::bench(args = [10_000, 100_000, 1_000_000], sample_count = 3)]
fn bare_fill(bencher: Bencher<'_, '_>, rows: i64) {
    bencher
        .counter(ItemsCount::new(rows as u64))
        .with_inputs(|| {
            let folder = Place::Disk.folder();
            let connection = connect(&folder.path().join("bare.db"));
            connection.pragma_update(None, "synchronous", "FULL").unwrap();
            (folder, connection)
        })
        .bench_local_refs(|(_, connection)| {
            connection.execute_batch(CREATE).unwrap();
            connection.execute_batch("BEGIN").unwrap();
            let sql = "INSERT INTO purchase VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut insert = connection.prepare_cached(sql).unwrap();
            for n in 0..rows {
                for (column, value) in row(n, 0.12).into_iter().enumerate() {
                    let value = match value {
                        ValueRef::Integer(i) => SqlValueRef::Integer(i),
                        ValueRef::Real(r) => SqlValueRef::Real(r),
                        ValueRef::Text(t) => SqlValueRef::Text(t),
                        _ => SqlValueRef::Null,
                    };
                    let value = ToSqlOutput::Borrowed(value);
                    insert.raw_bind_parameter(column + 1, value).unwrap();
                }
                insert.raw_execute().unwrap();
            }
            connection.execute_batch("COMMIT").unwrap();
        });
}
