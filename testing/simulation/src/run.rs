//! Runs a history in a world, and asks after every step whether all is right.

use crate::history::{Fault, History, KINDS, Mode, Step};
use crate::oracle::{Look, Oracle, Violation};
use crate::world::{Outcome, World};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often everybody synchronizes in a pause. The second time nothing may be new.
const PASSES: usize = 2;
/// Attempts until a server has noticed that an older connection is gone.
const ATTEMPTS_MAX: usize = 20;

/// What a run has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The number of the step.
    pub step: usize,
    /// What does not hold.
    pub violation: Violation,
}

/// What has happened in runs.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Steps that did something, by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Synchronizations that began, or went on.
    pub attempts: u64,
    /// Synchronizations that succeeded.
    pub synchronized: u64,
    /// Those that failed, by code.
    pub failed: BTreeMap<String, u64>,
    /// Deployments that were refused, with the reason.
    pub refused: BTreeMap<String, u64>,
    /// Conflicts and rejects.
    pub conflicts: u64,
    /// Rejects.
    pub rejected: u64,
    /// What happened by chance.
    pub met: BTreeMap<&'static str, u64>,
}

/// A history under way.
pub struct Run<'a> {
    history: &'a History,
    world: &'a mut dyn World,
    oracle: Oracle,
    look: Look,
    counts: &'a mut Counts,
    /// Says what happens.
    tell: &'a mut dyn FnMut(String),
}

impl Counts {
    /// The kinds of steps that this world knows and that have never happened.
    pub fn never(&self, world: &dyn World) -> Vec<&'static str> {
        let known = KINDS.into_iter().filter(|kind| world.knows(kind));
        let never = known.filter(|kind| !self.kinds.contains_key(kind));
        let by_chance = self.met.iter().filter(|(_, times)| **times == 0).map(|(kind, _)| *kind);
        never.chain(by_chance).collect()
    }
}

impl<'a> Run<'a> {
    /// At the beginning.
    pub fn new(
        history: &'a History,
        world: &'a mut dyn World,
        counts: &'a mut Counts,
        tell: &'a mut dyn FnMut(String),
    ) -> Run<'a> {
        let look = Look::at(&history.schema, world);
        Run { oracle: Oracle::new(history), history, world, look, counts, tell }
    }

    /// To the end, or to what does not hold.
    pub fn go(mut self) -> Result<(), Found> {
        for (number, step) in self.history.steps.iter().enumerate() {
            let done = match step {
                Step::Quiet => self.quiet(),
                _ => self.step(step).map(|_| ()),
            };
            if let Err(violation) = done {
                (self.tell)(self.look.to_string());
                return Err(Found { step: number, violation });
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<Outcome, Violation> {
        let outcome = self.world.apply(step);
        let after = self.look.later(&self.history.schema, self.world);
        self.count(step, &outcome);
        if !matches!(outcome, Outcome::Nothing) {
            (self.tell)(format!("{}\n      {outcome:?}", self.history.say(step)));
        }
        let before = std::mem::replace(&mut self.look, after);
        self.oracle.judge(step, &outcome, &before, &self.look)?;
        Ok(outcome)
    }

    fn count(&mut self, step: &Step, outcome: &Outcome) {
        let is_attempt = step.synchronizes().is_some() && outcome.is_something();
        self.counts.attempts += u64::from(is_attempt);
        match outcome {
            Outcome::Nothing => return,
            Outcome::Refused(reason) => {
                if matches!(step, Step::Deploy { .. }) {
                    *self.counts.refused.entry(reason.clone()).or_default() += 1;
                }
                return;
            }
            Outcome::Synchronized(report) => {
                self.counts.synchronized += 1;
                self.counts.conflicts += report.conflicts;
                self.counts.rejected += report.rejected;
            }
            Outcome::Failed(failure) => {
                *self.counts.failed.entry(failure.code().to_string()).or_default() += 1;
            }
            Outcome::Done | Outcome::Died | Outcome::Stalled => {}
        }
        if let Some(kind) = step.kind() {
            *self.counts.kinds.entry(kind).or_default() += 1;
        }
    }

    /// Everybody synchronizes until nothing moves.
    fn quiet(&mut self) -> Result<(), Violation> {
        (self.tell)("quiet".to_owned());
        self.world.calm();
        for remote in 0..self.world.remotes() {
            self.step(&Step::Continue { remote })?;
        }
        for _ in 0..PASSES {
            for remote in 0..self.world.remotes() {
                self.synchronize_surely(remote)?;
            }
        }
        self.oracle.calm();
        Ok(())
    }

    fn synchronize_surely(&mut self, remote: usize) -> Result<(), Violation> {
        let step = Step::Synchronize { remote, mode: Mode::Full, fault: Fault::None };
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.step(&step)? {
                Outcome::Synchronized(_) => return Ok(()),
                outcome => last = format!("{outcome:?}"),
            }
        }
        Err(Violation {
            check: "S8, a remote is not locked out",
            text: format!("remote {remote} cannot synchronize: {last}"),
        })
    }
}

/// Runs a history in a new world. A panic is found like everything else.
pub fn find(
    history: &History,
    new_world: &dyn Fn(&History) -> Box<dyn World>,
    counts: &mut Counts,
    tell: &mut dyn FnMut(String),
) -> Option<Found> {
    let run = || {
        let mut world = new_world(history);
        let found = Run::new(history, &mut *world, counts, tell).go().err();
        for (kind, times) in world.met() {
            *counts.met.entry(kind).or_default() += times;
        }
        found
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        let text = text.unwrap_or_default();
        let violation = Violation { check: "nothing panics", text };
        Some(Found { step: history.steps.len(), violation })
    })
}
