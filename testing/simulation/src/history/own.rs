//! Which scripts the owner of the center writes for a table.

use super::schema::Schema;
use consolidated::Event;
use harness::Chance;

/// Own scripts of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Own {
    /// One for inserts, in other words than the generated one.
    pub insert: bool,
    /// One for updates, in other words than the generated one.
    pub update: bool,
    /// One for deletes.
    pub delete: Deletes,
    /// One that selects rows.
    pub cursor: Cursor,
    /// One that selects keys of rows that go: the generated one with a comment.
    pub delete_cursor: bool,
    /// One that says that nothing is to be done for uploaded rows.
    pub ignored: Option<Event>,
}

/// Who says what a delete does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deletes {
    /// The model.
    #[default]
    Generated,
    /// The user, as the model does.
    Checked,
    /// The user, who deletes what is there, whatever has become of it.
    ByKey,
}

/// Who says which rows a remote receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cursor {
    /// The model.
    #[default]
    Generated,
    /// The user, in the words of the model.
    Commented,
    /// The user: all rows, each time.
    All,
}

impl Own {
    pub(super) fn draw(schema: &Schema, at: usize, chance: &mut Chance) -> Own {
        let deletes = [Deletes::Generated, Deletes::Checked, Deletes::ByKey];
        let cursors = [Cursor::Generated, Cursor::Commented, Cursor::All];
        let uploads = [Event::UploadInsert, Event::UploadUpdate, Event::UploadDelete];
        let drawn = Own {
            insert: chance.below(2) == 0,
            update: chance.below(2) == 0,
            delete: *chance.choose(&deletes),
            cursor: *chance.choose(&cursors),
            delete_cursor: chance.below(3) == 0,
            ignored: (chance.below(4) == 0).then(|| *chance.choose(&uploads)),
        };
        let is_alone = schema.tables[at].references.is_empty()
            && schema.tables.iter().flat_map(|it| &it.references).all(|it| it.parent != at);
        let ignored = drawn.ignored.filter(|_| is_alone);
        let drawn = Own { ignored, ..drawn };
        // In half of the tables rows go one way by own scripts, or none.
        match chance.below(6) {
            0 => Own { cursor: Cursor::Generated, delete_cursor: false, ..drawn },
            1 => Own { cursor: drawn.cursor, delete_cursor: drawn.delete_cursor, ..Own::default() },
            2 => Own::default(),
            _ => drawn,
        }
    }

    /// Whether the user says which rows a remote receives.
    pub(super) fn has_cursor(self) -> bool {
        self.cursor != Cursor::Generated || self.delete_cursor
    }
}
