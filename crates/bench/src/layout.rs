//! Which rows there are, which clients have them, and which operation each row gets.
//!
//! Everything follows from the parameters of the run. So clients, consolidated database and the
//! final comparison need not exchange what they wrote.

use crate::checksum::Checksum;
use crate::options::{Model, Notes, Operation};
use crate::purchase::{Content, Purchase};
use serde::{Deserialize, Serialize};

/// A purchase and its lines.
pub(crate) const ROWS_PER_PURCHASE: u64 = 10;

/// What a run is about. Rows belong to employees, of whom there are as many as clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) operation: Operation,
    pub(crate) model: Model,
    /// Tables that are published, with those that stay empty.
    pub(crate) tables: u32,
    pub(crate) clients: u32,
    /// Rows of each timed synchronization.
    pub(crate) rows: u32,
    pub(crate) sets: u32,
    /// The share of uploaded rows that the center has changed, or written, as well.
    pub(crate) conflicts_percent: u32,
    pub(crate) notes: Notes,
}

/// Rows that a timed synchronization must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) uploaded: u64,
    /// None if it depends on timing: a row of another client may arrive now or later.
    pub(crate) downloaded: Option<u64>,
    pub(crate) disputed: u64,
}

impl Layout {
    /// The employees whose rows a client has; the first one is the client's own, and other clients
    /// do not change its rows.
    pub(crate) fn employees_of(&self, client: u32) -> Vec<u32> {
        match self.model {
            Model::Overlapping => vec![client, (client + 1) % self.clients],
            Model::Purchase | Model::OrderLines | Model::Merge => vec![client],
        }
    }

    /// Rows of each employee in each set.
    fn rows_per_employee(&self) -> u64 {
        match (self.model, self.operation) {
            // A client receives the rows of two.
            (Model::Overlapping, Operation::Download) => u64::from(self.rows / 2),
            _ => u64::from(self.rows),
        }
    }

    /// The rows of an employee that set number `set` is about, as they are before it.
    pub(crate) fn set(&self, employee: u32, set: u32) -> impl Iterator<Item = Purchase> + use<> {
        let layout = *self;
        // Row number 0 is never changed, so that there is always a row to compare.
        let first = 1 + u64::from(set) * self.rows_per_employee();
        (first..first + self.rows_per_employee())
            .map(move |number| layout.row(employee, number, Content::First))
    }

    /// The rows of a set that the remote changes.
    pub(crate) fn changed_at_remote(
        &self,
        employee: u32,
        set: u32,
    ) -> impl Iterator<Item = Purchase> + use<> {
        self.set(employee, set).take(self.rows_at_remote() as usize)
    }

    /// How many rows at the beginning of a set the remote changes.
    pub(crate) fn rows_at_remote(&self) -> u32 {
        match self.operation {
            Operation::Download => 0,
            Operation::Exchange => self.rows.div_ceil(2),
            _ => self.rows,
        }
    }

    /// The rows of a set that the center changes meanwhile.
    pub(crate) fn changed_at_center(
        &self,
        employee: u32,
        set: u32,
    ) -> impl Iterator<Item = Purchase> + use<> {
        let layout = *self;
        self.set(employee, set)
            .enumerate()
            .filter(move |(place, _)| layout.is_changed_at_center(*place as u64))
            .map(|(_, row)| row)
    }

    /// Whether the center changes the row at this place of a set.
    fn is_changed_at_center(&self, place: u64) -> bool {
        let percent = u64::from(self.conflicts_percent);
        // Spread over the set, and exactly so many of it.
        let disputed = (place + 1) * percent / 100 > place * percent / 100;
        match (self.operation, self.model) {
            (Operation::Exchange, _) => place >= u64::from(self.rows.div_ceil(2)),
            (Operation::UploadUpdate, _) => disputed,
            // A purchase and its lines come and go together.
            (Operation::UploadInsert | Operation::UploadDelete, Model::OrderLines) => false,
            (Operation::UploadInsert | Operation::UploadDelete, _) => disputed,
            (Operation::Download, _) => false,
        }
    }

    /// The rows of an employee that are at the consolidated database before anything is timed.
    pub(crate) fn initial(&self, employee: u32) -> impl Iterator<Item = Purchase> + use<> {
        let layout = *self;
        let sets = match self.operation {
            Operation::Download | Operation::UploadInsert => 0,
            Operation::UploadUpdate | Operation::UploadDelete | Operation::Exchange => self.sets,
        };
        (0..1 + u64::from(sets) * self.rows_per_employee())
            .map(move |number| layout.row(employee, number, Content::First))
    }

    /// The rows of an employee that all must have when everything was done.
    pub(crate) fn last(&self, employee: u32) -> impl Iterator<Item = Purchase> + use<> {
        let layout = *self;
        (0..1 + u64::from(self.sets) * self.rows_per_employee())
            .filter(move |number| layout.stays(*number))
            .map(move |number| layout.row(employee, number, layout.last_content(number)))
    }

    /// Whether the row is there when everything was done.
    fn stays(&self, number: u64) -> bool {
        let kept = |place: Option<u64>| place.is_none_or(|place| self.is_changed_at_center(place));
        self.operation != Operation::UploadDelete || kept(self.place(number))
    }

    fn last_content(&self, number: u64) -> Content {
        let changes = matches!(self.operation, Operation::Exchange | Operation::UploadUpdate);
        match self.place(number) {
            // The consolidated database wins conflicts: the rule of a model without one.
            Some(place) if self.is_changed_at_center(place) => Content::ByCenter,
            Some(_) if changes => Content::ByRemote,
            _ => Content::First,
        }
    }

    /// What [`Layout::last`] comes to.
    pub(crate) fn last_checksum(&self, employee: u32) -> Checksum {
        self.last(employee).map(|purchase| Checksum::of(purchase.digest())).sum()
    }

    /// Where in its set a row is; none for the row outside all sets.
    fn place(&self, number: u64) -> Option<u64> {
        (number.checked_sub(1)?).checked_rem(self.rows_per_employee())
    }

    fn row(&self, employee: u32, number: u64, content: Content) -> Purchase {
        let parent = match (self.model, self.place(number)) {
            // A purchase and its lines are of one set, which may end with fewer of them.
            (Model::OrderLines, Some(place)) if !place.is_multiple_of(ROWS_PER_PURCHASE) => {
                Some(number - place % ROWS_PER_PURCHASE)
            }
            _ => None,
        };
        let (notes, notes_len) = (self.notes, notes_len(self.model));
        Purchase { employee, number, content, parent, notes, notes_len }
    }

    /// What every timed synchronization must carry.
    pub(crate) fn expected(&self) -> Expected {
        let rows = u64::from(self.rows);
        let at_center = (0..rows).filter(|place| self.is_changed_at_center(*place)).count() as u64;
        let (uploaded, downloaded, disputed) = match self.operation {
            Operation::Download => (0, rows, 0),
            Operation::Exchange => (rows - at_center, at_center, 0),
            _ => (rows, at_center, at_center),
        };
        let waits_for_others =
            self.model == Model::Overlapping && self.operation != Operation::Download;
        let downloaded = (!waits_for_others).then_some(downloaded);
        Expected { uploaded, downloaded, disputed }
    }
}

/// Characters of the last column.
pub(crate) fn notes_len(model: Model) -> usize {
    match model {
        Model::Merge => 88,
        Model::Purchase | Model::OrderLines | Model::Overlapping => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purchase::Table;

    fn layout(operation: Operation) -> Layout {
        Layout {
            operation,
            model: Model::Purchase,
            tables: 1,
            clients: 4,
            rows: 10,
            sets: 3,
            conflicts_percent: 0,
            notes: Notes::Random,
        }
    }

    fn ids(rows: impl Iterator<Item = Purchase>) -> Vec<i64> {
        rows.map(|row| row.id()).collect()
    }

    #[test]
    fn sets_are_disjoint_and_make_up_the_table() {
        let updates = layout(Operation::UploadUpdate);
        let mut all: Vec<i64> = (0..3).flat_map(|set| ids(updates.set(1, set))).collect();
        all.push(ids(updates.initial(1))[0]);
        all.sort_unstable();
        assert_eq!(all, ids(updates.initial(1)));
        assert_eq!(all, ids(updates.last(1)));
        let inserts = layout(Operation::UploadInsert);
        assert_eq!((inserts.initial(1).count(), inserts.last(1).count()), (1, 31));
        let deletes = layout(Operation::UploadDelete);
        assert_eq!((deletes.initial(1).count(), deletes.last(1).count()), (31, 1));
        let disputed = Layout { conflicts_percent: 30, ..deletes };
        assert_eq!((disputed.initial(1).count(), disputed.last(1).count()), (31, 10));
        let empty = Layout { rows: 0, ..updates };
        assert_eq!((empty.initial(1).count(), empty.last(1).count()), (1, 1));
    }

    #[test]
    fn conflicts_are_spread_and_exactly_so_many() {
        let uploads = [Operation::UploadUpdate, Operation::UploadInsert, Operation::UploadDelete];
        let shares = [(10, 0, 0), (10, 30, 3), (1000, 1, 10), (7, 100, 7)];
        let cases =
            uploads.into_iter().flat_map(|operation| shares.map(|share| (operation, share)));
        for (operation, (rows, percent, wanted)) in cases {
            let layout = Layout { rows, conflicts_percent: percent, ..layout(operation) };
            assert_eq!(layout.changed_at_center(1, 2).count(), wanted);
            assert_eq!(layout.changed_at_remote(1, 2).count(), rows as usize);
            let Expected { uploaded, downloaded, disputed } = layout.expected();
            let wanted = wanted as u64;
            assert_eq!((uploaded, downloaded, disputed), (rows.into(), Some(wanted), wanted));
            let at_center = layout.last(1).filter(|row| row.content == Content::ByCenter);
            assert_eq!(at_center.count() as u64, wanted * 3);
        }
    }

    #[test]
    fn an_exchange_changes_other_rows_at_each_end() {
        let layout = Layout { rows: 5, ..layout(Operation::Exchange) };
        let mut both = ids(layout.changed_at_remote(0, 1));
        assert_eq!(both.len(), 3);
        both.extend(ids(layout.changed_at_center(0, 1)));
        assert_eq!(both, ids(layout.set(0, 1)));
    }

    #[test]
    fn lines_follow_a_purchase_of_their_own_set() {
        let layout = Layout { model: Model::OrderLines, rows: 14, ..layout(Operation::Download) };
        let rows: Vec<Purchase> = layout.set(1, 2).collect();
        let purchases: Vec<i64> =
            rows.iter().filter(|row| row.table() == Table::Purchase).map(Purchase::id).collect();
        assert_eq!(purchases, [rows[0].id(), rows[10].id()]);
        assert!(rows[1..10].iter().all(|row| row.third() == rows[0].id()));
        assert!(rows[11..].iter().all(|row| row.third() == rows[10].id()));
    }

    #[test]
    fn overlapping_clients_have_each_others_rows() {
        let layout = Layout { model: Model::Overlapping, ..layout(Operation::Download) };
        assert_eq!(layout.employees_of(0), [0, 1]);
        assert_eq!(layout.employees_of(3), [3, 0]);
        assert_eq!(layout.set(0, 0).count(), 5);
        assert_eq!(layout.expected().downloaded, Some(10));
        let inserts = Layout { operation: Operation::UploadInsert, ..layout };
        assert_eq!((inserts.set(0, 0).count(), inserts.expected().downloaded), (10, None));
    }
}
