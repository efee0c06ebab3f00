//! Who is next to have a password verified.
//!
//! Addresses take turns, and the users of one address take turns among themselves, so that nobody
//! waits longer because another sends more. Where too many wait, the address that has most waiting
//! is refused first, in it the user that has most, and of these the latest. One address alone may
//! have all places: a fleet behind one address is no attack.

use model::{Code, Failure, UserName};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Bits of an IPv6 address that tell its owner; the rest the owner draws at will.
const NETWORK_BITS: u32 = 64;

/// From where somebody claims to be which user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) address: IpAddr,
    pub(crate) user: UserName,
}

impl Origin {
    pub(crate) fn new(address: IpAddr, user: UserName) -> Origin {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> NETWORK_BITS << NETWORK_BITS;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            address @ IpAddr::V4(_) => address,
        };
        Origin { address, user }
    }
}

/// Hands out turns.
///
/// Bounds: `free` turns at once, `len_max` that wait for one.
pub(crate) struct Turns {
    line: Mutex<Line>,
}

/// The right to have one password verified; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Turns>>);

type Waiter = oneshot::Sender<Turn>;

struct Line {
    free: usize,
    len: usize,
    len_max: usize,
    /// Those with somebody waiting; the first is next.
    addresses: VecDeque<OfAddress>,
}

struct OfAddress {
    address: IpAddr,
    len: usize,
    /// Those with somebody waiting; the first is next.
    users: VecDeque<(UserName, VecDeque<Waiter>)>,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

impl Turns {
    pub(crate) fn new(free: usize, len_max: usize) -> Arc<Turns> {
        let line = Line { free, len: 0, len_max, addresses: VecDeque::new() };
        Arc::new(Turns { line: Mutex::new(line) })
    }

    /// Waits for a turn; fails where too many wait.
    pub(crate) async fn take(self: &Arc<Turns>, origin: &Origin) -> Result<Turn, Failure> {
        let waits = {
            let mut line = self.line();
            if line.free > 0 {
                line.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            let (waiter, waits) = oneshot::channel();
            line.push(origin, waiter);
            if line.len > line.len_max {
                // Who hears nothing from its channel is refused.
                drop(line.remove_last_of_most());
            }
            waits
        };
        waits
            .await
            .map_err(|_| Failure::new(Code::ServerFull, "too many passwords wait").retry_after_s(5))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut line = turns.line();
                let next = line.pop();
                if next.is_none() {
                    line.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Turn(Some(turns.clone()))) {
                Ok(()) => return,
                // It has left. The turn goes on to the next one, and not by a drop within a drop.
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
    }
}

impl Line {
    fn push(&mut self, origin: &Origin, waiter: Waiter) {
        self.len += 1;
        let known = self.addresses.iter_mut().find(|it| it.address == origin.address);
        let Some(of_address) = known else {
            let users = VecDeque::from([(origin.user.clone(), VecDeque::from([waiter]))]);
            self.addresses.push_back(OfAddress { address: origin.address, len: 1, users });
            return;
        };
        of_address.len += 1;
        match of_address.users.iter_mut().find(|(user, _)| *user == origin.user) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => {
                of_address.users.push_back((origin.user.clone(), VecDeque::from([waiter])));
            }
        }
    }

    fn pop(&mut self) -> Option<Waiter> {
        let mut of_address = self.addresses.pop_front()?;
        let next = of_address.pop();
        if next.is_some() {
            self.len -= 1;
        }
        if of_address.len > 0 {
            self.addresses.push_back(of_address);
        }
        next
    }

    fn remove_last_of_most(&mut self) -> Option<Waiter> {
        // Of equals the last one found, which is the one that came or was served last.
        let most = (0..self.addresses.len()).max_by_key(|at| self.addresses[*at].len)?;
        let of_address = &mut self.addresses[most];
        let removed = of_address.remove_last_of_most()?;
        self.len -= 1;
        if of_address.len == 0 {
            self.addresses.remove(most);
        }
        Some(removed)
    }
}

impl OfAddress {
    fn pop(&mut self) -> Option<Waiter> {
        let (user, mut waiters) = self.users.pop_front()?;
        let next = waiters.pop_front()?;
        self.len -= 1;
        if !waiters.is_empty() {
            self.users.push_back((user, waiters));
        }
        Some(next)
    }

    fn remove_last_of_most(&mut self) -> Option<Waiter> {
        let most = (0..self.users.len()).max_by_key(|at| self.users[*at].1.len())?;
        let (_, waiters) = &mut self.users[most];
        let removed = waiters.pop_back()?;
        let empty = waiters.is_empty();
        self.len -= 1;
        if empty {
            self.users.remove(most);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str, user: &str) -> Origin {
        Origin::new(address.parse().unwrap(), UserName::new(user).unwrap())
    }

    /// Stands in line, and gives what it hears.
    fn wait(turns: &Arc<Turns>, origin: &Origin) -> tokio::task::JoinHandle<Result<Turn, Failure>> {
        let (turns, origin) = (turns.clone(), origin.clone());
        tokio::spawn(async move { turns.take(&origin).await })
    }

    /// Lets everybody go as far as they can.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    // S9
    #[tokio::test]
    async fn those_who_send_most_wait_longest_and_are_refused_first() {
        let turns = Turns::new(1, 5);
        let first = turns.take(&origin("10.0.0.1", "ann")).await.unwrap();
        let mut flood = Vec::new();
        for user in ["u1", "u2", "u2", "u2", "u3"] {
            flood.push(wait(&turns, &origin("10.0.0.9", user)));
            settle().await;
        }
        let ann = wait(&turns, &origin("10.0.0.1", "ann"));
        settle().await;
        let refused: Vec<bool> = flood.iter().map(|it| it.is_finished()).collect();
        assert_eq!(refused, [false, false, false, true, false], "the last of the most");
        // The flood alone may have every place, and takes none of another's.
        let more = wait(&turns, &origin("10.0.0.9", "u4"));
        let also_ann = wait(&turns, &origin("10.0.0.1", "ann"));
        settle().await;
        for refused in [flood.remove(3), more] {
            assert_eq!(refused.await.unwrap().unwrap_err().code(), Code::ServerFull);
        }
        assert!(!also_ann.is_finished() && !ann.is_finished());
        drop(first);
        // u1 stood first; then addresses take turns, whatever stands behind it.
        let u1 = flood.remove(0).await.unwrap().unwrap();
        drop(u1);
        let ann = ann.await.unwrap().unwrap();
        assert!(!also_ann.is_finished());
        drop(ann);
        settle().await;
        assert!(flood[0].is_finished() && !also_ann.is_finished(), "u2's turn");
    }

    #[tokio::test]
    async fn a_turn_of_somebody_who_left_goes_to_the_next() {
        let turns = Turns::new(1, 5000);
        let ann = origin("::ffff:10.0.0.1", "ann");
        assert_eq!(ann, origin("10.0.0.1", "ann"));
        assert_eq!(origin("2001:db8::1", "ann"), origin("2001:db8::ffff:1", "ann"));
        let first = turns.take(&ann).await.unwrap();
        let gone: Vec<_> = (0..4000).map(|_| wait(&turns, &ann)).collect();
        let last = wait(&turns, &ann);
        settle().await;
        for task in &gone {
            task.abort();
        }
        settle().await;
        drop(first);
        drop(last.await.unwrap().unwrap());
        let line = turns.line();
        assert_eq!((line.free, line.len), (1, 0));
    }
}
