//! Partitions: every way in which a row can leave a subscription or enter it, and the fences.
//!
//! After every synchronization the remote must hold exactly the rows that its selection covers,
//! which is asked of the database in plain SQL.

#![allow(clippy::unwrap_used)]

#[path = "support/center.rs"]
#[allow(dead_code)]
mod center;
#[path = "partitions/fences.rs"]
mod fences;
#[path = "partitions/random.rs"]
mod random;
#[path = "support/shop.rs"]
mod shop;

use center::{Center, Upload, deploy};
use consolidated::DownloadedTable;
use shop::{ROWS, SCHEMA, Site, listed, model, row};

fn center(customer: &str) -> Center {
    Center::new(&format!("{SCHEMA}{ROWS}"), &model(customer))
}

/// What somebody does at the centre, and what the remote of representative 3 is sent of it beside
/// the custom table, which is sent in any case.
fn check(sql: &str, upserts: &str, deletes: &str) {
    let mut center = center("");
    let mut site = Site::new("one", 3, "north, south");
    site.synchronize(&mut center, &[]);
    center.foreign(&format!("PRAGMA foreign_keys = ON; {sql}"));
    let mut download = site.synchronize(&mut center, &[]);
    download.upserts.retain(|(table, _)| table != "offer");
    assert_eq!(listed(&download.upserts), upserts, "{sql}");
    assert_eq!(listed(&download.deletes), deletes, "{sql}");
    let again = site.synchronize(&mut center, &[]);
    assert_eq!(listed(&again.upserts), "offer:1", "{sql}");
    assert_eq!(listed(&again.deletes), "", "{sql}");
}

// S6
#[test]
fn rows_leave_and_enter_with_their_own_column() {
    check(
        "UPDATE customer SET rep = 4 WHERE id = 1",
        "",
        "customer:1 invoice:11 invoice:12 line:111 line:112 line:121",
    );
    check("UPDATE customer SET rep = NULL WHERE id = 2", "", "customer:2 invoice:21 line:211");
    check("UPDATE customer SET rep = 3 WHERE id = 3", "customer:3 invoice:31 line:311", "");
    check("UPDATE shop SET region = 'east' WHERE id = 1", "", "shop:1");
    check("UPDATE shop SET region = 'south' WHERE id = 3", "shop:3", "");
    check("UPDATE device SET remote = 'two' WHERE id = 1", "", "device:1");
    check("UPDATE device SET remote = 'one' WHERE id = 2", "device:2", "");
    check("UPDATE task SET project = 'q' WHERE id = 1", "", "comment:11 task:1");
}

// S6
#[test]
fn children_leave_and_enter_with_their_parents() {
    check("UPDATE invoice SET customer = 3 WHERE id = 11", "", "invoice:11 line:111 line:112");
    check("UPDATE invoice SET customer = 2 WHERE id = 31", "invoice:31 line:311", "");
    check("UPDATE line SET invoice = 31 WHERE id = 211", "", "line:211");
    // Between two parents that are both the remote's own.
    check("UPDATE line SET invoice = 21 WHERE id = 111", "line:111", "");
    // The old parent goes in the same transaction, before or after its child has moved.
    check(
        "BEGIN; UPDATE invoice SET customer = 3 WHERE id = 21;
         UPDATE customer SET rep = 4 WHERE id = 2; DELETE FROM customer WHERE id = 2; COMMIT",
        "",
        "customer:2 invoice:21 line:211",
    );
    check(
        "BEGIN; UPDATE customer SET rep = 4 WHERE id = 2;
         UPDATE invoice SET customer = 3 WHERE id = 21; DELETE FROM line WHERE id = 211; COMMIT",
        "",
        "customer:2 invoice:21 line:211",
    );
}

// S6
#[test]
fn rows_leave_and_enter_with_the_rows_of_a_mapping_table() {
    check("DELETE FROM member WHERE person = 3", "", "comment:11 task:1");
    check("INSERT INTO member VALUES (3, 'q')", "comment:21 task:2", "");
    check(
        "UPDATE member SET project = 'q' WHERE person = 3",
        "comment:21 task:2",
        "comment:11 task:1",
    );
    check("UPDATE member SET person = 5 WHERE person = 3", "", "comment:11 task:1");
    check("UPDATE member SET person = 3 WHERE project = 'q'", "comment:21 task:2", "");
    // What others share is nobody else's business.
    check("DELETE FROM member WHERE person = 4", "", "");
    check(
        "DELETE FROM member WHERE person = 3; INSERT INTO member VALUES (3, 'p')",
        "comment:11 task:1",
        "",
    );
}

// S6
#[test]
fn deleted_rows_take_their_descendants_along() {
    check(
        "DELETE FROM customer WHERE id = 1",
        "",
        "customer:1 invoice:11 invoice:12 line:111 line:112 line:121",
    );
    check("DELETE FROM task", "", "comment:11 task:1");
    check("DELETE FROM line WHERE id IN (111, 311)", "", "line:111");
    check("UPDATE line SET id = 999 WHERE id = 111", "line:999", "line:111");
}

// S6
#[test]
fn an_ordinary_update_of_a_parent_sends_one_row() {
    check("UPDATE customer SET name = 'x' WHERE id = 1", "customer:1", "");
    check("UPDATE customer SET rep = 3, name = 'x' WHERE id = 1", "customer:1", "");
    check("UPDATE invoice SET note = 'x', customer = 1 WHERE id = 11", "invoice:11", "");
    check("UPDATE customer SET name = 'x' WHERE id = 3", "", "");
}

/// A row that leaves and comes back between two synchronizations stays, and so do its children,
/// which nothing was noted of.
// S6
#[test]
fn what_leaves_and_comes_back_stays() {
    check(
        "UPDATE customer SET rep = 4 WHERE id = 2; UPDATE customer SET rep = 3 WHERE id = 2",
        "customer:2 invoice:21 line:211",
        "",
    );
    check(
        "UPDATE customer SET rep = 3 WHERE id = 3; UPDATE customer SET rep = 4 WHERE id = 3",
        "",
        "customer:3 invoice:31 line:311",
    );
}

/// REPLACE removes rows without telling any delete trigger; the place that they had must be known
/// all the same.
// S6, Trap 9
#[test]
fn replaced_rows_leave() {
    let children = "invoice:11 invoice:12 line:111 line:112 line:121";
    check(
        "PRAGMA foreign_keys = OFF; REPLACE INTO customer VALUES (1, 4, 'x')",
        "",
        &format!("customer:1 {children}"),
    );
    check(
        "PRAGMA foreign_keys = OFF; UPDATE OR REPLACE customer SET id = 1 WHERE id = 3",
        "",
        &format!("customer:1 {children}"),
    );
    let again = format!("customer:1 {children}");
    check("PRAGMA foreign_keys = OFF; REPLACE INTO customer VALUES (1, 3, 'x')", &again, "");
    check("REPLACE INTO shop VALUES (1, 'east', '')", "", "shop:1");
}

// Trap 4
#[test]
fn other_claims_send_what_depends_on_them_afresh() {
    let mut center = center("");
    let mut site = Site::new("one", 3, "north, south");
    site.synchronize(&mut center, &[]);
    let afresh = |site: &mut Site, center: &mut Center| -> Vec<String> {
        let download = site.synchronize(center, &[]);
        let schema = center.session(&site.remote).schema;
        let modes = schema.tables.iter().zip(&download.modes);
        let refreshed = modes.filter(|(_, mode)| **mode == DownloadedTable::Refresh);
        let mut names: Vec<String> = refreshed.map(|(t, _)| t.name.clone()).collect();
        names.sort();
        names
    };
    site.claim("rep", "4");
    let by_rep = ["comment", "customer", "invoice", "line", "offer", "task"];
    assert_eq!(afresh(&mut site, &mut center), by_rep);
    site.claim("regions", " east ,, 'x'\"\\");
    assert_eq!(afresh(&mut site, &mut center), ["offer", "shop"]);
    site.claim("rep", "99");
    assert_eq!(afresh(&mut site, &mut center), by_rep);
    assert_eq!(afresh(&mut site, &mut center), ["offer"]);
    // A claim that is missing covers nothing.
    site.remote.claims.clear();
    site.synchronize(&mut center, &[]);
    let rows: usize = ["customer", "shop", "task"].iter().map(|table| site.held[table].len()).sum();
    assert_eq!(rows, 0);
}

/// Another model may cover other rows of a table whose columns stay the same.
// Trap 4
#[test]
fn another_partition_sends_the_table_afresh() {
    let mut center = center("");
    let mut site = Site::new("one", 3, "north, south");
    site.synchronize(&mut center, &[]);
    deploy(&center.url, &model("").replace("rep = {u.rep}\"", "rep = {u.representative}\""))
        .unwrap();
    site.claim("representative", "3");
    let download = site.synchronize(&mut center, &[]);
    assert_eq!(
        listed(&download.upserts),
        "customer:1 customer:2 invoice:11 invoice:12 invoice:21 line:111 line:112 line:121 \
         line:211 offer:1"
    );
}

/// What two remotes share reaches both, from either.
// S6
#[test]
fn overlapping_partitions_meet() {
    let mut center = center("");
    let (mut one, mut two) = (Site::new("one", 3, "north, south"), Site::new("two", 4, "south"));
    one.synchronize(&mut center, &[]);
    two.synchronize(&mut center, &[]);
    let old = one.held["task"][&1].clone();
    one.synchronize(&mut center, &[Upload::Update("task", old, row(1, "p", "by one"))]);
    let download = two.synchronize(&mut center, &[]);
    assert_eq!(listed(&download.upserts), "offer:1 task:1");
    center.foreign("DELETE FROM member WHERE person = 3");
    assert_eq!(listed(&one.synchronize(&mut center, &[]).deletes), "comment:11 task:1");
    assert_eq!(listed(&two.synchronize(&mut center, &[]).deletes), "");
}
