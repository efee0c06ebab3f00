//! Compares what should be there at the end with what is, at both ends.

use crate::checksum::Checksum;
use crate::layout::Layout;
use crate::purchase::employee_id;
use model::{Code, Failure};
use std::collections::BTreeMap;

/// Compares what should be there with what is, at both ends. At the center by `emp_id`.
pub(crate) fn compare(
    layout: &Layout,
    clients: &[Checksum],
    center: &BTreeMap<i64, Checksum>,
) -> Result<(), Failure> {
    let wanted: Vec<Checksum> =
        (0..layout.clients).map(|employee| layout.last_checksum(employee)).collect();
    let of = |employees: &[u32]| -> Checksum {
        employees.iter().filter_map(|employee| wanted.get(*employee as usize)).copied().sum()
    };
    for (client, at_client) in (0..).zip(clients) {
        let at_center = center.get(&employee_id(client)).copied().unwrap_or_default();
        check(client, of(&[client]), at_center, "the consolidated database")?;
        check(client, of(&layout.employees_of(client)), *at_client, "itself")?;
    }
    let ours = (0..layout.clients).filter(|client| center.contains_key(&employee_id(*client)));
    match center.len() - ours.count() {
        0 => Ok(()),
        count => Err(wrong(format!("{count} employees at the center belong to no client"))),
    }
}

fn check(client: u32, wanted: Checksum, checksum: Checksum, place: &str) -> Result<(), Failure> {
    if checksum == wanted {
        return Ok(());
    }
    let what = match checksum.rows == wanted.rows {
        true => format!("{} rows, but not the right ones,", checksum.rows),
        false => format!("{} rows instead of {}", checksum.rows, wanted.rows),
    };
    Err(wrong(format!("client {client} has {what} at {place}")))
}

fn wrong(message: String) -> Failure {
    Failure::new(Code::BenchmarkWrong, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Model, Notes, Operation};

    const LAYOUT: Layout = Layout {
        operation: Operation::UploadUpdate,
        model: Model::Purchase,
        tables: 1,
        clients: 2,
        rows: 3,
        sets: 2,
        conflicts_percent: 0,
        notes: Notes::Random,
    };

    fn check(
        change: impl FnOnce(&mut Vec<Checksum>, &mut BTreeMap<i64, Checksum>),
    ) -> Option<String> {
        let mut clients: Vec<Checksum> =
            (0..2).map(|client| LAYOUT.last_checksum(client)).collect();
        let mut center =
            (0..2).map(|client| (employee_id(client), clients[client as usize])).collect();
        change(&mut clients, &mut center);
        compare(&LAYOUT, &clients, &center).err().map(|failure| failure.message().to_owned())
    }

    #[test]
    fn every_difference_is_found() {
        assert_eq!(check(|_, _| {}), None);
        let told = check(|clients, _| clients[1].rows -= 1).unwrap();
        assert_eq!(told, "client 1 has 6 rows instead of 7 at itself");
        let told = check(|_, center| center.values_mut().next().unwrap().checksum ^= 1).unwrap();
        assert!(told.starts_with("client 0 has 7 rows, but not the right ones,"), "{told}");
        assert!(check(|_, center| center.extend([(5, Checksum::of(1))])).is_some());
        assert!(check(|_, center| center.clear()).is_some());
    }
}
