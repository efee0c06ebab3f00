//! Scripts that the owner of the center writes for some tables of some fleets.

use super::shape::{Part, SPECS, Shape, Spec};
use super::shop::{Mapping, Shop};
use consolidated::{Event, PlannedScripts, ScriptFile};
use harness::Chance;

/// The first seed of a fleet with such scripts. The stories of those before stay as they are.
pub(crate) const FIRST_OWN_SEED: u64 = 2000;
/// The scripts follow from the seed with these bits changed: nothing else is drawn from them.
const OTHER: u64 = 0x6f_77_6e;

/// The own scripts of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own {
    insert: Option<Rows>,
    updates: bool,
    deletes: bool,
    cursor: Option<Cursor>,
}

/// What an upload script gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    One,
    /// A whole batch, which only PostgreSQL can give.
    Batch,
}

/// Which rows a remote receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    /// As the generated script says.
    Commented,
    /// All of them each time, where no other table decides.
    All,
}

impl Shop {
    /// Gives tables own scripts, if the fleet of this seed has some.
    pub(crate) fn add_own_scripts(&mut self, seed: u64) {
        if seed < FIRST_OWN_SEED {
            return;
        }
        let mut chance = Chance::from_seed(seed ^ OTHER);
        // The rows of children follow those of a parent with an own cursor by own cursors only.
        let mut roots = Vec::new();
        for table in &mut self.tables {
            let root = root(table.now.spec);
            if !roots.iter().any(|(known, _)| *known == root) {
                roots.push((root, chance.below(2) == 0));
            }
            let has_cursor = roots.iter().any(|(known, own)| *known == root && *own);
            let cursors = [Cursor::Commented, Cursor::All, Cursor::All];
            let rows = [None, Some(Rows::One), Some(Rows::Batch)];
            table.own = Own {
                insert: *chance.choose(&rows),
                updates: chance.below(2) == 0,
                deletes: chance.below(2) == 0,
                cursor: Some(*chance.choose(&cursors)).filter(|_| has_cursor),
            };
            println!("own scripts of {}: {:?}", table.now.name, table.own);
        }
    }

    /// Whether some table has own scripts.
    pub(crate) fn has_own_scripts(&self) -> bool {
        self.tables.iter().any(|table| table.own.is_some())
    }

    /// The files with own scripts beside those that the model makes.
    pub(crate) fn files(
        &self,
        is_sqlite: bool,
        planned: &PlannedScripts,
    ) -> Vec<((String, Event), ScriptFile)> {
        let mut files = Vec::new();
        for table in self.tables.iter().filter(|table| table.published) {
            let name = &table.now.name;
            let mut cursors = planned.scripts.iter().filter(|script| script.table == *name);
            let generated = cursors.find(|script| script.event == Event::DownloadCursor);
            let generated = generated.and_then(|script| script.exported.as_deref());
            let cursor = table.own.cursor.map(|cursor| {
                let all = Some(cursor).filter(|cursor| *cursor == Cursor::All);
                let all = all.and_then(|_| self.all_rows(&table.now, generated.unwrap()));
                all.unwrap_or_else(|| format!("{} -- own", generated.unwrap().trim_end()))
            });
            let cursor = cursor.map(|text| (Event::DownloadCursor, text));
            let scripts = table.own.uploads(&table.now, is_sqlite).into_iter().chain(cursor);
            files.extend(scripts.map(|(event, text)| {
                let file = format!("{name}/{event}.sql");
                ((name.clone(), event), ScriptFile { name: file, text, for_all: false })
            }));
        }
        files
    }

    /// All rows of a table, with the columns of its generated cursor: they have its order.
    fn all_rows(&self, shape: &Shape, generated: &str) -> Option<String> {
        let Mapping { name, person, project } = &self.mapping;
        let (place, rep) = (shape.referring(), "CAST({u.rep} AS integer)");
        let condition = match shape.spec.part {
            Part::Claim => format!(" WHERE {place} = {rep}"),
            Part::Mapping => format!(
                " WHERE EXISTS (SELECT 1 FROM {name} AS m
                    WHERE m.{person} = {rep} AND m.{project} = t.{place})"
            ),
            Part::Whole => String::new(),
            Part::Parent(_) => return None,
        };
        let (_, columns) = generated.split_once("\nSELECT ")?;
        let (columns, _) = columns.split_once("\nFROM ")?;
        Some(format!("SELECT {columns} FROM {} AS t{condition}", shape.name))
    }
}

impl Own {
    fn is_some(self) -> bool {
        self.insert.is_some() || self.updates || self.deletes || self.cursor.is_some()
    }

    fn uploads(self, shape: &Shape, is_sqlite: bool) -> Vec<(Event, String)> {
        let (table, columns) = (&shape.name, shape.columns());
        let (key, others) = columns.split_at(shape.key().len());
        let joined = |columns: &[String], by: &str, say: &dyn Fn(&String) -> String| {
            columns.iter().map(say).collect::<Vec<_>>().join(by)
        };
        let names = columns.join(", ");
        let is = joined(key, " AND ", &|it| format!("{it} = {{o.{it}}}"));
        let same = joined(others, "", &|it| format!(" AND {it} IS NOT DISTINCT FROM {{o.{it}}}"));
        let set = joined(others, ", ", &|it| format!("{it} = {{r.{it}}}"));
        let values = joined(&columns, ", ", &|it| format!("{{r.{it}}}"));
        let insert = self.insert.map(|rows| match rows {
            Rows::Batch if !is_sqlite => {
                let values = joined(&columns, ", ", &|it| format!("r.{it}"));
                format!("INSERT INTO {table} ({names}) SELECT {values} FROM {{inserts}} AS r")
            }
            _ => format!("INSERT INTO {table} ({names}) VALUES ({values})"),
        });
        let update = self.updates.then(|| format!("UPDATE {table} SET {set} WHERE {is}{same}"));
        let delete = self.deletes.then(|| format!("DELETE FROM {table} WHERE {is}{same}"));
        let insert = insert.map(|text| (Event::UploadInsert, text));
        let update = update.map(|text| (Event::UploadUpdate, text));
        let delete = delete.map(|text| (Event::UploadDelete, text));
        insert.into_iter().chain(update).chain(delete).collect()
    }
}

/// The table that decides in the end who receives the rows of a table.
fn root(spec: &Spec) -> &'static str {
    let mut name = spec.name;
    while let Some(Part::Parent(parent)) =
        SPECS.iter().find(|spec| spec.name == name).map(|spec| spec.part)
    {
        name = parent;
    }
    SPECS.iter().find(|spec| spec.name == name).map_or("", |spec| spec.name)
}
