//! Which locks on a file exclude each other, as SQLite defines them.

/// A lock on a database file; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// What a request for a lock ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    /// Not granted; the lock is at this level.
    Busy(Level),
}

/// Asks for `wanted` where one has `own`, and `others` what they have.
pub(super) fn ask(own: Level, wanted: Level, others: impl Iterator<Item = Level>) -> Answer {
    if own >= wanted {
        return Answer::Granted;
    }
    let highest = others.max().unwrap_or_default();
    match wanted {
        // Who waits for readers to leave keeps new ones out.
        Level::Shared if highest >= Level::Pending => Answer::Busy(own),
        Level::Reserved | Level::Pending | Level::Exclusive if highest >= Level::Reserved => {
            Answer::Busy(own)
        }
        Level::Exclusive if highest >= Level::Shared => Answer::Busy(Level::Pending),
        _ => Answer::Granted,
    }
}

/// Locks on the slots of the memory that connections share, one bit each.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slots {
    pub(super) shared: u32,
    pub(super) exclusive: u32,
}

impl Slots {
    /// Takes the slots of `mask` if `others` leave them.
    pub(super) fn take(
        &mut self,
        mask: u32,
        is_exclusive: bool,
        mut others: impl Iterator<Item = Slots>,
    ) -> bool {
        let forbidden =
            |it: Slots| if is_exclusive { it.shared | it.exclusive } else { it.exclusive };
        if others.any(|other| forbidden(other) & mask != 0) {
            return false;
        }
        match is_exclusive {
            true => self.exclusive |= mask,
            false => self.shared |= mask,
        }
        true
    }

    /// Gives the slots of `mask` back.
    pub(super) fn give(&mut self, mask: u32) {
        self.shared &= !mask;
        self.exclusive &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude_as_the_documentation_of_sqlite_says() {
        use Level::*;
        // What others have, what is asked for with a shared lock, and the answer.
        let cases = [
            (Shared, Reserved, Answer::Granted),
            (Reserved, Reserved, Answer::Busy(Shared)),
            (None, Exclusive, Answer::Granted),
            (Shared, Exclusive, Answer::Busy(Pending)),
            (Reserved, Exclusive, Answer::Busy(Shared)),
        ];
        for (other, wanted, answer) in cases {
            assert_eq!(ask(Shared, wanted, [other].into_iter()), answer, "{other:?} {wanted:?}");
        }
        for (other, answer) in [
            (Reserved, Answer::Granted),
            (Pending, Answer::Busy(None)),
            (Exclusive, Answer::Busy(None)),
        ] {
            assert_eq!(ask(None, Shared, [other].into_iter()), answer, "{other:?}");
        }
    }

    #[test]
    fn slots_are_shared_or_exclusive() {
        let mut one = Slots::default();
        let other = Slots { shared: 0b01, exclusive: 0b10 };
        assert!(one.take(0b01, false, [other].into_iter()));
        assert!(!one.take(0b01, true, [other].into_iter()));
        assert!(!one.take(0b10, false, [other].into_iter()));
        one.give(0b01);
        assert_eq!(one.shared, 0);
    }
}
