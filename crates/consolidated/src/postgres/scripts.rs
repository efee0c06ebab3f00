//! The scripts that a model generates for one table, as SQL that a person would have written.
//!
//! A script takes a whole batch as a relation: `{inserts}` and `{updates}` have the new row under
//! the columns' names, `{updates}` and `{deletes}` the row as the remote saw it under names that
//! begin with `old_`, `{keys}` the key alone.

use super::tables::{UserTable, VERSION};
use super::tracking::log_name;
use super::values::ColumnType;
use crate::quote::{ident, idents, join};
use crate::script::{Event, old_name};
use crate::sync_model::ConflictRule;
use model::Direction;

/// What the generated scripts of a table follow from.
pub(super) struct Generator<'a> {
    pub(super) table: &'a UserTable,
    pub(super) columns: &'a [String],
    /// Of `columns`.
    pub(super) types: &'a [ColumnType],
    pub(super) direction: Direction,
    pub(super) rule: &'a ConflictRule,
}

impl Generator<'_> {
    /// All scripts of the table, in the order of their events.
    pub(super) fn scripts(&self) -> Vec<(Event, String)> {
        let mut scripts = Vec::new();
        if self.direction.uploads() {
            scripts.push((Event::UploadInsert, self.insert("{inserts}")));
            if !self.changeable_columns().is_empty() {
                scripts.push((Event::UploadUpdate, self.update()));
            }
            scripts.push((Event::UploadDelete, self.delete(&self.unchanged("t", "d"))));
        }
        scripts.push((Event::UploadFetch, self.fetch()));
        if self.direction.uploads() {
            scripts.extend(self.resolve().map(|sql| (Event::ResolveConflict, sql)));
            if *self.rule == ConflictRule::RemoteWins {
                scripts.push((Event::ResolveDeleteConflict, self.delete(&self.key_is("t", "d"))));
            }
        }
        if self.direction.downloads() {
            scripts.push((Event::DownloadCursor, self.download()));
            scripts.push((Event::DownloadDeleteCursor, self.download_deletes()));
        }
        scripts
    }

    fn name(&self) -> String {
        self.table.sql_name()
    }

    fn log(&self) -> String {
        format!("syncline.{}", ident(&log_name(&self.table.published_name())))
    }

    fn is_key(&self, column: &str) -> bool {
        self.table.key.iter().any(|key| key == column)
    }

    /// The columns that an update sets. A key that is equal to itself in other letters is changed
    /// too; an identity column that insists on its own values cannot be.
    fn changeable_columns(&self) -> Vec<&str> {
        let changeable = self.columns.iter().filter(|name| {
            let column = self.table.column(name);
            let may = column.is_some_and(|column| !column.always_identity());
            let respelled = column.is_some_and(|column| column.compares_as_text());
            may && (!self.is_key(name) || respelled)
        });
        changeable.map(String::as_str).collect()
    }

    /// Columns as a remote is sent them.
    fn selected(&self, alias: &str, columns: &[String]) -> String {
        join(columns, ", ", |column| {
            let name = ident(column);
            let position = self.columns.iter().position(|known| known == column);
            let as_text =
                position.and_then(|at| self.types.get(at)).is_some_and(|kind| kind.read_as_text());
            match as_text {
                true => format!("{alias}.{name}::text AS {name}"),
                false => format!("{alias}.{name}"),
            }
        })
    }

    fn insert(&self, relation: &str) -> String {
        let overriding = match self.table.columns.iter().any(|c| c.always_identity()) {
            true => "OVERRIDING SYSTEM VALUE\n",
            false => "",
        };
        format!(
            "INSERT INTO {} AS t ({})\n{overriding}SELECT {}\nFROM {relation} AS r",
            self.name(),
            idents("", self.columns),
            join(self.columns, ", ", |column| self.new_value("r", column)),
        )
    }

    fn update(&self) -> String {
        let mut set = join(&self.changeable_columns(), ",\n    ", |c| {
            format!("{} = {}", ident(c), self.new_value("u", c))
        });
        set.push_str(&self.stamp());
        format!(
            "UPDATE {} AS t SET\n    {set}\nFROM {{updates}} AS u\nWHERE {}\nRETURNING {}",
            self.name(),
            self.unchanged("t", "u"),
            self.selected("t", &self.table.key),
        )
    }

    /// The version that our own statements set, so that no trigger has to.
    fn stamp(&self) -> String {
        match self.direction.downloads() {
            true => format!(",\n    {VERSION} = pg_current_xact_id()"),
            false => String::new(),
        }
    }

    fn delete(&self, condition: &str) -> String {
        let returned = self.selected("t", &self.table.key);
        let delete = format!(
            "DELETE FROM {} AS t\nUSING {{deletes}} AS d\nWHERE {condition}\nRETURNING ",
            self.name()
        );
        if !self.direction.downloads() {
            return format!("{delete}{returned}");
        }
        let key = idents("", &self.table.key);
        let log = format!("INSERT INTO {} AS t ({key})\nSELECT {key} FROM gone", self.log());
        format!(
            "WITH gone AS (\n{}\n)\n{log}\nRETURNING {returned}",
            indented(&format!("{delete}{}", idents("t.", &self.table.key))),
        )
    }

    fn fetch(&self) -> String {
        format!(
            "SELECT {}\nFROM {{keys}} AS k\nJOIN {} AS t ON {}",
            self.selected("t", self.columns),
            self.name(),
            self.same_key("t", "k"),
        )
    }

    /// The new value as it is to be stored.
    fn new_value(&self, alias: &str, column: &str) -> String {
        let value = format!("{alias}.{}", ident(column));
        match self.rule {
            ConflictRule::Latest(latest) if latest == column => {
                let kind = self.table.column(column).map_or("", |column| &column.cast);
                clamped_to_now(&value, kind)
            }
            _ => value,
        }
    }

    fn same_key(&self, left: &str, right: &str) -> String {
        join(&self.table.key, " AND ", |c| format!("{left}.{} = {right}.{}", ident(c), ident(c)))
    }

    fn key_is(&self, row: &str, old: &str) -> String {
        join(&self.table.key, " AND ", |c| {
            format!("{row}.{} = {old}.{}", ident(c), ident(&old_name(self.columns, c)))
        })
    }

    /// The row is still what the remote saw before its change (S5).
    fn unchanged(&self, row: &str, old: &str) -> String {
        let mut condition = self.key_is(row, old);
        for column in self.columns.iter().filter(|column| !self.is_key(column)) {
            let place = format!("{row}.{}", ident(column));
            let seen = format!("{old}.{}", ident(&old_name(self.columns, column)));
            condition.push_str(&format!("\n  AND {}", self.same(column, &place, &seen)));
        }
        condition
    }

    /// Two values of a column are the same, letter by letter.
    fn same(&self, column: &str, one: &str, other: &str) -> String {
        match self.table.column(column).is_some_and(|column| column.compares_as_text()) {
            true => format!("{one}::text COLLATE \"C\" IS NOT DISTINCT FROM {other}::text"),
            false => format!("{one} IS NOT DISTINCT FROM {other}"),
        }
    }

    /// `{updates}` has an insert too, with an old row of NULLs.
    fn resolve(&self) -> Option<String> {
        let columns = self.changeable_columns();
        if columns.is_empty() || *self.rule == ConflictRule::ConsolidatedWins {
            return None;
        }
        let on_conflict = format!("ON CONFLICT ({}) DO UPDATE SET", idents("", &self.table.key));
        let returning = format!("RETURNING {}", self.selected("t", &self.table.key));
        let stamp = self.stamp();
        let taken = join(&columns, ",\n    ", |c| format!("{} = excluded.{}", ident(c), ident(c)));
        Some(match self.rule {
            ConflictRule::ConsolidatedWins => return None,
            ConflictRule::RemoteWins => format!(
                "{}\n{on_conflict}\n    {taken}{stamp}\n{returning}",
                self.insert("{updates}")
            ),
            ConflictRule::Latest(latest) => {
                let c = ident(latest);
                let collate = match self.table.column(latest).map(|c| c.cast.as_str()) {
                    Some("text" | "character varying") => " COLLATE \"C\"",
                    _ => "",
                };
                format!(
                    "{}\n{on_conflict}\n    {taken}{stamp}\n\
                     WHERE t.{c} IS NULL OR excluded.{c}{collate} > t.{c}\n{returning}",
                    self.insert("{updates}"),
                )
            }
            ConflictRule::Merge => {
                let merged = join(&columns, ",\n        ", |c| {
                    let (theirs, column) = (format!("t.{}", ident(c)), ident(c));
                    let seen = format!("u.{}", ident(&old_name(self.columns, c)));
                    let same = self.same(c, &theirs, &seen);
                    format!(
                        "CASE WHEN {same}\n            THEN excluded.{column} ELSE {theirs} END"
                    )
                });
                format!(
                    "WITH u AS (SELECT * FROM {{updates}} AS u)\n{}\n{on_conflict} ({}) = (\n    \
                     SELECT {merged}\n    FROM u\n    WHERE {}\n){stamp}\n{returning}",
                    self.insert("u"),
                    idents("", &columns),
                    self.same_key("u", "excluded"),
                )
            }
        })
    }

    fn download(&self) -> String {
        let columns = self.selected("t", self.columns);
        let table = self.name();
        format!(
            "SELECT {columns}\nFROM {table} AS t\nWHERE {{s.last_download}} IS NULL\nUNION ALL\n\
             SELECT {columns}\nFROM {table} AS t\nWHERE {}",
            since("t", VERSION),
        )
    }

    fn download_deletes(&self) -> String {
        format!(
            "SELECT DISTINCT {}\nFROM {} AS g\nWHERE {}\n  \
             AND NOT EXISTS (SELECT FROM {} AS t WHERE {})",
            self.selected("g", &self.table.key),
            self.log(),
            since("g", VERSION),
            self.name(),
            self.same_key("t", "g"),
        )
    }
}

/// The transaction of `version` was not yet visible to the last download.
fn since(alias: &str, version: &str) -> String {
    format!(
        "{alias}.{version} >= pg_snapshot_xmin({{s.last_download}})\n  \
         AND NOT pg_visible_in_snapshot({alias}.{version}, {{s.last_download}})"
    )
}

fn indented(sql: &str) -> String {
    sql.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Whether `latest` can decide by a column of this type.
pub(super) fn can_be_latest(cast: &str) -> bool {
    !clamped_to_now("", cast).is_empty()
}

/// A time in the future counts as now, or one wrong clock would win for ever. Numbers are seconds
/// or milliseconds since 1970, told apart by their size; texts are ISO; times are in UTC.
fn clamped_to_now(value: &str, cast: &str) -> String {
    let now = match cast {
        "timestamp with time zone" => "now()".to_owned(),
        "timestamp without time zone" => "now() AT TIME ZONE 'UTC'".into(),
        "date" => "(now() AT TIME ZONE 'UTC')::date".into(),
        "integer" | "bigint" | "numeric" | "double precision" => format!(
            "CASE WHEN {value} > 100000000000\n            \
             THEN extract(epoch FROM now()) * 1000 ELSE extract(epoch FROM now()) END::{cast}"
        ),
        "text" | "character varying" => {
            return format!(
                "CASE WHEN {value} LIKE '____-__-__T%'\n        \
                 THEN least({value} COLLATE \"C\", to_char(now() AT TIME ZONE 'UTC', \
                 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'))\n        \
                 WHEN {value} IS NOT NULL\n        \
                 THEN least({value} COLLATE \"C\", to_char(now() AT TIME ZONE 'UTC', \
                 'YYYY-MM-DD HH24:MI:SS.MS')) END"
            );
        }
        _ => return value.to_owned(),
    };
    // `least` takes no notice of NULL.
    format!("CASE WHEN {value} IS NOT NULL THEN least({value}, {now}) END")
}
