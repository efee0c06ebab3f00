//! Some histories, the same in every run.

use harness::full;
use simulation::history::{AROUND_FROM, History, Length, OWN_FROM};
use simulation::run::{Counts, find};
use simulation::simulated::Simulated;
use simulation::world::World;

/// The first seeds.
const SEEDS: u64 = 4;
const SEEDS_FULL: u64 = 60;
/// Of those with scripts of the user's own.
const OWN_SEEDS: u64 = 2;
const LENGTH: Length = Length { rounds: 2, steps: 40 };

// S1, S2, S3, S4, S5, S6, S7, S8, S11, Trap 6, Trap 13: applications write, connections end or
// stand still, remotes are killed, copied and restored, the server and the center too, models,
// scripts of the user's own and claims change. After each step the databases hold what they must.
#[test]
fn whatever_happens_in_a_history_all_databases_are_right() {
    let mut counts = Counts::default();
    let (seeds, own_seeds) = if full() { (SEEDS_FULL, SEEDS_FULL) } else { (SEEDS, OWN_SEEDS) };
    let own = [OWN_FROM, AROUND_FROM].into_iter().flat_map(|from| from + 1..=from + own_seeds);
    for seed in (1..=seeds).chain(own) {
        let history = History::draw(seed, LENGTH);
        let mut story = Vec::new();
        let mut tell = |words: String| story.push(words);
        let world = |history: &History| -> Box<dyn World> { Box::new(Simulated::new(history)) };
        let found = find(&history, &world, &mut counts, &mut tell);
        let Some(found) = found else { continue };
        println!("{}{}", history.schema.create(), history.model.toml(&history.schema));
        println!("{}", story.join("\n"));
        panic!("seed {seed}, step {}: {}", found.step, found.violation);
    }
    assert!(counts.synchronized > 50 && counts.conflicts + counts.rejected > 0, "{counts:?}");
}
