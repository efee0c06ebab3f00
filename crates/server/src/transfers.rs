//! The places of synchronizations that are under way.
//!
//! Such a place costs memory and a file descriptor, and nothing at the database, so there are many.
//! At the limit the user with most places yields one to another user: the latest synchronization
//! that sends or receives. One user alone may have all places, because a fleet may share a user.

use crate::interruption::Interruption;
use crate::pace::Pace;
use model::{Code, Failure, UserName};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All places.
///
/// Bound: `len_max` synchronizations.
pub(crate) struct Transfers {
    len_max: usize,
    pace: Pace,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    len: usize,
    /// Numbers the places in the order in which they were taken.
    next: u64,
    /// Only users that have one.
    users: HashMap<UserName, BTreeMap<u64, Arc<Interruption>>>,
}

/// A place; given back when dropped.
pub(crate) struct Transfer {
    transfers: Arc<Transfers>,
    user: UserName,
    number: u64,
}

impl Transfers {
    pub(crate) fn new(len_max: usize, pace: Pace) -> Arc<Transfers> {
        Arc::new(Transfers { len_max, pace, held: Mutex::default() })
    }

    /// Takes a place for a synchronization of `user`, if need be one of a user that has more.
    pub(crate) fn take(
        self: &Arc<Transfers>,
        user: &UserName,
        interruption: &Arc<Interruption>,
    ) -> Result<Transfer, Failure> {
        let mut held = self.held();
        if held.len >= self.len_max && !held.yield_one_to(user, &self.pace) {
            let message = format!("{} synchronizations are running", held.len);
            let failure = Failure::new(Code::ServerFull, message);
            return Err(failure.retry_after_s(self.pace.retry_after_s(0)));
        }
        let number = held.next;
        held.next += 1;
        held.len += 1;
        held.users.entry(user.clone()).or_default().insert(number, interruption.clone());
        if held.len == self.len_max {
            self.pace.filled();
        }
        Ok(Transfer { transfers: self.clone(), user: user.clone(), number })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut held = self.transfers.held();
        let full = held.len >= self.transfers.len_max;
        // One that yielded has nothing to give back.
        if held.remove(&self.user, self.number) && full {
            self.transfers.pace.moved();
        }
    }
}

impl Held {
    /// Ends a synchronization of the user that has most, where `user` has fewer even with one more.
    fn yield_one_to(&mut self, user: &UserName, pace: &Pace) -> bool {
        let own = self.users.get(user).map_or(0, BTreeMap::len);
        // Of equals the one that came last.
        let rank = |places: &BTreeMap<u64, _>| (places.len(), places.keys().next_back().copied());
        let most = self.users.iter().max_by_key(|(_, places)| rank(places));
        let Some((most, places)) = most.filter(|(_, places)| own + 1 < places.len()) else {
            return false;
        };
        let yields = || {
            let message = "others need the place of one of this user's many synchronizations";
            Failure::new(Code::PlaceYielded, message).retry_after_s(pace.retry_after_s(0))
        };
        let yielded = places.iter().rev().find(|(_, it)| it.end(yields)).map(|(it, _)| *it);
        let (most, Some(number)) = (most.clone(), yielded) else { return false };
        self.remove(&most, number)
    }

    fn remove(&mut self, user: &UserName, number: u64) -> bool {
        let Some(places) = self.users.get_mut(user) else { return false };
        let removed = places.remove(&number).is_some();
        if places.is_empty() {
            self.users.remove(user);
        }
        if removed {
            self.len -= 1;
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::stopped;

    struct Site(Arc<Transfers>);

    impl Site {
        fn take(&self, user: &str) -> Result<(Transfer, Arc<Interruption>), Failure> {
            let interruption = Arc::new(Interruption::new());
            let place = self.0.take(&UserName::new(user).unwrap(), &interruption)?;
            Ok((place, interruption))
        }
    }

    // S9
    #[tokio::test]
    async fn one_alone_may_have_all_and_who_has_most_yields_first() {
        let site = Site(Transfers::new(4, Pace::new(stopped())));
        let mut fleet: Vec<_> = (0..4).map(|_| site.take("fleet").unwrap()).collect();
        assert_eq!(site.take("fleet").err().unwrap().code(), Code::ServerFull, "not its own");
        // The latest one is at the database, and let finish.
        assert!(fleet[3].1.begin_work());
        let ann = site.take("ann").unwrap();
        assert_eq!(fleet[2].1.ended().await.code(), Code::PlaceYielded);
        let _ben = site.take("ben").unwrap();
        assert_eq!(fleet[1].1.ended().await.code(), Code::PlaceYielded);
        let _cleo = site.take("cleo").unwrap();
        assert_eq!(fleet[0].1.ended().await.code(), Code::PlaceYielded);
        // One each: a newcomer would only swap places with another.
        let refused = site.take("dan").err().unwrap();
        assert_eq!((refused.code(), refused.retry_after()), (Code::ServerFull, Some(1)));
        assert_eq!(site.take("ann").err().unwrap().code(), Code::ServerFull);
        // What yielded has nothing to give back when it has ended.
        let last = fleet.pop().unwrap();
        drop(fleet);
        assert_eq!(site.take("dan").err().unwrap().code(), Code::ServerFull);
        drop(ann);
        let _dan = site.take("dan").unwrap();
        assert_eq!(site.take("ann").err().unwrap().code(), Code::ServerFull);
        drop(last);
        let _ann = site.take("ann").unwrap();
    }
}
