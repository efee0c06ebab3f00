//! The order in which passwords are verified, remotes admitted, and requests sent to the database.
//!
//! Houses take turns, and the rooms of one house take turns among themselves. So no remote waits
//! longer because another sends more. Before a password is verified, only the address is certain:
//! houses are addresses, and rooms are their users. Later houses are users, and rooms are their
//! addresses. If too many wait, one is refused: of the house with most waiting, of its room with
//! most, the latest. One house alone may have all places, because a fleet may share an address or a
//! user.

use crate::pace::Pace;
use model::{Code, Failure, UserName};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a remote that hears nothing may wait for a turn. After a minute of silence it gives up,
/// and it may have to wait for two turns: it would learn neither why nor when to return.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Bits of an IPv6 address that tell its owner; the rest the owner draws at will.
const NETWORK_BITS: u32 = 64;

/// The address and the claimed user.
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
pub(crate) struct Turns<H: Eq, R: Eq> {
    /// What it is that waits, for the message to those who are refused.
    what: &'static str,
    pace: Pace,
    line: Mutex<Line<H, R>>,
}

/// The right to go on; given back when dropped.
pub(crate) struct Turn<H: Eq, R: Eq>(Option<Arc<Turns<H, R>>>);

type Waiter<H, R> = oneshot::Sender<Turn<H, R>>;

struct Line<H: Eq, R: Eq> {
    free: usize,
    len: usize,
    len_max: usize,
    /// Those with a waiting request. The first is next.
    houses: VecDeque<House<H, R>>,
}

struct House<H: Eq, R: Eq> {
    name: H,
    len: usize,
    /// Those with a waiting request. The first is next.
    rooms: VecDeque<(R, VecDeque<Waiter<H, R>>)>,
}

impl<H: Clone + Eq, R: Clone + Eq> Turns<H, R> {
    pub(crate) fn new(
        what: &'static str,
        free: usize,
        len_max: usize,
        pace: Pace,
    ) -> Arc<Turns<H, R>> {
        let line = Line { free, len: 0, len_max, houses: VecDeque::new() };
        Arc::new(Turns { what, pace, line: Mutex::new(line) })
    }

    /// The same for a remote that is sent no sign of life meanwhile: fails also where it takes too
    /// long.
    pub(crate) async fn take_in_time(
        self: &Arc<Turns<H, R>>,
        house: &H,
        room: &R,
    ) -> Result<Turn<H, R>, Failure> {
        let taken = tokio::time::timeout(WAIT_MAX, self.take(house, room)).await;
        taken.unwrap_or_else(|_| Err(self.refusal()))
    }

    /// Waits for a turn; fails where too many wait.
    pub(crate) async fn take(
        self: &Arc<Turns<H, R>>,
        house: &H,
        room: &R,
    ) -> Result<Turn<H, R>, Failure> {
        let waits = {
            let mut line = self.line();
            if line.free > 0 {
                line.free -= 1;
                if line.free == 0 {
                    self.pace.filled();
                }
                return Ok(Turn(Some(self.clone())));
            }
            let (waiter, waits) = oneshot::channel();
            line.push(house, room, waiter);
            if line.len > line.len_max {
                // A request whose channel closes is refused.
                drop(line.remove_last_of_most());
            }
            waits
        };
        // Who leaves gives up the place. Dropped after what it waits for.
        let _queued = Queued { turns: self, house, room };
        waits.await.map_err(|_| self.refusal())
    }

    fn refusal(&self) -> Failure {
        let waiting = self.line().len;
        let failure = Failure::new(Code::ServerFull, format!("too many {} wait", self.what));
        failure.retry_after_s(self.pace.retry_after_s(waiting))
    }
}

/// A place in the line. When it is dropped, who waits no more has left it.
struct Queued<'a, H: Eq, R: Eq> {
    turns: &'a Turns<H, R>,
    house: &'a H,
    room: &'a R,
}

impl<H: Eq, R: Eq> Drop for Queued<'_, H, R> {
    fn drop(&mut self) {
        self.turns.line().remove_gone(self.house, self.room);
    }
}

impl<H: Eq, R: Eq> Turns<H, R> {
    fn line(&self) -> MutexGuard<'_, Line<H, R>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq, R: Eq> Drop for Turn<H, R> {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        if turns.line().free == 0 {
            turns.pace.moved();
        }
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

impl<H: Clone + Eq, R: Clone + Eq> Line<H, R> {
    fn push(&mut self, house: &H, room: &R, waiter: Waiter<H, R>) {
        self.len += 1;
        let known = self.houses.iter_mut().find(|it| it.name == *house);
        let Some(house) = known else {
            let rooms = VecDeque::from([(room.clone(), VecDeque::from([waiter]))]);
            self.houses.push_back(House { name: house.clone(), len: 1, rooms });
            return;
        };
        house.len += 1;
        match house.rooms.iter_mut().find(|(known, _)| known == room) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => house.rooms.push_back((room.clone(), VecDeque::from([waiter]))),
        }
    }
}

impl<H: Eq, R: Eq> Line<H, R> {
    fn pop(&mut self) -> Option<Waiter<H, R>> {
        let mut house = self.houses.pop_front()?;
        let next = house.pop();
        if next.is_some() {
            self.len -= 1;
        }
        if house.len > 0 {
            self.houses.push_back(house);
        }
        next
    }

    /// Removes those of a room who wait no more.
    fn remove_gone(&mut self, house: &H, room: &R) {
        let Some(at) = self.houses.iter().position(|it| it.name == *house) else { return };
        let house = &mut self.houses[at];
        let Some(room) = house.rooms.iter().position(|(name, _)| name == room) else { return };
        let waiters = &mut house.rooms[room].1;
        let before = waiters.len();
        waiters.retain(|waiter| !waiter.is_closed());
        let gone = before - waiters.len();
        if waiters.is_empty() {
            house.rooms.remove(room);
        }
        house.len -= gone;
        self.len -= gone;
        if house.len == 0 {
            self.houses.remove(at);
        }
    }

    fn remove_last_of_most(&mut self) -> Option<Waiter<H, R>> {
        // Of equals the last one found, which is the one that came or was served last.
        let most = (0..self.houses.len()).max_by_key(|at| self.houses[*at].len)?;
        let house = &mut self.houses[most];
        let removed = house.remove_last_of_most()?;
        self.len -= 1;
        if house.len == 0 {
            self.houses.remove(most);
        }
        Some(removed)
    }
}

impl<H: Eq, R: Eq> House<H, R> {
    fn pop(&mut self) -> Option<Waiter<H, R>> {
        let (room, mut waiters) = self.rooms.pop_front()?;
        let next = waiters.pop_front()?;
        self.len -= 1;
        if !waiters.is_empty() {
            self.rooms.push_back((room, waiters));
        }
        Some(next)
    }

    fn remove_last_of_most(&mut self) -> Option<Waiter<H, R>> {
        let most = (0..self.rooms.len()).max_by_key(|at| self.rooms[*at].1.len())?;
        let (_, waiters) = &mut self.rooms[most];
        let removed = waiters.pop_back()?;
        let empty = waiters.is_empty();
        self.len -= 1;
        if empty {
            self.rooms.remove(most);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::stopped;

    fn origin(address: &str, user: &str) -> Origin {
        Origin::new(address.parse().unwrap(), UserName::new(user).unwrap())
    }

    type Passwords = Turns<IpAddr, UserName>;

    fn passwords(free: usize, len_max: usize) -> Arc<Passwords> {
        Turns::new("passwords", free, len_max, Pace::new(stopped()))
    }

    /// Stands in line, and gives what it hears.
    fn wait(
        turns: &Arc<Passwords>,
        origin: &Origin,
    ) -> tokio::task::JoinHandle<Result<Turn<IpAddr, UserName>, Failure>> {
        let (turns, origin) = (turns.clone(), origin.clone());
        tokio::spawn(async move { turns.take(&origin.address, &origin.user).await })
    }

    /// Admits as many as possible.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    // S9
    #[tokio::test]
    async fn those_who_send_most_wait_longest_and_are_refused_first() {
        let turns = passwords(1, 5);
        let ann = origin("10.0.0.1", "ann");
        let first = turns.take(&ann.address, &ann.user).await.unwrap();
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
            assert_eq!(refused.await.unwrap().err().unwrap().code(), Code::ServerFull);
        }
        assert!(!also_ann.is_finished() && !ann.is_finished());
        drop(first);
        // u1 stood first; then addresses take turns, whatever the users are.
        let u1 = flood.remove(0).await.unwrap().unwrap();
        drop(u1);
        let ann = ann.await.unwrap().unwrap();
        assert!(!also_ann.is_finished());
        drop(ann);
        settle().await;
        assert!(flood[0].is_finished() && !also_ann.is_finished(), "u2's turn");
    }

    // S9, S11: who waited for a minute gave up, without a code and a time to come back.
    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_refused_with_a_time_and_keeps_no_place() {
        let turns = passwords(1, 2);
        let (ann, ben) = (origin("10.0.0.1", "ann"), origin("10.0.0.1", "ben"));
        let first = turns.take(&ann.address, &ann.user).await.unwrap();
        let refused = turns.take_in_time(&ann.address, &ann.user).await.err().unwrap();
        assert_eq!(refused.code(), Code::ServerFull);
        assert!(refused.retry_after().is_some());
        // The places are free again for two who wait.
        let waiting = [wait(&turns, &ann), wait(&turns, &ben)];
        settle().await;
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        settle().await;
        assert_eq!(turns.line().len, 0, "who left");
        let waiting = [wait(&turns, &ann), wait(&turns, &ben)];
        settle().await;
        assert!(waiting.iter().all(|it| !it.is_finished()));
        drop(first);
        for waiting in waiting {
            drop(waiting.await.unwrap().unwrap());
        }
        let line = turns.line();
        assert_eq!((line.free, line.len), (1, 0));
    }

    #[tokio::test]
    async fn a_turn_of_somebody_who_left_goes_to_the_next() {
        let turns = passwords(1, 5000);
        let ann = origin("::ffff:10.0.0.1", "ann");
        assert_eq!(ann, origin("10.0.0.1", "ann"));
        assert_eq!(origin("2001:db8::1", "ann"), origin("2001:db8::ffff:1", "ann"));
        let first = turns.take(&ann.address, &ann.user).await.unwrap();
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
