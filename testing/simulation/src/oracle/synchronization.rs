//! What must hold after a synchronization, whether it has succeeded or not.

use super::image::{Look, Note, RemoteImage, Row};
use super::known::{news, says};
use super::rules::Upload;
use super::share::Share;
use super::verdict::{Verdict, ensure};
use super::{HELD, Oracle};
use crate::history::{
    Cell, Cursor, Deletes, Direction, Fault, Mode, Reference, Role, Rows, Step, Token,
};
use crate::world::Outcome;
use client::Report;
use model::{Code, Failure};
use std::collections::{BTreeMap, BTreeSet};

/// A reject at a remote says that its table does not take the row.
const UNFIT: i64 = 7245;

/// One synchronization, seen from outside.
struct Scene<'a> {
    remote: usize,
    step: &'a Step,
    before: &'a Look,
    after: &'a Look,
    /// What was recorded at the center meanwhile.
    news: Vec<Note>,
}

impl Scene<'_> {
    /// It began before, and others may have written meanwhile.
    fn is_continued(&self) -> bool {
        matches!(self.step, Step::Continue { .. })
    }

    fn mode(&self) -> Mode {
        match self.step {
            Step::Synchronize { mode, .. } => *mode,
            _ => Mode::Full,
        }
    }
}

impl Oracle {
    pub(super) fn judge_synchronization(
        &mut self,
        remote: usize,
        step: &Step,
        outcome: &Outcome,
        before: &Look,
        after: &Look,
    ) -> Verdict {
        let scene = Scene { remote, step, before, after, news: news(before, after) };
        if let Outcome::Failed(failure) = outcome {
            let text = || format!("remote {remote}: {failure:?}");
            ensure(self.passes(failure, &scene), "S11, a failure has its reason", text)?;
        }
        self.nothing_vanishes(&scene)?;
        self.nothing_is_overwritten_silently(&scene)?;
        self.fences_hold(&scene)?;
        let received = self.books[remote].received.take();
        match outcome {
            Outcome::Synchronized(report) => {
                self.judge_success(&scene, report)?;
                let is_whole = !scene.is_continued() && report.waiting.is_empty();
                if is_whole && scene.mode() == Mode::Full && !report.took_new_identity {
                    self.rules_decide(&scene, received.as_deref())?;
                    self.books[remote].received = Some(after.remotes[remote].clone());
                }
                Ok(())
            }
            _ => {
                self.upload_is_whole(&scene)?;
                self.download_is_whole(&scene)
            }
        }
    }

    /// Whether a synchronization may fail so.
    fn passes(&self, failure: &Failure, scene: &Scene<'_>) -> bool {
        let was_cut = matches!(
            scene.step,
            Step::Synchronize { fault: Fault::CutUp(_) | Fault::CutDown(_), .. }
        );
        let disturbed = self.disturbed || self.books[scene.remote].has_twin;
        match failure.code() {
            code if self.has_bad_disks => code != Code::Bug,
            Code::ConnectionLost => {
                was_cut || self.troubled || (scene.is_continued() && self.disturbed)
            }
            Code::AlreadySynchronizing | Code::Superseded => disturbed || was_cut,
            Code::OutOfSequence => disturbed,
            Code::TokenRefused => self.clock_moved,
            Code::ShapeChangeBlocked | Code::DownloadBlocked => {
                scene.mode() == Mode::Down || scene.is_continued()
            }
            Code::DownloadFirst => scene.mode() == Mode::Up || scene.is_continued(),
            _ => false,
        }
    }

    fn judge_success(&mut self, scene: &Scene<'_>, report: &Report) -> Verdict {
        let is_whole = !scene.is_continued() && report.waiting.is_empty();
        // After a restore of the center only a download compares what it has lost.
        let behind = self.books[scene.remote].is_behind && scene.mode() == Mode::Up;
        if scene.mode() != Mode::Down && is_whole && !behind {
            self.nothing_is_lost(scene)?;
            self.deletes_arrive(scene)?;
        }
        if self.books[scene.remote].is_behind && scene.mode() == Mode::Full && is_whole {
            self.what_a_restore_may_have_lost_is_told(scene)?;
        }
        self.books[scene.remote].is_behind &= scene.mode() != Mode::Full;
        if scene.mode() == Mode::Full && is_whole {
            self.forget_compared(scene);
        }
        if scene.mode() == Mode::Full && is_whole {
            self.holds_exactly_its_share(scene)?;
        }
        if scene.mode() != Mode::Up && !scene.is_continued() {
            rejects_arrive(scene, report)?;
        }
        if !scene.is_continued() && !report.took_new_identity {
            let (counted, found) = (report.conflicts, conflicts(scene));
            ensure(counted == found, "S5, conflicts are counted", || {
                format!("remote {}: {counted} counted, {found} recorded", scene.remote)
            })?;
        }
        Ok(())
    }

    /// What was downloaded as a whole counts from now on, wherever it came from.
    fn forget_compared(&mut self, scene: &Scene<'_>) {
        let tokens = &scene.after.remotes[scene.remote].tokens;
        let sections = &self.model.sections;
        let is_compared = |token: &Token| {
            let section = tokens.get(token).and_then(|(table, _)| sections[*table].as_ref());
            section.is_some_and(|section| section.direction != Direction::Up)
        };
        self.books[scene.remote].loose.retain(|token| !is_compared(token));
    }

    /// The values that a remote has written and not yet uploaded, or of which it does not know.
    fn own<'a>(
        &'a self,
        scene: &'a Scene<'_>,
    ) -> impl Iterator<Item = (Token, (usize, usize))> + 'a {
        let image = &scene.before.remotes[scene.remote];
        let loose = &self.books[scene.remote].loose;
        let uploads = move |table: usize, token: Token| {
            if self.differ.contains(&table) {
                return false;
            }
            let section = self.model.sections[table].as_ref();
            section.is_some_and(|section| match section.direction {
                // After a restore only a download compares what was uploaded before, also where the
                // remote does not know yet that the table is downloaded now.
                Direction::Both => {
                    image.held.get(&table) == Some(&true)
                        && !(scene.mode() == Mode::Up && loose.contains(&token))
                }
                // Nobody compares what lay there before: only captured changes are uploaded.
                Direction::Up => image.held.contains_key(&table) && !loose.contains(&token),
                Direction::Down => false,
            })
        };
        let tokens = image.tokens.iter().map(|(token, place)| (*token, *place));
        tokens.filter(move |(token, (table, _))| {
            self.is_own(scene.remote, *token) && uploads(*table, *token)
        })
    }

    /// Those of them that are to arrive: what lies in a column that is not published stays here.
    fn own_published<'a>(
        &'a self,
        scene: &'a Scene<'_>,
    ) -> impl Iterator<Item = (Token, (usize, usize))> + 'a {
        let is_left_out = |(table, column): (usize, usize)| {
            let section = self.model.sections[table].as_ref();
            section.is_some_and(|section| section.left_out == Some(column))
        };
        self.own(scene).filter(move |(_, place)| !is_left_out(*place))
    }

    fn has_arrived(&self, scene: &Scene<'_>, token: Token) -> bool {
        let center = &scene.after.center;
        // What stood still before a restore still brings what the center had then.
        let before_the_restore =
            || self.known.lost.contains(&token) || says(&self.known.lost_notes, token);
        (scene.is_continued() && before_the_restore())
            || self.known.seen.contains(&token)
            || says(&center.conflicts, token)
            || says(&center.rejects, token)
            || says(&scene.after.remotes[scene.remote].rejects, token)
    }

    /// S1: what was written at the remote is at the center, or there is a record of it.
    fn nothing_is_lost(&self, scene: &Scene<'_>) -> Verdict {
        for (token, place) in self.own_published(scene) {
            ensure(self.has_arrived(scene, token), "S1, nothing is lost", || {
                let name = &self.schema.tables[place.0].name;
                format!("{token} of {name} at remote {} did not arrive", scene.remote)
            })?;
        }
        Ok(())
    }

    /// S1: what was uploaded before a restore, and no download shows, is at the center, or there is
    /// a record of it at the remote.
    fn what_a_restore_may_have_lost_is_told(&self, scene: &Scene<'_>) -> Verdict {
        let (was, is) = (&scene.before.remotes[scene.remote], &scene.after.remotes[scene.remote]);
        let loose = &self.books[scene.remote].loose;
        for (token, (table, column)) in &is.tokens {
            let section = self.model.sections[*table].as_ref();
            let is_uploaded = section.is_some_and(|section| {
                section.direction == Direction::Up
                    && section.left_out != Some(*column)
                    && !self.differ.contains(table)
            });
            // What has just been published was not uploaded.
            let is_received = was.held.get(table) == Some(&true) && was.tokens.contains_key(token);
            let may_be_lost = is_uploaded && is_received && self.known.lost.contains(token);
            let own = self.is_own(scene.remote, *token) && loose.contains(token);
            // A table is recorded once: a second restore is not told apart from the first.
            let is_first = self.restores == 1;
            ensure(
                !may_be_lost || !own || !is_first || self.has_arrived(scene, *token),
                "S1, what a restore may have lost is told",
                || {
                    let name = &self.schema.tables[*table].name;
                    format!("{token} of {name} at remote {} is in no record", scene.remote)
                },
            )?;
        }
        Ok(())
    }

    /// S5, S7: a synchronization takes nothing from the remote of which there is no record.
    fn nothing_vanishes(&self, scene: &Scene<'_>) -> Verdict {
        let still = &scene.after.remotes[scene.remote].tokens;
        for (token, place) in self.own(scene).filter(|(token, _)| !still.contains_key(token)) {
            ensure(self.has_arrived(scene, token), "S5, what loses is recorded", || {
                let name = &self.schema.tables[place.0].name;
                format!("{token} of {name} has gone from remote {} silently", scene.remote)
            })?;
        }
        Ok(())
    }

    /// S5: what an upload takes from the center was known to the remote, or there is a record.
    fn nothing_is_overwritten_silently(&self, scene: &Scene<'_>) -> Verdict {
        let still = &scene.after.center.tokens;
        let book = &self.books[scene.remote];
        for (&token, &(table, column)) in &scene.before.center.tokens {
            let section = self.model.sections[table].as_ref();
            if section.is_some_and(|section| section.left_out == Some(column)) {
                // Who has the row may delete it, with what is not published of it.
                continue;
            }
            // A row may go with its parent: so does the database itself.
            let goes_with_another = self.schema.tables[table].is_acted_on();
            if self.model.own(table).delete == Deletes::ByKey {
                continue;
            }
            if still.contains_key(&token) || book.held.contains(&token) || goes_with_another {
                continue;
            }
            ensure(says(&scene.news, token), "S5, what is overwritten is recorded", || {
                let name = &self.schema.tables[table].name;
                format!("{token} of {name} was unknown to remote {} and has gone", scene.remote)
            })?;
        }
        Ok(())
    }

    /// S4: of an upload that failed all has arrived, or nothing.
    fn upload_is_whole(&self, scene: &Scene<'_>) -> Verdict {
        if self.books[scene.remote].is_behind {
            // What a restored center has lost waits for the download to be compared.
            return Ok(());
        }
        let was = &scene.before.center.tokens;
        let seen_before = |token: &Token| was.contains_key(token);
        let (mut new, mut waiting) = (Vec::new(), Vec::new());
        let is = &scene.after.center.tokens;
        for (token, _) in self.own_published(scene) {
            // What a restored center has lost waits for a download that compares it.
            let is_loose = self.books[scene.remote].loose.contains(&token);
            if is.contains_key(&token) && !seen_before(&token) {
                new.push(token);
            } else if !is_loose && !self.has_arrived(scene, token) {
                waiting.push(token);
            }
        }
        let holds = new.is_empty() || waiting.is_empty() || scene.is_continued();
        ensure(holds, "S4, an upload is one transaction", || {
            format!("remote {}: {new:?} have arrived, {waiting:?} have not", scene.remote)
        })
    }

    /// S4: of a download that failed all is visible, or nothing.
    fn download_is_whole(&self, scene: &Scene<'_>) -> Verdict {
        let (was, is) = (&scene.before.remotes[scene.remote], &scene.after.remotes[scene.remote]);
        // New definitions come first, in a transaction of their own.
        let columns = |image: &RemoteImage| -> Vec<Option<Vec<usize>>> {
            image.tables.iter().map(|it| it.as_ref().map(|(columns, _)| columns.clone())).collect()
        };
        if columns(was) != columns(is) || was.held != is.held {
            return Ok(());
        }
        if was.tables == is.tables || scene.is_continued() || scene.mode() == Mode::Down {
            return Ok(());
        }
        // What earlier downloads kept back is tried again in front of every attempt.
        let is_kept_back = |at: usize| {
            let name = &self.schema.tables[at].name;
            let mut rejects = was.rejects.iter();
            rejects.any(|it| it.table == *name && [UNFIT, HELD].contains(&it.code))
        };
        let may_differ = |at: usize| is_kept_back(at) || self.differ.contains(&at);
        if (0..was.tables.len()).all(|at| was.tables[at] == is.tables[at] || may_differ(at)) {
            return Ok(());
        }
        self.holds_exactly_its_share(scene).map_err(|mut violation| {
            violation.check = "S4, a download is one transaction";
            violation
        })
    }

    /// S7: outside of the share of the remote nothing has changed, and nothing has left it.
    fn fences_hold(&self, scene: &Scene<'_>) -> Verdict {
        if scene.is_continued() {
            return Ok(());
        }
        let rep = self.claims[self.books[scene.remote].user];
        let (schema, model) = (&self.schema, &self.model);
        let was = Share { schema, model, center: &scene.before.center, rep };
        let is = Share { schema, model, center: &scene.after.center, rep };
        for (at, table) in schema.tables.iter().enumerate() {
            let whole = matches!(&model.sections[at], Some(it) if it.rows == Rows::Whole);
            if whole || table.is_acted_on() {
                continue;
            }
            let (old, new) = (&scene.before.center.tables[at], &scene.after.center.tables[at]);
            for row in old.difference(new) {
                ensure(was.has(at, row), "S7, a row behind the fence stays", || {
                    format!("remote {} changed {} of {}", scene.remote, shown(row), table.name)
                })?;
            }
            for row in new.difference(old).filter(|_| !is.may_leave(at)) {
                ensure(is.has(at, row), "S7, no row is put behind the fence", || {
                    format!("remote {} wrote {} of {}", scene.remote, shown(row), table.name)
                })?;
            }
        }
        Ok(())
    }

    /// S5: each row is what the rule of its table says.
    fn rules_decide(&self, scene: &Scene<'_>, received: Option<&RemoteImage>) -> Verdict {
        let Some(received) = received else { return Ok(()) };
        let rejects = scene.news.iter().filter(|note| !note.key.is_empty());
        let upload = Upload {
            schema: &self.schema,
            model: &self.model,
            rep: self.claims[self.books[scene.remote].user],
            received,
            sent: &scene.before.remotes[scene.remote],
            before: &scene.before.center,
            after: &scene.after.center,
            differ: &self.differ,
            homes: &self.known.homes,
            rejects: &rejects.map(|note| note.table.clone()).collect(),
        };
        upload.check()
    }

    /// S1: what was deleted at the remote is gone at the center, or there is a record of it.
    fn deletes_arrive(&mut self, scene: &Scene<'_>) -> Verdict {
        let deleted = std::mem::take(&mut self.books[scene.remote].deleted);
        let is = &scene.after.center.tokens;
        for (mark, (table, key_here)) in deleted {
            let published = self.model.sections[table].is_some() && !self.differ.contains(&table);
            if !is.contains_key(&mark) || !published || self.known.twins.contains(&mark) {
                continue;
            }
            let name = &self.schema.tables[table].name;
            let key = self.key_of(scene, table, mark);
            // Another remote may have moved the row. Then the change is refused under the key that
            // it has here.
            let of_key = |note: &Note| {
                note.table == *name && (says_key(note, &key) || says_key(note, &key_here))
            };
            let center = &scene.after.center;
            let told = says(&center.conflicts, mark)
                || says(&center.rejects, mark)
                // The row that it was, where another one took its key and was refused.
                || says(&scene.after.remotes[scene.remote].rejects, mark)
                || scene.after.remotes[scene.remote].rejects.iter().any(of_key)
                || center.rejects.iter().any(of_key);
            ensure(told, "S1, a delete arrives", || {
                format!("remote {} deleted {mark} of {name}, which is there", scene.remote)
            })?;
        }
        Ok(())
    }

    fn key_of(&self, scene: &Scene<'_>, table: usize, mark: Token) -> Row {
        let shape = &self.schema.tables[table];
        let at = shape.position(&Role::Mark);
        let rows = scene.after.center.tables[table].iter();
        let mut rows = rows.filter(|row| at.is_some_and(|at| row[at].token() == Some(mark)));
        rows.next().map(|row| shape.key(row).to_vec()).unwrap_or_default()
    }

    /// S2, S3, S6: the remote has the rows of its share, and no others, byte for byte.
    fn holds_exactly_its_share(&self, scene: &Scene<'_>) -> Verdict {
        let rep = self.claims[self.books[scene.remote].user];
        let (schema, model) = (&self.schema, &self.model);
        let share = Share { schema, model, center: &scene.after.center, rep };
        let image = &scene.after.remotes[scene.remote];
        let check = "S3, a remote has exactly its share";
        let held: BTreeSet<usize> = image.held.keys().copied().collect();
        let sections = model.sections.iter().enumerate();
        let wanted: BTreeSet<usize> =
            sections.clone().filter(|(_, it)| it.is_some()).map(|(at, _)| at).collect();
        ensure(held == wanted, check, || {
            format!("remote {} holds the tables {held:?} of {wanted:?}", scene.remote)
        })?;
        // Tables that are the user's own now may refer to rows, which stay then.
        let own = image.tables.iter().enumerate().any(|(at, found)| {
            let has_rows = found.as_ref().is_some_and(|(_, rows)| !rows.is_empty());
            has_rows && !held.contains(&at)
        });
        let waiting = self.children_without_parents(&share);
        for (at, section) in sections {
            let Some(section) = section.as_ref().filter(|it| it.direction != Direction::Up) else {
                continue;
            };
            if self.differ.contains(&at) {
                continue;
            }
            let published = section.published(&schema.tables[at]);
            let rows = scene.after.center.tables[at].iter().filter(|row| share.has(at, row));
            let cut = |row: &Row| published.iter().map(|at| row[*at].clone()).collect::<Row>();
            let expected: BTreeSet<Row> = rows.map(cut).collect();
            let found = image.published(at, &published);
            // What stays may also be in the way of what comes, of which there is a record.
            let kept_back = |row: &&Row| {
                let (name, key) = (&schema.tables[at].name, schema.tables[at].key(row));
                let mut rejects = image.rejects.iter();
                rejects.any(|it| it.table == *name && it.code == UNFIT && says_key(it, key))
            };
            let waits = |row: &Row| waiting.contains(&(at, schema.tables[at].key(row)));
            let missing = expected.difference(&found).filter(|row| !own || !kept_back(row));
            let missing = missing.filter(|row| !waits(row));
            let missing: Vec<String> = missing.map(shown).collect();
            let mut surplus: Vec<String> = found.difference(&expected).map(shown).collect();
            if own {
                surplus.clear();
            }
            let holds = missing.is_empty() && surplus.is_empty();
            ensure(holds, check, || {
                let name = &schema.tables[at].name;
                let (remote, missing) = (scene.remote, missing.join("\n    "));
                let surplus = surplus.join("\n    ");
                format!(
                    "remote {remote}, {name}, columns {published:?}\n  \
                     missing:\n    {missing}\n  too many:\n    {surplus}"
                )
            })?;
        }
        Ok(())
    }
}

impl Oracle {
    /// Keys of rows that may wait for a parent, with their tables: where both tables have cursors
    /// of the user's own, remotes keep the foreign key, and a share may have the child alone.
    fn children_without_parents<'a>(&self, share: &Share<'a>) -> BTreeSet<(usize, &'a [Cell])> {
        let (schema, model) = (share.schema, share.model);
        let has_own = |at: usize| model.own(at).cursor != Cursor::Generated;
        let rows = |at: usize| share.center.tables[at].iter().filter(move |row| share.has(at, row));
        let mut waiting = BTreeSet::new();
        loop {
            let mut more = Vec::new();
            for (at, table) in schema.tables.iter().enumerate().filter(|(at, _)| has_own(*at)) {
                let kept = table.references.iter().filter(|reference| has_own(reference.parent));
                for Reference { parent, columns, .. } in kept {
                    let shape = &schema.tables[*parent];
                    let there = rows(*parent).map(|row| shape.key(row));
                    let there = there.filter(|key| !waiting.contains(&(*parent, *key)));
                    let there: BTreeSet<&[Cell]> = there.collect();
                    let lacks = |row: &&Row| {
                        let to: Row = columns.iter().map(|at| row[*at].clone()).collect();
                        let is_set = !to.is_empty() && !to.contains(&Cell::Null);
                        is_set && !there.contains(to.as_slice())
                    };
                    more.extend(rows(at).filter(lacks).map(|row| (at, table.key(row))));
                }
            }
            let before = waiting.len();
            waiting.extend(more);
            if waiting.len() == before {
                return waiting;
            }
        }
    }
}

/// S7: what the center has refused, the remote knows.
fn rejects_arrive(scene: &Scene<'_>, report: &Report) -> Verdict {
    let mut here = BTreeMap::<(&str, i64), usize>::new();
    for note in &scene.after.remotes[scene.remote].rejects {
        *here.entry((&note.table, note.code)).or_default() += 1;
    }
    let id = report.remote_id.as_str();
    for note in scene.news.iter().filter(|note| note.remote_id == id && !note.key.is_empty()) {
        let known = here.contains_key(&(note.table.as_str(), note.code));
        ensure(known, "S7, a reject reaches its remote", || {
            format!("remote {} does not know of {note:?}", scene.remote)
        })?;
    }
    Ok(())
}

/// Conflicts that the center has recorded.
fn conflicts(scene: &Scene<'_>) -> u64 {
    let center = |look: &Look| look.center.conflicts.len();
    (center(scene.after) - center(scene.before)) as u64
}

/// Whether a record is about the row with this key: all its values are there.
fn says_key(note: &Note, key: &[Cell]) -> bool {
    key.iter().all(|cell| match cell {
        Cell::Null => true,
        Cell::Integer(number) => note.key.contains(&number.to_string()),
        Cell::Real(bits) => note.key.contains(&format!("{:?}", f64::from_bits(*bits))),
        Cell::Text(bytes) => note.key.contains(&*String::from_utf8_lossy(bytes)),
        Cell::Blob(bytes) => note.key.contains(&model::hex(bytes)),
    })
}

fn shown(row: &Row) -> String {
    let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
    format!("({})", cells.join(", "))
}
