//! How many rows there are, and a checksum over them, whatever their order.

use super::purchase::{self, Layout};
use model::{Code, Failure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;

/// Rows and the sum of their digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) checksum: u64,
}

impl Tally {
    /// One row.
    pub(super) fn of(digest: u64) -> Tally {
        Tally { rows: 1, checksum: digest }
    }

    pub(super) fn add(&mut self, digest: u64) {
        // A client that does not hold its rows yet may already have taken one out.
        self.rows = self.rows.wrapping_add(1);
        self.checksum = self.checksum.wrapping_add(digest);
    }

    /// Takes out a row that is in.
    pub(super) fn remove(&mut self, digest: u64) {
        self.rows = self.rows.wrapping_sub(1);
        self.checksum = self.checksum.wrapping_sub(digest);
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |sum, tally| Tally {
            rows: sum.rows.wrapping_add(tally.rows),
            checksum: sum.checksum.wrapping_add(tally.checksum),
        })
    }
}

/// Compares what should be there with what is, at both ends.
pub(super) fn compare(
    layout: &Layout,
    clients: &[Tally],
    centre: &BTreeMap<i64, Tally>,
) -> Result<(), Failure> {
    for (client, at_client) in (0..).zip(clients) {
        let wanted = layout.last_tally(client);
        let at_centre = centre.get(&purchase::employee(client)).copied().unwrap_or_default();
        for (tally, place) in [(at_centre, "the consolidated database"), (*at_client, "itself")] {
            if tally != wanted {
                let what = match tally.rows == wanted.rows {
                    true => format!("{} rows, but not the right ones,", tally.rows),
                    false => format!("{} rows instead of {}", tally.rows, wanted.rows),
                };
                return Err(wrong(format!("client {client} has {what} at {place}")));
            }
        }
    }
    let strangers = centre.keys().filter(|employee| {
        purchase::client_of(**employee).is_none_or(|client| client as usize >= clients.len())
    });
    match strangers.count() {
        0 => Ok(()),
        count => Err(wrong(format!("{count} employees at the centre belong to no client"))),
    }
}

fn wrong(message: String) -> Failure {
    Failure::new(Code::BenchmarkWrong, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Operation;

    const LAYOUT: Layout = Layout { operation: Operation::UploadUpdate, rows: 3, sets: 2 };

    fn check(change: impl FnOnce(&mut Vec<Tally>, &mut BTreeMap<i64, Tally>)) -> Option<String> {
        let mut clients: Vec<Tally> = (0..2).map(|client| LAYOUT.last_tally(client)).collect();
        let mut centre =
            (0..2).map(|client| (purchase::employee(client), clients[client as usize])).collect();
        change(&mut clients, &mut centre);
        compare(&LAYOUT, &clients, &centre).err().map(|failure| failure.message().to_owned())
    }

    #[test]
    fn every_difference_is_found() {
        assert_eq!(check(|_, _| {}), None);
        let told = check(|clients, _| clients[1].rows -= 1).unwrap();
        assert_eq!(told, "client 1 has 6 rows instead of 7 at itself");
        let told = check(|_, centre| centre.values_mut().next().unwrap().checksum ^= 1).unwrap();
        assert!(told.starts_with("client 0 has 7 rows, but not the right ones,"), "{told}");
        assert!(check(|_, centre| centre.extend([(5, Tally::of(1))])).is_some());
        assert!(check(|_, centre| centre.clear()).is_some());
    }
}
