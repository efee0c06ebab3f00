//! Scripts as PostgreSQL prepares them: `$1`, `$2`, … with their types, batches as arrays.
//!
//! A set-based script gets a batch as one array for each column:
//!
//! ```sql
//! INSERT INTO customer (id, mood)
//! SELECT id, mood FROM {inserts}
//! -- becomes
//! SELECT id, mood FROM (SELECT unnest($1::int4[]) AS "id", unnest($2::text[])::mood AS "mood")
//! ```
//!
//! The arrays of a batch have the same length, so the sets advance together, row by row. One
//! function with several arguments in `FROM` would first store all rows. A script that names
//! [`POSITION`] gets the place of each row in the batch as one more set.
//!
//! The script of a user may have several statements. They share the values of a batch, and each has
//! parameters of its own among them.

use crate::postgres::values::ColumnType;
use crate::quote::{ident, literal};
use crate::script::told::Told;
use crate::script::{Parameter, Piece, Relation, Script, old_name};
use model::PublishedTable;
use postgres_types::ToSql;

/// The place of a row in its batch, from 1, as a column of the batch where a script names it.
pub(super) const POSITION: &str = "syncline_position";

/// The value of a parameter, of a type of its own.
pub(super) type Value<'v> = Box<dyn ToSql + Sync + 'v>;

/// All values of a statement, as the connection wants them.
pub(super) fn as_parameters<'v>(values: &'v [Value<'_>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}

/// Where the value of a parameter comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Slot {
    /// The same for all rows: text.
    Session(Parameter),
    /// One value of the new row.
    New(usize),
    /// One value of the old row.
    Old(usize),
    /// An array with this column of every new row; of [`Relation::Keys`] of every key.
    NewColumn(usize),
    /// An array with this column of every old row.
    OldColumn(usize),
    /// An array with this column of a key between which and another one rows are read: of the
    /// lower (0) or the upper (1).
    Bound(usize, usize),
}

/// A script ready to be prepared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// One for each parameter, in order.
    pub(super) slots: Vec<Slot>,
    /// Runs once for a whole batch.
    pub(super) set_based: bool,
    /// The database may keep its plan (`plan_cache.rs`).
    pub(super) keeps_plan: bool,
    /// Of a script that a user wrote.
    pub(super) own: Option<OwnStatements>,
}

/// What only the script of a user has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnStatements {
    /// A count of 0 says that a row was not applied.
    pub(super) counts: bool,
    /// How many of the slots the first statement has.
    pub(super) slots: usize,
    /// The statements behind the first.
    pub(super) then: Vec<Following>,
}

/// A statement of a script behind the first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Following {
    pub(super) sql: String,
    /// Where its parameters are among the slots of the script.
    pub(super) parameters: Vec<usize>,
}

/// How a statement of a user begins. Statements that begin as ours do note by themselves what they
/// delete (`tracking.rs`), and a user's must not pass for one.
const OWN_BEGIN: &str = "\n";

impl Statement {
    /// `script` of `table`, whose columns are of these types.
    pub(super) fn of(script: &Script, table: &PublishedTable, columns: &[ColumnType]) -> Statement {
        let (mut statement, _) = Statement::rendered(script, table, columns, None);
        if script.is_own() {
            statement.follow(script, table, columns);
        }
        statement
    }

    /// Adds the statements behind the first. Those of one script take a batch in the same way.
    fn follow(&mut self, script: &Script, table: &PublishedTable, columns: &[ColumnType]) {
        let (slots, mut then) = (self.slots.len(), Vec::new());
        for following in script.statements().skip(1) {
            let (following, _) = Statement::rendered(following, table, columns, None);
            self.set_based |= following.set_based;
            let parameters = following.slots.into_iter().map(|slot| self.number(slot) - 1);
            then.push(Following { sql: following.sql, parameters: parameters.collect() });
        }
        self.own = Some(OwnStatements { counts: script.counts(), slots, then });
    }

    /// A cursor. Its times are local times of `zone`, where there is one.
    pub(super) fn cursor(
        script: &Script,
        table: &PublishedTable,
        columns: &[ColumnType],
        zone: Option<&str>,
    ) -> Statement {
        Statement::rendered(script, table, columns, zone).0
    }

    /// One statement of a script, and where each piece of the script begins in it.
    pub(super) fn rendered(
        script: &Script,
        table: &PublishedTable,
        columns: &[ColumnType],
        zone: Option<&str>,
    ) -> (Statement, Vec<usize>) {
        let begin = if script.is_own() { OWN_BEGIN } else { "" };
        let mut statement = Statement {
            sql: begin.to_owned(),
            slots: Vec::new(),
            set_based: false,
            keeps_plan: false,
            own: None,
        };
        let mut begins = Vec::with_capacity(script.pieces.len());
        let asks = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains(POSITION));
        let numbered = script.pieces.iter().any(asks);
        for piece in &script.pieces {
            begins.push(statement.sql.len());
            match piece {
                Piece::Text(text) => statement.sql.push_str(text),
                Piece::Parameter(at) => {
                    let parameter = &script.parameters[*at];
                    let spelled = statement.parameter(parameter, columns, zone);
                    statement.sql.push_str(&spelled);
                }
                Piece::Relation(relation) => {
                    let spelled = statement.relation(*relation, table, columns, numbered);
                    statement.sql.push_str(&spelled);
                    statement.set_based = true;
                }
            }
        }
        (statement, begins)
    }

    fn number(&mut self, slot: Slot) -> usize {
        if let Some(at) = self.slots.iter().position(|known| *known == slot) {
            return at + 1;
        }
        self.slots.push(slot);
        self.slots.len()
    }

    fn parameter(
        &mut self,
        parameter: &Parameter,
        columns: &[ColumnType],
        zone: Option<&str>,
    ) -> String {
        let (slot, column) = match parameter {
            Parameter::New(at) => (Slot::New(*at), &columns[*at]),
            Parameter::Old(at) => (Slot::Old(*at), &columns[*at]),
            // Of their own types: a plan that is kept would read a text again for each row.
            // One snapshot is that of all tables.
            Parameter::Watermark | Parameter::WatermarkOf(_) => {
                let number = self.number(Slot::Session(Parameter::Watermark));
                return format!("${number}::pg_snapshot");
            }
            Parameter::LastUpload => {
                let number = self.number(Slot::Session(Parameter::LastUpload));
                return format!("${number}::xid8");
            }
            time if time.is_time() => {
                let number = self.number(Slot::Session(parameter.clone()));
                return self::time(number, zone);
            }
            Parameter::Told(told) => {
                let number = self.number(Slot::Session(parameter.clone()));
                let cast = match told {
                    Told::Bytes => "::int8",
                    told if told.is_number() => "::int4",
                    _ => "",
                };
                return format!("${number}::text{cast}");
            }
            session => {
                let number = self.number(Slot::Session(session.clone()));
                return format!("${number}::text");
            }
        };
        let number = self.number(slot);
        let cast = column.cast_from_wire().map(|cast| format!("::{cast}")).unwrap_or_default();
        format!("${number}::{}{cast}", column.wire().name())
    }

    pub(super) fn relation(
        &mut self,
        relation: Relation,
        table: &PublishedTable,
        columns: &[ColumnType],
        numbered: bool,
    ) -> String {
        let all = 0..table.width();
        let key = || table.key.iter().map(|at| usize::from(*at));
        let slots: Vec<Slot> = match relation {
            Relation::Inserts => all.map(Slot::NewColumn).collect(),
            Relation::Updates => {
                all.clone().map(Slot::NewColumn).chain(all.map(Slot::OldColumn)).collect()
            }
            Relation::Deletes => all.map(Slot::OldColumn).collect(),
            Relation::Keys => key().map(Slot::NewColumn).collect(),
        };
        let (mut selected, mut first) = (Vec::with_capacity(slots.len()), None);
        for slot in slots {
            let (at, name) = match slot {
                Slot::OldColumn(at) => (at, old_name(&table.columns, &table.columns[at])),
                Slot::NewColumn(at) | Slot::New(at) | Slot::Old(at) => {
                    (at, table.columns[at].clone())
                }
                Slot::Session(_) | Slot::Bound(..) => continue,
            };
            let (column, number) = (&columns[at], self.number(slot));
            let cast = column.cast_from_wire().map(|cast| format!("::{cast}")).unwrap_or_default();
            let array = format!("${number}::{}[]", column.wire().name());
            selected.push(format!("unnest({array}){cast} AS {}", ident(&name)));
            first.get_or_insert(array);
        }
        if let Some(array) = first.filter(|_| numbered) {
            selected.push(format!("generate_series(1, cardinality({array})) AS {POSITION}"));
        }
        format!("(SELECT {})", selected.join(", "))
    }
}

/// A parameter that is a moment. Before clocks are put back, the least local time that can still
/// come is one of the offset that follows.
pub(super) fn time(number: usize, zone: Option<&str>) -> String {
    let moment = format!("timestamptz 'epoch' + ${number}::int8 * interval '1 microsecond'");
    let Some(zone) = zone.map(literal) else { return format!("({moment})") };
    format!(
        "least(({moment}) AT TIME ZONE {zone}, \
         ({moment} + interval '{PUT_BACK_MAX}') AT TIME ZONE {zone} - interval '{PUT_BACK_MAX}')"
    )
}

/// Clocks are put back by less than this.
const PUT_BACK_MAX: &str = "3 hours";

#[cfg(test)]
mod tests {
    use super::super::values::NumericAs;
    use super::*;
    use model::Direction;
    use postgres_types::Type;

    fn check(script: &str, sql: &str, slots: &[Slot]) {
        let table = PublishedTable {
            compress: true,
            fires: false,
            name: "t".into(),
            columns: vec!["id".into(), "mood".into()],
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        };
        let columns = [
            ColumnType::of("integer", Type::INT4.oid(), false, NumericAs::Text),
            ColumnType::of("mood", 99_999, false, NumericAs::Text),
        ];
        let script = Script::parse(script, &table).unwrap();
        let statement = Statement::of(&script, &table, &columns);
        assert_eq!(statement.sql, sql);
        assert_eq!(statement.slots, slots);
    }

    #[test]
    fn a_batch_becomes_arrays_and_a_value_its_type() {
        check(
            "INSERT INTO t SELECT * FROM {inserts}",
            "INSERT INTO t SELECT * FROM (SELECT unnest($1::int4[]) AS \"id\", \
             unnest($2::text[])::mood AS \"mood\")",
            &[Slot::NewColumn(0), Slot::NewColumn(1)],
        );
        check(
            "DELETE FROM t USING {keys} AS k WHERE t.id = k.id AND t.mood = {o.mood}",
            "DELETE FROM t USING (SELECT unnest($1::int4[]) AS \"id\") AS k \
             WHERE t.id = k.id AND t.mood = $2::text::mood",
            &[Slot::NewColumn(0), Slot::Old(1)],
        );
        check(
            "SELECT k.syncline_position FROM {keys} AS k",
            "SELECT k.syncline_position FROM (SELECT unnest($1::int4[]) AS \"id\", \
             generate_series(1, cardinality($1::int4[])) AS syncline_position) AS k",
            &[Slot::NewColumn(0)],
        );
        check(
            "SELECT {u.rep}, {s.watermark}, {u.rep}",
            "SELECT $1::text, $2::pg_snapshot, $1::text",
            &[Slot::Session(Parameter::Claim("rep".into())), Slot::Session(Parameter::Watermark)],
        );
    }
}
