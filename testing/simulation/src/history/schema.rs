//! Random tables: keys, references, unique columns, defaults.

use super::cell::Cell;
use harness::Chance;
use std::fmt::Write;

/// The table that says who has which places. It is not published.
pub const MEMBER: &str = "member";
/// The table into which scripts around rows write. It is not published.
pub const LOG: &str = "script_log";
/// Values of one key column, few enough that writers meet.
pub(super) const KEYS: u64 = 5;
/// Values of a unique column.
const UNIQUES: u64 = 8;
const TABLES_MAX: u64 = 4;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integers.
    Integer,
    /// Real numbers.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Blob,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Integer, Kind::Real, Kind::Text, Kind::Blob];

    fn sql(self) -> &'static str {
        match self {
            Kind::Integer => "INTEGER",
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
            Kind::Blob => "BLOB",
        }
    }

    /// The value with this number among few.
    pub fn key(self, number: u64) -> Cell {
        match self {
            Kind::Integer => Cell::Integer(number as i64),
            // Some have a fraction.
            Kind::Real => Cell::real(number as f64 / 2.0),
            Kind::Text => Cell::text(&format!("k{number}")),
            Kind::Blob => Cell::Blob(vec![0, number as u8]),
        }
    }
}

/// What a column is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Part of the key.
    Key,
    /// Names the row. It is written once.
    Mark,
    /// Says where the row belongs.
    Place,
    /// Part of the reference with this number. It may also be part of the key.
    Reference(usize),
    /// Content that no other row has.
    Unique,
    /// Content.
    Value,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// What it is for.
    pub role: Role,
    /// NOT NULL, with this default.
    pub required: Option<Cell>,
    /// Compared without letter case.
    pub nocase: bool,
}

/// A foreign key to the key of another table, or of the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The number of the table that it refers to.
    pub parent: usize,
    /// The columns here.
    pub columns: Vec<usize>,
    /// What SQLite does: `ON DELETE …`, `ON UPDATE …`, `DEFERRABLE …`.
    pub actions: String,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, those of the key first.
    pub columns: Vec<Column>,
    /// How many columns the key has.
    pub key_len: usize,
    /// Its foreign keys.
    pub references: Vec<Reference>,
    /// What stands behind the columns.
    pub options: &'static str,
}

/// All tables. One that a simplification has taken away has no columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Parents come before children.
    pub tables: Vec<Table>,
    /// There is a table into which scripts write.
    pub has_log: bool,
}

impl Schema {
    /// Tables by chance.
    pub fn draw(chance: &mut Chance) -> Schema {
        let count = 2 + chance.below(TABLES_MAX - 1);
        let mut tables: Vec<Table> = Vec::new();
        for number in 0..count as usize {
            let table = Table::draw(number, &tables, chance);
            tables.push(table);
        }
        Schema { tables, has_log: false }
    }

    /// The SQL that makes the tables.
    pub fn create(&self) -> String {
        let mut sql = format!(
            "CREATE TABLE {MEMBER} (person INTEGER, project INTEGER,
             PRIMARY KEY (person, project));\n"
        );
        if self.has_log {
            let _ = writeln!(sql, "CREATE TABLE {LOG} (event TEXT, place TEXT, remote TEXT);");
        }
        for table in self.tables.iter().filter(|table| !table.is_gone()) {
            sql.push_str(&self.create_table(table));
        }
        sql
    }

    fn create_table(&self, table: &Table) -> String {
        let mut sql = format!("CREATE TABLE {} (", table.name);
        for column in &table.columns {
            let Column { name, kind, required, nocase, .. } = column;
            // Infallible for a string.
            let _ = write!(sql, "{name} {}", kind.sql());
            if let Some(default) = required {
                let _ = write!(sql, " NOT NULL DEFAULT {default}");
            }
            sql.push_str(if *nocase { " COLLATE NOCASE" } else { "" });
            sql.push_str(if column.role == Role::Unique { " UNIQUE" } else { "" });
            sql.push_str(", ");
        }
        let names = |columns: &[usize]| {
            let names = columns.iter().map(|at| table.columns[*at].name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let key: Vec<usize> = (0..table.key_len).collect();
        let _ = write!(sql, "PRIMARY KEY ({})", names(&key));
        for Reference { parent, columns, actions } in &table.references {
            let (parent, here) = (&self.tables[*parent], names(columns));
            if !parent.is_gone() && !columns.is_empty() {
                let _ = write!(sql, ", FOREIGN KEY ({here}) REFERENCES {}{actions}", parent.name);
            }
        }
        sql + &format!("){};\n", table.options)
    }
}

impl Table {
    fn draw(number: usize, before: &[Table], chance: &mut Chance) -> Table {
        let mut table = Table {
            name: format!("t{number}"),
            columns: Vec::new(),
            key_len: 0,
            references: Vec::new(),
            options: "",
        };
        // Like the lines of an order: the key begins with that of the parent.
        if number > 0 && chance.below(4) == 0 {
            table.refer(before, chance.below(number as u64) as usize, true, chance);
        }
        for _ in 0..1 + u64::from(chance.below(4) == 0 && table.columns.is_empty()) {
            let kinds =
                [Kind::Integer, Kind::Integer, Kind::Text, Kind::Text, Kind::Blob, Kind::Real];
            let kind = *chance.choose(&kinds);
            let name = format!("k{}", table.columns.len());
            table.push(name, kind, Role::Key);
        }
        table.key_len = table.columns.len();
        table.push("mark".to_owned(), Kind::Text, Role::Mark);
        table.push("place".to_owned(), Kind::Integer, Role::Place);
        if number > 0 && chance.below(3) > 0 {
            let parent = chance.below(number as u64) as usize;
            table.refer(before, parent, false, chance);
        }
        if chance.below(4) == 0 {
            table.refer_to_itself(chance);
        }
        table.draw_content(chance);
        let options = ["", "", "", " WITHOUT ROWID", " STRICT", " STRICT, WITHOUT ROWID"];
        table.options = options[chance.below(options.len() as u64) as usize];
        table
    }

    fn push(&mut self, name: String, kind: Kind, role: Role) {
        // SQLite allows NULL in most keys, unless it is said.
        let required = (role == Role::Key).then(|| kind.key(0));
        self.columns.push(Column { name, kind, role, required, nocase: false });
    }

    fn refer(&mut self, before: &[Table], parent: usize, in_key: bool, chance: &mut Chance) {
        let number = self.references.len();
        let mut columns = Vec::new();
        for (at, column) in before[parent].columns[..before[parent].key_len].iter().enumerate() {
            columns.push(self.columns.len());
            self.push(format!("r{number}_{at}"), column.kind, Role::Reference(number));
            if in_key {
                let last = self.columns.len() - 1;
                self.columns[last].required = Some(column.kind.key(0));
            }
        }
        let actions = actions(in_key, chance);
        self.references.push(Reference { parent, columns, actions });
    }

    fn refer_to_itself(&mut self, chance: &mut Chance) {
        let (number, parent) = (self.references.len(), self.name[1..].parse().unwrap());
        let kinds: Vec<Kind> = self.columns[..self.key_len].iter().map(|it| it.kind).collect();
        let mut columns = Vec::new();
        for (at, kind) in kinds.into_iter().enumerate() {
            columns.push(self.columns.len());
            self.push(format!("r{number}_{at}"), kind, Role::Reference(number));
        }
        self.references.push(Reference { parent, columns, actions: actions(false, chance) });
    }

    fn draw_content(&mut self, chance: &mut Chance) {
        for number in 0..1 + chance.below(3) {
            let kind = *chance.choose(&Kind::ALL);
            self.push(format!("v{number}"), kind, Role::Value);
            let last = self.columns.len() - 1;
            if chance.below(4) == 0 {
                self.columns[last].required = Some(kind.key(0));
            }
            self.columns[last].nocase = kind == Kind::Text && chance.below(4) == 0;
        }
        if chance.below(3) == 0 {
            let kind = *chance.choose(&[Kind::Integer, Kind::Text]);
            self.push("code".to_owned(), kind, Role::Unique);
            let last = self.columns.len() - 1;
            self.columns[last].nocase = kind == Kind::Text && chance.below(3) == 0;
        }
    }

    /// Whether a simplification has taken it away.
    pub fn is_gone(&self) -> bool {
        self.columns.is_empty()
    }

    /// The key of a row.
    pub fn key<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        &row[..self.key_len]
    }

    /// The number of the only column with this role.
    pub fn position(&self, role: &Role) -> Option<usize> {
        self.columns.iter().position(|column| column.role == *role)
    }

    /// The names of all columns.
    pub fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// SQLite does not see that a foreign key of the table to itself breaks when a row comes by
    /// `INSERT OR REPLACE`.
    pub fn breaks_when_replaced(&self) -> bool {
        let own: Option<usize> = self.name[1..].parse().ok();
        self.references.iter().any(|reference| Some(reference.parent) == own)
    }

    /// Whether a change of another row may remove or change rows here.
    pub fn is_acted_on(&self) -> bool {
        self.references.iter().any(|reference| !reference.actions.is_empty())
    }
}

/// A value of a unique column.
pub(super) fn unique(kind: Kind, chance: &mut Chance) -> Cell {
    let number = chance.below(UNIQUES);
    match (kind, number) {
        (_, 0) => Cell::Null,
        (Kind::Text, _) if chance.below(2) == 0 => Cell::text(&format!("K{number}")),
        _ => kind.key(number),
    }
}

fn actions(in_key: bool, chance: &mut Chance) -> String {
    let on_delete: &[&str] = match in_key {
        true => &[" ON DELETE CASCADE", " ON DELETE CASCADE", ""],
        false => &[" ON DELETE CASCADE", " ON DELETE SET NULL", ""],
    };
    let on_update = [" ON UPDATE CASCADE", " ON UPDATE CASCADE", ""];
    let deferred = ["", "", " DEFERRABLE INITIALLY DEFERRED"];
    format!("{}{}{}", chance.choose(on_delete), chance.choose(&on_update), chance.choose(&deferred))
}
