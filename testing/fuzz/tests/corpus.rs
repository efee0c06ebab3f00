//! Every target with the inputs of its corpus, and with random changes of them.
//!
//! The inputs are the same in each run. `./test --full` makes more of them.
//! One test runs all targets one after the other, because all allocations are counted.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use fuzz::{Mutator, TARGETS, Target};
use harness::full;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// So much more in a long run.
const FULL_TIMES: u32 = 10;
const SEED: u64 = 1;

/// Panics of all threads.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<(String, Vec<u8>)> = std::fs::read_dir(target.corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// Why this input is not taken as it should be; none where it is.
fn fault(target: &Target, input: &[u8]) -> Option<String> {
    let panics = PANICS.load(Ordering::Relaxed);
    let region = Region::new(ALLOCATOR);
    let done = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let allocated = region.change().bytes_allocated;
    if done.is_err() || PANICS.load(Ordering::Relaxed) > panics {
        return Some("a panic".to_owned());
    }
    let max = target.allocated_bytes_max;
    (allocated > max).then(|| format!("{allocated} bytes were allocated, {max} are allowed"))
}

fn check(target: &Target, name: &str, input: &[u8]) {
    if let Some(fault) = fault(target, input) {
        let shown: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{fault} by {name} for {}: {shown}", target.name);
    }
}

fn count_panics() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        told(panic);
    }));
}

// S9: whatever a peer or a file says, the program answers, and with a bounded amount of memory.
#[test]
fn no_bytes_of_others_cause_a_panic_or_take_much_memory() {
    count_panics();
    for target in TARGETS {
        let known = inputs(&target);
        assert!(!known.is_empty(), "{} has no inputs", target.name);
        // What a target prepares once is no matter of an input.
        (target.run)(&known[0].1);
        for (name, input) in &known {
            check(&target, name, input);
        }
        let known = known.into_iter().map(|(_, input)| input).collect();
        let mut mutator = Mutator::new(SEED, known, target.words);
        let iterations = target.iterations * if full() { FULL_TIMES } else { 1 };
        for number in 0..iterations {
            check(&target, &format!("change {number}"), &mutator.next_input());
        }
        println!("{}: {iterations} changes", target.name);
    }
    assert_that_it_can_fail();
}

/// A panic is seen, also that of another thread, and so is memory that is taken.
fn assert_that_it_can_fail() {
    let target = |run: fn(&[u8])| Target { run, allocated_bytes_max: 1 << 20, ..TARGETS[0] };
    assert!(fault(&target(|_| ()), b"").is_none());
    assert!(fault(&target(|_| panic!("on purpose")), b"").is_some());
    let elsewhere = |_: &[u8]| {
        std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
    };
    assert!(fault(&target(elsewhere), b"").is_some());
    assert!(fault(&target(|_| drop(vec![1_u8; 2 << 20])), b"").is_some());
}
