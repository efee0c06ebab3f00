//! The other programs: who writes to the databases, and who looks at them.

use super::habits::Habits;
use super::site::open_database;
use crate::vfs::Disk;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The connections of other programs.
pub(super) struct Applications {
    /// By the number of the remote; none for the center.
    open: RefCell<BTreeMap<Option<usize>, Rc<Connection>>>,
    habits: Habits,
}

impl Applications {
    pub(super) fn new(habits: Habits) -> Applications {
        Applications { open: RefCell::default(), habits }
    }

    /// A connection to this file on the disk of this machine.
    pub(super) fn connection(&self, at: Option<usize>, disk: &Disk, path: &str) -> Rc<Connection> {
        if let Some(connection) = self.open.borrow().get(&at) {
            return connection.clone();
        }
        let connection = Rc::new(open_database(disk, path));
        if at.is_some() && self.habits.unchecked {
            connection.pragma_update(None, "foreign_keys", false).unwrap();
        }
        if !self.habits.hasty {
            self.open.borrow_mut().insert(at, connection.clone());
        }
        connection
    }

    /// The programs of this machine end.
    pub(super) fn end(&self, at: Option<usize>) {
        self.open.borrow_mut().remove(&at);
    }

    pub(super) fn end_all(&self) {
        self.open.borrow_mut().clear();
    }
}
