//! Makes a history short that has found something, and as simple as it can be.

use crate::history::{History, Selection};
use crate::run::Found;

/// Runs of one search.
const RUNS_MAX: usize = 300;

/// Looks for a smaller part of the history in which the same check fails. `run` says what a part
/// finds.
pub fn shrink(
    history: &History,
    found: &Found,
    run: &mut dyn FnMut(&History) -> Option<Found>,
) -> Selection {
    let mut search = Search { history, check: found.violation.check, run, left: RUNS_MAX };
    let last = found.step.min(history.steps.len().saturating_sub(1));
    let mut best = Selection { steps: Some((0..=last).collect()), without: Vec::new() };
    search.drop_steps(&mut best);
    search.simplify(&mut best);
    // A simpler schema may need fewer steps.
    search.drop_steps(&mut best);
    best
}

struct Search<'a> {
    history: &'a History,
    check: &'a str,
    run: &'a mut dyn FnMut(&History) -> Option<Found>,
    left: usize,
}

impl Search<'_> {
    /// Chunks of steps, then single ones.
    fn drop_steps(&mut self, best: &mut Selection) {
        let mut chunk = best.steps.as_ref().map_or(0, Vec::len).div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while let Some(steps) = best.steps.as_ref().filter(|steps| at < steps.len()) {
                let mut shorter = steps.clone();
                shorter.drain(at..(at + chunk).min(steps.len()));
                let tried = Selection { steps: Some(shorter), without: best.without.clone() };
                if self.fails(&tried) {
                    *best = tried;
                } else {
                    at += chunk;
                }
            }
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
    }

    /// Tables, foreign keys, rules.
    fn simplify(&mut self, best: &mut Selection) {
        for what in self.history.simplifications() {
            let mut tried = best.clone();
            tried.without.push(what);
            if self.history.part(&tried) != self.history.part(best) && self.fails(&tried) {
                *best = tried;
            }
        }
    }

    /// Whether the same check fails, while there are runs left.
    fn fails(&mut self, selection: &Selection) -> bool {
        if self.left == 0 || selection.steps.as_ref().is_some_and(Vec::is_empty) {
            return false;
        }
        self.left -= 1;
        let found = (self.run)(&self.history.part(selection));
        found.is_some_and(|found| found.violation.check == self.check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Length, Simplification, Step};
    use crate::oracle::Violation;

    #[test]
    fn what_is_left_is_what_is_needed() {
        let history = History::draw(5, Length::USUAL);
        // It needs a restart behind a copy, and table 1.
        let mut run = |part: &History| {
            let copy = part.steps.iter().position(|it| matches!(it, Step::CopyRemote { .. }))?;
            let restart = part.steps.iter().rposition(|it| *it == Step::RestartServer)?;
            let needed = copy < restart && !part.schema.tables[1].is_gone();
            let violation = Violation { check: "a check", text: String::new() };
            needed.then_some(Found { step: restart, violation })
        };
        let found = run(&history).unwrap();
        let selection = shrink(&history, &found, &mut run);
        let part = history.part(&selection);
        assert_eq!(part.steps.len(), 2, "{selection}");
        assert!(selection.without.contains(&Simplification::Table(0)), "{selection}");
        assert!(!selection.without.contains(&Simplification::Table(1)), "{selection}");
        assert!(run(&part).is_some());
    }
}
