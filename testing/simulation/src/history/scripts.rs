//! The texts of the scripts that the owner of the center writes.

use super::around::Around;
use super::model::{Direction, Model, Rows};
use super::own::{Cursor, Deletes, Own};
use super::schema::{LOG, MEMBER, Schema, Table};
use consolidated::{Administration, Event, PlannedScripts, ScriptFile, SyncModel};
use harness::Chance;
use model::Failure;

/// The own scripts follow from the seed with these bits changed: nothing else is drawn from them.
const OTHER: u64 = 0x6f_77_6e;
/// The same of those around rows.
const AROUND: u64 = 0x61_72_6f;

impl Model {
    /// The scripts of the models of a history, which change with some of them.
    pub(super) fn draw_own(seed: u64, schema: &Schema, models: &mut [&mut Model]) {
        if seed.is_multiple_of(3) {
            return;
        }
        let mut chance = Chance::from_seed(seed ^ OTHER);
        let count = schema.tables.len();
        let mut own: Vec<Own> = (0..count).map(|at| Own::draw(schema, at, &mut chance)).collect();
        for model in models {
            model.own.clone_from(&own);
            **model = model.clone().possible(schema);
            if chance.below(2) == 0 {
                let at = chance.below(count as u64) as usize;
                own[at] = Own::draw(schema, at, &mut chance);
            }
        }
    }

    /// The same of scripts around rows.
    pub(super) fn draw_around(seed: u64, schema: &Schema, models: &mut [&mut Model]) {
        let mut chance = Chance::from_seed(seed ^ AROUND);
        let mut around = Around::draw(schema, &mut chance);
        for model in models {
            model.around.clone_from(&around);
            if chance.below(2) == 0 {
                around = Around::draw(schema, &mut chance);
            }
        }
    }

    /// Deploys it with its own scripts.
    pub fn deploy(&self, schema: &Schema, admin: &mut dyn Administration) -> Result<(), Failure> {
        let mut model = SyncModel::parse(&self.toml(schema), "model.toml")?;
        if self.own.iter().any(|own| *own != Own::default()) {
            let planned = admin.planned_scripts(std::slice::from_ref(&model))?;
            model.own_scripts.extend(self.files(schema, &planned));
        }
        model.own_scripts.extend(self.files_around(schema));
        admin.deploy(&[model], false)?;
        Ok(())
    }

    /// The files with own scripts, beside those that the model makes.
    fn files(
        &self,
        schema: &Schema,
        planned: &PlannedScripts,
    ) -> Vec<((String, Event), ScriptFile)> {
        let mut files = Vec::new();
        for (at, table) in schema.tables.iter().enumerate() {
            for event in Event::own() {
                let generated = planned.scripts.iter();
                let mut generated = generated.filter(|it| it.table == table.name);
                let Some(generated) = generated.find(|it| it.event == event) else { continue };
                let generated = generated.exported.as_deref().unwrap_or_default();
                let Some(text) = self.text(table, at, event, generated) else { continue };
                let name = format!("{}/{event}.sql", table.name);
                let file = ScriptFile { name, text, for_all: false };
                files.push(((table.name.clone(), event), file));
            }
        }
        files
    }

    /// The files with scripts around rows.
    fn files_around(&self, schema: &Schema) -> Vec<((String, Event), ScriptFile)> {
        let mut files = Vec::new();
        let mut add = |table: &str, event: Event, text: String| {
            let name = format!("{table}/{event}.sql");
            files.push(((table.to_owned(), event), ScriptFile { name, text, for_all: false }));
        };
        let writes = |table: &str, event: Event| {
            format!("INSERT INTO {LOG} VALUES ('{event}', '{table}', {{s.remote_id}})")
        };
        for (place, event) in &self.around.events {
            let table = match place {
                None => "",
                Some(at) if self.has_event(*at, *event) => &schema.tables[*at].name,
                Some(_) => continue,
            };
            add(table, *event, writes(table, *event));
        }
        if self.around.handles {
            add("", Event::HandleError, "SELECT 1000 AS action_code".to_owned());
        }
        if self.around.reports {
            add("", Event::ReportError, writes("", Event::ReportError));
        }
        files
    }

    /// Whether a table, as it is published, has such an event.
    fn has_event(&self, table: usize, event: Event) -> bool {
        let Some(section) = &self.sections[table] else { return false };
        match section.direction {
            Direction::Both => true,
            Direction::Down => !event.name().contains("upload"),
            Direction::Up => !event.name().contains("download"),
        }
    }

    fn text(&self, table: &Table, at: usize, event: Event, generated: &str) -> Option<String> {
        let (own, section) = (self.own(at), self.sections[at].as_ref()?);
        if own.ignored == Some(event) {
            return Some("--{ignore}".to_owned());
        }
        let published = section.published(table);
        let names: Vec<&str> =
            published.iter().map(|at| table.columns[*at].name.as_str()).collect();
        let name = &table.name;
        let (key, others) = names.split_at(table.key_len);
        let equal = key.iter().map(|key| format!("{key} = {{o.{key}}}"));
        let equal = equal.collect::<Vec<_>>().join(" AND ");
        // Two spellings of a word are two values.
        let is = others.iter().map(|it| format!(" AND {{o.{it}}} IS {it} COLLATE BINARY"));
        let is: String = is.collect();
        match event {
            Event::UploadInsert if own.insert => {
                let values = published.iter().map(|at| match &table.columns[*at] {
                    // An older definition may lack it.
                    it if it.required.is_some() => {
                        let default = it.required.iter().map(ToString::to_string);
                        let default: String = default.collect();
                        format!("coalesce({{r.{}}}, {default})", it.name)
                    }
                    it => format!("{{r.{}}}", it.name),
                });
                let (names, values) = (names.join(", "), values.collect::<Vec<_>>().join(", "));
                Some(format!("INSERT INTO {name} ({names}) VALUES ({values})"))
            }
            Event::UploadUpdate if own.update => {
                let set: Vec<String> =
                    others.iter().map(|it| format!("{it} = {{r.{it}}}")).collect();
                Some(format!("UPDATE {name} SET {} WHERE {equal}{is}", set.join(", ")))
            }
            Event::UploadDelete => match own.delete {
                Deletes::Generated => None,
                Deletes::Checked => Some(format!("DELETE FROM {name} WHERE {equal}{is}")),
                Deletes::ByKey => Some(format!("DELETE FROM {name} WHERE {equal}")),
            },
            Event::DownloadCursor => match (own.cursor, condition(section.rows)) {
                (Cursor::Generated, _) => None,
                (Cursor::All, Some(condition)) => {
                    Some(format!("SELECT {} FROM {name} AS t{condition}", names.join(", ")))
                }
                _ => Some(commented(generated)),
            },
            Event::DownloadDeleteCursor if own.delete_cursor => Some(commented(generated)),
            _ => None,
        }
    }
}

/// What a file says that was exported, with a comment. So it is no generated script any more.
fn commented(exported: &str) -> String {
    format!("{} -- own", exported.trim_end())
}

/// Which rows belong to a user, in other words than those of a model; none where only rows of
/// another table know.
fn condition(rows: Rows) -> Option<String> {
    Some(match rows {
        Rows::Whole => String::new(),
        Rows::Claim => " WHERE {u.rep} = t.place".to_owned(),
        Rows::List => {
            " WHERE instr(',' || {u.places} || ',', ',' || t.place || ',') > 0".to_owned()
        }
        Rows::Mapping => format!(
            " WHERE EXISTS (SELECT 1 FROM {MEMBER} AS m
                WHERE m.person = {{u.rep}} AND m.project = t.place)"
        ),
        Rows::Custom(below) => format!(" WHERE {below} > t.place"),
        Rows::Parent(_) => return None,
    })
}
