//! Partitions: every way in which a row can leave or enter a partition, and the fences.
//!
//! After every synchronization the remote must have exactly the rows that its selection covers,
//! which plain SQL finds in the database.

mod fences;
mod random;

use crate::support::center::{Backend, Center, Download, Upload, deploy, int, upload_only};
use crate::support::shop::{CLEARED, ROWS, SCHEMA, Site, listed, model, row};
use syncline_consolidated::DownloadedTable;

fn center(backend: Backend, customer: &str) -> Center {
    Center::on(backend, &format!("{SCHEMA}{ROWS}"), &model(customer))
}

/// A statement at the center, and the rows and keys that the remote of representative 3 is sent for
/// it. The table with a custom condition is sent in any case.
type Case = (&'static str, &'static str, &'static str);

fn check(cases: &[Case]) {
    Backend::each(|backend| check_on(backend, cases));
}

fn check_on(backend: Backend, cases: &[Case]) {
    let mut center = center(backend, "");
    let mut site = Site::new("one", 3, "north, south");
    site.synchronize(&mut center, &[]);
    for (sql, upserts, deletes) in cases {
        center.foreign(&format!("{} {sql}", backend.pick("PRAGMA foreign_keys = ON;", "")));
        let download = site.synchronize(&mut center, &[]);
        assert_eq!(listed_but_offers(&download), *upserts, "{sql} on {backend:?}");
        assert_eq!(listed(&download.deletes), *deletes, "{sql} on {backend:?}");
        let again = site.synchronize(&mut center, &[]);
        assert_eq!(listed_but_offers(&again), "", "{sql} on {backend:?}");
        assert_eq!(listed(&again.deletes), "", "{sql} on {backend:?}");
        // Everything leaves and comes back, in whatever way.
        center.foreign(&format!("{CLEARED}{ROWS}"));
        site.synchronize(&mut center, &[]);
    }
}

fn listed_but_offers(download: &Download) -> String {
    let mut upserts = download.upserts.clone();
    upserts.retain(|(table, _)| table != "offer");
    listed(&upserts)
}

// S6
#[test]
fn rows_leave_and_enter_with_their_own_column() {
    check(&[
        (
            "UPDATE customer SET rep = 4 WHERE id = 1",
            "",
            "customer:1 invoice:11 invoice:12 line:111 line:112 line:121",
        ),
        ("UPDATE customer SET rep = NULL WHERE id = 2", "", "customer:2 invoice:21 line:211"),
        ("UPDATE customer SET rep = 3 WHERE id = 3", "customer:3 invoice:31 line:311", ""),
        ("UPDATE shop SET region = 'east' WHERE id = 1", "", "shop:1"),
        ("UPDATE shop SET region = 'south' WHERE id = 3", "shop:3", ""),
        ("UPDATE device SET remote = 'two' WHERE id = 1", "", "device:1"),
        ("UPDATE device SET remote = 'one' WHERE id = 2", "device:2", ""),
        ("UPDATE task SET project = 'q' WHERE id = 1", "", "comment:11 task:1"),
    ]);
}

// S6
#[test]
fn children_leave_and_enter_with_their_parents() {
    check(&[
        ("UPDATE invoice SET customer = 3 WHERE id = 11", "", "invoice:11 line:111 line:112"),
        ("UPDATE invoice SET customer = 2 WHERE id = 31", "invoice:31 line:311", ""),
        ("UPDATE line SET invoice = 31 WHERE id = 211", "", "line:211"),
        // Between two parents that are both the remote's own.
        ("UPDATE line SET invoice = 21 WHERE id = 111", "line:111", ""),
        // The old parent goes in the same transaction, before or after its child has moved.
        (
            "BEGIN; UPDATE invoice SET customer = 3 WHERE id = 21;
         UPDATE customer SET rep = 4 WHERE id = 2; DELETE FROM customer WHERE id = 2; COMMIT",
            "",
            "customer:2 invoice:21 line:211",
        ),
        (
            "BEGIN; UPDATE customer SET rep = 4 WHERE id = 2;
         UPDATE invoice SET customer = 3 WHERE id = 21; DELETE FROM line WHERE id = 211; COMMIT",
            "",
            "customer:2 invoice:21 line:211",
        ),
    ]);
}

// S6
#[test]
fn rows_leave_and_enter_with_the_rows_of_a_mapping_table() {
    check(&[
        ("DELETE FROM member WHERE person = 3", "", "comment:11 task:1"),
        ("INSERT INTO member VALUES (3, 'q')", "comment:21 task:2", ""),
        (
            "UPDATE member SET project = 'q' WHERE person = 3",
            "comment:21 task:2",
            "comment:11 task:1",
        ),
        ("UPDATE member SET person = 5 WHERE person = 3", "", "comment:11 task:1"),
        ("UPDATE member SET person = 3 WHERE project = 'q'", "comment:21 task:2", ""),
        // Rows of the partitions of others are not sent.
        ("DELETE FROM member WHERE person = 4", "", ""),
        (
            "DELETE FROM member WHERE person = 3; INSERT INTO member VALUES (3, 'p')",
            "comment:11 task:1",
            "",
        ),
    ]);
}

// S6
#[test]
fn deleted_rows_take_their_descendants_along() {
    check(&[
        (
            "DELETE FROM customer WHERE id = 1",
            "",
            "customer:1 invoice:11 invoice:12 line:111 line:112 line:121",
        ),
        ("DELETE FROM task", "", "comment:11 task:1"),
        ("DELETE FROM line WHERE id IN (111, 311)", "", "line:111"),
        ("UPDATE line SET id = 999 WHERE id = 111", "line:999", "line:111"),
    ]);
}

// S6
#[test]
fn an_ordinary_update_of_a_parent_sends_one_row() {
    check(&[
        ("UPDATE customer SET name = 'x' WHERE id = 1", "customer:1", ""),
        ("UPDATE customer SET rep = 3, name = 'x' WHERE id = 1", "customer:1", ""),
        ("UPDATE invoice SET note = 'x', customer = 1 WHERE id = 11", "invoice:11", ""),
        ("UPDATE customer SET name = 'x' WHERE id = 3", "", ""),
    ]);
}

/// A row that leaves and comes back between two synchronizations stays, and so do its children,
/// which nothing was noted of.
// S6
#[test]
fn what_leaves_and_comes_back_stays() {
    check(&[
        (
            "UPDATE customer SET rep = 4 WHERE id = 2; UPDATE customer SET rep = 3 WHERE id = 2",
            "customer:2 invoice:21 line:211",
            "",
        ),
        (
            "UPDATE customer SET rep = 3 WHERE id = 3; UPDATE customer SET rep = 4 WHERE id = 3",
            "",
            "customer:3 invoice:31 line:311",
        ),
    ]);
}

/// REPLACE removes rows without firing a delete trigger. Their place must still be known.
// S6, Trap 9
#[test]
fn replaced_rows_leave() {
    let gone = "customer:1 invoice:11 invoice:12 line:111 line:112 line:121";
    check_on(
        Backend::Sqlite,
        &[
            ("PRAGMA foreign_keys = OFF; REPLACE INTO customer VALUES (1, 4, 'x')", "", gone),
            (
                "PRAGMA foreign_keys = OFF; UPDATE OR REPLACE customer SET id = 1 WHERE id = 3",
                "",
                gone,
            ),
            ("PRAGMA foreign_keys = OFF; REPLACE INTO customer VALUES (1, 3, 'x')", gone, ""),
            ("REPLACE INTO shop VALUES (1, 'east', '')", "", "shop:1"),
        ],
    );
}

// Trap 4
#[test]
fn other_claims_send_what_depends_on_them_afresh() {
    Backend::each(|backend| {
        let mut center = center(backend, "");
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
        let rows: usize =
            ["customer", "shop", "task"].iter().map(|table| site.held[table].len()).sum();
        assert_eq!(rows, 0);
    });
}

// Trap 4, Trap 5, S6: rows are uploaded while the claims are others than those of the last
// download, and what was downloaded behind it is lost, or was not asked for. When the claims of
// then are back nothing had changed for the server, and the rows stayed at their remote for ever.
#[test]
fn what_was_uploaded_under_other_claims_leaves_with_them() {
    Backend::each(|backend| {
        for download_follows in [true, false] {
            let mut center = center(backend, "");
            let mut site = Site::new("one", 3, "north, south");
            site.synchronize(&mut center, &[]);
            site.claim("rep", "4");
            site.claim("regions", "east");
            upload(
                &mut center,
                &mut site,
                download_follows,
                &[
                    Upload::Insert("customer", row(7, 4, "new")),
                    Upload::Insert("invoice", row(71, 7, "new")),
                    Upload::Insert("line", row(711, 71, "new")),
                    Upload::Insert("task", row(7, "q", "new")),
                    Upload::Insert("comment", row(71, 7, "new")),
                    Upload::Insert("shop", row(7, "east", "new")),
                ],
            );
            let changed = Upload::Update("shop", row(7, "east", "new"), row(7, "east", "changed"));
            upload(&mut center, &mut site, download_follows, &[changed]);
            site.claim("rep", "3");
            site.claim("regions", "north, south");
            // What is held then must be exactly what is covered.
            let download = site.synchronize(&mut center, &[]);
            let of_one = !download.modes.contains(&DownloadedTable::None);
            assert!(of_one, "{:?}", download.modes);
            site.synchronize(&mut center, &[]);
            let owed =
                format!("SELECT count(*) FROM {}syncline_owed", backend.pick("", "syncline."));
            assert_eq!(center.value(&owed), int(0), "it is settled");
        }
    });
}

/// Uploads what nothing is heard of afterwards.
fn upload(center: &mut Center, site: &mut Site, download_follows: bool, rows: &[Upload]) {
    site.make(rows);
    if download_follows {
        center.upload(&mut site.remote, rows).unwrap();
        return;
    }
    let session = center.session(&site.remote);
    center.writer.begin().unwrap();
    let applied = upload_only(center.writer.as_mut(), &session, &site.remote, rows);
    center.writer.commit().unwrap();
    site.remote.identity.progress = applied.unwrap().progress;
}

/// Another model may cover other rows of a table whose columns stay the same.
// Trap 4
#[test]
fn another_partition_sends_the_table_afresh() {
    Backend::each(|backend| {
        let mut center = center(backend, "");
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
    });
}

/// What two remotes share reaches both, from either.
// S6
#[test]
fn overlapping_partitions_meet() {
    Backend::each(|backend| {
        let mut center = center(backend, "");
        let (mut one, mut two) =
            (Site::new("one", 3, "north, south"), Site::new("two", 4, "south"));
        one.synchronize(&mut center, &[]);
        two.synchronize(&mut center, &[]);
        let old = one.held["task"][&1].clone();
        one.synchronize(&mut center, &[Upload::Update("task", old, row(1, "p", "by one"))]);
        let download = two.synchronize(&mut center, &[]);
        assert_eq!(listed(&download.upserts), "offer:1 task:1");
        center.foreign("DELETE FROM member WHERE person = 3");
        assert_eq!(listed(&one.synchronize(&mut center, &[]).deletes), "comment:11 task:1");
        assert_eq!(listed(&two.synchronize(&mut center, &[]).deletes), "");
    });
}
