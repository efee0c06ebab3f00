//! Rows of `purchase` written and read in the compact format. Each figure is for [`ROWS`] rows.

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use syncline_model::{RowReader, Rows, ValueRef, write_value};

/// Counts allocations beside the time.
#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const ROWS: u32 = 1_000;
const WIDTH: usize = 6;
const NOTES: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

fn main() {
    divan::main();
}

fn row(n: u32) -> [ValueRef<'static>; WIDTH] {
    [
        ValueRef::Integer(100_000_001),
        ValueRef::Integer(200_000_000 + i64::from(n)),
        ValueRef::Integer(300_000_000 + i64::from(n)),
        ValueRef::Text(b"123456789.12"),
        ValueRef::Text(b"2024-02-29 12:34:56.789012"),
        ValueRef::Text(NOTES),
    ]
}

fn rows() -> Rows {
    let mut bytes = Vec::new();
    for value in (0..ROWS).flat_map(row) {
        write_value(&mut bytes, value);
    }
    Rows { bytes, count: ROWS }
}

/// Into a buffer that has room already.
#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let values: Vec<_> = (0..ROWS).map(row).collect();
    let mut out = rows().bytes;
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        out.clear();
        for value in values.iter().flatten() {
            write_value(&mut out, black_box(*value));
        }
        black_box(out.len())
    });
}

/// Into values that borrow from the rows.
#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let rows = rows();
    let mut values = Vec::with_capacity(WIDTH);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut reader = RowReader::new(black_box(&rows.bytes));
        for _ in 0..ROWS {
            values.clear();
            for _ in 0..WIDTH {
                values.extend(reader.value());
            }
            black_box(&values);
        }
    });
}

/// What a receiver does once before it relies on the rows.
#[divan::bench]
fn validate(bencher: Bencher<'_, '_>) {
    let rows = rows();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| black_box(&rows).validate(WIDTH).is_ok());
}
