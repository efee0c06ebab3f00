//! A synchronization that uploads 1,000 rows, from the freeze to the end of the conversation.
//!
//! Transactions and their commits are part of it.

use crate::site::{Place, REST, Site};
use divan::Bencher;
use divan::counter::ItemsCount;
use syncline_client::Mode;

const ROWS: u64 = 1_000;

const INSERT: &str = "INSERT INTO purchase SELECT 100000001, 300000000 + value, {rest}
                      FROM generated";
const UPDATE: &str = "UPDATE purchase SET cost = cost + 1 WHERE emp_id = 100000001 AND purch_id IN
                      (SELECT 200000000 + value * {step} FROM generated)";
const DELETE: &str = "DELETE FROM purchase WHERE emp_id = 100000001 AND purch_id IN
                      (SELECT 200000000 + value * {step} FROM generated)";

/// A remote of `rows` rows of which some were changed, spread over the whole table.
fn changed(place: Place, rows: i64, sql: &str) -> Site {
    let site = Site::with_rows(place, rows);
    let step = (rows as u64 / ROWS).to_string();
    let sql = sql.replace("{rest}", REST).replace("{step}", &step);
    let numbers = format!(
        "CREATE TEMP TABLE generated AS WITH RECURSIVE n(value) AS
         (SELECT 0 UNION ALL SELECT value + 1 FROM n WHERE value < {}) SELECT value FROM n;",
        ROWS - 1
    );
    site.writer().execute_batch(&format!("{numbers}{sql}")).unwrap();
    site
}

fn measure(bencher: Bencher<'_, '_>, place: Place, rows: i64, sql: &str) {
    bencher
        .counter(ItemsCount::new(ROWS))
        .with_inputs(|| changed(place, rows, sql))
        .bench_local_refs(|site| {
            let report = site.synchronize(Mode::UploadOnly);
            let uploaded = report.uploaded;
            assert_eq!(uploaded.inserts + uploaded.updates + uploaded.deletes, ROWS);
        });
}

#[divan::bench(sample_count = 30)]
fn inserts(bencher: Bencher<'_, '_>) {
    measure(bencher, Place::Memory, 1_000, INSERT);
}

/// The size of the table must not matter.
#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000], sample_count = 5)]
fn updates_in_a_table_of(bencher: Bencher<'_, '_>, rows: i64) {
    measure(bencher, Place::Memory, rows, UPDATE);
}

#[divan::bench(sample_count = 30)]
fn deletes(bencher: Bencher<'_, '_>) {
    measure(bencher, Place::Memory, 1_000, DELETE);
}
