//! Wrong passwords: how long the next one of the same user from the same address must wait.
//!
//! Only the pair is delayed. The same user from another address, and other users of the address,
//! are not. So an attacker cannot lock out another person by wrong passwords, and a fleet may share
//! an address.

use crate::turns::Origin;
use model::{Code, Failure};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures that cost no delay: people mistype.
const FREE_FAILURES: u32 = 2;

/// The first delay; each further failure doubles it.
const FIRST_DELAY_MS: u64 = 1000;

/// After this many times the longest delay without a failure, all is forgotten.
const FORGOTTEN_AFTER_DELAYS: u64 = 15;

/// The pairs that failed lately.
///
/// Bound: `len_max` pairs. Beyond it the address that has most of them loses its oldest.
pub(crate) struct WrongPasswords {
    delay_max_ms: u64,
    len_max: usize,
    pairs: Mutex<HashMap<Origin, Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last_ms: u64,
}

impl WrongPasswords {
    pub(crate) fn new(delay_max_s: u64, len_max: usize) -> WrongPasswords {
        let delay_max_ms = delay_max_s.saturating_mul(1000);
        WrongPasswords { delay_max_ms, len_max: len_max.max(1), pairs: Mutex::default() }
    }

    /// Refuses a pair whose delay is not over.
    pub(crate) fn allow(&self, origin: &Origin, now_ms: u64) -> Result<(), Failure> {
        let Some(failures) = self.pairs().get(origin).copied() else { return Ok(()) };
        let until_ms = failures.last_ms.saturating_add(self.delay_ms(failures.count));
        if now_ms >= until_ms {
            return Ok(());
        }
        let retry_after_s = (until_ms - now_ms).div_ceil(1000);
        let message = format!(
            "after {} wrong passwords from this address the next one is accepted in \
             {retry_after_s} s",
            failures.count
        );
        let retry_after_s = u32::try_from(retry_after_s).unwrap_or(u32::MAX);
        Err(Failure::new(Code::PasswordsSlowed, message).retry_after_s(retry_after_s))
    }

    /// Notes a wrong password.
    pub(crate) fn failed(&self, origin: &Origin, now_ms: u64) {
        let mut pairs = self.pairs();
        let failures = pairs.entry(origin.clone()).or_insert(Failures { count: 0, last_ms: 0 });
        if now_ms.saturating_sub(failures.last_ms) > self.kept_ms() {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last_ms = now_ms;
        if pairs.len() > self.len_max {
            let kept_ms = self.kept_ms();
            pairs.retain(|_, it| now_ms.saturating_sub(it.last_ms) <= kept_ms);
        }
        if pairs.len() > self.len_max
            && let Some(oldest) = oldest_of_most(&pairs)
        {
            pairs.remove(&oldest);
        }
    }

    /// Forgets what was wrong before a right password.
    pub(crate) fn succeeded(&self, origin: &Origin) {
        self.pairs().remove(origin);
    }

    fn delay_ms(&self, count: u32) -> u64 {
        match count.checked_sub(FREE_FAILURES + 1) {
            None => 0,
            Some(doublings) => {
                let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
                FIRST_DELAY_MS.saturating_mul(factor).min(self.delay_max_ms)
            }
        }
    }

    fn kept_ms(&self) -> u64 {
        self.delay_max_ms.saturating_mul(FORGOTTEN_AFTER_DELAYS)
    }

    fn pairs(&self) -> MutexGuard<'_, HashMap<Origin, Failures>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest pair of the address that has most of them.
fn oldest_of_most(pairs: &HashMap<Origin, Failures>) -> Option<Origin> {
    let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
    for origin in pairs.keys() {
        *of_address.entry(origin.address).or_default() += 1;
    }
    // Among equals, what the map yields first must decide nothing.
    let (most, _) = of_address.into_iter().max_by_key(|(address, len)| (*len, *address))?;
    let of_most = pairs.iter().filter(|(origin, _)| origin.address == most);
    let rank = |(origin, failures): &(&Origin, &Failures)| (failures.last_ms, origin.user.clone());
    of_most.min_by_key(rank).map(|(origin, _)| origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::UserName;

    fn origin(address: &str, user: &str) -> Origin {
        Origin::new(address.parse().unwrap(), UserName::new(user).unwrap())
    }

    /// Seconds to wait, at this time.
    fn wait_s(wrong: &WrongPasswords, origin: &Origin, now_ms: u64) -> u32 {
        match wrong.allow(origin, now_ms) {
            Ok(()) => 0,
            Err(failure) => {
                assert_eq!(failure.code(), Code::PasswordsSlowed);
                failure.retry_after().unwrap()
            }
        }
    }

    // S9
    #[test]
    fn delays_follow_the_pair_and_grow_and_end() {
        let wrong = WrongPasswords::new(60, 100);
        let mallory = origin("10.0.0.9", "ann");
        let waits: Vec<u32> = (0..10)
            .map(|_| {
                wrong.failed(&mallory, 1_000_000);
                wait_s(&wrong, &mallory, 1_000_000)
            })
            .collect();
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        for other in [origin("10.0.0.1", "ann"), origin("10.0.0.9", "ben")] {
            assert_eq!(wait_s(&wrong, &other, 1_000_000), 0);
        }
        assert_eq!(wait_s(&wrong, &mallory, 1_030_001), 30);
        assert_eq!(wait_s(&wrong, &mallory, 1_060_000), 0, "one attempt, then it grows on");
        wrong.failed(&mallory, 1_060_000);
        assert_eq!(wait_s(&wrong, &mallory, 1_060_000), 60);
        // A right password ends it, and so does time.
        wrong.succeeded(&mallory);
        wrong.failed(&mallory, 1_060_001);
        assert_eq!(wait_s(&wrong, &mallory, 1_060_001), 0);
        for _ in 0..9 {
            wrong.failed(&mallory, 1_060_001);
        }
        wrong.failed(&mallory, 1_060_002 + 15 * 60_000);
        assert_eq!(wait_s(&wrong, &mallory, 1_060_002 + 15 * 60_000), 0, "forgotten");
    }

    // S9
    #[test]
    fn the_record_is_bounded_and_an_address_pushes_out_its_own() {
        let wrong = WrongPasswords::new(60, 10);
        let guesser = origin("10.0.0.1", "ann");
        for _ in 0..4 {
            wrong.failed(&guesser, 0);
        }
        for number in 0..1000 {
            wrong.failed(&origin("10.0.0.9", &format!("user-{number}")), number);
        }
        assert_eq!(wrong.pairs().len(), 10);
        assert_eq!(wait_s(&wrong, &guesser, 1000), 1, "not pushed out by the names of another");
    }
}
