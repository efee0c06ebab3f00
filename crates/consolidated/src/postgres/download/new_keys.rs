//! Finds the rows of a download that the remote knows by other keys (`crate::download::new_keys`).
//!
//! The state of the logs, in the first flight of the download, says whether any key has changed.
//! Only then two more flights read which keys changed, and what the remote had under them.
//!
//! No log records that a row was inserted. If a row was inserted since the remote's last download
//! and then got another key in the same place, it looks like a row that was changed, and is sent
//! with its first key too. The remote has no row under that key, or one of its own that stays. So
//! the row is new to it.
//!
//! The departure log has no order within a transaction. So it gives the place of a row only if all
//! entries of its key agree. Otherwise the place is unknown.

use crate::download::new_keys::{Clues, KeyChange, NewKeys, Then, Trail};
use crate::postgres::catalog::table::Table;
use crate::postgres::download::cursor::{self, FOR_SCRIPTS, Value};
use crate::postgres::download::search::Search;
use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::download::unfetched::Unfetched;
use crate::postgres::download::{moment, owed, unreadable};
use crate::postgres::errors::{self, failed, script_failed};
use crate::postgres::link::{Call, Link, RowRef};
use crate::postgres::statement::{Slot, Statement};
use crate::postgres::tracking::key_log;
use crate::postgres::values::ColumnType;
use crate::postgres::values::row_decoder::Decoder;
use crate::script::Event;
use crate::synchronization::FetchRequest;
use crate::upload::rebase::values;
use crate::upload::uploaded_row::key_of;
use model::{Failure, skip_row};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is asked of the log in the flight that begins a download; of one table.
pub(in crate::postgres) const ANY: &str = "EXISTS (
        SELECT FROM syncline.syncline_key_change AS m
        WHERE m.table_name = log.table_name AND m.version >= pg_snapshot_xmin($2::pg_snapshot)
            AND NOT pg_visible_in_snapshot(m.version, $2::pg_snapshot)
            AND m.remote_id IS DISTINCT FROM $1)";

/// The snapshot of the remote's last download for each table; none if it is not sent changed keys.
pub(in crate::postgres) fn shown(request: &FetchRequest<'_>) -> Option<Snapshot> {
    let mut shown = request.marks.iter().filter(|_| request.key_changes).filter_map(moment::shown);
    let first = shown.next()?;
    let mut least = first.clone();
    for other in shown.filter(|other| *other != first) {
        least = if other.xmin < least.xmin { other.coarse() } else { least.coarse() };
    }
    Some(least)
}

impl<'a> Search<'a> {
    /// The rows that the remote knows by other keys, by the position of their table.
    pub(in crate::postgres) fn find(
        self,
        link: &mut Link,
    ) -> Result<BTreeMap<usize, NewKeys>, Unfetched> {
        let concerned: Vec<usize> =
            (0..self.tables.len()).filter(|at| self.concerns(*at)).collect();
        if concerned.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut found = self.follow(link, &concerned)?;
        found.retain(|_, new_keys| !new_keys.is_empty());
        if found.is_empty() {
            return Ok(found);
        }
        let evidence = self.gather(link, &found)?;
        for ((position, new_keys), evidence) in found.iter_mut().zip(&evidence) {
            let everywhere = self.tables[*position].deployed.details.selection.is_empty();
            new_keys.keep_known(&mut |old, new| Ok(evidence.clues(old, new, everywhere)))?;
        }
        Ok(found)
    }

    fn concerns(self, position: usize) -> bool {
        let log = self.moment.logs.get(&self.tables[position].deployed.published.name);
        self.request.key_changes
            && self.ranges[position].since.is_some()
            && log.is_some_and(|log| log.keys_changed)
    }

    /// Follows the key changes of tables from the remote's last download on.
    fn follow(
        self,
        link: &mut Link,
        concerned: &[usize],
    ) -> Result<BTreeMap<usize, NewKeys>, Failure> {
        let statements = concerned.iter().map(|at| key_log::unseen(&self.tables[*at]));
        let statements = statements.collect::<Result<Vec<_>, _>>()?;
        let asked = concerned.iter().zip(&statements);
        let asked = asked.map(|(at, statement)| self.call(*at, statement, &[]));
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        let parameters: Vec<_> = asked.iter().map(|values| cursor::as_parameters(values)).collect();
        let calls = statements.iter().zip(&parameters);
        let calls: Vec<_> = calls.map(|(statement, p)| Call::new(&statement.sql, p)).collect();
        let mut trails: Vec<Trail> = calls.iter().map(|_| Trail::within(self.memory)).collect();
        let mut decoder: Option<(usize, Decoder)> = None;
        let flown = link.stream(&calls, &mut |call, row| {
            let key = key_types(&self.tables[concerned[call]]);
            let mut was = Vec::new();
            write(&mut decoder, call, row, &key.repeat(2), &mut was)?;
            let is = skip_row(&was, key.len())?.to_vec();
            was.truncate(was.len() - is.len());
            let flag = |at: usize| row.try_get(2 * key.len() + at).map_err(errors::unreadable);
            trails[call].follow(KeyChange { was, is, own: flag(0)?, unlinked: flag(1)? });
            Ok(())
        });
        flown.map_err(failed("follow changed keys"))?;
        Ok(concerned.iter().copied().zip(trails.into_iter().map(Trail::end)).collect())
    }

    /// Finds out what the remote had under the keys that were given up, per table of `found`.
    fn gather(
        self,
        link: &mut Link,
        found: &BTreeMap<usize, NewKeys>,
    ) -> Result<Vec<Evidence>, Unfetched> {
        let mut evidence: Vec<Evidence> = found.iter().map(|_| Evidence::default()).collect();
        let mut questions = Vec::new();
        for (place, (position, new_keys)) in found.iter().enumerate() {
            let evidence = &mut evidence[place];
            if self.isolating {
                evidence.note_unreadable(link, self, *position, new_keys)?;
            }
            questions.extend(self.questions(place, *position, new_keys, evidence)?);
        }
        let parameters: Vec<_> =
            questions.iter().map(|question| cursor::as_parameters(&question.values)).collect();
        let mut calls: Vec<_> = FOR_SCRIPTS.iter().map(|sql| Call::new(sql, &[])).collect();
        let settings = calls.len();
        let asked = questions.iter().zip(&parameters);
        calls.extend(asked.map(|(question, p)| Call::new(&question.statement.sql, p)));
        let mut decoder: Option<(usize, Decoder)> = None;
        let flown = link.stream(&calls, &mut |call, row| {
            let Some(question) = call.checked_sub(settings).map(|at| &questions[at]) else {
                return Ok(());
            };
            let table = &self.tables[question.position];
            let published = &table.deployed.published;
            let types: Vec<&ColumnType> = match question.about {
                About::Covered => table.deployed.details.columns.iter().collect(),
                About::Named | About::Places => key_types(table),
            };
            let mut image = Vec::new();
            write(&mut decoder, call, row, &types, &mut image)?;
            let evidence = &mut evidence[question.place];
            match question.about {
                About::Named if !found[&question.position].are_given_up(&image) => {}
                About::Named => {
                    evidence.named.insert(image);
                }
                About::Covered => {
                    evidence.covered.insert(key_of(published, &values(&image)?));
                }
                About::Places => {
                    let place: String = row.try_get(types.len()).map_err(errors::unreadable)?;
                    let is_now: bool = row.try_get(types.len() + 1).map_err(errors::unreadable)?;
                    evidence.hear(image, place.into_bytes(), is_now);
                }
            }
            Ok(())
        });
        flown.map_err(|fault| match fault.call.checked_sub(settings).map(|at| &questions[at]) {
            Some(Question { position, about: About::Named, .. }) => {
                let name = &self.tables[*position].deployed.published.name;
                script_failed(name, Event::DownloadDeleteCursor.name())(fault).into()
            }
            Some(Question { position, about: About::Covered, .. }) => {
                Unfetched::reading(&self.tables[*position], fault)
            }
            _ => failed("read the places of rows with other keys")(fault).into(),
        })?;
        Ok(evidence)
    }

    /// What is asked about one table.
    fn questions(
        self,
        place: usize,
        position: usize,
        new_keys: &NewKeys,
        evidence: &Evidence,
    ) -> Result<Vec<Question<'a>>, Failure> {
        let table = &self.tables[position];
        let old = new_keys.iter().map(|(_, old)| old);
        let old: Vec<&[u8]> = old.filter(|old| !evidence.covered.contains(*old)).collect();
        let both: Vec<&[u8]> = new_keys.iter().flat_map(<[&[u8]; 2]>::from).collect();
        let since = self.ranges[position].since.as_ref();
        let mut questions = Vec::new();
        let mut ask = |about: About, statement: &'a Statement, keys: &[&[u8]]| {
            let values = self.call(position, statement, keys)?;
            questions.push(Question { place, position, about, statement, values });
            Ok::<_, Failure>(())
        };
        if !self.departures.is_about(table, since, self.own_upload) {
            ask(About::Named, table.required(Event::DownloadDeleteCursor)?, &[])?;
        }
        ask(About::Covered, table.required(Event::UploadFetch)?, &old)?;
        if let Some(statement) = &table.places {
            ask(About::Places, statement, &both)?;
        }
        Ok(questions)
    }

    /// The values of a statement over `keys`.
    fn call(
        self,
        position: usize,
        statement: &Statement,
        keys: &[&[u8]],
    ) -> Result<Vec<Value<'a>>, Failure> {
        let (table, source) = (&self.tables[position], self.source(position));
        let value = |slot: &Slot| match slot {
            Slot::NewColumn(column) | Slot::OldColumn(column) => {
                Ok(Value::Keys(owed::key_array(keys.iter().copied(), table, *column)?))
            }
            _ => Ok(source.value(slot)),
        };
        statement.slots.iter().map(value).collect()
    }
}

/// What a question is about.
#[derive(Clone, Copy)]
enum About {
    /// The keys that the delete cursor names.
    Named,
    /// The rows that the remote receives under keys that were given up.
    Covered,
    /// The places of the rows that gave them up.
    Places,
}

struct Question<'a> {
    /// Among the tables that are asked about.
    place: usize,
    /// Of the table in the schema.
    position: usize,
    about: About,
    statement: &'a Statement,
    values: Vec<Value<'a>>,
}

/// What the answers say of one table.
#[derive(Default)]
struct Evidence {
    named: HashSet<Vec<u8>>,
    covered: HashSet<Vec<u8>>,
    /// By key: the place from which all have departed who had it; none where they differ.
    then: HashMap<Vec<u8>, Option<Vec<u8>>>,
    now: HashMap<Vec<u8>, Vec<u8>>,
}

impl Evidence {
    /// A row that no script can read is there.
    fn note_unreadable(
        &mut self,
        link: &mut Link,
        search: Search<'_>,
        position: usize,
        new_keys: &NewKeys,
    ) -> Result<(), Failure> {
        let (table, source) = (&search.tables[position], search.source(position));
        let old: Vec<&[u8]> = new_keys.iter().map(|(_, old)| old).collect();
        let found = unreadable::find(link, table, source, &old)?;
        self.covered.extend(found.into_iter().map(|(key, _)| key.to_vec()));
        Ok(())
    }

    fn hear(&mut self, key: Vec<u8>, place: Vec<u8>, is_now: bool) {
        if is_now {
            self.now.insert(key, place);
            return;
        }
        match self.then.get_mut(&key) {
            None => {
                self.then.insert(key, Some(place));
            }
            Some(known) => {
                known.take_if(|known| *known != place);
            }
        }
    }

    fn clues(&self, old: &[u8], new: &[u8], everywhere: bool) -> Clues {
        let then = match self.then.get(old) {
            _ if everywhere => Then::Everywhere,
            Some(Some(place)) => Then::At { place: place.clone(), went_on: false },
            Some(None) | None => Then::Unknown,
        };
        Clues {
            is_named: self.named.contains(old),
            is_covered: self.covered.contains(old),
            then,
            now: self.now.get(new).cloned(),
        }
    }
}

/// Appends the columns of these types of a row of `call`, whose decoder is kept.
fn write(
    decoder: &mut Option<(usize, Decoder)>,
    call: usize,
    row: RowRef<'_>,
    types: &[&ColumnType],
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let ready = match decoder.take().filter(|(of, _)| *of == call) {
        Some(ready) => ready,
        None => (call, Decoder::new(row, types.iter().copied())?),
    };
    decoder.insert(ready).1.write(row, out)
}

/// The types of the key's columns.
fn key_types(table: &Table) -> Vec<&ColumnType> {
    let (published, columns) = (&table.deployed.published, &table.deployed.details.columns);
    published.key.iter().map(|at| &columns[usize::from(*at)]).collect()
}
