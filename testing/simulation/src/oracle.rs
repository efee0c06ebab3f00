//! What must hold after every step, whatever happens. It knows nothing of the product's code.
//!
//! It reads the databases by plain SQL before and after each step, and knows by itself which rows
//! belong to whom. Every value that an application writes holds a token, a number that nobody
//! writes again. So it is known of each value who wrote it, where it belongs, and whether it has
//! arrived.

mod image;
mod known;
mod rules;
mod share;
mod synchronization;
mod verdict;

pub use image::{CenterImage, Look, Note, RemoteImage, Row};
pub use verdict::{Verdict, Violation};

use crate::history::{
    CENTER, History, Mode, Model, PAIRS, Place, REMOTES, Schema, Step, Token, USERS, is_unchecked,
};
use crate::world::Outcome;
use consolidated::Event;
use known::{Known, says};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use verdict::ensure;

/// Knows what has happened so far.
pub struct Oracle {
    schema: Schema,
    model: Model,
    /// The claim of each user.
    claims: Vec<i64>,
    books: Vec<Book>,
    known: Known,
    /// As it was when the center was kept.
    kept_center: Option<(Model, Vec<i64>, Known)>,
    /// As it was when the file of a remote was kept.
    kept_remotes: BTreeMap<usize, Book>,
    /// Synchronizations stand still, or a server waits for remotes that are dead.
    disturbed: bool,
    /// Machines may die at any moment.
    troubled: bool,
    /// Disks may be full or fail, and programs say so.
    has_bad_disks: bool,
    /// How often the center was restored.
    restores: usize,
    /// The wall clock of the server has moved, and with it the end of what is valid for a time.
    clock_moved: bool,
    /// Programs at remotes may break foreign keys.
    unchecked: bool,
    /// Tables of which uploaded rows were ignored some time: they may differ for ever.
    differ: BTreeSet<usize>,
}

/// What is known about a remote.
#[derive(Debug, Clone)]
struct Book {
    user: usize,
    /// Who has written what is in the file first.
    authors: BTreeSet<usize>,
    /// Tokens that have ever been in the file.
    held: BTreeSet<Token>,
    /// Marks of rows that were deleted there since the last upload, with their tables and the keys
    /// that they had there.
    deleted: BTreeMap<Token, (usize, Row)>,
    /// What was written to tables that were not published.
    loose: BTreeSet<Token>,
    /// The file when it had received everything, where nothing has happened to it since but writes.
    received: Option<Rc<RemoteImage>>,
    /// The center was restored since the last full synchronization.
    is_behind: bool,
    /// There is another file with this past.
    has_twin: bool,
    /// Its synchronization stands still.
    stalled: bool,
}

impl Oracle {
    /// At the beginning.
    pub fn new(history: &History) -> Oracle {
        let book = |(at, user): (usize, usize)| Book {
            user,
            authors: BTreeSet::from([at]),
            held: BTreeSet::new(),
            deleted: BTreeMap::new(),
            loose: BTreeSet::new(),
            received: None,
            is_behind: false,
            has_twin: false,
            stalled: false,
        };
        Oracle {
            schema: history.schema.clone(),
            model: history.model.clone(),
            claims: USERS.iter().map(|(_, rep)| *rep).collect(),
            books: REMOTES.into_iter().enumerate().map(book).collect(),
            known: Known::default(),
            kept_center: None,
            kept_remotes: BTreeMap::new(),
            disturbed: false,
            troubled: false,
            has_bad_disks: false,
            restores: 0,
            clock_moved: false,
            unchecked: is_unchecked(history.seed),
            differ: history.model.ignored().collect(),
        }
    }

    /// The world is calm again.
    pub fn calm(&mut self) {
        (self.disturbed, self.troubled, self.has_bad_disks) = (false, false, false);
    }

    /// Whether the databases may be `after` what they were `before` this step.
    pub fn judge(
        &mut self,
        step: &Step,
        outcome: &Outcome,
        before: &Look,
        after: &Look,
    ) -> Verdict {
        self.is_sound(step, outcome, after)?;
        if !outcome.is_something() {
            return same(before, after);
        }
        if matches!(step, Step::RestoreCenter) {
            self.restore_center(before, after);
        }
        // What is restored was there before.
        let before_it = if matches!(step, Step::RestoreCenter) { after } else { before };
        self.known.learn(before_it, after)?;
        if !Rc::ptr_eq(&before.center, &after.center) {
            self.known.learn_homes(&self.schema, &before.center);
        }
        self.note(step, outcome, before, after);
        if let Some(remote) = step.synchronizes() {
            self.judge_synchronization(remote, step, outcome, before, after)?;
        }
        for (at, (book, image)) in self.books.iter_mut().zip(&after.remotes).enumerate() {
            if !before.remotes.get(at).is_some_and(|was| Rc::ptr_eq(was, image)) {
                book.held.extend(image.tokens.keys().copied());
            }
        }
        match step {
            Step::RestoreCenter | Step::RestoreRemote { .. } => Ok(()),
            _ => only_forward(before, after),
        }
    }

    /// SQLite finds nothing wrong, and foreign keys hold: at a remote after every download. New
    /// definitions come before the rows, so an attempt that fails may leave a key without its row.
    fn is_sound(&self, step: &Step, outcome: &Outcome, look: &Look) -> Verdict {
        let has_downloaded = match step {
            Step::Synchronize { mode: Mode::Up, .. } => None,
            // What an application has broken stays until it is uploaded.
            Step::Synchronize { mode: Mode::Down, .. } | Step::Continue { .. }
                if self.unchecked =>
            {
                None
            }
            _ if matches!(outcome, Outcome::Synchronized(_)) => step.synchronizes(),
            _ => None,
        };
        whole(&look.center)?;
        sound(has_downloaded, look)
    }

    /// Takes note of what a step means for later ones.
    fn note(&mut self, step: &Step, outcome: &Outcome, before: &Look, after: &Look) {
        match step {
            Step::Deploy { model } => {
                self.model = model.clone();
                self.differ.extend(model.ignored());
                self.books.iter_mut().for_each(|book| book.received = None);
            }
            Step::SetClaims { user, rep } => self.claims[*user] = *rep,
            Step::WriteRemote { remote, .. } => self.note_writes(*remote, before, after),
            Step::CopyRemote { remote } => {
                self.twin(*remote, after);
                let mut copy = self.books[*remote].clone();
                copy.authors.insert(self.books.len());
                (copy.stalled, copy.received) = (false, None);
                self.books.push(copy);
            }
            Step::KeepRemote { remote } => {
                self.twin(*remote, after);
                self.kept_remotes.insert(*remote, self.books[*remote].clone());
            }
            Step::RestoreRemote { remote } => {
                if let Some(book) = self.kept_remotes.get(remote) {
                    let held = std::mem::take(&mut self.books[*remote].held);
                    self.books[*remote] = Book { stalled: false, received: None, ..book.clone() };
                    self.books[*remote].held.extend(held);
                }
            }
            Step::KeepCenter => {
                let kept = (self.model.clone(), self.claims.clone(), self.known.clone());
                self.kept_center = Some(kept);
            }
            Step::Synchronize { remote, .. } | Step::Continue { remote } => {
                let stands = matches!(outcome, Outcome::Stalled);
                self.books[*remote].stalled = stands;
                self.disturbed |= stands || matches!(outcome, Outcome::Died);
            }
            Step::RestartServer => self.disturbed = true,
            Step::Disk { trouble, .. } => {
                (self.disturbed, self.troubled) = (true, true);
                self.has_bad_disks |= trouble.is_survived();
            }
            Step::StepClock { place: Place::Center, .. } => self.clock_moved = true,
            _ => {}
        }
    }

    fn restore_center(&mut self, before: &Look, after: &Look) {
        self.restores += 1;
        let had_arrived = self.known.seen.clone();
        let records = [&before.center.conflicts[..], &before.center.rejects[..]].concat();
        if let Some((model, claims, known)) = self.kept_center.clone() {
            let twins = std::mem::take(&mut self.known.twins);
            let mut lost = std::mem::take(&mut self.known.lost);
            lost.extend(std::mem::take(&mut self.known.seen));
            let lost_notes = std::mem::take(&mut self.known.lost_notes);
            (self.model, self.claims, self.known) = (model, claims, known);
            (self.known.twins, self.known.lost) = (twins, lost);
            self.known.lost_notes = lost_notes;
            self.known.restored(before, after);
        }
        self.disturbed = true;
        // What a remote has deleted and uploaded since may be there again.
        for book in &mut self.books {
            (book.has_twin, book.received) = (true, None);
        }
        // What a table that is only uploaded has lost at the center nobody compares, also in a file
        // that was kept before. What waits in it is uploaded all the same.
        for book in self.books.iter_mut().chain(self.kept_remotes.values_mut()) {
            let was_uploaded = |it: &&Token| had_arrived.contains(it) || says(&records, **it);
            let uploaded: Vec<Token> = book.held.iter().filter(was_uploaded).copied().collect();
            book.loose.extend(uploaded);
            book.is_behind = true;
        }
    }

    /// What waits in this file may be uploaded by two.
    fn twin(&mut self, remote: usize, look: &Look) {
        self.books[remote].has_twin = true;
        self.known.twins.extend(look.remotes[remote].tokens.keys().copied());
        let deleted = self.books[remote].deleted.keys().copied();
        self.known.twins.extend(deleted);
    }

    fn note_writes(&mut self, remote: usize, before: &Look, after: &Look) {
        let (before, after) = (&before.remotes[remote], &after.remotes[remote]);
        let still = &after.tokens;
        let loose = still.iter().filter(|(_, (table, _))| !after.held.contains_key(table));
        self.books[remote].loose.extend(loose.map(|(token, _)| *token));
        for (table, shape) in self.schema.tables.iter().enumerate() {
            let Some(mark) = shape.position(&crate::history::Role::Mark) else { continue };
            if !before.held.contains_key(&table) {
                continue;
            }
            for (&token, &place) in &before.tokens {
                if place == (table, mark) && !still.contains_key(&token) {
                    let key = before.key_of(&self.schema, table, token);
                    self.books[remote].deleted.insert(token, (table, key));
                }
            }
        }
    }

    /// Whether a remote has written this itself.
    fn is_own(&self, remote: usize, token: Token) -> bool {
        token.author() != CENTER && self.books[remote].authors.contains(&token.author())
    }
}

/// A reject at a remote says that the row should have gone.
const HELD: i64 = 7240;

/// The files are whole, and foreign keys hold at the center and at the remote that has downloaded.
fn sound(has_downloaded: Option<usize>, look: &Look) -> Verdict {
    let center = &look.center.problems;
    ensure(center.is_empty(), "S4, the center is sound", || center.join("\n"))?;
    for (number, remote) in look.remotes.iter().enumerate() {
        let mut problems = remote.damages.clone();
        if has_downloaded == Some(number) {
            // A row that stays because a table of the user's own refers to it may have lost the
            // row that it refers to itself. There is a record of it.
            let stays = |orphan: &&String| {
                let mut held = remote.rejects.iter().filter(|it| it.code == HELD);
                held.any(|it| orphan.contains(&format!(": '{}' ", it.table)))
            };
            problems.extend(remote.orphans.iter().filter(|it| !stays(it)).cloned());
        }
        ensure(problems.is_empty(), "S4, a remote is sound", || {
            format!("remote {number}: {}", problems.join("\n"))
        })?;
    }
    Ok(())
}

/// Of the scripts of one transaction around rows all have left something, or none has.
fn whole(center: &CenterImage) -> Verdict {
    let written = |event: Event, place: &str| {
        let key = (event.name().to_owned(), place.to_owned());
        center.log.get(&key).copied().unwrap_or_default()
    };
    let places: BTreeSet<&str> = center.log.keys().map(|(_, place)| place.as_str()).collect();
    for place in places {
        for (begin, end) in PAIRS {
            let (begun, ended) = (written(begin, place), written(end, place));
            ensure(begun == ended, "scripts around rows, all or none", || {
                format!("`{place}`: {begun} times {begin}, {ended} times {end}")
            })?;
        }
    }
    Ok(())
}

/// What nobody has done has left nothing.
fn same(before: &Look, after: &Look) -> Verdict {
    let center = before.center.tables == after.center.tables;
    let remotes = before.remotes.iter().zip(&after.remotes);
    let mut remotes = remotes.map(|(before, after)| before.tables == after.tables);
    ensure(center && remotes.all(|it| it), "nothing happens by itself", || {
        "rows have changed in a step that was refused".to_owned()
    })
}

/// No number that only grows has become smaller.
fn only_forward(before: &Look, after: &Look) -> Verdict {
    for (remote, was) in &before.center.counters {
        let is = after.center.counters.get(remote);
        let holds = is.is_some_and(|is| was.iter().zip(is).all(|(was, is)| is >= was));
        ensure(holds, "S1, counters of the center only grow", || {
            format!("{remote}: {was:?}, then {is:?}")
        })?;
    }
    for (number, (was, is)) in before.remotes.iter().zip(&after.remotes).enumerate() {
        if was.remote_id != is.remote_id {
            continue;
        }
        for (name, was) in &was.counters {
            let now = is.counters.get(name);
            ensure(
                now.is_some_and(|now| now >= was),
                "S1, counters of a remote only grow",
                || format!("remote {number}, {name}: {was}, then {now:?}"),
            )?;
        }
    }
    Ok(())
}
