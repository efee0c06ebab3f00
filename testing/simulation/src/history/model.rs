//! Random sync models: what is published, to whom, and who wins.

use super::around::Around;
use super::own::{Cursor, Own};
use super::schema::{Kind, Role, Schema, Table};
use harness::Chance;

/// A sync model: one section per table of the schema, none where it is not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// In the order of the tables.
    pub sections: Vec<Option<Section>>,
    /// In the same order; those that are missing have none.
    pub own: Vec<Own>,
    /// Around rows.
    pub around: Around,
}

/// How one table is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which way rows go.
    pub direction: Direction,
    /// Who wins.
    pub rule: Rule,
    /// Which rows a remote receives.
    pub rows: Rows,
    /// A remote may move rows to others.
    pub may_leave: bool,
    /// A column that is not published.
    pub left_out: Option<usize>,
}

/// Which way rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    Both,
    /// To the remotes.
    Down,
    /// To the center.
    Up,
}

/// Who wins where two have changed a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The center.
    ConsolidatedWins,
    /// The remote.
    RemoteWins,
    /// Column by column.
    Merge,
    /// The greater value in this column.
    Latest(usize),
}

/// Which rows a remote receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// All.
    Whole,
    /// Those whose place is the user's.
    Claim,
    /// Those whose place is in a list of the user's.
    List,
    /// Those whose place the mapping table gives to the user.
    Mapping,
    /// Those whose place is less than this.
    Custom(i64),
    /// Those of the row that this reference names.
    Parent(usize),
}

impl Model {
    /// A model by chance.
    pub fn draw(schema: &Schema, chance: &mut Chance) -> Model {
        let sections = schema.tables.iter().map(|table| Some(Section::draw(table, chance)));
        let (own, around) = (Vec::new(), Around::default());
        Model { sections: sections.collect(), own, around }.possible(schema)
    }

    /// The same with something changed.
    pub fn changed(&self, schema: &Schema, chance: &mut Chance) -> Model {
        let mut model = self.clone();
        let at = chance.below(schema.tables.len() as u64) as usize;
        match (&mut model.sections[at], chance.below(6)) {
            (section @ None, _) => *section = Some(Section::draw(&schema.tables[at], chance)),
            (section @ Some(_), 0) => *section = None,
            (Some(section), 1) => {
                section.direction = *chance.choose(&[Direction::Both, Direction::Down]);
            }
            (Some(section), 2) => section.may_leave = !section.may_leave,
            (Some(section), what) => {
                let other = Section::draw(&schema.tables[at], chance);
                match what {
                    3 => section.rule = other.rule,
                    _ => section.rows = other.rows,
                }
            }
        }
        model.possible(schema)
    }

    /// Without what a deployment refuses.
    pub fn possible(mut self, schema: &Schema) -> Model {
        for (at, table) in schema.tables.iter().enumerate() {
            if table.is_gone() {
                self.sections[at] = None;
            }
            let Some(section) = &self.sections[at] else { continue };
            let Rows::Parent(number) = section.rows else { continue };
            let reference = table.references.get(number).filter(|it| !it.columns.is_empty());
            let parent = reference.map(|reference| reference.parent);
            // What no remote receives decides nothing.
            let is_there = parent.is_some_and(|parent| {
                parent != at
                    && self.sections[parent]
                        .as_ref()
                        .is_some_and(|section| section.direction != Direction::Up)
            });
            if let (false, Some(section)) = (is_there, &mut self.sections[at]) {
                section.rows = Rows::Whole;
            }
        }
        for section in self.sections.iter_mut().flatten() {
            section.may_leave &=
                section.rows != Rows::Whole && section.direction != Direction::Down;
        }
        self.without_unknown_parents(schema);
        if self.sections.iter().all(Option::is_none) {
            let at = schema.tables.iter().position(|table| !table.is_gone());
            self.sections[at.unwrap_or(0)] = Some(Section::PLAIN);
        }
        self
    }

    /// The own scripts of a table.
    pub fn own(&self, table: usize) -> Own {
        self.own.get(table).copied().unwrap_or_default()
    }

    /// The tables of which some uploaded rows are ignored.
    pub fn ignored(&self) -> impl Iterator<Item = usize> {
        let all = self.own.iter().enumerate();
        all.filter(|(_, own)| own.ignored.is_some()).map(|(at, _)| at)
    }

    /// Without own cursors where a deployment would refuse them: the rows of a table may not follow
    /// those of a parent with own cursors unless it has some too.
    fn without_unknown_parents(&mut self, schema: &Schema) {
        for at in 0..self.own.len() {
            let mut below = at;
            while let Some(parent) = self.parent(schema, below).filter(|it| *it != below) {
                if !self.own[at].has_cursor() {
                    self.own[parent].cursor = Cursor::Generated;
                    self.own[parent].delete_cursor = false;
                }
                below = parent;
            }
        }
    }

    fn parent(&self, schema: &Schema, at: usize) -> Option<usize> {
        let section = self.sections[at].as_ref()?;
        match section.rows {
            Rows::Parent(number) => Some(schema.tables[at].references[number].parent),
            _ => None,
        }
    }

    /// The text of the model file.
    pub fn toml(&self, schema: &Schema) -> String {
        let mut toml = "script_version = \"v1\"\n".to_owned();
        if self.around != Around::default() {
            // The events are for people.
            let Around { events, session, handles, reports } = &self.around;
            toml.push_str(&format!(
                "session = {session}\n# {events:?}, handles {handles}, reports {reports}\n"
            ));
        }
        for (at, (table, section)) in schema.tables.iter().zip(&self.sections).enumerate() {
            if let Some(section) = section {
                toml.push_str(&section.toml(table, schema));
            }
            // For people.
            let own = self.own(at);
            if section.is_some() && own != Own::default() {
                toml.push_str(&format!("# {own:?}\n"));
            }
        }
        toml
    }
}

impl Section {
    /// What a model says that says nothing.
    pub const PLAIN: Section = Section {
        direction: Direction::Both,
        rule: Rule::ConsolidatedWins,
        rows: Rows::Whole,
        may_leave: false,
        left_out: None,
    };

    fn draw(table: &Table, chance: &mut Chance) -> Section {
        let directions = [Direction::Both; 8].into_iter().chain([Direction::Down, Direction::Up]);
        let directions: Vec<Direction> = directions.collect();
        let values = table.columns.iter().enumerate().filter(|(_, it)| it.role == Role::Value);
        let values: Vec<usize> = values.map(|(at, _)| at).collect();
        let mut rules = vec![Rule::ConsolidatedWins, Rule::RemoteWins, Rule::Merge];
        // Bytes have no order that anybody means.
        let ordered = values.iter().find(|at| table.columns[**at].kind != Kind::Blob);
        rules.extend(ordered.map(|at| Rule::Latest(*at)));
        let mut rows = vec![Rows::Whole, Rows::Claim, Rows::List, Rows::Mapping, Rows::Custom(3)];
        for number in 0..table.references.len() {
            rows.extend([Rows::Parent(number); 4]);
        }
        let rule = *chance.choose(&rules);
        let last = values.last().copied();
        let kept = matches!(rule, Rule::Latest(at) if Some(at) == last) || values.len() < 2;
        Section {
            direction: *chance.choose(&directions),
            rule,
            rows: *chance.choose(&rows),
            may_leave: chance.below(2) == 0,
            left_out: if kept || chance.below(5) > 0 { None } else { last },
        }
    }

    /// The columns that remotes have.
    pub fn published(&self, table: &Table) -> Vec<usize> {
        (0..table.columns.len()).filter(|at| Some(*at) != self.left_out).collect()
    }

    fn toml(&self, table: &Table, schema: &Schema) -> String {
        let direction = match self.direction {
            Direction::Both => "both",
            Direction::Down => "download_only",
            Direction::Up => "upload_only",
        };
        let rule = match self.rule {
            Rule::ConsolidatedWins => "\"consolidated_wins\"".to_owned(),
            Rule::RemoteWins => "\"remote_wins\"".to_owned(),
            Rule::Merge => "\"merge\"".to_owned(),
            Rule::Latest(at) => format!("{{ latest = \"{}\" }}", table.columns[at].name),
        };
        let rows = match self.rows {
            Rows::Whole => String::new(),
            Rows::Claim => "partition = \"place = {u.rep}\"\n".to_owned(),
            Rows::List => "partition = \"place IN {u.places}\"\n".to_owned(),
            Rows::Mapping => "partition = \"place IN \
                (SELECT project FROM member WHERE person = {u.rep})\"\n"
                .to_owned(),
            Rows::Custom(below) => format!("partition = {{ custom = \"t.place < {below}\" }}\n"),
            Rows::Parent(number) => {
                let reference = &table.references[number];
                let columns = reference.columns.iter().map(|at| table.columns[*at].name.as_str());
                let columns = columns.collect::<Vec<_>>().join("\", \"");
                let parent = &schema.tables[reference.parent].name;
                format!("parent = {{ table = \"{parent}\", columns = [\"{columns}\"] }}\n")
            }
        };
        let names: Vec<&str> =
            self.published(table).into_iter().map(|at| table.columns[at].name.as_str()).collect();
        format!(
            "[table.{}]\ncolumns = [\"{}\"]\ndirection = \"{direction}\"\nconflict = {rule}\n\
             {rows}{}",
            table.name,
            names.join("\", \""),
            if self.may_leave { "may_leave = true\n" } else { "" }
        )
    }
}
