//! Runs histories by their seeds, and prints what does not hold.
//!
//! A history that finds something is cut down while the same check fails, and printed with the
//! command that runs it again.

#![allow(clippy::print_stdout, reason = "it is a program for a terminal")]

use clap::{Parser, ValueEnum};
use simulation::history::{History, Length, Selection, Simplification, read_steps};
use simulation::run::{Counts, Found, find};
use simulation::shrink::shrink;
use simulation::simulated::Simulated;
use simulation::world::{Loopback, World};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Many small things are allocated, most of them by SQLite.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// So many seeds, and what has happened is printed.
const SEEDS_TOLD: u64 = 500;
/// So many seeds let each kind of step happen.
const SEEDS_FOR_ALL_KINDS: u64 = 50;

/// Simulates fleets.
#[derive(Parser)]
struct Arguments {
    /// How many seeds; 0: for ever.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Begins no seed after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// This seed alone, with all that happens.
    #[arg(long)]
    seed: Option<u64>,
    /// Rounds of one history.
    #[arg(long, default_value_t = Length::USUAL.rounds)]
    rounds: usize,
    /// Only these steps of the seed, as `3-7,9`.
    #[arg(long, value_name = "STEPS")]
    steps: Option<String>,
    /// What the schema of the seed does without, as `t1,t2.rule`.
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    without: Vec<Simplification>,
    /// Does not look for a shorter history.
    #[arg(long)]
    whole: bool,
    /// Where it happens.
    #[arg(long, value_enum, default_value_t = Place::Simulated)]
    world: Place,
}

/// Where a history happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    /// One thread in virtual time: a seed takes the same course each time.
    Simulated,
    /// The machine's threads, time and network.
    Loopback,
}

impl Place {
    fn world(self, history: &History) -> Box<dyn World> {
        match self {
            Place::Simulated => Box::new(Simulated::new(history)),
            Place::Loopback => Box::new(Loopback::new(history)),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let length = Length { rounds: arguments.rounds, ..Length::USUAL };
    match arguments.seed {
        Some(seed) => replay(&arguments, &History::draw(seed, length)),
        None => look(&arguments, length),
    }
}

/// One history, with its story.
fn replay(arguments: &Arguments, history: &History) -> ExitCode {
    let kept = match arguments.steps.as_deref().map(read_steps).transpose() {
        Ok(kept) => kept,
        Err(error) => {
            println!("--steps: {error}");
            return ExitCode::FAILURE;
        }
    };
    let part = history.part(&Selection { steps: kept, without: arguments.without.clone() });
    println!("{}{}", part.schema.create(), part.model.toml(&part.schema));
    let mut tell = |words| println!("{words}");
    match find(&part, &|part| arguments.world.world(part), &mut Counts::default(), &mut tell) {
        None => {
            println!("seed {}: right", history.seed);
            ExitCode::SUCCESS
        }
        Some(found) => {
            println!("seed {}: step {}: {}", history.seed, found.step, found.violation);
            ExitCode::FAILURE
        }
    }
}

/// One seed after the other.
fn look(arguments: &Arguments, length: Length) -> ExitCode {
    let begun = Instant::now();
    let most = arguments.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let end = match arguments.seeds {
        0 => u64::MAX,
        seeds => arguments.from.saturating_add(seeds),
    };
    let (mut counts, mut failed, mut done) = (Counts::default(), 0, 0);
    for seed in arguments.from..end {
        if most.is_some_and(|most| begun.elapsed() >= most) {
            break;
        }
        done += 1;
        if done % SEEDS_TOLD == 0 {
            println!("{done} seeds, {failed} found something, so far {counts:#?}");
        }
        let history = History::draw(seed, length);
        match find(&history, &|part| arguments.world.world(part), &mut counts, &mut |_| {}) {
            None => println!("seed {seed}: right"),
            Some(found) => {
                failed += 1;
                println!("seed {seed}: step {}: {}", found.step, found.violation);
                if !arguments.whole {
                    print_short(arguments, &history, &found);
                }
            }
        }
    }
    println!("{counts:#?}");
    let never = counts.never(&*arguments.world.world(&History::draw(arguments.from, length)));
    let rate = counts.attempts as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.1} synchronizations a second");
    println!("{done} seeds, {failed} found something, never: {never:?}");
    let complete = done < SEEDS_FOR_ALL_KINDS || never.is_empty();
    if failed == 0 && complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_short(arguments: &Arguments, history: &History, found: &Found) {
    let mut run = |part: &History| {
        find(part, &|part| arguments.world.world(part), &mut Counts::default(), &mut |_| {})
    };
    let selection = shrink(history, found, &mut run);
    let (seed, rounds) = (history.seed, arguments.rounds);
    println!("{}", history.part(&selection).tell());
    let world = match arguments.world {
        Place::Simulated => "",
        Place::Loopback => " --world loopback",
    };
    let command = "cargo run -q -p simulation --";
    println!("repeat with: {command} --seed {seed} --rounds {rounds}{selection}{world}");
}
