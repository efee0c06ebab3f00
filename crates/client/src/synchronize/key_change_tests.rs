//! Key changes between a remote and a centre, whichever of the two knows them.

use super::tests::{centre, joined, rows, sync};
use protocol::Capabilities;

// S5, Trap 18: whether the server understands a key change is not known before its first Welcome.
#[test]
fn a_key_change_goes_with_hello_once_the_server_is_known_to_understand() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("DELETE FROM syncline_state WHERE name = 'server_capabilities'");
    for (key, with_hello) in [(7, false), (8, true)] {
        site.write(&format!("UPDATE t SET id = {key}"));
        let report = sync(&mut site, &centre).unwrap();
        assert_eq!(report.uploaded.updates, 1, "a key change is an update");
        assert_eq!(report.uploaded.deletes, 0);
        assert_eq!(centre.borrow().hellos.last().unwrap().upload_follows, with_hello);
        assert_eq!(centre.borrow().lines(0), [format!("{key}, 'one'")]);
    }
}

// Trap 18
#[test]
fn a_server_before_key_changes_gets_a_delete_and_an_insert() {
    let centre = centre();
    centre.borrow_mut().capabilities = Capabilities::NONE;
    let mut site = joined(&centre);
    site.write("UPDATE t SET id = 7");
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.deletes), (1, 1));
    assert_eq!(centre.borrow().lines(0), ["7, 'one'"]);
    // The server is replaced by one that knows more: what goes with Hello waits for its word.
    centre.borrow_mut().capabilities = Capabilities::KEY_CHANGES;
    site.write("UPDATE t SET id = 8");
    assert_eq!(sync(&mut site, &centre).unwrap().uploaded.updates, 1);
    // And back again: what was promised holds no longer.
    centre.borrow_mut().capabilities = Capabilities::NONE;
    site.write("UPDATE t SET id = 9");
    sync(&mut site, &centre).unwrap_err();
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.deletes), (1, 1));
    assert_eq!(centre.borrow().lines(0), ["9, 'one'"]);
    assert_eq!(rows(&site), ["9, 'one'"]);
}
