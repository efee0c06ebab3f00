//! Connections that end anywhere, and servers that refuse.

use super::{
    assert_equal, assert_nothing_doubled, center, commits, joined, noting, rows, sync, sync_as,
};
use crate::synchronize::Counts;
use harness::{Fault, Side};
use model::Code;
use protocol::{LastUpload, Mode};

const FAULTS: [Fault; 5] = [
    Fault::BeforeCommit,
    Fault::AfterCommit,
    Fault::AfterAcknowledgement,
    Fault::WithinDownload,
    Fault::Miscount,
];

/// Between two places in a connection of some thousand bytes.
const BYTES_APART: usize = 41;

// S1: the connection ends at every place, while the application goes on writing; afterwards every
// change has arrived exactly once. Trap 6: the server refuses a number that comes twice.
#[test]
fn nothing_is_lost_or_doubled_wherever_the_connection_ends() {
    for first in FAULTS {
        for second in FAULTS {
            let center = noting();
            let mut site = joined(&center);
            site.write(
                "INSERT INTO t VALUES (2, 'two'), (3, 'three');
                    UPDATE t SET v = 'ONE' WHERE id = 1",
            );
            center.proxy.strike(first);
            sync(&mut site, &center).unwrap_err();
            site.write(
                "DELETE FROM t WHERE id = 2; UPDATE t SET v = 'III' WHERE id = 3;
                    INSERT INTO t VALUES (4, 'four')",
            );
            center.write("INSERT INTO t VALUES (9, 'nine')");
            center.proxy.strike(second);
            sync(&mut site, &center).unwrap_err();
            site.write("DELETE FROM t WHERE id = 3");
            sync(&mut site, &center).unwrap();
            assert_equal(&site, &center);
            let place = format!("{first:?} {second:?}");
            assert_eq!(rows(&site), ["1, 'ONE'", "4, 'four'", "9, 'nine'"], "{place}");
            assert_nothing_doubled(&center, &place);
        }
    }
}

// S1, S11: the connection ends after every so many bytes, also within a frame.
#[test]
fn nothing_is_lost_or_doubled_after_whatever_byte_the_connection_ends() {
    for from in [Side::Client, Side::Server] {
        let mut ended = 0;
        for bytes in (0..).map(|n| n * BYTES_APART) {
            let center = noting();
            let mut site = joined(&center);
            site.write("INSERT INTO t VALUES (2, 'two'); UPDATE t SET v = 'ONE' WHERE id = 1");
            center.write("INSERT INTO t VALUES (9, 'nine')");
            center.proxy.cut_after(from, bytes);
            let failure = sync(&mut site, &center).err();
            center.proxy.pass_all();
            site.write("UPDATE t SET v = 'TWO' WHERE id = 2");
            let place = format!("{from:?} {bytes}");
            sync(&mut site, &center).unwrap_or_else(|failure| panic!("{place}: {failure:?}"));
            assert_equal(&site, &center);
            assert_eq!(rows(&site), ["1, 'ONE'", "2, 'TWO'", "9, 'nine'"], "{place}");
            assert_nothing_doubled(&center, &place);
            match failure {
                Some(failure) => assert_eq!(failure.code(), Code::ConnectionLost, "{place}"),
                None => break,
            }
            ended += 1;
        }
        assert!(ended > 5, "{from:?}: it ended {ended} times");
    }
}

// S1
#[test]
fn a_lost_acknowledgement_is_asked_for_and_the_upload_not_repeated() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (2, 'two')");
    center.proxy.strike(Fault::AfterCommit);
    sync(&mut site, &center).unwrap_err();
    assert!(site.remote.status().unwrap().outcome_unknown);
    assert_eq!(site.remote.pending().unwrap().len(), 1);
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts::default());
    assert_eq!(center.proxy.hellos()[2].outcome, LastUpload::Unknown);
    assert_eq!(commits(&center).len(), 1);
    assert!(!site.remote.status().unwrap().outcome_unknown);
}

#[test]
fn a_received_acknowledgement_is_remembered_though_the_download_was_lost() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (2, 'two')");
    center.proxy.strike(Fault::AfterAcknowledgement);
    assert_eq!(sync(&mut site, &center).unwrap_err().code(), Code::ConnectionLost);
    assert!(!site.remote.status().unwrap().outcome_unknown);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// Trap 6
#[test]
fn download_only_settles_an_unknown_outcome() {
    for (fault, pending) in [(Fault::BeforeCommit, 2), (Fault::AfterCommit, 1)] {
        let center = center();
        let mut site = joined(&center);
        site.write("INSERT INTO t VALUES (2, 'two')");
        center.proxy.strike(fault);
        sync(&mut site, &center).unwrap_err();
        site.write("INSERT INTO t VALUES (3, 'three')");
        sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
        assert!(!site.remote.status().unwrap().outcome_unknown);
        assert_eq!(site.remote.pending().unwrap().len(), pending);
        sync(&mut site, &center).unwrap();
        assert_equal(&site, &center);
    }
}

// Trap 13
#[test]
fn a_lost_answer_is_no_copied_file() {
    let center = center();
    let mut site = joined(&center);
    for fault in FAULTS.into_iter().chain(FAULTS) {
        center.proxy.strike(fault);
        sync(&mut site, &center).unwrap_err();
    }
    assert!(!sync(&mut site, &center).unwrap().took_new_identity);
}

// S11
#[test]
fn a_refusal_is_passed_on() {
    let center = center();
    let mut site = joined(&center);
    for code in [Code::AuthenticationFailed, Code::ServerFull, Code::WrongDatabase] {
        center.proxy.strike(Fault::Refuse(code));
        assert_eq!(sync(&mut site, &center).unwrap_err().code(), code);
    }
    sync(&mut site, &center).unwrap();
}
