//! What happens to a fleet: tables, a model, and steps, all drawn from one seed.
//!
//! A history is plain data. It knows nothing of what comes of it, so it can be shortened: a step
//! that makes no sense where it comes is nothing.

mod around;
mod cell;
mod draw;
mod fleet;
mod model;
mod own;
mod schema;
mod scripts;
mod selection;
mod step;
mod story;
mod write;

pub use around::{Around, PAIRS};
pub use cell::{Cell, Token};
pub use fleet::{CENTER, REMOTES, REMOTES_MAX, USERS, claims, places};
pub use model::{Direction, Model, Rows, Rule, Section};
pub use own::{Cursor, Deletes, Own};
pub use schema::{Column, Kind, LOG, MEMBER, Reference, Role, Schema, Table};
pub use selection::{Selection, Simplification, read_steps};
pub use step::{Fault, KINDS, Mode, Place, Step, Trouble};
pub use write::Write;

use draw::Draw;
use harness::Chance;

/// From this seed on more is drawn. What the seeds before do stays the same.
const MORE_FROM: u64 = 400_000;

/// From this seed on most downloads are cut, and the tables are larger.
const CUTS_FROM: u64 = 600_000;

/// From this seed on two of three have scripts of the user's own.
pub const OWN_FROM: u64 = 800_000;

/// From this seed on there are scripts around rows too, which write.
pub const AROUND_FROM: u64 = 1_000_000;

/// Whether programs at remotes write without a check of foreign keys, which is how SQLite begins.
pub fn is_unchecked(seed: u64) -> bool {
    seed >= MORE_FROM && seed % 4 == 1
}

/// How long a history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Rounds; each ends with a pause in which everybody synchronizes.
    pub rounds: usize,
    /// Steps of one round.
    pub steps: usize,
}

impl Length {
    /// What takes some seconds.
    pub const USUAL: Length = Length { rounds: 4, steps: 40 };
}

/// All that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// From which it was drawn.
    pub seed: u64,
    /// The tables.
    pub schema: Schema,
    /// The first model.
    pub model: Model,
    /// The steps.
    pub steps: Vec<Step>,
}

impl History {
    /// The history of this seed.
    pub fn draw(seed: u64, length: Length) -> History {
        let mut chance = Chance::from_seed(seed);
        let mut schema = Schema::draw(&mut chance);
        schema.has_log = seed >= AROUND_FROM;
        let model = Model::draw(&schema, &mut chance);
        let mut draw = Draw {
            schema: &schema,
            model: model.clone(),
            chance,
            remotes: REMOTES_MAX,
            users: USERS.len(),
            written: vec![0; CENTER + 1],
            is_cut_often: seed >= CUTS_FROM,
        };
        let mut steps = draw.first_rows();
        steps.push(Step::Quiet);
        for _ in 0..length.rounds {
            steps.extend((0..length.steps).map(|_| draw.step()));
            steps.push(Step::Quiet);
        }
        let mut model = model;
        let later = steps.iter_mut().filter_map(|step| match step {
            Step::Deploy { model } => Some(model),
            _ => None,
        });
        if seed >= OWN_FROM {
            let mut models: Vec<&mut Model> = std::iter::once(&mut model).chain(later).collect();
            Model::draw_own(seed, &schema, &mut models);
            if schema.has_log {
                Model::draw_around(seed, &schema, &mut models);
            }
        }
        History { seed, model, steps, schema }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_has_one_history() {
        assert_eq!(History::draw(7, Length::USUAL), History::draw(7, Length::USUAL));
        assert_ne!(History::draw(7, Length::USUAL), History::draw(8, Length::USUAL));
    }

    #[test]
    fn tables_can_be_made_and_writes_are_sql_for_them() {
        for seed in 0..200 {
            let History { schema, steps, .. } = History::draw(seed, Length::USUAL);
            let connection = Connection::open_in_memory().unwrap();
            let create = schema.create();
            connection.execute_batch(&create).unwrap_or_else(|it| panic!("{it}: {create}"));
            let writes = steps.iter().filter_map(|step| match step {
                Step::WriteRemote { writes, .. } | Step::WriteCenter { writes } => Some(writes),
                _ => None,
            });
            for sql in writes.flatten().filter_map(|write| write.sql(&schema, &|_, _| true)) {
                let prepared = connection.prepare(&sql);
                assert!(prepared.is_ok(), "{sql}: {:?} for {create}", prepared.err());
            }
        }
    }

    #[test]
    fn some_writes_take_place() {
        let (mut done, mut all) = (0, 0);
        for seed in 0..20 {
            let History { schema, steps, .. } = History::draw(seed, Length::USUAL);
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(&schema.create()).unwrap();
            connection.pragma_update(None, "foreign_keys", true).unwrap();
            for step in steps {
                let Step::WriteCenter { writes } = step else { continue };
                let sql = writes.iter().filter_map(|write| write.sql(&schema, &|_, _| true));
                let sql = sql.collect::<Vec<_>>().join("; ");
                all += 1;
                let before = connection.total_changes();
                match connection.execute_batch(&format!("BEGIN; {sql}; COMMIT")) {
                    Ok(()) => done += u64::from(connection.total_changes() > before),
                    Err(_) if connection.is_autocommit() => {}
                    Err(_) => connection.execute_batch("ROLLBACK").unwrap(),
                }
            }
        }
        assert!(done * 4 > all, "{done} of {all} transactions change something");
    }

    #[test]
    fn each_kind_of_step_is_drawn() {
        let steps = (0..20).flat_map(|seed| History::draw(seed, Length::USUAL).steps);
        let kinds: BTreeSet<&str> = steps.filter_map(|step| step.kind()).collect();
        assert_eq!(kinds, KINDS.into_iter().collect());
    }
}
