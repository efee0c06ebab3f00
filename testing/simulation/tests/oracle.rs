//! Each check of the oracle fails where a database is damaged behind its back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use consolidated::Event;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use simulation::history::{
    Around, CENTER, Cell, Column, Direction, Fault, History, Kind, Mode, Model, Role, Rows, Rule,
    Schema, Section, Step, Table, Token, Write,
};
use simulation::oracle::Violation;
use simulation::run::{Counts, Run};
use simulation::world::{Loopback, Outcome, World};
use std::rc::Rc;

/// A world in which somebody damages a database after one step, and no trigger sees it.
struct Saboteur<'a> {
    world: Loopback,
    /// Steps until then.
    left: usize,
    damages: &'a [Damage],
}

#[derive(Clone, Copy)]
enum Damage {
    Center(&'static str),
    Remote(usize, &'static str),
}

impl World for Saboteur<'_> {
    fn apply(&mut self, step: &Step) -> Outcome {
        let outcome = self.world.apply(step);
        if self.left == 0 {
            for damage in self.damages {
                let (connection, sql) = match damage {
                    Damage::Center(sql) => (self.world.center(), sql),
                    Damage::Remote(number, sql) => (self.world.remote(*number), sql),
                };
                damage_by(&connection, sql);
            }
        }
        self.left = self.left.wrapping_sub(1);
        outcome
    }

    fn calm(&mut self) {
        self.world.calm();
    }

    fn remotes(&self) -> usize {
        self.world.remotes()
    }

    fn center(&self) -> Rc<Connection> {
        self.world.center()
    }

    fn remote(&self, number: usize) -> Rc<Connection> {
        self.world.remote(number)
    }

    fn knows(&self, kind: &str) -> bool {
        self.world.knows(kind)
    }
}

fn damage_by(connection: &Connection, sql: &str) {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(sql).unwrap();
    assert!(connection.changes() > 0, "{sql} changes nothing");
}

/// One table whose rows belong to whom their place says. Ann with the remotes 0 and 1 is 1, Ben
/// with remote 2 is 2.
fn history(steps: Vec<Step>) -> History {
    let column = |name: &str, kind, role| Column {
        name: name.to_owned(),
        kind,
        role,
        required: None,
        nocase: false,
    };
    let table = Table {
        name: "t0".to_owned(),
        columns: vec![
            column("k0", Kind::Integer, Role::Key),
            column("mark", Kind::Text, Role::Mark),
            column("place", Kind::Integer, Role::Place),
            column("v0", Kind::Text, Role::Value),
        ],
        key_len: 1,
        references: Vec::new(),
        options: "",
    };
    let section = Section {
        direction: Direction::Both,
        rule: Rule::ConsolidatedWins,
        rows: Rows::Claim,
        may_leave: false,
        left_out: None,
    };
    let schema = Schema { tables: vec![table], has_log: true };
    let events = vec![(None, Event::BeginUpload), (None, Event::EndUpload)];
    let around = Around { events, ..Around::default() };
    History {
        seed: 1,
        schema,
        model: Model { sections: vec![Some(section)], own: Vec::new(), around },
        steps,
    }
}

fn text(author: usize, number: u64) -> Cell {
    Cell::text(&Token::new(author, number).sign())
}

/// The row of this key; its mark has the number 10 times the key, its value one more.
fn insert(author: usize, key: i64, place: i64) -> Write {
    let number = key as u64 * 10;
    let row = vec![
        Cell::Integer(key),
        text(author, number),
        Cell::Integer(place),
        text(author, number + 1),
    ];
    Write::Insert { table: 0, row, replaces: false }
}

fn update(author: usize, key: i64) -> Write {
    let value = text(author, key as u64 * 10 + 2);
    Write::Update { table: 0, key: vec![Cell::Integer(key)], set: vec![(3, value)] }
}

fn delete(key: i64) -> Write {
    Write::Delete { table: 0, key: vec![Cell::Integer(key)] }
}

fn at(remote: usize, writes: Vec<Write>) -> Step {
    Step::WriteRemote { remote, writes }
}

fn center(writes: Vec<Write>) -> Step {
    Step::WriteCenter { writes }
}

fn synchronize(remote: usize) -> Step {
    Step::Synchronize { remote, mode: Mode::Full, fault: Fault::None }
}

/// It dies before the first byte.
fn die(remote: usize) -> Step {
    Step::Synchronize { remote, mode: Mode::Full, fault: Fault::Kill(0) }
}

/// The rows 1 and 2 are Ann's, 3 is Ben's, and all remotes have what is theirs.
fn beginning() -> Vec<Step> {
    let rows = vec![insert(CENTER, 1, 1), insert(CENTER, 2, 1), insert(CENTER, 3, 2)];
    vec![center(rows), synchronize(0), synchronize(1), synchronize(2)]
}

/// What is found when the damages are done behind the last of these steps.
fn find(more: Vec<Step>, damages: &[Damage]) -> Option<Violation> {
    let mut steps = beginning();
    steps.extend(more);
    let history = history(steps);
    let left = history.steps.len() - 1;
    let mut world = Saboteur { world: Loopback::new(&history), left, damages };
    let mut counts = Counts::default();
    let found = Run::new(&history, &mut world, &mut counts, &mut |_| {}).go().err();
    found.map(|found| {
        assert_eq!(found.step, left, "{}", found.violation);
        found.violation
    })
}

/// Without the damage nothing is found, with it this check fails.
fn check(more: &[Step], damages: &[Damage], check: &str) {
    assert_eq!(find(more.to_vec(), &[]), None);
    let violation = find(more.to_vec(), damages).unwrap_or_else(|| panic!("nothing for {check}"));
    assert_eq!(violation.check, check, "{violation}");
}

const SHARE: &str = "S3, a remote has exactly its share";

#[test]
fn a_remote_with_other_rows_is_found() {
    let steps = [synchronize(0)];
    check(&steps, &[Damage::Remote(0, "DELETE FROM t0 WHERE k0 = 1")], SHARE);
    check(&steps, &[Damage::Remote(0, "INSERT INTO t0 VALUES (9, 'a', 1, 'b')")], SHARE);
    let value = "UPDATE t0 SET v0 = CAST(v0 AS BLOB) WHERE k0 = 1";
    check(&steps, &[Damage::Remote(0, value)], SHARE);
}

#[test]
fn an_upload_that_does_not_arrive_is_found() {
    let steps = [at(0, vec![update(0, 1)]), synchronize(0)];
    let lost = "UPDATE t0 SET v0 = 'former' WHERE k0 = 1";
    check(&steps, &[Damage::Center(lost)], "S1, nothing is lost");
    let steps = [at(0, vec![delete(1)]), synchronize(0)];
    let there = "INSERT INTO t0 VALUES (1, 'w15000010', 1, 'w15000011')";
    check(&steps, &[Damage::Center(there)], "S1, a delete arrives");
}

#[test]
fn a_conflict_without_a_record_is_found() {
    let steps =
        [at(0, vec![update(0, 1)]), at(1, vec![update(1, 1)]), synchronize(0), synchronize(1)];
    let forgotten = "DELETE FROM syncline_conflict";
    check(&steps, &[Damage::Center(forgotten)], "S5, what loses is recorded");
    let another = "INSERT INTO syncline_conflict SELECT conflict_id + 1, detected_at, remote_id,
        user_name, table_name, operation, conflict_rule, old_row, new_row, consolidated_row,
        result_row FROM syncline_conflict";
    check(&steps, &[Damage::Center(another)], "S5, conflicts are counted");
    let overwritten = "DELETE FROM t0 WHERE k0 = 3";
    let words = "S5, what is overwritten is recorded";
    check(&steps, &[Damage::Center(overwritten)], words);
}

#[test]
fn a_reject_of_which_its_remote_does_not_know_is_found() {
    // The key is Ben's.
    let steps = [at(0, vec![insert(0, 3, 1)]), synchronize(0)];
    let words = "S7, a reject reaches its remote";
    check(&steps, &[Damage::Remote(0, "DELETE FROM syncline_reject")], words);
    let both = [
        Damage::Remote(0, "DELETE FROM syncline_reject"),
        Damage::Center("DELETE FROM syncline_reject"),
    ];
    check(&steps, &both, "S5, what loses is recorded");
}

#[test]
fn what_is_applied_twice_is_found() {
    let steps = [
        at(0, vec![insert(0, 4, 1)]),
        synchronize(0),
        center(vec![delete(4)]),
        center(vec![update(CENTER, 1)]),
    ];
    let again = "INSERT INTO t0 VALUES (4, 'w10000040', 1, 'w10000041')";
    check(&steps, &[Damage::Center(again)], "S1, nothing is applied twice");
}

#[test]
fn a_half_of_a_transaction_is_found() {
    let steps = [at(0, vec![insert(0, 4, 1), insert(0, 5, 1)]), die(0)];
    let half = "INSERT INTO t0 VALUES (4, 'w10000040', 1, 'w10000041')";
    check(&steps, &[Damage::Center(half)], "S4, an upload is one transaction");
    let steps = [center(vec![update(CENTER, 1), delete(2)]), die(0)];
    let half = "DELETE FROM t0 WHERE k0 = 2";
    check(&steps, &[Damage::Remote(0, half)], "S4, a download is one transaction");
}

#[test]
fn a_broken_fence_is_found() {
    let steps = [synchronize(0)];
    let behind = "UPDATE t0 SET place = 3 WHERE k0 = 3";
    check(&steps, &[Damage::Center(behind)], "S7, a row behind the fence stays");
    let moved = "INSERT INTO t0 VALUES (9, 'a', 2, 'b')";
    check(&steps, &[Damage::Center(moved)], "S7, no row is put behind the fence");
}

#[test]
fn what_goes_back_or_changes_by_itself_is_found() {
    let steps = [at(0, vec![update(0, 1)]), synchronize(0), synchronize(0)];
    let back = "UPDATE syncline_remote SET counter = counter - 10";
    check(&steps, &[Damage::Center(back)], "S1, counters of the center only grow");
    let back = "UPDATE syncline_state SET value = value - 10 WHERE name = 'attempt'";
    check(&steps, &[Damage::Remote(0, back)], "S1, counters of a remote only grow");
    let swapped = "UPDATE t0 SET mark = v0, v0 = mark WHERE k0 = 1";
    check(&steps, &[Damage::Center(swapped)], "a value stays in its column");
    let steps = [Step::Continue { remote: 0 }];
    let alone = "UPDATE t0 SET v0 = 'a' WHERE k0 = 1";
    check(&steps, &[Damage::Remote(0, alone)], "nothing happens by itself");
}

#[test]
fn a_wrong_winner_is_found() {
    let steps =
        [at(0, vec![update(0, 1)]), at(1, vec![update(1, 1)]), synchronize(0), synchronize(1)];
    let wrong = "UPDATE t0 SET v0 = 'w11000012' WHERE k0 = 1";
    let both = [Damage::Center(wrong), Damage::Remote(1, wrong)];
    check(&steps, &both, "S5, the rule decides");
}

#[test]
fn a_half_of_the_scripts_of_a_transaction_is_found() {
    let steps = [at(0, vec![update(0, 1)]), synchronize(0)];
    let half = "DELETE FROM script_log WHERE event = 'end_upload'";
    check(&steps, &[Damage::Center(half)], "scripts around rows, all or none");
}
