//! The tables of the walk: their present names, what is published, and which remote receives what.

use super::own::Own;
use super::shape::{Kind, Measure, Part, SPECS, Shape, Text, actions};
use harness::Chance;
use std::collections::BTreeSet;

/// Names of columns come from these, few enough to be swapped and used again.
const NAMES: [&str; 5] = ["note", "a", "b", "c", "d"];

/// A table as the center has it.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) now: Shape,
    /// As it was deployed last.
    pub(crate) deployed: Shape,
    /// The renamings that the last model declared: new and old name.
    declared: BTreeSet<(String, String)>,
    pub(crate) published: bool,
    rule: Rule,
    /// The actions of its foreign key.
    actions: String,
    pub(crate) own: Own,
}

/// Who wins where two have changed a row.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Named(&'static str),
    /// The row with the greater measure.
    Latest,
}

/// The mapping table, which is not published: its name, and its columns.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) name: String,
    pub(crate) person: String,
    pub(crate) project: String,
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) tables: Vec<Table>,
    pub(crate) mapping: Mapping,
    next_identity: u64,
}

impl Shop {
    /// Tables with the same text column, whose foreign keys and rules are drawn.
    pub(crate) fn draw(chance: &mut Chance) -> Shop {
        let rules = ["consolidated_wins", "remote_wins", "merge"];
        let mut tables = Vec::new();
        for spec in &SPECS {
            let rule = rules[chance.below(rules.len() as u64) as usize];
            tables.push(Table {
                now: Shape::first(spec),
                deployed: Shape::first(spec),
                declared: BTreeSet::new(),
                published: true,
                rule: Rule::Named(rule),
                actions: actions(spec, chance),
                own: Own::default(),
            });
        }
        let [name, person, project] = ["member", "person", "project"].map(str::to_owned);
        Shop { tables, mapping: Mapping { name, person, project }, next_identity: 1 }
    }

    /// Gives tables a measure, and rules that go by it.
    pub(crate) fn add_measures(&mut self, chance: &mut Chance) {
        for table in &mut self.tables {
            if chance.below(4) == 0 {
                continue;
            }
            let kind = *chance.choose(&[Kind::Number, Kind::Word]);
            let measure = Measure { name: "qty".into(), kind, required: false };
            table.now.measure = Some(measure);
            table.deployed = table.now.clone();
            if chance.below(3) == 0 {
                table.rule = Rule::Latest;
            }
        }
    }

    /// A number that nothing has yet.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_identity += 1;
        self.next_identity - 1
    }

    /// The SQL that makes the tables, for both databases.
    pub(crate) fn create(&self) -> String {
        let mut sql = "CREATE TABLE member (person INTEGER, project TEXT,
            PRIMARY KEY (person, project));\n"
            .to_owned();
        for table in &self.tables {
            sql.push_str(&self.definition(table, &table.now.name));
            sql.push_str(";\n");
        }
        sql
    }

    /// The SQL that makes a table under this name.
    pub(crate) fn definition(&self, table: &Table, name: &str) -> String {
        let Shape { spec, fixed, texts, measure, .. } = &table.now;
        let kinds = spec.key.iter().chain(&spec.place).map(|(_, kind)| *kind).chain([Kind::Word]);
        let mut columns = String::new();
        for (at, (column, kind)) in fixed.iter().zip(kinds).enumerate() {
            columns.push_str(&format!("{column} {}", kind.sql()));
            if at < spec.key.len() {
                columns.push_str(" NOT NULL");
            }
            if let (true, Some(parent)) = (column == table.now.referring(), spec.refers_to) {
                let parent = &self.table(parent).now;
                let (parent, id) = (&parent.name, &parent.key()[0]);
                columns.push_str(&format!(" REFERENCES {parent} ({id}){}", table.actions));
            }
            columns.push_str(", ");
        }
        for text in texts {
            columns.push_str(&format!("{} TEXT, ", text.name));
        }
        if let Some(Measure { name, kind, required }) = measure {
            let required = if *required { " NOT NULL" } else { "" };
            columns.push_str(&format!("{name} {}{required}, ", kind.sql()));
        }
        format!("CREATE TABLE {name} ({columns}PRIMARY KEY ({}))", table.now.key().join(", "))
    }

    /// The model of what is published. Says what has been renamed and dropped since it was asked
    /// last; from then on that counts as deployed.
    pub(crate) fn model(&mut self) -> String {
        let sections: Vec<String> = self.tables.iter().map(|table| self.section(table)).collect();
        let mut toml = "script_version = \"v1\"\n".to_owned();
        for (table, section) in self.tables.iter_mut().zip(sections) {
            table.declared.clear();
            if table.published {
                toml.push_str(&section);
                table.declared = table.renamed();
                table.deployed.clone_from(&table.now);
            }
        }
        toml
    }

    fn section(&self, table: &Table) -> String {
        let Table { now, deployed, rule, .. } = table;
        let Mapping { name, person, project } = &self.mapping;
        let place = now.place().map_or("", |(name, _)| name);
        let part = match now.spec.part {
            Part::Claim => format!("partition = \"{place} = {{u.rep}}\"\nmay_leave = true\n"),
            Part::Mapping => format!(
                "partition = \"{place} IN (SELECT {project} FROM {name} \
                 WHERE {person} = {{u.rep}})\"\nmay_leave = true\n"
            ),
            Part::Parent(parent) => {
                format!("parent = \"{}\"\nmay_leave = true\n", self.table(parent).now.name)
            }
            Part::Whole => String::new(),
        };
        let rule = match (rule, &now.measure) {
            (Rule::Latest, Some(measure)) => format!("{{ latest = \"{}\" }}", measure.name),
            (Rule::Latest, None) => unreachable!(),
            (Rule::Named(name), _) => format!("\"{name}\""),
        };
        let former = match now.name == deployed.name {
            true => String::new(),
            false => format!("renamed_from = \"{}\"\n", deployed.name),
        };
        let renamed: Vec<String> =
            table.renamed().iter().map(|(new, old)| format!("{new} = \"{old}\"")).collect();
        let gone = |before: &&Text| now.texts.iter().all(|text| text.identity != before.identity);
        let dropped = deployed.texts.iter().filter(gone);
        let dropped: Vec<String> = dropped.map(|before| format!("\"{}\"", before.name)).collect();
        format!(
            "[table.{}]\n{former}conflict = {rule}\n{part}renamed = {{ {} }}\ndropped = [{}]\n",
            now.name,
            renamed.join(", "),
            dropped.join(", ")
        )
    }

    /// Renames, drops, adds or swaps text columns of one published table; the statements for it.
    pub(crate) fn change_columns(&mut self, chance: &mut Chance) -> Vec<String> {
        let at = chance.below(self.tables.len() as u64) as usize;
        let identity = self.number();
        let table = &mut self.tables[at];
        if !table.published {
            return Vec::new();
        }
        let before = table.now.texts.clone();
        let statements = table.change_columns(identity, chance);
        // Two successive models that declare the same renaming rename once: the next deployment
        // does not swap the names back. To swap them again, a model without the line must come
        // between.
        if table.is_news() {
            return statements;
        }
        table.now.texts = before;
        Vec::new()
    }

    /// Publishes a table no longer, or again.
    pub(crate) fn change_publication(&mut self, chance: &mut Chance) -> String {
        let may_go: Vec<usize> =
            (0..self.tables.len()).filter(|at| self.tables[*at].now.spec.may_go).collect();
        let table = &mut self.tables[*chance.choose(&may_go)];
        table.published = !table.published;
        format!("{} is published: {}", table.now.name, table.published)
    }

    /// Publishes everything.
    pub(crate) fn publish_all(&mut self) {
        self.tables.iter_mut().for_each(|table| table.published = true);
    }

    /// The table that was called so first.
    pub(crate) fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.now.spec.name == name).unwrap()
    }

    /// Which rows of a table a user with this claim receives, in plain SQL.
    pub(crate) fn condition(&self, shape: &Shape, rep: u64) -> String {
        let of_table = |name: &str, condition: &str| {
            let shape = &self.table(name).now;
            format!("SELECT {} FROM {} WHERE {condition}", shape.key()[0], shape.name)
        };
        let Mapping { name, person, project } = &self.mapping;
        let of_person = format!("SELECT {project} FROM {name} WHERE {person} = {rep}");
        match shape.spec.part {
            Part::Claim => format!("{} = {rep}", shape.referring()),
            Part::Mapping => format!("{} IN ({of_person})", shape.referring()),
            Part::Parent(parent) => {
                let condition = self.condition(&self.table(parent).now, rep);
                format!("{} IN ({})", shape.referring(), of_table(parent, &condition))
            }
            Part::Whole => "1 = 1".to_owned(),
        }
    }
}

impl Table {
    /// What has got another name since the last deployment: new and old name.
    fn renamed(&self) -> BTreeSet<(String, String)> {
        self.now.renamed_since(&self.deployed).into_iter().collect()
    }

    /// No renaming is one that the last model has declared too.
    pub(crate) fn is_news(&self) -> bool {
        self.renamed().is_disjoint(&self.declared)
    }

    fn change_columns(&mut self, identity: u64, chance: &mut Chance) -> Vec<String> {
        let name = self.now.name.clone();
        let taken = |table: &Table, name: &str| {
            // A deployment cannot declare a name as dropped and begin it at once.
            let all = table.now.columns().into_iter().chain(table.deployed.columns());
            all.into_iter().any(|it| it == name)
        };
        let free: Vec<&str> = NAMES.into_iter().filter(|name| !taken(self, name)).collect();
        let at = chance.below(self.now.texts.len() as u64) as usize;
        match chance.below(4) {
            0 if self.now.texts.len() > 1 => {
                let text = self.now.texts.remove(at);
                vec![format!("ALTER TABLE {name} DROP COLUMN {}", text.name)]
            }
            1 if self.now.texts.len() > 1 => {
                let other = (at + 1) % self.now.texts.len();
                let (one, two) =
                    (self.now.texts[at].name.clone(), self.now.texts[other].name.clone());
                (self.now.texts[at].name, self.now.texts[other].name) = (two.clone(), one.clone());
                let step = |from: &str, to: &str| {
                    format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}")
                };
                vec![step(&one, "spare"), step(&two, &one), step("spare", &two)]
            }
            2 if !free.is_empty() => {
                let new = (*chance.choose(&free)).to_owned();
                let old = std::mem::replace(&mut self.now.texts[at].name, new.clone());
                vec![format!("ALTER TABLE {name} RENAME COLUMN {old} TO {new}")]
            }
            _ if !free.is_empty() => {
                let new = (*chance.choose(&free)).to_owned();
                self.now.texts.push(Text { name: new.clone(), identity });
                vec![format!("ALTER TABLE {name} ADD COLUMN {new} TEXT")]
            }
            _ => Vec::new(),
        }
    }
}
