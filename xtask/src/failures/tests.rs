//! Output of cargo as it was recorded, and what is made of it.

use super::*;
use crate::workspace::sample;

/// A package whose tests fail in every way, shortened.
const RECORDED: &str = "   Compiling sample v0.1.0
     Running unittests src/lib.rs (target/debug/deps/sample-e6da)

running 4 tests
test tests::good ... ok
test tests::refuses ... FAILED
test tests::stays_calm - should panic ... FAILED
test tests::differs ... FAILED

failures:

---- tests::refuses stdout ----
Error: \"no such row\"

---- tests::stays_calm stdout ----
note: test did not panic as expected at src/lib.rs:21:8
---- tests::differs stdout ----
repeat with SYNCLINE_TEST_SEED=7

thread 'tests::differs' (20810) panicked at src/lib.rs:13:9:
assertion `left == right` failed: the numbers
  left: 1
 right: 2
stack backtrace:
   0: __rustc::rust_begin_unwind


failures:
    tests::differs
    tests::refuses
    tests::says_nothing
    tests::stays_calm

test result: FAILED. 1 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.55s

error: test failed, to rerun pass `-p sample --lib`
     Running tests/aborts.rs (target/debug/deps/aborts-e3b0)

running 2 tests
test good ... ok
error: test failed, to rerun pass `-p sample --test aborts`

Caused by:
  process didn't exit successfully: `/here/aborts-e3b0` (signal: 6, SIGABRT: process abort signal)
     Running tests/deep.rs (target/debug/deps/deep-8783)

running 1 test

thread 'deep' (21092) has overflowed its stack
fatal runtime error: stack overflow, aborting
error: test failed, to rerun pass `-p sample --test deep`

Caused by:
  process didn't exit successfully: `/here/deep-8783` (signal: 6, SIGABRT: process abort signal)
     Running tests/good.rs (target/debug/deps/good-a934)

running 1 test
test good ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/leaves.rs (target/debug/deps/leaves-0e86)

running 1 test
   Doc-tests sample

running 1 test
test src/lib.rs - (line 3) ... FAILED

failures:

---- src/lib.rs - (line 3) stdout ----
Test executable failed (exit status: 101).

stderr:

thread 'main' (22083) panicked at /here/doctest_bundle_2024.rs:6:1:
assertion `left == right` failed
  left: 1
 right: 2
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    src/lib.rs - (line 3)

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.22s

error: doctest failed, to rerun pass `-p sample --doc`
error: 4 targets failed:
    `-p sample --lib`
    `-p sample --test aborts`
";

const SHOWN: &str = "\
failed: tests::refuses
    cargo test -p sample --lib tests::refuses
    Error: \"no such row\"
failed: tests::stays_calm
    cargo test -p sample --lib tests::stays_calm
    note: test did not panic as expected at src/lib.rs:21:8
failed: tests::differs
    SYNCLINE_TEST_SEED=7 cargo test -p sample --lib tests::differs
    src/lib.rs:13:9:
    assertion `left == right` failed: the numbers
      left: 1
     right: 2
failed: tests::says_nothing
    cargo test -p sample --lib tests::says_nothing
died: tests/aborts.rs (target/debug/deps/aborts-e3b0)
    cargo test -p sample --test aborts
    signal: 6, SIGABRT: process abort signal
died: tests/deep.rs (target/debug/deps/deep-8783)
    cargo test -p sample --test deep
    signal: 6, SIGABRT: process abort signal
    thread 'deep' (21092) has overflowed its stack
    fatal runtime error: stack overflow, aborting
died: tests/leaves.rs (target/debug/deps/leaves-0e86)
    it left without a result
failed: src/lib.rs - (line 3)
    cargo test -p sample --doc 'src/lib.rs - (line 3)'
    /here/doctest_bundle_2024.rs:6:1:
    assertion `left == right` failed
      left: 1
     right: 2
";

fn all_shown(text: &str, packages: &[Package]) -> String {
    record::read(text).iter().map(|failure| shown(failure, packages)).collect()
}

#[test]
fn every_way_to_fail_is_shown() {
    assert_eq!(all_shown(RECORDED, &[sample("sample", &[])]), SHOWN);
}

#[test]
fn a_run_that_passes_shows_nothing() {
    let text =
        "     Running a.rs (a-1)\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n";
    assert_eq!(all_shown(text, &[]), "");
}

#[test]
fn the_last_words_of_cargo_are_not_those_of_the_program() {
    let text =
        "     Running a.rs (a-1)\n\nrunning 1 test\nI leave\nerror: 1 target failed:\n    `b`\n";
    let shown = "died: a.rs (a-1)\n    it left without a result\n    I leave\n";
    assert_eq!(all_shown(text, &[]), shown);
}

#[test]
fn a_run_that_was_stopped_shows_the_program_that_ran() {
    let text = "     Running a.rs (a-1)\n\nrunning 2 tests\ntest good ... ok\n";
    assert_eq!(all_shown(text, &[]), "died: a.rs (a-1)\n    it left without a result\n");
}

#[test]
fn the_command_has_the_fail_points_and_runs_what_is_ignored() {
    let test = format!("chinook{IGNORED_END}");
    let text = format!(
        "     Running tests/it/main.rs (it-1)\n\
         running 1 test\n\
         failures:\n\
         ---- {test} stdout ----\n\
         test result: FAILED.\n\
         error: test failed, to rerun pass `-p syncline --test it`\n"
    );
    let mut package = sample("syncline", &[]);
    package.has_fail_points = true;
    let expected = format!(
        "    cargo test -p syncline --features syncline/fail-points --test it {test} -- --ignored\n"
    );
    assert_eq!(all_shown(&text, &[package]), format!("failed: {test}\n{expected}"));
}
