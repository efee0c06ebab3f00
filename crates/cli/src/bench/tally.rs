//! The number of rows, and a checksum that does not depend on their order.

use super::layout::Layout;
use super::purchase::employee_id;
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
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(digest);
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |sum, tally| Tally {
            rows: sum.rows + tally.rows,
            checksum: sum.checksum.wrapping_add(tally.checksum),
        })
    }
}

/// Compares what should be there with what is, at both ends. At the centre by `emp_id`.
pub(super) fn compare(
    layout: &Layout,
    clients: &[Tally],
    centre: &BTreeMap<i64, Tally>,
) -> Result<(), Failure> {
    let wanted: Vec<Tally> =
        (0..layout.clients).map(|employee| layout.last_tally(employee)).collect();
    let of = |employees: &[u32]| -> Tally {
        employees.iter().filter_map(|employee| wanted.get(*employee as usize)).copied().sum()
    };
    for (client, at_client) in (0..).zip(clients) {
        let at_centre = centre.get(&employee_id(client)).copied().unwrap_or_default();
        check(client, of(&[client]), at_centre, "the consolidated database")?;
        check(client, of(&layout.employees_of(client)), *at_client, "itself")?;
    }
    let ours = (0..layout.clients).filter(|client| centre.contains_key(&employee_id(*client)));
    match centre.len() - ours.count() {
        0 => Ok(()),
        count => Err(wrong(format!("{count} employees at the centre belong to no client"))),
    }
}

fn check(client: u32, wanted: Tally, tally: Tally, place: &str) -> Result<(), Failure> {
    if tally == wanted {
        return Ok(());
    }
    let what = match tally.rows == wanted.rows {
        true => format!("{} rows, but not the right ones,", tally.rows),
        false => format!("{} rows instead of {}", tally.rows, wanted.rows),
    };
    Err(wrong(format!("client {client} has {what} at {place}")))
}

fn wrong(message: String) -> Failure {
    Failure::new(Code::BenchmarkWrong, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Model, Operation};

    const LAYOUT: Layout = Layout {
        operation: Operation::UploadUpdate,
        model: Model::Purchase,
        tables: 1,
        clients: 2,
        rows: 3,
        sets: 2,
        conflicts_percent: 0,
    };

    fn check(change: impl FnOnce(&mut Vec<Tally>, &mut BTreeMap<i64, Tally>)) -> Option<String> {
        let mut clients: Vec<Tally> = (0..2).map(|client| LAYOUT.last_tally(client)).collect();
        let mut centre =
            (0..2).map(|client| (employee_id(client), clients[client as usize])).collect();
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
