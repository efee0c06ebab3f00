//! Random writes of applications, at remotes and at the center, in SQL for both databases.

use super::shape::{Kind, Measure, Shape, Spec, Text};
use harness::Chance;

/// There are few keys, so that writers often choose the same rows.
const KEYS: u64 = 6;

/// Who writes. Every text says in which column it belongs and who wrote it, and is written once.
#[derive(Debug)]
pub(crate) struct Author {
    pub(crate) name: String,
    /// Measures of theirs begin with it.
    number: u64,
    written: u64,
    pub(crate) chance: Chance,
    /// `INSERT OR REPLACE` is understood.
    pub(crate) is_sqlite: bool,
}

/// How many measures an author may write.
const MEASURES_MAX: u64 = 1_000_000;

/// The author of a measure.
pub(crate) fn author_of(measure: &str) -> Option<u64> {
    let number = measure.strip_prefix('w').unwrap_or(measure).parse::<u64>().ok()?;
    Some(number / MEASURES_MAX)
}

/// How what an author has written begins, behind the column.
pub(crate) fn signature(author: &str) -> String {
    format!(":{author}-")
}

impl Author {
    pub(crate) fn new(name: &str, number: u64, is_sqlite: bool, chance: Chance) -> Author {
        Author { name: name.to_owned(), number, written: 0, chance, is_sqlite }
    }

    fn text(&mut self, column: impl std::fmt::Display) -> String {
        self.written += 1;
        format!("'{column}{}{}.'", signature(&self.name), self.written)
    }

    fn note(&mut self, text: &Text) -> String {
        self.text(format!("c{}", text.identity))
    }

    /// A number; where a column takes words, sometimes one that no number column takes.
    fn measure(&mut self, measure: &Measure) -> String {
        self.written += 1;
        let number = self.number * MEASURES_MAX + self.written;
        match (self.chance.below(8), measure.kind) {
            (0, _) => "NULL".to_owned(),
            (1 | 2, Kind::Word) => format!("'w{number}'"),
            (_, Kind::Word) => format!("'{number}'"),
            (_, Kind::Number) => number.to_string(),
        }
    }

    fn value(&mut self, kind: Kind) -> String {
        let number = 1 + self.chance.below(KEYS);
        match kind {
            Kind::Number => number.to_string(),
            Kind::Word => format!("'k{number}'"),
        }
    }

    /// Where a row belongs.
    fn place(&mut self, spec: &Spec, kind: Kind) -> String {
        match (spec.name, kind) {
            ("customer", _) => (1 + self.chance.below(3)).to_string(),
            ("task", _) => format!("'{}'", self.chance.choose(&["p", "q", "r"])),
            _ if self.chance.below(8) == 0 => "NULL".to_owned(),
            _ => self.value(kind),
        }
    }

    fn key(&mut self, shape: &Shape) -> Vec<String> {
        shape.spec.key.iter().map(|(_, kind)| self.value(*kind)).collect()
    }

    fn insert(&mut self, shape: &Shape, key: &[String], verb: &str) -> String {
        let mut values = key.to_vec();
        if let Some((_, kind)) = shape.spec.place {
            values.push(self.place(shape.spec, kind));
        }
        values.push(self.text("u"));
        values.extend(shape.texts.iter().map(|text| self.note(text)).collect::<Vec<_>>());
        values.extend(shape.measure.iter().map(|it| self.measure(it)).collect::<Vec<_>>());
        let names = shape.columns().join(", ");
        format!("{verb} INTO {} ({names}) VALUES ({})", shape.name, values.join(", "))
    }

    fn update(&mut self, shape: &Shape, key: &[String]) -> String {
        let texts = &shape.texts;
        let some = 1 + self.chance.below(texts.len() as u64) as usize;
        let first = self.chance.below(texts.len() as u64) as usize;
        let chosen = (first..first + some).map(|at| &texts[at % texts.len()]);
        let mut set: Vec<String> =
            chosen.map(|text| format!("{} = {}", text.name, self.note(text))).collect();
        if let Some(measure) = &shape.measure {
            match self.chance.below(3) {
                0 => set.push(format!("{} = {}", measure.name, self.measure(measure))),
                1 => set = vec![format!("{} = {}", measure.name, self.measure(measure))],
                _ => (),
            }
        }
        format!("UPDATE {} SET {}{}", shape.name, set.join(", "), where_key(shape, key))
    }

    fn change_key(&mut self, shape: &Shape, key: &[String], new: &[String], and: &str) -> String {
        let set: Vec<String> =
            shape.key().iter().zip(new).map(|(name, new)| format!("{name} = {new}")).collect();
        format!("UPDATE {} SET {}{and}{}", shape.name, set.join(", "), where_key(shape, key))
    }

    /// One transaction.
    pub(crate) fn transaction(&mut self, shape: &Shape) -> Vec<String> {
        let (key, other) = (self.key(shape), self.key(shape));
        let delete = format!("DELETE FROM {}{}", shape.name, where_key(shape, &key));
        match self.chance.below(16) {
            0..=2 => vec![self.insert(shape, &key, "INSERT")],
            3..=5 => vec![self.update(shape, &key)],
            6 => match shape.place() {
                Some((name, kind)) => {
                    let place = self.place(shape.spec, kind);
                    let set = format!("UPDATE {} SET {name} = {place}", shape.name);
                    vec![format!("{set}{}", where_key(shape, &key))]
                }
                None => vec![self.update(shape, &key)],
            },
            7 => vec![delete],
            8 => vec![self.change_key(shape, &key, &other, "")],
            9 => {
                let text = self.chance.choose(&shape.texts).clone();
                let and = format!(", {} = {}", text.name, self.note(&text));
                vec![self.change_key(shape, &key, &other, &and)]
            }
            10 => {
                let insert = self.insert(shape, &key, "INSERT");
                let change = self.update(shape, &key);
                vec![insert, change, self.change_key(shape, &key, &other, "")]
            }
            11 => vec![delete, self.insert(shape, &key, "INSERT")],
            12 => {
                // A swap, or a chain where one of the rows is missing.
                let mut between = key.clone();
                *between.last_mut().unwrap() = match shape.spec.key.last().unwrap().1 {
                    Kind::Number => "99".to_owned(),
                    Kind::Word => "'k99'".to_owned(),
                };
                vec![
                    self.change_key(shape, &key, &between, ""),
                    self.change_key(shape, &other, &key, ""),
                    self.change_key(shape, &between, &other, ""),
                ]
            }
            13 => vec![self.change_key(shape, &key, &other, ""), {
                let key = self.key(shape);
                format!("DELETE FROM {}{}", shape.name, where_key(shape, &key))
            }],
            14 if self.is_sqlite => vec![self.insert(shape, &key, "INSERT OR REPLACE")],
            _ => vec![self.update(shape, &key), self.update(shape, &other)],
        }
    }
}

fn where_key(shape: &Shape, key: &[String]) -> String {
    let equal: Vec<String> =
        shape.key().iter().zip(key).map(|(name, value)| format!("{name} = {value}")).collect();
    format!(" WHERE {}", equal.join(" AND "))
}
