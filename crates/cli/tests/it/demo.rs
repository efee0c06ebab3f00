//! The demo runs from nothing to the end, and proves what it promises.

use harness::{Syncline, differences, tables};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::io::{BufRead, BufReader};

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

/// It ended without a word, and its server went on where the signal was for the demo alone.
#[test]
fn an_interrupted_demo_ends_its_server_and_says_what_is_left() {
    let parent = tempfile::tempdir().unwrap();
    let syncline = Syncline::new(env!("CARGO_BIN_EXE_syncline"), parent.path());
    let mut demo = syncline.command(&["demo", "--dir", "demo"]).spawn().unwrap();
    let mut told = BufReader::new(demo.stdout.take().unwrap()).lines();
    let server = told.find_map(|line| {
        let line = line.unwrap();
        line.split_once("(process ")?.1.strip_suffix(')')?.parse().ok()
    });
    let server = Pid::from_raw(server.expect("a server was started")).unwrap();
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    // The rest is read, so that the demo does not wait for room in the pipe.
    told.for_each(drop);
    let outcome = harness::finish(demo);
    let server_runs = test_kill_process(server).is_ok();
    if server_runs {
        kill_process(server, Signal::KILL).unwrap();
    }
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    let left = "interrupted: what the demo has made so far stays in demo; ";
    assert!(outcome.stderr.contains(left), "{outcome:?}");
    assert!(!server_runs);
    assert!(parent.path().join("demo/consolidated.db").exists());
}
