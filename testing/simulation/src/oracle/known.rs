//! Which values have arrived at the center, and which have gone again.

use super::image::{CenterImage, Look, Note, Row};
use super::verdict::{Verdict, ensure};
use crate::history::{Role, Schema, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What has been at the center.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// What has ever been there.
    pub(super) seen: BTreeSet<Token>,
    /// Where each value belongs: table and column.
    places: BTreeMap<Token, (usize, usize)>,
    /// What two files may upload.
    pub(super) twins: BTreeSet<Token>,
    /// What has ever been there in a past that a restore has undone.
    pub(super) lost: BTreeSet<Token>,
    /// What was recorded there then.
    pub(super) lost_notes: Vec<Note>,
    /// The key that the row with each mark had there last.
    pub(super) homes: BTreeMap<Token, Row>,
}

impl Known {
    /// Looks at the center after a step.
    pub(super) fn learn(&mut self, before: &Look, after: &Look) -> Verdict {
        let (was, is) = (&before.center.tokens, &after.center.tokens);
        let new = news(before, after);
        for (token, place) in is {
            let home = *self.places.entry(*token).or_insert(*place);
            ensure(home == *place, "a value stays in its column", || {
                format!("{token} belongs to {home:?} and is in {place:?}")
            })?;
            let comes_back = !was.contains_key(token) && self.seen.contains(token);
            let excused = self.twins.contains(token) || says(&new, *token);
            ensure(!comes_back || excused, "S1, nothing is applied twice", || {
                format!("{token} was at the center, has gone, and is there again: {place:?}")
            })?;
        }
        self.seen.extend(is.keys().copied());
        for (at, image) in after.remotes.iter().enumerate() {
            if before.remotes.get(at).is_some_and(|was| Rc::ptr_eq(was, image)) {
                continue;
            }
            for (token, place) in &image.tokens {
                let home = *self.places.entry(*token).or_insert(*place);
                ensure(home == *place, "a value stays in its column", || {
                    format!("{token} belongs to {home:?} and is in {place:?} at a remote")
                })?;
            }
        }
        Ok(())
    }

    /// Looks where the rows of the center are.
    pub(super) fn learn_homes(&mut self, schema: &Schema, center: &CenterImage) {
        for (table, rows) in schema.tables.iter().zip(&center.tables) {
            let Some(mark) = table.position(&Role::Mark) else { continue };
            for row in rows {
                if let Some(token) = row[mark].token() {
                    self.homes.insert(token, table.key(row).to_vec());
                }
            }
        }
    }

    /// The center is an older one: what had come since is there no longer.
    pub(super) fn restored(&mut self, before: &Look, after: &Look) {
        self.lost_notes.extend(before.center.conflicts.iter().cloned());
        self.lost_notes.extend(before.center.rejects.iter().cloned());
        self.seen.extend(after.center.tokens.keys().copied());
        // Where a remote has what the center has lost, both may bring it back.
        for image in &after.remotes {
            self.twins.extend(image.tokens.keys().copied());
        }
    }
}

/// What was recorded at the center in this step.
pub(super) fn news(before: &Look, after: &Look) -> Vec<Note> {
    let new = |before: &[Note], after: &[Note]| -> Vec<Note> {
        let last = before.iter().map(|note| note.id).max().unwrap_or(0);
        after.iter().filter(|note| note.id > last).cloned().collect()
    };
    let mut notes = new(&before.center.conflicts, &after.center.conflicts);
    notes.extend(new(&before.center.rejects, &after.center.rejects));
    notes
}

/// Whether one of the notes has this value.
pub(super) fn says(notes: &[Note], token: Token) -> bool {
    let spellings = token.spellings();
    notes.iter().any(|note| spellings.iter().any(|it| note.text.contains(it)))
}
