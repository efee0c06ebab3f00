//! Draws the steps of a history, without a look at any database.

use super::cell::{Cell, Token};
use super::fleet::REMOTES;
use super::model::Model;
use super::schema::{KEYS, Kind, Role, Schema, Table, unique};
use super::step::{Fault, Mode, Place, Step, Trouble};
use super::write::Write;
use harness::Chance;

/// Most bytes after which something happens to a connection.
const FAULT_BYTES_MAX: u64 = 6000;
/// Most operations after which something happens to a disk.
const OPERATIONS_MAX: u64 = 400;
/// Farthest that a clock moves.
const CLOCK_MS_MAX: u64 = 48 * 3_600_000;

/// Rows of each table at the beginning.
const FIRST_ROWS: u64 = 3;
/// Likewise, where downloads are cut often.
const FIRST_ROWS_OF_MANY: u64 = 14;

/// Draws one step after the other.
pub(super) struct Draw<'a> {
    pub(super) schema: &'a Schema,
    pub(super) model: Model,
    pub(super) chance: Chance,
    pub(super) remotes: usize,
    pub(super) users: usize,
    /// Tokens that each author has used. The center is the last one.
    pub(super) written: Vec<u64>,
    /// The network of the remotes is poor.
    pub(super) is_cut_often: bool,
}

impl Draw<'_> {
    pub(super) fn step(&mut self) -> Step {
        let remote = self.remote();
        match self.chance.below(64) {
            0..=17 => Step::WriteRemote { remote, writes: self.transaction(remote) },
            18..=27 => self.write_at_the_center(),
            28..=45 => {
                let (mode, fault) = (self.mode(), self.fault());
                Step::Synchronize { remote, mode, fault }
            }
            46..=48 => Step::Continue { remote },
            49 => Step::SetClaims {
                user: self.chance.below(self.users as u64) as usize,
                rep: 1 + self.chance.below(3) as i64,
            },
            50 | 51 => {
                self.model = self.model.changed(self.schema, &mut self.chance);
                Step::Deploy { model: self.model.clone() }
            }
            52 => Step::RestartServer,
            53..=56 => self.disk(),
            57 => {
                let by_ms = self.chance.below(2 * CLOCK_MS_MAX) as i64 - CLOCK_MS_MAX as i64;
                Step::StepClock { place: self.place(), by_ms }
            }
            58 => Step::CopyRemote { remote },
            59 | 60 => Step::KeepRemote { remote },
            61 => Step::RestoreRemote { remote },
            62 => Step::KeepCenter,
            _ => match self.chance.below(3) {
                0 => Step::RestoreCenter,
                _ => Step::KeepCenter,
            },
        }
    }

    /// Rows at the center, before anything else: one transaction each, parents first.
    pub(super) fn first_rows(&mut self) -> Vec<Step> {
        let center = self.written.len() - 1;
        let mut steps = Vec::new();
        let first_rows = if self.is_cut_often { FIRST_ROWS_OF_MANY } else { FIRST_ROWS };
        for table in 0..self.schema.tables.len() {
            for number in 1..=first_rows {
                let columns = &self.schema.tables[table].columns;
                let key = columns[..self.schema.tables[table].key_len].iter();
                let key: Vec<Cell> = key.map(|column| column.kind.key(number)).collect();
                let row = self.row(center, table, &key);
                let writes = vec![Write::Insert { table, row, replaces: false }];
                steps.push(Step::WriteCenter { writes });
            }
        }
        steps
    }

    /// Those that are there from the beginning are the likely ones.
    fn remote(&mut self) -> usize {
        let all = if self.chance.below(4) == 0 { self.remotes } else { REMOTES.len() };
        self.chance.below(all as u64) as usize
    }

    fn place(&mut self) -> Place {
        match self.chance.below(2) {
            0 => Place::Center,
            _ => Place::Remote(self.remote()),
        }
    }

    fn mode(&mut self) -> Mode {
        match self.chance.below(8) {
            0 => Mode::Up,
            1 => Mode::Down,
            _ => Mode::Full,
        }
    }

    fn fault(&mut self) -> Fault {
        let bytes = self.chance.below(FAULT_BYTES_MAX) as usize;
        if self.is_cut_often && self.chance.below(3) > 0 {
            return Fault::CutDown(bytes);
        }
        match self.chance.below(12) {
            0 => Fault::CutUp(bytes),
            1 => Fault::CutDown(bytes),
            2 => Fault::Kill(bytes),
            3 => Fault::Vanish(bytes),
            4 => Fault::Stall(bytes),
            _ => Fault::None,
        }
    }

    fn disk(&mut self) -> Step {
        let all = [
            Trouble::Crash,
            Trouble::Crash,
            Trouble::PowerCut,
            Trouble::PowerCut,
            Trouble::Full,
            Trouble::Error,
        ];
        let trouble = *self.chance.choose(&all);
        let after = self.chance.below(OPERATIONS_MAX);
        Step::Disk { place: self.place(), trouble, after }
    }

    fn write_at_the_center(&mut self) -> Step {
        if self.chance.below(8) == 0 {
            let (person, project) = (1 + self.chance.below(3), 1 + self.chance.below(3));
            let is_in = self.chance.below(3) > 0;
            let (person, project) = (person as i64, project as i64);
            return Step::WriteCenter { writes: vec![Write::Member { person, project, is_in }] };
        }
        let center = self.written.len() - 1;
        Step::WriteCenter { writes: self.transaction(center) }
    }

    fn transaction(&mut self, author: usize) -> Vec<Write> {
        let mut writes = Vec::new();
        // What fails takes the whole transaction with it.
        for _ in 0..=self.chance.below(4) / 2 {
            let table = self.chance.below(self.schema.tables.len() as u64) as usize;
            self.write(author, table, &mut writes);
        }
        writes
    }

    /// Adds what belongs together.
    fn write(&mut self, author: usize, table: usize, writes: &mut Vec<Write>) {
        let (key, other) = (self.key(table), self.key(table));
        match self.chance.below(16) {
            0..=5 => {
                let may_replace = !self.schema.tables[table].breaks_when_replaced();
                let replaces = may_replace && self.chance.below(6) == 0;
                let row = self.row(author, table, &key);
                writes.push(Write::Insert { table, row, replaces });
            }
            6..=8 => {
                let set = self.content(author, table);
                writes.push(Write::Update { table, key, set });
            }
            9 => {
                let set = self.references(table);
                writes.push(Write::Update { table, key, set });
            }
            10 | 11 => writes.push(Write::Delete { table, key }),
            12 => {
                let mut set: Vec<(usize, Cell)> = other.into_iter().enumerate().collect();
                if self.chance.below(2) == 0 {
                    set.extend(self.content(author, table));
                }
                writes.push(Write::Update { table, key, set });
            }
            13 => {
                let row = self.row(author, table, &key);
                writes.push(Write::Delete { table, key });
                writes.push(Write::Insert { table, row, replaces: false });
            }
            14 => self.swap_keys(table, key, other, writes),
            _ => self.swap_values(table, key, other, writes),
        }
    }

    fn swap_keys(&mut self, table: usize, one: Vec<Cell>, two: Vec<Cell>, to: &mut Vec<Write>) {
        let mut between = one.clone();
        let last = between.len() - 1;
        between[last] = self.schema.tables[table].columns[last].kind.key(KEYS + 3);
        let mut step = |from: &[Cell], to_key: &[Cell]| {
            let set = to_key.iter().cloned().enumerate().collect();
            to.push(Write::Update { table, key: from.to_vec(), set });
        };
        step(&one, &between);
        step(&two, &one);
        step(&between, &two);
    }

    /// Two rows exchange what may exist once only.
    fn swap_values(&mut self, table: usize, one: Vec<Cell>, two: Vec<Cell>, to: &mut Vec<Write>) {
        let found = self.schema.tables[table].position(&Role::Unique);
        let Some(at) = found else { return self.swap_keys(table, one, two, to) };
        let kind = self.schema.tables[table].columns[at].kind;
        let values = [unique(kind, &mut self.chance), unique(kind, &mut self.chance)];
        let [first, second] = values;
        let mut set = |key: &[Cell], cell: Cell| {
            to.push(Write::Update { table, key: key.to_vec(), set: vec![(at, cell)] });
        };
        set(&one, Cell::Null);
        set(&two, first);
        set(&one, second);
    }

    fn key(&mut self, table: usize) -> Vec<Cell> {
        let Table { columns, key_len, .. } = &self.schema.tables[table];
        let chance = &mut self.chance;
        columns[..*key_len].iter().map(|it| it.kind.key(1 + chance.below(KEYS))).collect()
    }

    fn row(&mut self, author: usize, table: usize, key: &[Cell]) -> Vec<Cell> {
        let width = self.schema.tables[table].columns.len();
        let mut row = key.to_vec();
        for at in key.len()..width {
            let cell = self.cell(author, table, at);
            row.push(cell);
        }
        for (at, cell) in self.references(table) {
            row[at] = cell;
        }
        row
    }

    /// Other values for some of the columns with content.
    fn content(&mut self, author: usize, table: usize) -> Vec<(usize, Cell)> {
        let columns = &self.schema.tables[table].columns;
        let may = columns.iter().enumerate().filter(|(_, column)| match column.role {
            Role::Value | Role::Unique | Role::Place => true,
            Role::Key | Role::Mark | Role::Reference(_) => false,
        });
        let may: Vec<usize> = may.map(|(at, _)| at).collect();
        let first = *self.chance.choose(&may);
        let mut chosen = vec![first];
        chosen.extend(may.into_iter().filter(|at| *at != first && self.chance.below(3) == 0));
        chosen.into_iter().map(|at| (at, self.cell(author, table, at))).collect()
    }

    /// Values for all columns of one reference outside the key; none where there is none.
    fn references(&mut self, table: usize) -> Vec<(usize, Cell)> {
        let Table { references, columns, key_len, .. } = &self.schema.tables[table];
        let mut set = Vec::new();
        for reference in references.iter().filter(|it| it.columns[0] >= *key_len) {
            let is_null = self.chance.below(3) == 0;
            for at in &reference.columns {
                let cell = match is_null {
                    true => Cell::Null,
                    false => columns[*at].kind.key(1 + self.chance.below(KEYS / 2)),
                };
                set.push((*at, cell));
            }
        }
        set
    }

    fn cell(&mut self, author: usize, table: usize, at: usize) -> Cell {
        let column = &self.schema.tables[table].columns[at];
        match (&column.role, column.kind) {
            (Role::Key | Role::Reference(_), kind) => kind.key(1 + self.chance.below(KEYS)),
            (Role::Place, _) if self.chance.below(8) == 0 => Cell::Null,
            (Role::Place, _) => Cell::Integer(1 + self.chance.below(3) as i64),
            (Role::Unique, kind) => unique(kind, &mut self.chance),
            (Role::Mark, _) => Cell::text(&self.token(author).sign()),
            (Role::Value, kind) => match self.chance.below(8) {
                0 => strange(kind, column.required.is_some(), &mut self.chance),
                _ => told_apart(kind, self.token(author)),
            },
        }
    }

    fn token(&mut self, author: usize) -> Token {
        self.written[author] += 1;
        Token::new(author, self.written[author])
    }
}

/// A value that holds the token.
fn told_apart(kind: Kind, token: Token) -> Cell {
    match kind {
        Kind::Integer => Cell::Integer(token.number() as i64),
        Kind::Real => Cell::real(token.number() as f64 + 0.5),
        Kind::Text => Cell::text(&format!("é{} ", token.sign())),
        Kind::Blob => Cell::Blob([&[0, 0xff], token.sign().as_bytes()].concat()),
    }
}

/// A value at the edge of what its column can hold.
fn strange(kind: Kind, is_required: bool, chance: &mut Chance) -> Cell {
    let mut cells = match kind {
        Kind::Integer => vec![Cell::Integer(i64::MAX), Cell::Integer(i64::MIN), Cell::Integer(0)],
        Kind::Real => vec![
            Cell::real(f64::MAX),
            Cell::real(f64::MIN_POSITIVE / 4.0),
            Cell::real(f64::NEG_INFINITY),
            Cell::real(0.1 + 0.2),
            Cell::Integer(1 << 60),
        ],
        Kind::Text => vec![Cell::text(""), Cell::text("a\0b"), Cell::text("x ")],
        Kind::Blob => vec![Cell::Blob(Vec::new()), Cell::Blob(vec![0; 300])],
    };
    if !is_required {
        cells.push(Cell::Null);
    }
    chance.choose(&cells).clone()
}
