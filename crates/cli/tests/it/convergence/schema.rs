//! What the owner of the center does to whole tables and columns: names, types, NOT NULL.

use super::shape::{Kind, Measure, Shape, first_names, rename};
use super::shop::Shop;
use harness::Chance;

impl Shop {
    /// Something that a deployment has to be told; the statements for it.
    pub(crate) fn change_schema(&mut self, is_sqlite: bool, chance: &mut Chance) -> Vec<String> {
        let at = chance.below(self.tables.len() as u64) as usize;
        let what = chance.below(9);
        // A table that is not published is nothing to a deployment, and its names are not told.
        let table = &self.tables[at];
        if !table.published || table.now.name != table.deployed.name {
            return Vec::new();
        }
        match what {
            0 | 1 => self.rename_table(at, chance),
            2..=4 => self.rename_column(at, chance),
            5 => self.change_type(at, is_sqlite),
            6 => self.change_requirement(at, is_sqlite),
            7 => self.swap_columns(at, chance),
            _ => self.rename_mapping(chance),
        }
    }

    fn rename_table(&mut self, at: usize, chance: &mut Chance) -> Vec<String> {
        let now = &mut self.tables[at].now;
        let new = again(&now.name, chance);
        if new == now.name {
            return Vec::new();
        }
        let old = std::mem::replace(&mut now.name, new.clone());
        vec![format!("ALTER TABLE {old} RENAME TO {new}")]
    }

    /// The place or the mark gets the name of a text column, which gets its.
    fn swap_columns(&mut self, at: usize, chance: &mut Chance) -> Vec<String> {
        let table = &mut self.tables[at];
        let before = table.now.clone();
        let Shape { spec, name, fixed, texts, .. } = &mut table.now;
        let others = &mut fixed[spec.key.len()..];
        let (count, text_count) = (others.len() as u64, texts.len() as u64);
        let one = &mut others[chance.below(count) as usize];
        let other = &mut texts[chance.below(text_count) as usize].name;
        let step =
            |from: &str, to: &str| format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}");
        let statements = vec![step(one, "spare"), step(other, one), step("spare", other)];
        std::mem::swap(one, other);
        if !table.is_news() {
            table.now = before;
            return Vec::new();
        }
        statements
    }

    /// The key, the place, the mark, the measure. Names are used again.
    fn rename_column(&mut self, at: usize, chance: &mut Chance) -> Vec<String> {
        let table = &mut self.tables[at];
        let before = table.now.clone();
        let taken: Vec<String> =
            before.columns().into_iter().chain(table.deployed.columns()).collect();
        let Shape { name, fixed, measure, .. } = &mut table.now;
        let mut columns: Vec<&mut String> = fixed.iter_mut().collect();
        columns.extend(measure.iter_mut().map(|measure| &mut measure.name));
        let column = columns.swap_remove(chance.below(columns.len() as u64) as usize);
        let new = again(column, chance);
        let old = std::mem::replace(column, new.clone());
        let statement = format!("ALTER TABLE {name} RENAME COLUMN {old} TO {new}");
        if taken.contains(&new) || !table.is_news() {
            table.now = before;
            return Vec::new();
        }
        vec![statement]
    }

    fn rename_mapping(&mut self, chance: &mut Chance) -> Vec<String> {
        let number = self.number();
        let mapping = &mut self.mapping;
        let column = match chance.below(3) {
            0 => {
                let new = rename(&mapping.name, number);
                let old = std::mem::replace(&mut mapping.name, new.clone());
                return vec![format!("ALTER TABLE {old} RENAME TO {new}")];
            }
            1 => &mut mapping.person,
            _ => &mut mapping.project,
        };
        let new = rename(column, number);
        let old = std::mem::replace(column, new.clone());
        vec![format!("ALTER TABLE {} RENAME COLUMN {old} TO {new}", mapping.name)]
    }

    /// Words become numbers, where they can, and numbers words.
    fn change_type(&mut self, at: usize, is_sqlite: bool) -> Vec<String> {
        let table = &mut self.tables[at].now;
        let name = table.name.clone();
        let Some(measure) = &mut table.measure else { return Vec::new() };
        measure.kind = match measure.kind {
            Kind::Number => Kind::Word,
            Kind::Word => Kind::Number,
        };
        let Measure { name: column, kind, required } = measure.clone();
        let otherwise = if required { "0" } else { "NULL" };
        let value = match (kind, is_sqlite) {
            (Kind::Word, _) => format!("CAST({column} AS TEXT)"),
            (Kind::Number, true) => format!(
                "CASE WHEN {column} NOT GLOB '*[^0-9]*' THEN CAST({column} AS INTEGER)
                 ELSE {otherwise} END"
            ),
            (Kind::Number, false) => format!(
                "CASE WHEN {column} ~ '^[0-9]+$' THEN CAST({column} AS INTEGER)
                 ELSE {otherwise} END"
            ),
        };
        if is_sqlite {
            return self.build_again(at, &value);
        }
        let sql = kind.sql();
        vec![format!("ALTER TABLE {name} ALTER COLUMN {column} TYPE {sql} USING {value}")]
    }

    /// Each row has to have a measure, or none has to.
    fn change_requirement(&mut self, at: usize, is_sqlite: bool) -> Vec<String> {
        let table = &mut self.tables[at].now;
        let name = table.name.clone();
        let Some(measure) = &mut table.measure else { return Vec::new() };
        measure.required = !measure.required;
        let Measure { name: column, required, .. } = measure.clone();
        let fill = format!("UPDATE {name} SET {column} = '0' WHERE {column} IS NULL");
        let alter = format!("ALTER TABLE {name} ALTER COLUMN {column}");
        match (is_sqlite, required) {
            (true, true) => {
                let mut statements = vec![fill];
                statements.extend(self.build_again(at, &column));
                statements
            }
            (true, false) => self.build_again(at, &column),
            (false, true) => vec![fill, format!("{alter} SET NOT NULL")],
            (false, false) => vec![format!("{alter} DROP NOT NULL")],
        }
    }

    /// As SQLite's own documentation says how to change what `ALTER TABLE` cannot.
    fn build_again(&self, at: usize, measure: &str) -> Vec<String> {
        let table = &self.tables[at];
        let name = &table.now.name;
        let columns = table.now.columns();
        let (_, others) = columns.split_last().unwrap();
        vec![format!(
            "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; BEGIN IMMEDIATE;
             {};
             INSERT INTO spare ({}) SELECT {}, {measure} FROM {name};
             DROP TABLE {name}; ALTER TABLE spare RENAME TO {name};
             COMMIT; PRAGMA legacy_alter_table = OFF",
            self.definition(table, "spare"),
            columns.join(", "),
            others.join(", ")
        )]
    }
}

/// The first name, or one of two others.
fn again(name: &str, chance: &mut Chance) -> String {
    match chance.below(3) {
        0 => first_names(name),
        number => rename(name, number),
    }
}
