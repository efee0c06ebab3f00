//! Uploaded rows of `purchase` become the arrays of a set-based statement for PostgreSQL.
//!
//! Each figure is for [`ROWS`] rows. The rows are in the format of the wire, and nothing is sent.

#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use model::{ValueRef, write_value};
use syncline_consolidated::{Binding, Change};

/// Counts allocations beside the time.
#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const ROWS: u32 = 1_000;
const NOTES: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

fn main() {
    divan::main();
}

/// Rows as an upload has them: of an update the old image, then the new row.
fn rows(change: Change) -> Vec<u8> {
    let costs: &[&str] = match change {
        Change::Update => &["123456789.120000", "123456790.120000"],
        Change::Insert | Change::Delete => &["123456789.120000"],
    };
    let mut bytes = Vec::new();
    for (number, cost) in (0..ROWS).flat_map(|n| costs.iter().map(move |cost| (n, cost))) {
        for value in [
            ValueRef::Integer(100_000_001),
            ValueRef::Integer(200_000_000 + i64::from(number)),
            ValueRef::Integer(300_000_000 + i64::from(number)),
            ValueRef::Text(cost.as_bytes()),
            ValueRef::Text(b"2026-01-17 12:34:56.789012"),
            ValueRef::Text(NOTES),
        ] {
            write_value(&mut bytes, value);
        }
    }
    bytes
}

fn bind(bencher: Bencher<'_, '_>, change: Change) {
    let (binding, rows) = (Binding::of_purchase().unwrap(), rows(change));
    bencher
        .counter(ItemsCount::new(ROWS))
        .bench_local(|| black_box(binding.bind(change, black_box(&rows)).unwrap()));
}

#[divan::bench]
fn inserts(bencher: Bencher<'_, '_>) {
    bind(bencher, Change::Insert);
}

#[divan::bench]
fn updates(bencher: Bencher<'_, '_>) {
    bind(bencher, Change::Update);
}

#[divan::bench]
fn deletes(bencher: Bencher<'_, '_>) {
    bind(bencher, Change::Delete);
}
