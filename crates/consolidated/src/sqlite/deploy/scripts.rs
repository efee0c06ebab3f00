//! The scripts that a model generates for one table, as SQL that a person would have written.

use crate::deploy::TableFacts;
use crate::deploy::generate::{self, Resolution, SECONDS_MAX, Texts};
use crate::quote::{ident, idents, join, literal};
use crate::script::{Event, parameter};
use crate::selection::{Dialect, Form, Selection};
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::dialect::Sqlite;
use crate::sqlite::tracking::log_table::{self, SEQUENCE};
use crate::sqlite::upload::affinity::Affinity;
use crate::sync_model::{ConflictRule, Listed, Wins};
use model::Direction;

/// The policy of statements on tables that must have no triggers but ours.
pub(in crate::sqlite) const UNJOURNALED: &str = "FAIL";

/// What the generated scripts of a table follow from.
pub(in crate::sqlite) struct Generator<'a> {
    pub(in crate::sqlite) table: &'a UserTable,
    pub(in crate::sqlite) columns: &'a [String],
    pub(in crate::sqlite) direction: Direction,
    pub(in crate::sqlite) rule: &'a ConflictRule,
    pub(in crate::sqlite) selection: &'a Selection,
}

impl Generator<'_> {
    /// All scripts of the table, in the order of their events.
    pub(in crate::sqlite) fn scripts(&self) -> Vec<(Event, String)> {
        generate::scripts(self, self.direction, self.rule, self.selection)
    }

    /// What a statement that breaks a constraint leaves behind: always nothing.
    ///
    /// `ABORT` makes SQLite keep a journal for each statement that fires triggers, 10 µs a row.
    /// `FAIL` keeps none and leaves what the statement did before it failed: of one row without
    /// triggers but ours, nothing but an entry of the log too many.
    fn policy(&self) -> &'static str {
        if self.table.has_triggers { "ABORT" } else { UNJOURNALED }
    }

    /// The same for updates. Other rows may refer to a unique column, and an action of their
    /// foreign key that fails must not leave half of itself.
    fn update_policy(&self) -> &'static str {
        match self.table.uniques.is_empty() {
            true => self.policy(),
            false => "ABORT",
        }
    }

    fn name(&self) -> String {
        ident(&self.table.name)
    }

    fn other_columns(&self) -> Vec<&str> {
        let other = self.columns.iter().filter(|column| !self.table.key.contains(column));
        other.map(String::as_str).collect()
    }

    fn inserted(&self, verb: &str) -> String {
        format!(
            "{verb} INTO {} ({})\nVALUES ({})",
            self.target(),
            idents("", self.columns),
            join(self.columns, ", ", |column| self.new_value(column)),
        )
    }

    fn covered(&self, form: Form) -> Option<String> {
        self.selection.covered(&self.dialect(), "t", form)
    }

    /// The table, as `t` where a condition says which of its rows are covered.
    fn target(&self) -> String {
        match self.selection.is_all() {
            true => self.name(),
            false => format!("{} AS t", self.name()),
        }
    }

    /// The fence around the rows of a statement (S7).
    fn and_covered(&self) -> String {
        let covered = self.covered(Form::Probe);
        covered.map_or(String::new(), |covered| format!("\n  AND {covered}"))
    }

    /// The new value as it is to be stored.
    fn new_value(&self, column: &str) -> String {
        let value = parameter("r", column);
        if self.rule.clamps(column) { clamped_to_now(&value) } else { value }
    }

    /// The condition that the row of the remote wins by this column over the one that is there
    /// `now`. Texts are compared letter by letter, whatever the collation.
    fn wins(&self, by: &str, wins: &Wins, now: &str) -> String {
        let (new, now) = (format!("excluded.{}", ident(by)), format!("{now}.{}", ident(by)));
        match wins {
            Wins::Later => format!("{now} IS NULL OR {}", as_times(&new, ">", &now)),
            Wins::Earlier => format!("{now} IS NULL OR {}", as_times(&new, "<", &now)),
            Wins::Greater => generate::is_beyond(&new, "COLLATE BINARY >", &now),
            Wins::Smaller => generate::is_beyond(&new, "COLLATE BINARY <", &now),
            Wins::Listed(listed) => {
                let affinity = self.table.column(by).map_or(Affinity::Blob, Affinity::of);
                let listed: Vec<String> = listed.iter().map(|one| stored(one, affinity)).collect();
                let exact = |value: &str| format!("{value} COLLATE BINARY");
                generate::is_before(&exact(&new), &exact(&now), &listed)
            }
        }
    }

    fn key_is(&self, kind: &str) -> String {
        join(&self.table.key, " AND ", |c| format!("{} = {}", ident(c), parameter(kind, c)))
    }

    /// The row is still what the remote saw before its change (S5).
    fn unchanged(&self) -> String {
        let mut condition = self.key_is("o");
        for column in self.other_columns() {
            // Letter by letter, whatever the collation.
            let (place, old) = (ident(column), parameter("o", column));
            condition.push_str(&format!("\n  AND {place} COLLATE BINARY IS {old}"));
        }
        condition
    }

    /// The rows that are `covered`; where it is known what enters, only those that changed or
    /// entered.
    fn download_covered(&self, covered: &str) -> String {
        let columns = idents("t.", self.columns);
        let table = self.name();
        // The index of the key finds the rows of a partition if it begins with the deciding column.
        let first = self.table.key.first().map(String::as_str);
        let from = match self.selection.sought() {
            Some((column, _)) if first == Some(column) => self.looked_up(),
            _ => format!("{table} AS t"),
        };
        let all = format!("SELECT {columns}\nFROM {from}\nWHERE {covered}");
        if self.selection.is_custom() {
            return all;
        }
        let dialect = self.dialect();
        let entered = self.selection.entered(&dialect, "t").map(|entered| {
            let key = idents("t.", &self.table.key);
            let entered = entered.replace('\n', "\n    ");
            format!("    UNION\n    SELECT {key} FROM {table} AS t\n    WHERE {entered}\n")
        });
        // An entry has the key, so what it says of the key's columns is true of the row.
        let sought = self.selection.sought().map(|(column, _)| column);
        let by_key = sought.is_some_and(|sought| self.table.key.iter().any(|key| key == sought));
        let again = self.covered(Form::Probe).filter(|_| !by_key);
        let key = idents("", &self.table.key);
        let log = ident(&log_table::log_name(&self.table.name));
        let unknown = self.unknown_to_remote();
        let changed = match self.selection.sought() {
            // The entry of the last change has the place that the row has now.
            Some(sought) => {
                let entries = dialect.entries_of(
                    &self.selection.table,
                    sought,
                    &idents("l.", &self.table.key),
                );
                let entries = entries.replace('\n', "\n        ");
                format!("    SELECT {key} FROM (\n        {entries}\n    )\n    GROUP BY {key}\n")
            }
            None => format!(
                "    SELECT {key} FROM {log} AS l\n    \
                 WHERE {SEQUENCE} > {{s.watermark}}\n      AND {unknown}\n{}",
                entered.unwrap_or_else(|| format!("    GROUP BY {key}\n"))
            ),
        };
        format!(
            "{all}\n  AND {{s.watermark}} IS NULL\n\
             UNION ALL\n\
             SELECT {columns}\nFROM (\n{changed}) AS l\n\
             CROSS JOIN {looked_up} ON {join}{covered}",
            looked_up = self.looked_up(),
            join = self.same_key("t", "l"),
            covered = again.map_or(String::new(), |covered| format!("\nWHERE {covered}")),
        )
    }

    fn dialect(&self) -> Sqlite<'_> {
        Sqlite { own: &self.table.name, key_index: self.table.key_index.as_deref() }
    }

    fn looked_up(&self) -> String {
        self.dialect().looked_up(&self.selection.table, "t")
    }

    /// The condition that an entry `l` of the log need be read.
    fn unknown_to_remote(&self) -> String {
        self.dialect().unknown_to_remote("l")
    }

    fn same_key(&self, left: &str, right: &str) -> String {
        join(&self.table.key, " AND ", |c| format!("{left}.{} = {right}.{}", ident(c), ident(c)))
    }
}

impl Texts for Generator<'_> {
    fn insert(&self) -> String {
        self.inserted(&format!("INSERT OR {}", self.policy()))
    }

    fn update(&self) -> Option<String> {
        let (set, policy) = (self.other_columns(), self.update_policy());
        (!set.is_empty()).then(|| {
            format!(
                "UPDATE OR {policy} {} SET\n    {}\nWHERE {}{}",
                self.target(),
                join(&set, ",\n    ", |c| format!("{} = {}", ident(c), self.new_value(c))),
                self.unchanged(),
                self.and_covered(),
            )
        })
    }

    fn delete(&self) -> String {
        let (table, condition) = (self.target(), self.unchanged());
        format!("DELETE FROM {table}\nWHERE {condition}{}", self.and_covered())
    }

    fn fetch(&self) -> String {
        format!(
            "SELECT {}\nFROM {}\nWHERE {}{}",
            idents("", self.columns),
            self.target(),
            self.key_is("r"),
            self.and_covered(),
        )
    }

    /// Whether the row with this key is inside the partition.
    fn fence(&self) -> Option<String> {
        let covered = self.covered(Form::Probe)?;
        let (table, condition) = (self.target(), self.key_is("r"));
        Some(format!("SELECT ({covered}) IS TRUE\nFROM {table}\nWHERE {condition}"))
    }

    fn resolve(&self, resolution: Resolution<'_>) -> Option<String> {
        let set = |form: &dyn Fn(&str) -> String| {
            let columns = self.other_columns();
            let assignments = join(&columns, ",\n    ", |c| format!("{} = {}", ident(c), form(c)));
            format!(
                "{}\nON CONFLICT ({}) DO UPDATE SET\n    {assignments}",
                self.inserted("INSERT"),
                idents("", &self.table.key),
            )
        };
        let fence = self.covered(Form::Probe);
        let only_covered =
            fence.as_ref().map_or(String::new(), |covered| format!("\nWHERE {covered}"));
        let now = if self.selection.is_all() { self.name() } else { "t".to_owned() };
        if self.other_columns().is_empty() {
            return None;
        }
        Some(match resolution {
            Resolution::Remote => {
                let mine = set(&|column| format!("excluded.{}", ident(column)));
                format!("{mine}{only_covered}")
            }
            Resolution::Compared(by, of) => {
                let mine = set(&|column| format!("excluded.{}", ident(column)));
                let wins = self.wins(by, of, &now);
                match fence {
                    None => format!("{mine}\nWHERE {wins}"),
                    Some(covered) => format!("{mine}\nWHERE ({wins})\n  AND {covered}"),
                }
            }
            Resolution::Merged(both) => {
                let merged = set(&|column| {
                    let mine = format!("excluded.{}", ident(column));
                    let theirs = format!("{now}.{}", ident(column));
                    let old = parameter("o", column);
                    if both.iter().any(|added| added == column) {
                        return added(&mine, &theirs, &old);
                    }
                    format!(
                        "CASE WHEN {theirs} COLLATE BINARY IS {old}\n        \
                         THEN {mine} ELSE {theirs} END"
                    )
                });
                format!("{merged}{only_covered}")
            }
        })
    }

    fn delete_anyway(&self) -> String {
        let (table, condition) = (self.target(), self.key_is("o"));
        format!("DELETE FROM {table}\nWHERE {condition}{}", self.and_covered())
    }

    fn download(&self) -> String {
        if let Some(covered) = self.covered(Form::Search) {
            return self.download_covered(&covered);
        }
        let key = idents("", &self.table.key);
        let unknown = self.unknown_to_remote();
        format!(
            "SELECT {columns}\nFROM {table} AS t\nWHERE {{s.watermark}} IS NULL\n\
             UNION ALL\n\
             SELECT {columns}\nFROM (\n    SELECT DISTINCT {key} FROM {log} AS l\n    \
             WHERE {SEQUENCE} > {{s.watermark}}\n      AND {unknown}\n) AS l\n\
             CROSS JOIN {looked_up} ON {join}",
            looked_up = self.looked_up(),
            columns = idents("t.", self.columns),
            table = self.name(),
            log = ident(&log_table::log_name(&self.table.name)),
            join = self.same_key("t", "l"),
        )
    }

    fn download_deletes(&self) -> String {
        if !self.selection.is_all() {
            return self.selection.deletes(&self.dialect());
        }
        let unknown = self.unknown_to_remote();
        format!(
            "SELECT DISTINCT {key}\nFROM {log} AS l\nWHERE l.{SEQUENCE} > {{s.watermark}}\n  \
             AND {unknown}\n  AND {present}\n  \
             AND NOT EXISTS (SELECT 1 FROM {looked_up} WHERE {same})",
            looked_up = self.looked_up(),
            key = idents("l.", &self.table.key),
            log = ident(&log_table::log_name(&self.table.name)),
            present = join(&self.table.key, " AND ", |c| format!("l.{} IS NOT NULL", ident(c))),
            same = self.same_key("t", "l"),
        )
    }
}

/// How the text of a time begins.
const DATE: &str = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]";

/// A time in the future counts as now, or one wrong clock would win for ever. It stays in its own
/// notation, to the digit. Any other text is no time.
fn clamped_to_now(value: &str) -> String {
    format!(
        "CASE typeof({value})\n        \
         WHEN 'text' THEN (\n            \
         SELECT CASE WHEN instant > strftime('%Y-%m-%d %H:%M:%f', 'now')\n                \
         THEN substr(strftime(\n                    \
         '%Y-%m-%d' || substr(v, 11, 1) || '%H:%M:%f', 'now',\n                    \
         iif(zone GLOB '*:*', trim(zone), '+00:00')), 1, length(body)) || zone\n                \
         ELSE v END\n            \
         FROM {text})\n        \
         WHEN 'blob' THEN {value}\n        \
         ELSE min({value}, CASE WHEN {value} > {SECONDS_MAX}\n            \
         THEN CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)\n            \
         ELSE CAST(strftime('%s', 'now') AS INTEGER) END) END",
        text = text_as_time(value),
    )
}

/// A value of a list as a literal of what a column stores of it.
fn stored(one: &Listed, affinity: Affinity) -> String {
    match (one, affinity) {
        (Listed::Number(number), Affinity::Text) => literal(&number.to_string()),
        (Listed::Number(number), _) => number.to_string(),
        (Listed::Text(text), Affinity::Text | Affinity::Blob) => literal(text),
        (Listed::Text(text), _) => {
            text.parse().map_or(literal(text), |number: i64| number.to_string())
        }
    }
}

/// Both changes of a number, where both sides changed it. A value that is no number is decided like
/// those of other columns. SQLite makes an inexact or infinite number of a sum that is too large:
/// the row is refused instead, by what `abs` says of the smallest whole number.
fn added(mine: &str, theirs: &str, old: &str) -> String {
    let numbers = join(&["mine", "theirs", "old"], "\n                AND ", |value| {
        format!("typeof({value}) IN ('integer', 'real')")
    });
    format!(
        "(\n        \
         SELECT CASE\n            \
         WHEN theirs COLLATE BINARY IS old THEN mine\n            \
         WHEN mine COLLATE BINARY IS old THEN theirs\n            \
         WHEN NOT ({numbers}) THEN theirs\n            \
         WHEN abs(total) < 9e999 AND (typeof(total) = 'integer'\n                \
         OR 'real' IN (typeof(mine), typeof(theirs), typeof(old))) THEN total\n            \
         ELSE abs(-9223372036854775807 - 1) END\n        \
         FROM (SELECT mine, theirs, old, theirs + (mine - old) AS total\n        \
         FROM (SELECT {mine} AS mine, {theirs} AS theirs, {old} AS old)))"
    )
}

/// What is a time is compared as a time, whatever its notation; all else as SQLite compares it. The
/// sign is between the `new` value and the one that is there `now`.
fn as_times(new: &str, sign: &str, now: &str) -> String {
    format!(
        "coalesce(\n    {}\n    {sign} {},\n    {new} {sign} {now})",
        instant(new),
        instant(now)
    )
}

/// When it was, as text that sorts; NULL if the value is no time. The zeros at the end go, so that
/// it is the same in each notation.
fn instant(value: &str) -> String {
    format!(
        "CASE typeof({value})\n        \
         WHEN 'text' THEN (SELECT instant FROM {text})\n        \
         ELSE iif({value} = CAST({value} AS INTEGER) AND {value} >= 0,\n            \
         rtrim(strftime('%Y-%m-%d %H:%M:%f', CASE WHEN {value} > {SECONDS_MAX}\n            \
         THEN {value} / 1000.0 ELSE {value} END, 'unixepoch'), '.0'), NULL) END",
        text = text_as_time(value),
    )
}

/// A text as `v`, its `body` and its `zone`, and the `instant`. The fraction is kept apart, because
/// SQLite rounds it to milliseconds.
fn text_as_time(value: &str) -> String {
    format!(
        "(\n            \
         SELECT v, body, zone, CASE\n                \
         WHEN v GLOB '{DATE}*' AND datetime(v) IS NOT NULL\n                \
         AND (length(v) = 10 OR substr(v, 11, 2) GLOB '[ T][0-9]') THEN rtrim(\n                \
         datetime(substr(body, 1, 19) || zone) || substr(body, 20), '.0')\n                \
         END AS instant\n            \
         FROM (SELECT v, zone, substr(v, 1, length(v) - length(zone)) AS body\n            \
         FROM (SELECT v, ltrim(substr(v, 17), ':.0123456789') AS zone\n            \
         FROM (SELECT {value} AS v))))"
    )
}
