//! Rows on their way to one statement, and which rows of the upload they are.

use crate::postgres::upload::batch::Batch;
use crate::synchronization::change::Change;

/// Rows on their way to one statement.
pub(in crate::postgres) struct Parcel<'a> {
    pub(in crate::postgres) table: usize,
    pub(in crate::postgres) change: Change,
    pub(in crate::postgres) batch: Batch<'a>,
    pub(in crate::postgres) numbers: Numbers,
}

/// The numbers of rows in an upload, by their positions in a batch: mostly one after the other.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Numbers {
    /// The first position of each run of them, and its number.
    runs: Vec<(u64, u64)>,
    count: u64,
}

impl Numbers {
    pub(in crate::postgres) fn push(&mut self, number: u64) {
        let next = self.runs.last().map(|(at, first)| first + self.count - at);
        if next != Some(number) {
            self.runs.push((self.count, number));
        }
        self.count += 1;
    }

    pub(in crate::postgres) fn len(&self) -> u64 {
        self.count
    }

    /// The number of the row at a position, from 1.
    pub(in crate::postgres) fn at(&self, position: i32) -> Option<u64> {
        let position = u64::try_from(position).ok()?.checked_sub(1)?;
        let behind = self.runs.partition_point(|(at, _)| *at <= position);
        let (at, first) = self.runs.get(behind.checked_sub(1)?)?;
        (position < self.count).then_some(first + position - at)
    }

    /// The numbers of all rows but those at `positions`.
    pub(in crate::postgres) fn without(&self, positions: &[i32]) -> Vec<u64> {
        let mut changed = vec![false; self.count as usize + 1];
        for position in positions {
            let place = usize::try_from(*position).ok().and_then(|at| changed.get_mut(at));
            place.into_iter().for_each(|it| *it = true);
        }
        let places = changed.iter().enumerate().skip(1).filter(|(_, changed)| !**changed);
        places.filter_map(|(at, _)| self.at(at as i32)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_left_out_leave_the_numbers_of_the_others() {
        let mut numbers = Numbers::default();
        [3, 4, 5, 8, 10, 11].into_iter().for_each(|number| numbers.push(number));
        let found: Vec<_> = (0..8).map(|at| numbers.at(at)).collect();
        let some = [3, 4, 5, 8, 10, 11].map(Some);
        assert_eq!(found[1..7], some);
        assert_eq!((found[0], found[7], numbers.at(-1)), (None, None, None));
        assert_eq!(numbers.without(&[1, 5, 4]), [4, 5, 11]);
        assert_eq!(numbers.without(&[]), [3, 4, 5, 8, 10, 11]);
        assert_eq!(numbers.without(&[7, -2, 0, 2]), [3, 5, 8, 10, 11]);
    }
}
