//! The tables of the walk: what they are called now, what is published, and who receives what.

use harness::Chance;
use std::collections::BTreeSet;

/// Names of columns come from these, few enough to be swapped and used again.
const NAMES: [&str; 5] = ["note", "a", "b", "c", "d"];

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

/// A table as the centre has it.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) spec: &'static Spec,
    pub(crate) texts: Vec<Text>,
    deployed: Vec<Text>,
    /// The renamings that the last model declared: new and old name.
    declared: BTreeSet<(String, String)>,
    pub(crate) published: bool,
    rule: &'static str,
    /// The actions of its foreign key.
    actions: String,
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) tables: Vec<Table>,
    next_identity: u64,
}

impl Shop {
    /// Tables with the same text column, whose foreign keys and rules are drawn.
    pub(crate) fn draw(chance: &mut Chance) -> Shop {
        let rules = ["consolidated_wins", "remote_wins", "merge"];
        let mut table = |spec: &'static Spec| Table {
            spec,
            texts: vec![Text { name: "note".into(), identity: 0 }],
            deployed: vec![Text { name: "note".into(), identity: 0 }],
            declared: BTreeSet::new(),
            published: true,
            rule: rules[chance.below(rules.len() as u64) as usize],
            actions: actions(spec, chance),
        };
        let tables = SPECS.iter().map(&mut table).collect();
        Shop { tables, next_identity: 1 }
    }

    /// The SQL that makes the tables, for both databases.
    pub(crate) fn create(&self) -> String {
        let mut sql = "CREATE TABLE member (person INTEGER, project TEXT,
            PRIMARY KEY (person, project));\n"
            .to_owned();
        for table in &self.tables {
            sql.push_str(&table.create());
        }
        sql
    }

    /// The model of what is published. Says what has been renamed and dropped since it was asked
    /// last; from then on that counts as deployed.
    pub(crate) fn model(&mut self) -> String {
        let mut toml = "script_version = \"v1\"\n".to_owned();
        for table in &mut self.tables {
            table.declared.clear();
            if table.published {
                toml.push_str(&table.section());
                table.declared = table.renamed();
                table.deployed.clone_from(&table.texts);
            }
        }
        toml
    }

    /// Renames, drops, adds or swaps text columns of one published table; the statements for it.
    pub(crate) fn change_columns(&mut self, chance: &mut Chance) -> Vec<String> {
        let at = chance.below(self.tables.len() as u64) as usize;
        let identity = self.next_identity;
        self.next_identity += 1;
        let table = &mut self.tables[at];
        if !table.published {
            return Vec::new();
        }
        let before = table.texts.clone();
        let statements = table.change_columns(identity, chance);
        // Two successive models that declare the same renaming rename once: the next deployment
        // does not swap the names back. To swap them again, a model without the line must come
        // between.
        if table.renamed().is_disjoint(&table.declared) {
            return statements;
        }
        table.texts = before;
        Vec::new()
    }

    /// Publishes a table no longer, or again.
    pub(crate) fn change_publication(&mut self, chance: &mut Chance) -> String {
        let may_go: Vec<usize> =
            (0..self.tables.len()).filter(|at| self.tables[*at].spec.may_go).collect();
        let table = &mut self.tables[*chance.choose(&may_go)];
        table.published = !table.published;
        format!("{} is published: {}", table.spec.name, table.published)
    }

    /// Publishes everything.
    pub(crate) fn publish_all(&mut self) {
        self.tables.iter_mut().for_each(|table| table.published = true);
    }

    pub(crate) fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.spec.name == name).unwrap()
    }
}

fn actions(spec: &Spec, chance: &mut Chance) -> String {
    // A key has no NULL.
    let on_delete: &[&str] = match spec.place {
        Some(_) => &[" ON DELETE CASCADE", " ON DELETE CASCADE", " ON DELETE SET NULL", ""],
        None => &[" ON DELETE CASCADE", ""],
    };
    let on_update = [" ON UPDATE CASCADE", " ON UPDATE CASCADE", ""];
    let deferred = ["", "", " DEFERRABLE INITIALLY DEFERRED"];
    format!("{}{}{}", chance.choose(on_delete), chance.choose(&on_update), chance.choose(&deferred))
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Kind::Number => "INTEGER",
            Kind::Word => "TEXT",
        }
    }
}

impl Spec {
    /// The column that refers to a parent, which may be in the key.
    pub(crate) fn referring(&self) -> (&'static str, Kind) {
        self.place.unwrap_or(self.key[0])
    }

    /// Key, place and mark of identity.
    pub(crate) fn fixed(&self) -> Vec<&'static str> {
        let names = self.key.iter().chain(&self.place).map(|(name, _)| *name);
        names.chain(["uid"]).collect()
    }
}

impl Table {
    fn create(&self) -> String {
        let Spec { name, key, place, refers_to, .. } = self.spec;
        let column = |(name, kind): &(&str, Kind), rest| {
            let references = match refers_to {
                Some(parent) if *name == self.spec.referring().0 => {
                    format!(" REFERENCES {parent} (id){}", self.actions)
                }
                _ => String::new(),
            };
            format!("{name} {}{rest}{references}, ", kind.sql())
        };
        let keys: String = key.iter().map(|it| column(it, " NOT NULL")).collect();
        let place: String = place.iter().map(|it| column(it, "")).collect();
        let names: Vec<&str> = key.iter().map(|(name, _)| *name).collect();
        format!(
            "CREATE TABLE {name} ({keys}{place}uid TEXT, note TEXT, PRIMARY KEY ({}));\n",
            names.join(", ")
        )
    }

    /// What has got another name since the last deployment: new and old name.
    fn renamed(&self) -> BTreeSet<(String, String)> {
        let now = |identity| self.texts.iter().find(|text| text.identity == identity);
        let both = |before: &Text| {
            let now = now(before.identity).filter(|now| now.name != before.name)?;
            Some((now.name.clone(), before.name.clone()))
        };
        self.deployed.iter().filter_map(both).collect()
    }

    fn section(&self) -> String {
        let Table { spec, texts, deployed, rule, .. } = self;
        let part = match spec.part {
            Part::Claim => "partition = \"rep = {u.rep}\"\nmay_leave = true\n".to_owned(),
            Part::Mapping => "partition = \"project IN (SELECT project FROM member \
                              WHERE person = {u.rep})\"\nmay_leave = true\n"
                .to_owned(),
            Part::Parent(parent) => format!("parent = \"{parent}\"\nmay_leave = true\n"),
            Part::Whole => String::new(),
        };
        let renamed = self.renamed();
        let renamed: Vec<String> =
            renamed.iter().map(|(new, old)| format!("{new} = \"{old}\"")).collect();
        let gone = |before: &&Text| texts.iter().all(|text| text.identity != before.identity);
        let dropped: Vec<String> =
            deployed.iter().filter(gone).map(|before| format!("\"{}\"", before.name)).collect();
        format!(
            "[table.{}]\nconflict = \"{rule}\"\n{part}renamed = {{ {} }}\ndropped = [{}]\n",
            spec.name,
            renamed.join(", "),
            dropped.join(", ")
        )
    }

    fn change_columns(&mut self, identity: u64, chance: &mut Chance) -> Vec<String> {
        let name = self.spec.name;
        let taken = |table: &Table, name: &str| {
            // A deployment cannot declare a name as dropped and begin it at once.
            let all = table.texts.iter().chain(&table.deployed);
            all.map(|text| text.name.as_str()).any(|it| it == name)
        };
        let free: Vec<&str> = NAMES.into_iter().filter(|name| !taken(self, name)).collect();
        let at = chance.below(self.texts.len() as u64) as usize;
        match chance.below(4) {
            0 if self.texts.len() > 1 => {
                let text = self.texts.remove(at);
                vec![format!("ALTER TABLE {name} DROP COLUMN {}", text.name)]
            }
            1 if self.texts.len() > 1 => {
                let other = (at + 1) % self.texts.len();
                let (one, two) = (self.texts[at].name.clone(), self.texts[other].name.clone());
                (self.texts[at].name, self.texts[other].name) = (two.clone(), one.clone());
                let step = |from: &str, to: &str| {
                    format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}")
                };
                vec![step(&one, "spare"), step(&two, &one), step("spare", &two)]
            }
            2 if !free.is_empty() => {
                let new = (*chance.choose(&free)).to_owned();
                let old = std::mem::replace(&mut self.texts[at].name, new.clone());
                vec![format!("ALTER TABLE {name} RENAME COLUMN {old} TO {new}")]
            }
            _ if !free.is_empty() => {
                let new = (*chance.choose(&free)).to_owned();
                self.texts.push(Text { name: new.clone(), identity });
                vec![format!("ALTER TABLE {name} ADD COLUMN {new} TEXT")]
            }
            _ => Vec::new(),
        }
    }

    /// Every published column.
    pub(crate) fn columns(&self) -> Vec<String> {
        let texts = self.texts.iter().map(|text| text.name.clone());
        self.spec.fixed().into_iter().map(str::to_owned).chain(texts).collect()
    }

    /// Which rows somebody with this claim receives, as the database is asked by somebody else.
    pub(crate) fn condition(&self, rep: u64) -> String {
        let of_rep = format!("SELECT id FROM customer WHERE rep = {rep}");
        let of_person = format!("SELECT project FROM member WHERE person = {rep}");
        match self.spec.name {
            "customer" => format!("rep = {rep}"),
            "invoice" => format!("customer IN ({of_rep})"),
            "line" => format!("invoice IN (SELECT id FROM invoice WHERE customer IN ({of_rep}))"),
            "task" => format!("project IN ({of_person})"),
            "comment" => format!("task IN (SELECT id FROM task WHERE project IN ({of_person}))"),
            _ => "1 = 1".to_owned(),
        }
    }
}
