//! The scripts that a model generates for one table, as SQL that a person would have written.
//!
//! A script takes a whole batch as a relation: `{inserts}` and `{updates}` have the new row under
//! the names of the columns, `{updates}` and `{deletes}` the row as the remote had it under names
//! that begin with `old_`, `{keys}` only the key.
//!
//! Fences (S7): a script changes only rows inside the partition, and writes only rows that are
//! inside afterwards. The number of changed rows is then smaller than the batch. The caller
//! compares the numbers.

use crate::deploy::TableFacts;
use crate::deploy::generate::{self, Resolution, SECONDS_MAX, Texts};
use crate::postgres::deploy::tables::{UserColumn, UserTable, VERSION};
use crate::postgres::dialect::{Postgres, news, since};
use crate::postgres::tracking::departure_log::{self, Log};
use crate::postgres::values::ColumnType;
use crate::quote::{ident, idents, join, literal};
use crate::script::{Event, old_name};
use crate::selection::{Dialect, Form, Rows, Selection};
use crate::sync_model::{ConflictRule, Wins};
use model::Direction;

/// What the generated scripts of a table follow from.
pub(in crate::postgres) struct Generator<'a> {
    pub(in crate::postgres) table: &'a UserTable,
    pub(in crate::postgres) columns: &'a [String],
    /// Of `columns`.
    pub(in crate::postgres) types: &'a [ColumnType],
    pub(in crate::postgres) direction: Direction,
    pub(in crate::postgres) rule: &'a ConflictRule,
    pub(in crate::postgres) selection: &'a Selection,
    /// An update may make of a covered row one that is not.
    pub(in crate::postgres) may_leave: bool,
    /// Columns that decide who receives a row, and that the uploaded rows do not have, because the
    /// remote has captured them under an older shape. A row that is there has them; a new one gets
    /// their defaults.
    pub(in crate::postgres) unseen: Vec<&'a UserColumn>,
    pub(in crate::postgres) dialect: Postgres<'a>,
}

impl Generator<'_> {
    /// All scripts of the table, in the order of their events.
    pub(in crate::postgres) fn scripts(&self) -> Vec<(Event, String)> {
        generate::scripts(self, self.direction, self.rule, self.selection)
    }

    fn name(&self) -> String {
        self.table.sql_name()
    }

    /// Where departures are noted; none where the table is not tracked.
    fn log(&self) -> Option<Log<'_>> {
        self.dialect.log(&self.table.published_name())
    }

    /// The condition that the present row is covered, followed by `and`.
    fn and_covered(&self) -> String {
        let covered = self.selection.covered(&self.dialect, "t", Form::Each);
        covered.map_or(String::new(), |covered| format!("\n  AND {covered}"))
    }

    /// The condition that the new row `row` of a relation will be covered.
    fn will_be_covered(&self, row: &str) -> Option<String> {
        match &self.selection.rows {
            // It says `t`, and looks at a row that is not in the table yet.
            Rows::Custom(condition) => {
                let unseen = self.unseen.iter().map(|column| &column.name);
                let columns: Vec<&String> = self.columns.iter().chain(unseen).collect();
                Some(format!(
                    "(SELECT {condition}\n    FROM (SELECT {}) AS t)",
                    join(&columns, ", ", |column| format!("{row}.{}", ident(column)))
                ))
            }
            _ => self.selection.covered(&self.dialect, row, Form::Each),
        }
    }

    /// The rows of `relation` as `row`, with what they do not have themselves.
    fn whole(&self, relation: &str, row: &str, known: Known) -> String {
        if self.unseen.is_empty() {
            return format!("{relation} AS {row}");
        }
        let key = |new: &dyn Fn(&str) -> String| {
            join(&self.table.key, " AND ", |c| format!("was.{} = {}", ident(c), new(c)))
        };
        let old = |c: &str| format!("{row}.{}", ident(&old_name(self.columns, c)));
        let was = |column: &UserColumn| format!("was.{}", ident(&column.name));
        let values = |value: &dyn Fn(&UserColumn) -> String| {
            let columns = self.unseen.iter();
            let columns = columns.map(|c| format!("{} AS {}", value(c), ident(&c.name)));
            columns.collect::<Vec<_>>().join(", ")
        };
        let (from, unseen) = match known {
            Known::New => (String::new(), values(&default)),
            Known::Old => {
                let join = format!("\n    JOIN {} AS was ON {}", self.name(), key(&old));
                (join, values(&was))
            }
            Known::Either => {
                // An insert has an old key of NULLs, and may meet a row that is there.
                let either = |c: &str| format!("coalesce({}, {row}.{})", old(c), ident(c));
                let join = format!("\n    LEFT JOIN {} AS was ON {}", self.name(), key(&either));
                let there = self.table.key.first().map_or_else(String::new, |c| ident(c));
                let value = |column: &UserColumn| {
                    let (was, default) = (was(column), default(column));
                    format!("CASE WHEN was.{there} IS NULL THEN {default} ELSE {was} END")
                };
                (join, values(&value))
            }
        };
        format!("(\n    SELECT {row}.*, {unseen}\n    FROM {relation} AS {row}{from}) AS {row}")
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
            match self.is_read_as_text(column) {
                true => format!("{alias}.{name}::text AS {name}"),
                false => format!("{alias}.{name}"),
            }
        })
    }

    fn is_read_as_text(&self, column: &str) -> bool {
        let position = self.columns.iter().position(|known| known == column);
        position.and_then(|at| self.types.get(at)).is_some_and(ColumnType::read_as_text)
    }

    /// A new row is judged by the defaults of columns that it does not have, so it gets these.
    fn inserted(&self, relation: &str, known: Known, condition: Option<String>) -> String {
        let judged = self.unseen.iter().filter(|column| column.default.is_some());
        let columns: Vec<&String> =
            self.columns.iter().chain(judged.map(|column| &column.name)).collect();
        let overriding = match self.table.columns.iter().any(|c| c.always_identity()) {
            true => "OVERRIDING SYSTEM VALUE\n",
            false => "",
        };
        format!(
            "INSERT INTO {} AS t ({})\n{overriding}SELECT {}\nFROM {}{}",
            self.name(),
            join(&columns, ", ", ident),
            join(&columns, ", ", |column| self.new_value("r", column)),
            self.whole(relation, "r", known),
            condition.map_or(String::new(), |condition| format!("\nWHERE {condition}")),
        )
    }

    fn change(&self, relation: &str, columns: &[&str]) -> String {
        let mut set =
            join(columns, ",\n    ", |c| format!("{} = {}", ident(c), self.new_value("u", c)));
        set.push_str(&self.stamp());
        format!(
            "UPDATE {} AS t SET\n    {set}\nFROM {}\nWHERE {}{}{}",
            self.name(),
            self.whole(relation, "u", Known::Old),
            self.unchanged("t", "u"),
            self.and_covered(),
            match self.may_leave {
                true => String::new(),
                false =>
                    self.will_be_covered("u").map_or(String::new(), |c| format!("\n  AND {c}")),
            },
        )
    }

    /// The version that our own statements set, so that no trigger has to.
    fn stamp(&self) -> String {
        match self.log() {
            Some(_) => format!(",\n    {VERSION} = pg_current_xact_id()"),
            None => String::new(),
        }
    }

    /// Deletes, and notes in the same statement what departs.
    fn deleted(&self, condition: &str) -> String {
        let delete = format!(
            "DELETE FROM {} AS t\nUSING {{deletes}} AS d\nWHERE {condition}{}",
            self.name(),
            self.and_covered(),
        );
        match self.log() {
            Some(log) => {
                log.noted(&indented(&format!("{delete}\nRETURNING {}", log.returned("t", "d"))))
            }
            None => delete,
        }
    }

    /// The new value as it is to be stored.
    fn new_value(&self, alias: &str, column: &str) -> String {
        let value = format!("{alias}.{}", ident(column));
        if !self.rule.clamps(column) {
            return value;
        }
        let kind = self.table.column(column).map_or("", |column| &column.cast);
        clamped_to_now(&value, kind)
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

    /// The new row `row` will be covered, or was, where that is enough.
    fn may_be_written(&self, row: &str) -> Option<String> {
        let will_be = self.will_be_covered(row)?;
        if !self.may_leave {
            return Some(will_be);
        }
        let is = self.selection.covered(&self.dialect, "t", Form::Each)?;
        Some(format!(
            "({will_be}\n    OR EXISTS (\n        SELECT 1 FROM {} AS t\n        \
             WHERE {} AND {is}))",
            self.name(),
            self.same_key("t", row),
        ))
    }

    /// The condition that the row of the remote wins by this column.
    fn wins(&self, by: &str, wins: &Wins) -> String {
        let column = ident(by);
        let cast = self.table.column(by).map_or("", |column| &column.cast);
        let (new, now) = (format!("excluded.{column}"), format!("t.{column}"));
        match wins {
            Wins::Later => format!("({now} IS NULL OR {})", as_times(&new, ">", &now, cast)),
            Wins::Earlier => format!("({now} IS NULL OR {})", as_times(&new, "<", &now, cast)),
            Wins::Greater => generate::is_beyond(&new, ">", &now),
            Wins::Smaller => generate::is_beyond(&new, "<", &now),
            Wins::Listed(listed) => {
                let listed: Vec<String> = listed.iter().map(|one| literal(&one.digits())).collect();
                let text = |value: &str| format!("{value}::text COLLATE \"C\"");
                generate::is_before(&text(&new), &text(&now), &listed)
            }
        }
    }

    /// Column by column: where the remote alone changed one, its value. In `added` both changes
    /// count where both changed one. What did not change is not added, because the difference of
    /// two infinite numbers is none.
    fn merged(&self, columns: &[&str], added: &[String]) -> String {
        let merged = join(columns, ",\n        ", |c| {
            let (theirs, column) = (format!("t.{}", ident(c)), ident(c));
            let seen = format!("u.{}", ident(&old_name(self.columns, c)));
            let same = self.same(c, &theirs, &seen);
            if !added.iter().any(|added| added == c) {
                return format!(
                    "CASE WHEN {same}\n            THEN excluded.{column} ELSE {theirs} END"
                );
            }
            let mine = format!("excluded.{column}");
            let unchanged = self.same(c, &mine, &seen);
            format!(
                "CASE WHEN {same}\n            THEN {mine}\n            \
                 WHEN {unchanged}\n            THEN {theirs}\n            \
                 ELSE coalesce({theirs} + ({mine} - {seen}), {theirs}) END"
            )
        });
        format!(
            "({}) = (\n    SELECT {merged}\n    FROM u\n    WHERE {}\n)",
            idents("", columns),
            self.same_key("u", "excluded"),
        )
    }

    /// Whether anything has departed: the condition on entries of [`Generator::download_deletes`].
    /// None where departures are not all that it looks at.
    pub(in crate::postgres) fn departures(&self) -> Option<String> {
        let condition = match self.selection.is_all() {
            true => news("g"),
            false => self.selection.departures(&self.dialect)?,
        };
        // Columns that it looks at are no arrays (E1).
        let log = departure_log::log(&self.table.published_name());
        Some(format!("SELECT FROM {log} AS g\nWHERE {condition}\nLIMIT 1"))
    }
}

impl Texts for Generator<'_> {
    fn insert(&self) -> String {
        self.inserted("{inserts}", Known::New, self.will_be_covered("r"))
    }

    fn update(&self) -> Option<String> {
        let columns = self.changeable_columns();
        (!columns.is_empty()).then(|| self.change("{updates}", &columns))
    }

    fn delete(&self) -> String {
        self.deleted(&self.unchanged("t", "d"))
    }

    /// Each row is looked up by itself. A join may come to compare all keys with all rows of the
    /// remote, where the planner believes that there are few.
    fn fetch(&self) -> String {
        let found = format!(
            "SELECT *\nFROM {} AS t\nWHERE {}{}\nOFFSET 0",
            self.name(),
            self.same_key("t", "k"),
            self.and_covered(),
        );
        format!(
            "SELECT {}\nFROM {{keys}} AS k\nCROSS JOIN LATERAL (\n{}\n) AS t",
            self.selected("t", self.columns),
            indented(&found),
        )
    }

    /// The keys of those new rows that will be covered. `{updates}` has inserts too.
    fn fence(&self) -> Option<String> {
        let covered = self.will_be_covered("r").filter(|_| self.direction.uploads())?;
        let key = self.selected("r", &self.table.key);
        let rows = self.whole("{updates}", "r", Known::Either);
        Some(format!("SELECT {key}\nFROM {rows}\nWHERE {covered}"))
    }

    /// `{updates}` has an insert too, with an old row of NULLs.
    fn resolve(&self, resolution: Resolution<'_>) -> Option<String> {
        let columns = self.changeable_columns();
        if columns.is_empty() {
            return None;
        }
        let taken = |form: &dyn Fn(&str) -> String| {
            join(&columns, ",\n    ", |c| format!("{} = {}", ident(c), form(c)))
        };
        let mut relation = "{updates}";
        let (mut with, mut decides) = (String::new(), None);
        let set = match resolution {
            Resolution::Remote => taken(&|c| format!("excluded.{}", ident(c))),
            Resolution::Compared(column, wins) => {
                decides = Some(self.wins(column, wins));
                taken(&|c| format!("excluded.{}", ident(c)))
            }
            Resolution::Merged(added) => {
                with = "WITH u AS (SELECT * FROM {updates} AS u)\n".into();
                relation = "u";
                self.merged(&columns, added)
            }
        };
        let covered = self.selection.covered(&self.dialect, "t", Form::Each);
        let conditions: Vec<String> = decides.into_iter().chain(covered).collect();
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!("\nWHERE {}", conditions.join("\n  AND ")),
        };
        Some(format!(
            "{with}{}\nON CONFLICT ({}) DO UPDATE SET\n    {set}{}{condition}",
            self.inserted(relation, Known::Either, self.may_be_written("r")),
            idents("", &self.table.key),
            self.stamp(),
        ))
    }

    fn delete_anyway(&self) -> String {
        self.deleted(&self.key_is("t", "d"))
    }

    /// Afresh, or what changed and is covered, and what is unchanged and has entered.
    fn download(&self) -> String {
        let select = format!(
            "SELECT {}\nFROM {} AS t\nWHERE ",
            self.selected("t", self.columns),
            self.name()
        );
        let covered = self.selection.covered(&self.dialect, "t", Form::Search);
        let and_covered =
            covered.as_ref().map_or(String::new(), |covered| format!("\n  AND {covered}"));
        if let (true, Some(covered)) = (self.selection.is_custom(), covered) {
            return format!("{select}{covered}");
        }
        let changed = since("t");
        let mut sql = format!(
            "{select}{{s.watermark}} IS NULL{and_covered}\nUNION ALL\n\
             {select}{}{and_covered}",
            news("t")
        );
        if let Some(entered) = self.selection.entered(&self.dialect, "t") {
            sql.push_str(&format!(
                "\nUNION ALL\n{select}{entered}{and_covered}\n  AND ({changed}) IS NOT TRUE"
            ));
        }
        sql
    }

    fn download_deletes(&self) -> String {
        if !self.selection.is_all() {
            let keys = self.selection.deletes(&self.dialect);
            let as_text = |column: &&String| self.is_read_as_text(column);
            return match self.table.key.iter().any(|column| as_text(&column)) {
                true => format!(
                    "SELECT {}\nFROM (\n{}\n) AS g",
                    self.selected("g", &self.table.key),
                    indented(&keys)
                ),
                false => keys,
            };
        }
        format!(
            "SELECT DISTINCT {}\nFROM {} AS g\nWHERE {}\n  \
             AND NOT EXISTS (SELECT FROM {} AS t WHERE {})",
            self.selected("g", &self.table.key),
            self.dialect.departures(&self.selection.table),
            news("g"),
            self.name(),
            self.dialect.same_key(&self.selection.table, "t", "g"),
        )
    }
}

/// What is known of uploaded rows at the center.
#[derive(Clone, Copy)]
enum Known {
    /// They are not there.
    New,
    /// They are there, under their old keys.
    Old,
    /// Some are there.
    Either,
}

/// What a new row gets that names no value. What the database works out itself is not known before.
fn default(column: &UserColumn) -> String {
    let default = column.default.as_deref().filter(|_| !column.generated);
    format!("({})::{}", default.unwrap_or("NULL"), column.base_type)
}

fn indented(sql: &str) -> String {
    sql.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// The types of numbers.
pub(in crate::postgres) const NUMBERS: [&str; 6] =
    ["smallint", "integer", "bigint", "numeric", "real", "double precision"];

const TEXTS: [&str; 3] = ["text", "character varying", "bpchar"];

/// Other types whose values have an order.
const ORDERED: [&str; 11] = [
    "date",
    "timestamp without time zone",
    "timestamp with time zone",
    "time without time zone",
    "time with time zone",
    "interval",
    "boolean",
    "uuid",
    "bytea",
    "inet",
    "money",
];

/// Whether a column can decide a conflict. The values of an enumeration are words with an order.
pub(in crate::postgres) fn can_decide(column: &UserColumn, wins: &Wins) -> bool {
    let is = |types: &[&str]| types.contains(&&*column.cast);
    match wins {
        Wins::Later | Wins::Earlier => !clamped_to_now("", &column.cast).is_empty(),
        _ if column.kind == 'e' || is(&TEXTS) => true,
        Wins::Greater | Wins::Smaller => is(&NUMBERS) || is(&ORDERED),
        Wins::Listed(_) => is(&["smallint", "integer", "bigint"]),
    }
}

/// The text of a time. A day that its month does not have is one, as it is in SQLite: it counts on
/// from the first. Says nothing with a backslash, which a setting of the session can change.
const TIME: &str = "^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\
                    ([ T]([01][0-9]|2[0-4]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?\
                    ( *(Z|z|[+-](0[0-9]|1[0-4]):[0-5][0-9]))? *)?$";

/// A time in the future counts as now, or one wrong clock would win for ever. A text stays in its
/// own notation, to the digit; one that is no time stays as it is.
fn clamped_to_now(value: &str, cast: &str) -> String {
    let now = match cast {
        "timestamp with time zone" => "now()".to_owned(),
        "timestamp without time zone" => "now() AT TIME ZONE 'UTC'".into(),
        "date" => "(now() AT TIME ZONE 'UTC')::date".into(),
        "integer" | "bigint" | "numeric" | "double precision" => format!(
            "CASE WHEN {value} > {SECONDS_MAX}\n            \
             THEN extract(epoch FROM now()) * 1000 ELSE extract(epoch FROM now()) END::{cast}"
        ),
        "text" | "character varying" => {
            return format!(
                "(\n        \
                 SELECT CASE\n            \
                 WHEN instant > to_char(now() AT TIME ZONE 'UTC', '{SORTS}.US')\n            \
                 THEN substr(replace(\n                \
                 to_char(now() AT TIME ZONE 'UTC' + ahead, '{SORTS}.US'),\n                \
                 ' ', substr(v, 11, 1)), 1, length(body)) || zone\n            \
                 ELSE v END\n        \
                 FROM {})",
                text_as_time(value)
            );
        }
        _ => return value.to_owned(),
    };
    // `least` takes no notice of NULL.
    format!("CASE WHEN {value} IS NOT NULL THEN least({value}, {now}) END")
}

/// What is a time is compared as a time, whatever its notation; all else as the database compares
/// it. The sign is between the `new` value and the one that is there `now`.
fn as_times(new: &str, sign: &str, now: &str, cast: &str) -> String {
    match cast {
        "text" | "character varying" => format!(
            "coalesce(\n    (SELECT instant FROM {})\n    {sign} (SELECT instant FROM {}),\n    \
             {new} COLLATE \"C\" {sign} {now})",
            text_as_time(new),
            text_as_time(now)
        ),
        "integer" | "bigint" | "numeric" | "double precision" => {
            let seconds =
                |n: &str| format!("CASE WHEN {n} > {SECONDS_MAX} THEN {n} / 1000.0 ELSE {n} END");
            format!("{}\n    {sign} {}", seconds(new), seconds(now))
        }
        _ => format!("{new} {sign} {now}"),
    }
}

/// How an instant is written so that it sorts.
const SORTS: &str = "YYYY-MM-DD HH24:MI:SS";

/// A text as `v`, its `body`, its `zone` and how far that is `ahead`, and the `instant` as text
/// that sorts, or NULL. The fraction is kept apart, because a timestamp rounds it to microseconds.
/// The zeros at the end go, so that it is the same in each notation.
fn text_as_time(value: &str) -> String {
    format!(
        "(\n        \
         SELECT v, body, zone, ahead, CASE WHEN is_time THEN rtrim(to_char(\n            \
         make_date(substr(v, 1, 4)::int, substr(v, 6, 2)::int, 1)\n            \
         + substr(v, 9, 2)::int - 1\n            \
         + coalesce(nullif(substr(body, 12, 8), ''), '00:00')::interval - ahead,\n            \
         '{SORTS}') || substr(body, 20), '.0') END AS instant\n        \
         FROM (SELECT v, zone, is_time,\n            \
         substr(v, 1, length(v) - length(zone)) AS body,\n            \
         CASE WHEN is_time AND zone ~ ':' THEN zone ELSE '00:00' END::interval AS ahead\n        \
         FROM (SELECT v, v ~ '{TIME}' AS is_time,\n            \
         ltrim(substr(v, 17), ':.0123456789') AS zone\n        \
         FROM (SELECT {value} COLLATE \"C\" AS v) AS v) AS v) AS v) AS v"
    )
}
