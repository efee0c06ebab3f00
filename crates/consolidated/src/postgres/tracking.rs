//! Records every change of a table: a version in each row, and a log of departed keys.
//!
//! The version is the transaction that wrote the row last. The statements of an upload set it, and
//! a column default does for inserts. For other writes a trigger sets it; if the version is already
//! right, the trigger does not run. A row that is deleted, or whose key changes, leaves its key in
//! the log (`departure_log.rs`). Truncating a table gives it a new incarnation, and every remote
//! receives it again.
//!
//! The functions run with the rights of the user who deployed them. So a user who may write to a
//! table needs no right on the system tables. Triggers are ALWAYS enabled, also for replicas and
//! restores.

pub(super) mod departure_log;
pub(super) mod trim;
pub(super) mod watch;

use crate::deploy::{TableFacts, Wanted};
use crate::postgres::deploy::tables::{UserColumn, UserTable, VERSION, bounded_name};
use crate::postgres::tracking::departure_log::{Log, log, log_name};
use crate::quote::{ident, join, literal};

/// All that tracks one table.
#[derive(Debug, Clone)]
pub(super) struct Tracking {
    /// The published name.
    pub(super) table: String,
    /// The name in SQL.
    pub(super) sql_name: String,
    /// In the order in which they are made.
    pub(super) objects: Vec<Object>,
    /// The index on the version, made while others write where the table is large.
    pub(super) version_index: Option<VersionIndex>,
}

/// A database object of Syncline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object {
    /// `COLUMN`, `TABLE`, `INDEX`, `FUNCTION` or `TRIGGER`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Makes it, one statement each.
    pub(super) sql: Vec<String>,
}

/// An index that finds rows by their version.
#[derive(Debug, Clone)]
pub(super) struct VersionIndex {
    pub(super) name: String,
    pub(super) sql: String,
    /// The table is so large that others must be able to write meanwhile.
    pub(super) large: bool,
}

/// Tables up to this size are read for an index within a moment, in bytes.
const SMALL_TABLE_BYTES_MAX: i64 = 8 << 20;

/// Functions that all tables share.
pub(super) const FUNCTIONS: [(&str, &str); 3] = [
    ("syncline_stamp", include_str!("tracking/stamp.sql").trim_ascii_end()),
    ("syncline_truncated", include_str!("tracking/truncated.sql").trim_ascii_end()),
    ("syncline_watched", include_str!("tracking/watched.sql").trim_ascii_end()),
];

/// A trigger that looks for versions which a trigger of the owner has set back.
pub(super) const WATCHED: &str = "syncline_watched";

/// A trigger that may be added to a tracked table: it was not needed before.
pub(super) const UNLINKED: &str = "syncline_unlinked";

/// How statements of Syncline begin that delete rows and note it themselves.
const NOTING: &str = "WITH gone AS (";

fn came_name(published: &str) -> String {
    bounded_name("syncline_came_", published)
}

/// What tracks `table`.
pub(super) fn of(table: &UserTable, wanted: &Wanted) -> Tracking {
    let published = table.published_name();
    let name = table.sql_name();
    let log = Log::of(table, wanted);
    let mut objects = vec![
        Object {
            kind: "COLUMN",
            name: VERSION.into(),
            // In two steps: rows that are there already stay as they are, without a rewrite.
            sql: vec![
                format!("ALTER TABLE {name} ADD COLUMN {VERSION} xid8"),
                format!(
                    "ALTER TABLE {name} ALTER COLUMN {VERSION} SET DEFAULT pg_current_xact_id()"
                ),
            ],
        },
        Object { kind: "TABLE", name: log_name(&published), sql: log.create() },
        // The key and the place that a row had.
        log_function(log_name(&published), &log.note_row("OLD", true)),
    ];
    if wanted.arrivals {
        // The key of a row that comes; it had no place before.
        objects.push(log_function(came_name(&published), &log.note_row("NEW", false)));
    }
    objects.extend(triggers(table, wanted));
    let version_index = wanted.indexed.then(|| version_index(table));
    Tracking { table: published, sql_name: name, objects, version_index }
}

fn triggers(table: &UserTable, wanted: &Wanted) -> Vec<Object> {
    let (name, log) = (table.sql_name(), log(&table.published_name()));
    let mut objects = Vec::new();
    let trigger = |trigger: &str, body: String| self::trigger(table, trigger, "ALWAYS", body);
    objects.push(trigger(
        "syncline_stamp",
        format!(
            "BEFORE INSERT OR UPDATE ON {name} FOR EACH ROW\n\
             WHEN (NEW.{VERSION} IS DISTINCT FROM pg_current_xact_id())\n\
             EXECUTE FUNCTION syncline.syncline_stamp()"
        ),
    ));
    objects.push(trigger(
        "syncline_gone",
        format!(
            "AFTER DELETE ON {name} FOR EACH ROW\n\
             WHEN (pg_trigger_depth() > 0\n    \
             OR current_setting('syncline.applying', true) IS DISTINCT FROM 'on'\n    \
             OR left(current_query(), {}) <> {})\n\
             EXECUTE FUNCTION {log}()",
            NOTING.len(),
            literal(NOTING)
        ),
    ));
    if wanted.arrivals {
        let function = came_name(&table.published_name());
        objects.push(trigger(
            "syncline_came",
            format!(
                "AFTER INSERT ON {name} FOR EACH ROW\nEXECUTE FUNCTION syncline.{}()",
                ident(&function)
            ),
        ));
    }
    let moved: Vec<String> = table.key.iter().chain(&wanted.places).cloned().collect();
    let moved = join(&moved, "\n    OR ", |column| differs(table, column));
    objects.push(trigger(
        "syncline_moved",
        format!("AFTER UPDATE ON {name} FOR EACH ROW\nWHEN ({moved})\nEXECUTE FUNCTION {log}()"),
    ));
    objects.push(trigger(
        "syncline_truncated",
        format!(
            "AFTER TRUNCATE ON {name} FOR EACH STATEMENT\n\
             EXECUTE FUNCTION syncline.syncline_truncated({})",
            literal(&table.published_name())
        ),
    ));
    objects.extend(watches(table, wanted));
    objects
}

fn trigger(table: &UserTable, name: &str, enabled: &str, body: String) -> Object {
    Object {
        kind: "TRIGGER",
        name: name.to_owned(),
        sql: vec![
            format!("CREATE TRIGGER {name} {body}"),
            format!("ALTER TABLE {} ENABLE {enabled} TRIGGER {name}", table.sql_name()),
        ],
    }
}

/// Detects that others bypass the triggers above. Otherwise neither runs.
fn watches(table: &UserTable, wanted: &Wanted) -> Vec<Object> {
    let name = table.sql_name();
    let function =
        format!("EXECUTE FUNCTION syncline.syncline_watched({})", literal(&table.published_name()));
    // A trigger of theirs that fires behind `syncline_stamp` may set the version back, and may
    // come and go at any time (trap 29).
    let body = format!(
        "AFTER INSERT OR UPDATE ON {name} FOR EACH ROW\n\
         WHEN (NEW.{VERSION} IS DISTINCT FROM pg_current_xact_id())\n{function}"
    );
    let mut objects = vec![trigger(table, WATCHED, "ALWAYS", body)];
    if wanted.guarded {
        // It fires only where foreign keys are not checked (trap 26).
        let body = format!("AFTER INSERT OR UPDATE OR DELETE ON {name} FOR EACH ROW\n{function}");
        objects.push(trigger(table, UNLINKED, "REPLICA", body));
    }
    objects
}

fn version_index(table: &UserTable) -> VersionIndex {
    let index = bounded_name("syncline_version_", &table.name);
    VersionIndex {
        // Rows from before the tracking have no version, and are never searched for.
        sql: format!(
            "CREATE INDEX {} ON {} ({VERSION}) WHERE {VERSION} IS NOT NULL",
            ident(&index),
            table.sql_name()
        ),
        name: index,
        large: table.bytes > SMALL_TABLE_BYTES_MAX,
    }
}

fn differs(table: &UserTable, column: &str) -> String {
    let name = ident(column);
    let spelled = |column: &UserColumn| column.compares_as_text() || column.ambiguous.is_some();
    match table.column(column).is_some_and(spelled) {
        true => format!("OLD.{name}::text COLLATE \"C\" IS DISTINCT FROM NEW.{name}::text"),
        false => format!("OLD.{name} IS DISTINCT FROM NEW.{name}"),
    }
}

fn log_function(name: String, note: &str) -> Object {
    let sql = format!(
        "CREATE OR REPLACE FUNCTION syncline.{}() RETURNS trigger LANGUAGE plpgsql\n\
         SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$\nBEGIN\n    \
         {note};\n    RETURN NULL;\nEND\n$$",
        ident(&name),
    );
    Object { kind: "FUNCTION", name, sql: vec![sql] }
}
