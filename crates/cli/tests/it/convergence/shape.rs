//! What a table is, whatever it is called, and what somebody calls it.

use harness::Chance;

/// A key or a place: a number, or a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Word,
}

/// Who receives the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Claim,
    Mapping,
    Parent(&'static str),
    Whole,
}

/// What does not change about a table.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) key: &'static [(&'static str, Kind)],
    /// The column that decides who receives a row, or that refers to a parent.
    pub(crate) place: Option<(&'static str, Kind)>,
    pub(crate) part: Part,
    /// The table to which the place refers.
    pub(crate) refers_to: Option<&'static str>,
    /// A table on which the model makes no other depend.
    pub(crate) may_go: bool,
}

pub(crate) const SPECS: [Spec; 7] = [
    Spec {
        name: "customer",
        key: &[("id", Kind::Number)],
        place: Some(("rep", Kind::Number)),
        part: Part::Claim,
        refers_to: None,
        may_go: false,
    },
    Spec {
        name: "invoice",
        key: &[("id", Kind::Number)],
        place: Some(("customer", Kind::Number)),
        part: Part::Parent("customer"),
        refers_to: Some("customer"),
        may_go: false,
    },
    Spec {
        name: "line",
        key: &[("invoice", Kind::Number), ("n", Kind::Number)],
        place: None,
        part: Part::Parent("invoice"),
        refers_to: Some("invoice"),
        may_go: true,
    },
    Spec {
        name: "task",
        key: &[("id", Kind::Word)],
        place: Some(("project", Kind::Word)),
        part: Part::Mapping,
        refers_to: None,
        may_go: false,
    },
    Spec {
        name: "comment",
        key: &[("id", Kind::Number)],
        place: Some(("task", Kind::Word)),
        part: Part::Parent("task"),
        refers_to: Some("task"),
        may_go: true,
    },
    Spec {
        name: "product",
        key: &[("id", Kind::Word)],
        place: None,
        part: Part::Whole,
        refers_to: None,
        may_go: true,
    },
    Spec {
        name: "node",
        key: &[("id", Kind::Number)],
        place: Some(("parent", Kind::Number)),
        part: Part::Whole,
        refers_to: Some("node"),
        may_go: true,
    },
];

/// A column of text: its name now, and what it is whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) identity: u64,
}

/// A number or a word in each row, which may be required, and of another type tomorrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

/// A table as the center or a remote knows it.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) spec: &'static Spec,
    pub(crate) name: String,
    /// Key, place and mark of identity, as they are called.
    pub(crate) fixed: Vec<String>,
    pub(crate) texts: Vec<Text>,
    pub(crate) measure: Option<Measure>,
}

impl Kind {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Kind::Number => "INTEGER",
            Kind::Word => "TEXT",
        }
    }
}

impl Shape {
    /// A table with its first names and one text column.
    pub(crate) fn first(spec: &'static Spec) -> Shape {
        let fixed = spec.key.iter().chain(&spec.place).map(|(name, _)| *name).chain(["uid"]);
        Shape {
            spec,
            name: spec.name.to_owned(),
            fixed: fixed.map(str::to_owned).collect(),
            texts: vec![Text { name: "note".into(), identity: 0 }],
            measure: None,
        }
    }

    pub(crate) fn key(&self) -> &[String] {
        &self.fixed[..self.spec.key.len()]
    }

    /// The column that decides who receives a row, or that refers to a parent.
    pub(crate) fn place(&self) -> Option<(&str, Kind)> {
        self.spec.place.map(|(_, kind)| (self.fixed[self.spec.key.len()].as_str(), kind))
    }

    /// The column that refers to a parent, which may be in the key.
    pub(crate) fn referring(&self) -> &str {
        self.place().map_or(self.fixed[0].as_str(), |(name, _)| name)
    }

    /// What marks a row whatever key it has.
    pub(crate) fn mark(&self) -> &str {
        &self.fixed[self.fixed.len() - 1]
    }

    /// Every published column.
    pub(crate) fn columns(&self) -> Vec<String> {
        let texts = self.texts.iter().map(|text| text.name.clone());
        let measure = self.measure.iter().map(|measure| measure.name.clone());
        self.fixed.iter().cloned().chain(texts).chain(measure).collect()
    }

    /// What each column is called now that was called otherwise in `before`: new and old name.
    pub(crate) fn renamed_since(&self, before: &Shape) -> Vec<(String, String)> {
        let text = |before: &Text| {
            let now = self.texts.iter().find(|text| text.identity == before.identity)?;
            Some((now.name.clone(), before.name.clone()))
        };
        let texts = before.texts.iter().filter_map(text);
        let fixed = self.fixed.iter().cloned().zip(before.fixed.iter().cloned());
        let measures = self.measure.iter().zip(&before.measure);
        let measures = measures.map(|(now, before)| (now.name.clone(), before.name.clone()));
        texts.chain(fixed).chain(measures).filter(|(now, before)| now != before).collect()
    }
}

/// Behind this stands the number of a name that is not the first one.
const AGAIN: &str = "_z";

/// Another name, which was never used.
pub(crate) fn rename(name: &str, number: u64) -> String {
    format!("{}{AGAIN}{number}", first_names(name))
}

/// A text in which tables and columns have their first names again.
pub(crate) fn first_names(text: &str) -> String {
    let mut parts = text.split(AGAIN);
    let mut first = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        first.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    first
}

/// What a table is that is called so.
pub(crate) fn spec_of(table: &str) -> &'static Spec {
    let name = first_names(table);
    SPECS.iter().find(|spec| spec.name == name).unwrap()
}

/// The actions of the foreign key of a table.
pub(crate) fn actions(spec: &Spec, chance: &mut Chance) -> String {
    // A key has no NULL.
    let on_delete: &[&str] = match spec.place {
        Some(_) => &[" ON DELETE CASCADE", " ON DELETE CASCADE", " ON DELETE SET NULL", ""],
        None => &[" ON DELETE CASCADE", ""],
    };
    let on_update = [" ON UPDATE CASCADE", " ON UPDATE CASCADE", ""];
    let deferred = ["", "", " DEFERRABLE INITIALLY DEFERRED"];
    format!("{}{}{}", chance.choose(on_delete), chance.choose(&on_update), chance.choose(&deferred))
}
