//! A seed takes the same course each time, to the last byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use simulation::history::{AROUND_FROM, Fault, History, Length, Mode, Step};
use simulation::run::{Counts, Run};
use simulation::simulated::Simulated;

/// Everything that happens in the history of this seed, and what the databases are in the end.
fn course(seed: u64) -> (Vec<String>, u64) {
    let history = History::draw(seed, Length { rounds: 1, ..Length::USUAL });
    let mut world = Simulated::new(&history);
    let mut told = Vec::new();
    let mut counts = Counts::default();
    let done = Run::new(&history, &mut world, &mut counts, &mut |words| told.push(words)).go();
    told.extend(world.trace().all());
    told.push(format!("{done:?}"));
    (told, world.fingerprint())
}

#[test]
fn two_runs_of_a_seed_are_equal() {
    for seed in [1, 2, 3, AROUND_FROM + 1] {
        let (first, second) = (course(seed), course(seed));
        let pairs = first.0.iter().zip(&second.0);
        for (number, (first, second)) in pairs.enumerate() {
            assert_eq!(first, second, "event {number} of seed {seed}");
        }
        assert_eq!(first.0.len(), second.0.len(), "seed {seed}");
        assert_eq!(first.1, second.1, "the databases of seed {seed}");
    }
}

/// All remotes synchronize at once, and the server ends meanwhile.
fn rush(seed: u64) -> (Vec<String>, u64) {
    let history = History::draw(seed, Length { rounds: 1, steps: 1 });
    let mut world = Simulated::new(&history);
    for pause_ms in 1..=20 {
        let all = [0, 1, 2].map(|remote| (remote, Mode::Full, Fault::None));
        let outcomes = world.together(&all, &[(pause_ms, Step::RestartServer)]);
        assert_eq!(outcomes.len(), all.len());
    }
    (world.trace().all(), world.fingerprint())
}

#[test]
fn remotes_that_synchronize_at_once_take_one_course() {
    let (first, second) = (rush(1), rush(1));
    assert_eq!(first, second);
    let lost = first.0.iter().any(|line| line.contains("ConnectionLost"));
    assert!(lost, "the server ends in the midst of it");
}

#[test]
fn two_seeds_take_different_courses() {
    assert_ne!(course(1), course(2));
}
