//! Spreads the times after which refused remotes try again.
//!
//! Remotes that lost their connections together, for example by a restart, would otherwise try
//! again in the same second and be refused again.

use model::Random;
use std::sync::{Mutex, PoisonError};

/// How much later than asked for: at most one part of so many, and a second where that is less.
const LATER_SHARE: u32 = 2;

/// The random generator for refused remotes.
pub(crate) struct Jitter(Mutex<Random>);

impl Jitter {
    pub(crate) fn new(random: Random) -> Jitter {
        Jitter(Mutex::new(random))
    }

    /// So many seconds, or a little more. Never less: before that there is nothing to be had.
    pub(crate) fn spread_s(&self, seconds: u32) -> u32 {
        let more_max = (seconds / LATER_SHARE).max(1);
        let drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        let more = u32::try_from(drawn % (u64::from(more_max) + 1)).unwrap_or(more_max);
        seconds.saturating_add(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // S9
    #[test]
    fn those_who_are_refused_together_come_back_one_by_one() {
        let jitter = Jitter::new(Random::from_seed([7; 32]));
        let draw = |seconds| (0..1000).map(|_| jitter.spread_s(seconds)).collect::<BTreeSet<_>>();
        assert_eq!(draw(1), BTreeSet::from([1, 2]));
        assert_eq!(draw(20), (20..=30).collect());
        assert_eq!(draw(u32::MAX), BTreeSet::from([u32::MAX]));
    }
}
