//! A part of a history, in a simpler schema: what is left of one that has found something.

use super::History;
use super::around::Around;
use super::model::{Model, Rule, Section};
use super::own::Own;
use super::schema::Role;
use super::step::Step;
use std::fmt;
use std::str::FromStr;

/// What is left out of a history. It is written on a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The steps that stay; none: all.
    pub steps: Option<Vec<usize>>,
    /// What is simpler.
    pub without: Vec<Simplification>,
}

/// One thing that a schema or a model can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simplification {
    /// This table: `t1`.
    Table(usize),
    /// This foreign key of a table: `t1.r0`.
    Reference(usize, usize),
    /// What the foreign keys of a table do by themselves: `t1.actions`.
    Actions(usize),
    /// That values exist once only: `t1.unique`.
    Unique(usize),
    /// How the table is stored: `t1.options`.
    Options(usize),
    /// Comparison without letter case: `t1.nocase`.
    Nocase(usize),
    /// Which rows a remote receives: `t1.rows`.
    Rows(usize),
    /// Who wins: `t1.rule`.
    Rule(usize),
    /// Scripts of the user's own: `t1.own`.
    Own(usize),
    /// All scripts around rows: `around`.
    Around,
}

impl History {
    /// Everything that may be left out, the largest first.
    pub fn simplifications(&self) -> Vec<Simplification> {
        let mut all = Vec::new();
        let tables = 0..self.schema.tables.len();
        if self.schema.has_log {
            all.push(Simplification::Around);
        }
        all.extend(tables.clone().rev().map(Simplification::Table));
        for table in tables {
            let references = 0..self.schema.tables[table].references.len();
            all.extend(references.map(|number| Simplification::Reference(table, number)));
            all.extend([
                Simplification::Actions(table),
                Simplification::Unique(table),
                Simplification::Options(table),
                Simplification::Nocase(table),
                Simplification::Rows(table),
                Simplification::Rule(table),
                Simplification::Own(table),
            ]);
        }
        all
    }

    /// What the selection leaves.
    pub fn part(&self, selection: &Selection) -> History {
        let mut part = self.clone();
        if let Some(kept) = &selection.steps {
            let steps = kept.iter().filter_map(|at| self.steps.get(*at).cloned());
            part.steps = steps.collect();
        }
        for simplification in &selection.without {
            part.leave_out(*simplification);
        }
        let schema = &part.schema;
        part.model = part.model.possible(schema);
        for step in &mut part.steps {
            if let Step::Deploy { model } = step {
                *model = model.clone().possible(schema);
            }
        }
        part
    }

    fn leave_out(&mut self, what: Simplification) {
        match what {
            Simplification::Table(at) => {
                let table = &mut self.schema.tables[at];
                table.columns.clear();
                table.references.clear();
                table.key_len = 0;
            }
            Simplification::Reference(at, number) => {
                if let Some(reference) = self.schema.tables[at].references.get_mut(number) {
                    reference.columns.clear();
                }
            }
            Simplification::Actions(at) => {
                let references = &mut self.schema.tables[at].references;
                references.iter_mut().for_each(|reference| reference.actions.clear());
            }
            Simplification::Unique(at) => {
                for column in &mut self.schema.tables[at].columns {
                    if column.role == Role::Unique {
                        column.role = Role::Value;
                    }
                }
            }
            Simplification::Options(at) => self.schema.tables[at].options = "",
            Simplification::Nocase(at) => {
                self.schema.tables[at].columns.iter_mut().for_each(|it| it.nocase = false);
            }
            Simplification::Rows(at) => self.in_all_sections(at, |section| {
                section.rows = Section::PLAIN.rows;
            }),
            Simplification::Rule(at) => self.in_all_sections(at, |section| {
                section.rule = Rule::ConsolidatedWins;
            }),
            Simplification::Own(at) => self.in_all_models(|model| {
                model.own.get_mut(at).into_iter().for_each(|own| *own = Own::default());
            }),
            Simplification::Around => {
                self.in_all_models(|model| model.around = Around::default());
            }
        }
    }

    fn in_all_sections(&mut self, at: usize, change: impl Fn(&mut Section)) {
        self.in_all_models(|model| model.sections[at].iter_mut().for_each(&change));
    }

    fn in_all_models(&mut self, change: impl Fn(&mut Model)) {
        change(&mut self.model);
        for step in &mut self.steps {
            if let Step::Deploy { model } = step {
                change(model);
            }
        }
    }
}

/// As options of the program.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(steps) = &self.steps {
            write!(f, " --steps {}", ranges(steps))?;
        }
        if !self.without.is_empty() {
            let without: Vec<String> = self.without.iter().map(ToString::to_string).collect();
            write!(f, " --without {}", without.join(","))?;
        }
        Ok(())
    }
}

impl fmt::Display for Simplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simplification::Table(at) => write!(f, "t{at}"),
            Simplification::Reference(at, number) => write!(f, "t{at}.r{number}"),
            Simplification::Actions(at) => write!(f, "t{at}.actions"),
            Simplification::Unique(at) => write!(f, "t{at}.unique"),
            Simplification::Options(at) => write!(f, "t{at}.options"),
            Simplification::Nocase(at) => write!(f, "t{at}.nocase"),
            Simplification::Rows(at) => write!(f, "t{at}.rows"),
            Simplification::Rule(at) => write!(f, "t{at}.rule"),
            Simplification::Own(at) => write!(f, "t{at}.own"),
            Simplification::Around => write!(f, "around"),
        }
    }
}

impl FromStr for Simplification {
    type Err = String;

    fn from_str(text: &str) -> Result<Simplification, String> {
        let unknown = || format!("`{text}` is no part of a schema");
        if text == "around" {
            return Ok(Simplification::Around);
        }
        let (table, what) = text.split_once('.').map_or((text, None), |(a, b)| (a, Some(b)));
        let at = table.strip_prefix('t').ok_or_else(unknown)?;
        let at: usize = at.parse().map_err(|_| unknown())?;
        Ok(match what {
            None => Simplification::Table(at),
            Some("actions") => Simplification::Actions(at),
            Some("unique") => Simplification::Unique(at),
            Some("options") => Simplification::Options(at),
            Some("nocase") => Simplification::Nocase(at),
            Some("rows") => Simplification::Rows(at),
            Some("rule") => Simplification::Rule(at),
            Some("own") => Simplification::Own(at),
            Some(other) => {
                let number = other.strip_prefix('r').ok_or_else(unknown)?;
                Simplification::Reference(at, number.parse().map_err(|_| unknown())?)
            }
        })
    }
}

/// Steps as `3-7,9`.
fn ranges(steps: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for step in steps {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *step => *last = *step,
            _ => ranges.push((*step, *step)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Reads `3-7,9`.
pub fn read_steps(text: &str) -> Result<Vec<usize>, String> {
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("`{text}`: {error}"));
    let mut steps = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        steps.extend(number(first)?..=number(last)?);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::super::Length;
    use super::*;

    #[test]
    fn a_selection_is_read_as_it_is_written() {
        let history = History::draw(3, Length::USUAL);
        let all = history.simplifications();
        let read = all.iter().map(|it| it.to_string().parse());
        assert_eq!(read.collect::<Result<Vec<Simplification>, _>>().unwrap(), all);
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(read_steps("0-2,5,7-8").unwrap(), [0, 1, 2, 5, 7, 8]);
        assert!(read_steps("x").is_err());
        assert!("u1".parse::<Simplification>().is_err());
    }

    #[test]
    fn every_simpler_schema_can_be_made() {
        for seed in 0..30 {
            let history = History::draw(seed, Length::USUAL);
            for without in history.simplifications() {
                let part =
                    history.part(&Selection { steps: Some(vec![0]), without: vec![without] });
                let connection = rusqlite::Connection::open_in_memory().unwrap();
                let create = part.schema.create();
                connection.execute_batch(&create).unwrap_or_else(|it| panic!("{it}: {create}"));
                assert_eq!(part.steps.len(), 1);
            }
        }
    }
}
