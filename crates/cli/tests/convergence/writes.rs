//! What applications write, at remotes and at the centre: drawn, in SQL that both databases speak.

use crate::shop::{Kind, Spec, Text};
use harness::Chance;

/// Keys are few, so that everybody means the same rows.
const KEYS: u64 = 6;

/// Who writes. Every text says in which column it belongs and who wrote it, and is written once.
#[derive(Debug)]
pub(crate) struct Author {
    pub(crate) name: String,
    written: u64,
    pub(crate) chance: Chance,
    /// `INSERT OR REPLACE` is understood.
    pub(crate) is_sqlite: bool,
}

/// How what an author has written begins, behind the column.
pub(crate) fn signature(author: &str) -> String {
    format!(":{author}-")
}

impl Author {
    pub(crate) fn new(name: &str, is_sqlite: bool, chance: Chance) -> Author {
        Author { name: name.to_owned(), written: 0, chance, is_sqlite }
    }

    fn text(&mut self, column: impl std::fmt::Display) -> String {
        self.written += 1;
        format!("'{column}{}{}.'", signature(&self.name), self.written)
    }

    fn note(&mut self, text: &Text) -> String {
        self.text(format!("c{}", text.identity))
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

    fn key(&mut self, spec: &Spec) -> Vec<String> {
        spec.key.iter().map(|(_, kind)| self.value(*kind)).collect()
    }

    fn insert(&mut self, spec: &Spec, texts: &[Text], key: &[String], verb: &str) -> String {
        let mut values = key.to_vec();
        if let Some((_, kind)) = spec.place {
            values.push(self.place(spec, kind));
        }
        values.push(self.text("u"));
        let names: Vec<&str> = texts.iter().map(|text| text.name.as_str()).collect();
        values.extend(texts.iter().map(|text| self.note(text)).collect::<Vec<_>>());
        let names: Vec<&str> = spec.fixed().into_iter().chain(names).collect();
        format!("{verb} INTO {} ({}) VALUES ({})", spec.name, names.join(", "), values.join(", "))
    }

    fn update(&mut self, spec: &Spec, texts: &[Text], key: &[String]) -> String {
        let some = 1 + self.chance.below(texts.len() as u64) as usize;
        let first = self.chance.below(texts.len() as u64) as usize;
        let chosen = (first..first + some).map(|at| &texts[at % texts.len()]);
        let set: Vec<String> =
            chosen.map(|text| format!("{} = {}", text.name, self.note(text))).collect();
        format!("UPDATE {} SET {}{}", spec.name, set.join(", "), where_key(spec, key))
    }

    fn change_key(&mut self, spec: &Spec, key: &[String], new: &[String], and: &str) -> String {
        let set: Vec<String> =
            spec.key.iter().zip(new).map(|((name, _), new)| format!("{name} = {new}")).collect();
        format!("UPDATE {} SET {}{and}{}", spec.name, set.join(", "), where_key(spec, key))
    }

    /// One transaction.
    pub(crate) fn transaction(&mut self, spec: &Spec, texts: &[Text]) -> Vec<String> {
        let (key, other) = (self.key(spec), self.key(spec));
        let delete = format!("DELETE FROM {}{}", spec.name, where_key(spec, &key));
        match self.chance.below(16) {
            0..=2 => vec![self.insert(spec, texts, &key, "INSERT")],
            3..=5 => vec![self.update(spec, texts, &key)],
            6 => match spec.place {
                Some((name, kind)) => {
                    let place = self.place(spec, kind);
                    let set = format!("UPDATE {} SET {name} = {place}", spec.name);
                    vec![format!("{set}{}", where_key(spec, &key))]
                }
                None => vec![self.update(spec, texts, &key)],
            },
            7 => vec![delete],
            8 => vec![self.change_key(spec, &key, &other, "")],
            9 => {
                let text = self.chance.choose(texts).clone();
                let and = format!(", {} = {}", text.name, self.note(&text));
                vec![self.change_key(spec, &key, &other, &and)]
            }
            10 => {
                let insert = self.insert(spec, texts, &key, "INSERT");
                let change = self.update(spec, texts, &key);
                vec![insert, change, self.change_key(spec, &key, &other, "")]
            }
            11 => vec![delete, self.insert(spec, texts, &key, "INSERT")],
            12 => {
                // A swap, or a chain where one of the rows is missing.
                let mut between = key.clone();
                *between.last_mut().unwrap() = match spec.key.last().unwrap().1 {
                    Kind::Number => "99".to_owned(),
                    Kind::Word => "'k99'".to_owned(),
                };
                vec![
                    self.change_key(spec, &key, &between, ""),
                    self.change_key(spec, &other, &key, ""),
                    self.change_key(spec, &between, &other, ""),
                ]
            }
            13 => vec![self.change_key(spec, &key, &other, ""), {
                let key = self.key(spec);
                format!("DELETE FROM {}{}", spec.name, where_key(spec, &key))
            }],
            14 if self.is_sqlite => vec![self.insert(spec, texts, &key, "INSERT OR REPLACE")],
            _ => vec![self.update(spec, texts, &key), self.update(spec, texts, &other)],
        }
    }
}

fn where_key(spec: &Spec, key: &[String]) -> String {
    let equal: Vec<String> =
        spec.key.iter().zip(key).map(|((name, _), value)| format!("{name} = {value}")).collect();
    format!(" WHERE {}", equal.join(" AND "))
}
