//! The demo runs from nothing to the end, and proves what it promises.

use harness::{Syncline, differences, tables};

#[test]
fn the_demo_ends_with_every_remote_equal_to_the_center() {
    let parent = tempfile::tempdir().unwrap();
    let syncline = Syncline::new(env!("CARGO_BIN_EXE_syncline"), parent.path());
    // Twice, because a former demo is created again.
    for _ in 0..2 {
        let told = syncline.ok(&["demo", "--dir", "demo"]);
        for words in ["1 conflict", "kill -9", "0 of 30000 rows arrived", "30000 of 30000 rows"] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }
    let center = parent.path().join("demo/consolidated.db");
    for name in ["ann", "ben", "cleo"] {
        let remote = parent.path().join(format!("demo/remotes/{name}.db"));
        let lines = differences(&center, &remote, &tables(&center));
        assert!(lines.is_empty(), "{lines:?}");
    }
}

#[test]
fn the_demo_leaves_the_folders_of_others_alone() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("thesis.txt"), "precious").unwrap();
    let syncline = Syncline::new(env!("CARGO_BIN_EXE_syncline"), parent.path());
    syncline.fails("E6005", &["demo", "--dir", "."]);
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
}
