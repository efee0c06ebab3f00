//! The SQL of a temporary trigger, out of that of the trigger that it stands for.
//!
//! SQLite keeps the text of the statement that created a trigger, from the name on as it was
//! written. Event, condition and statements are taken over letter by letter.

use crate::sql::ident;
use crate::sql::tokens::{Token, tokens};

/// `CREATE TRIGGER`, taken apart.
pub(super) struct Parts<'a> {
    tokens: Vec<Token<'a>>,
    /// When it fires, for example `AFTER UPDATE OF a, b`.
    event: &'a str,
    when: Option<&'a str>,
    body: &'a str,
    /// The first column behind OF.
    column: Option<&'a str>,
}

/// What a copy has besides what it copies.
#[derive(Default)]
pub(super) struct Additions<'a> {
    /// Must hold as well.
    pub(super) condition: &'a str,
    /// The first statement, with its semicolon.
    pub(super) first: &'a str,
    /// The last one.
    pub(super) last: &'a str,
}

impl<'a> Parts<'a> {
    /// None if the text is not understood.
    pub(super) fn read(sql: &'a str) -> Option<Parts<'a>> {
        let tokens = tokens(sql);
        let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
        if !is(0, "CREATE") || !is(1, "TRIGGER") {
            return None;
        }
        // No name without quotes is ON.
        let on = (3..tokens.len()).find(|&at| is(at, "ON"))?;
        let mut next = if is(on + 2, ".") { on + 4 } else { on + 2 };
        if is(next, "FOR") {
            next += 3;
        }
        let begin = begin(&tokens, next)?;
        let when = match is(next, "WHEN") {
            true => Some(sql.get(tokens.get(next)?.end()..tokens.get(begin)?.at)?),
            false => None,
        };
        let end = tokens.last().filter(|token| token.is("END"))?;
        let column = (3..on).find(|&at| is(at, "OF")).and_then(|of| tokens.get(of + 1));
        Some(Parts {
            event: sql.get(tokens.get(2)?.end()..tokens.get(on)?.at)?,
            when,
            body: sql.get(tokens.get(begin)?.end()..end.at)?,
            column: column.map(|token| token.text),
            tokens,
        })
    }

    /// The statement that creates it on `table` as a temporary one.
    pub(super) fn copied(&self, name: &str, table: &str, added: &Additions<'_>) -> String {
        let Additions { condition, first, last } = added;
        let own = self.when.map(|when| format!("({when}\n)"));
        let conditions = [(!condition.is_empty()).then(|| (*condition).to_owned()), own];
        let when = conditions.into_iter().flatten().collect::<Vec<_>>().join(" AND ");
        let when = if when.is_empty() { when } else { format!("WHEN {when} ") };
        let (name, table, event, body) = (ident(name), ident(table), self.event, self.body);
        format!(
            "CREATE TEMP TRIGGER {name} {event} ON main.{table} {when}BEGIN {first}\
             {body}\n{last} END"
        )
    }

    /// A statement that fires it, if it were run. `column` is one of the table that can be set.
    pub(super) fn fired_by(&self, table: &str, column: &str) -> String {
        let table = ident(table);
        let events = ["INSERT", "UPDATE", "DELETE"];
        let is_event = |token: &&Token<'_>| events.iter().any(|event| token.is(event));
        match self.tokens.iter().skip(3).find(is_event) {
            Some(token) if token.is("INSERT") => format!("INSERT INTO {table} DEFAULT VALUES"),
            Some(token) if token.is("DELETE") => format!("DELETE FROM {table}"),
            _ => {
                let column = self.column.unwrap_or(column);
                format!("UPDATE {table} SET {column} = {column}")
            }
        }
    }

    /// It may refuse a row, or end a statement halfway.
    pub(super) fn raises(&self) -> bool {
        self.has_words("RAISE", "(")
    }

    /// A statement of it that fails takes back less than itself, or everything.
    pub(super) fn fails_partly(&self) -> bool {
        self.has_words("OR", "FAIL") || self.has_words("OR", "ROLLBACK") || {
            // RAISE(FAIL, …) and RAISE(ROLLBACK, …).
            self.raises() && (self.has_words("(", "FAIL") || self.has_words("(", "ROLLBACK"))
        }
    }

    fn has_words(&self, first: &str, second: &str) -> bool {
        let mut pairs = self.tokens.iter().zip(self.tokens.iter().skip(1));
        pairs.any(|(one, two)| one.is(first) && two.is(second))
    }
}

/// The BEGIN of the statements. A column may have this name, too.
fn begin(tokens: &[Token<'_>], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = None;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ if depth == 0 && token.is("BEGIN") && before != Some(".") => return Some(at),
            _ => {}
        }
        before = Some(token.text);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(sql: &str) -> String {
        let added = Additions { condition: "deep", first: "UPDATE a;", last: "UPDATE b;" };
        Parts::read(sql).unwrap().copied("c", "my t", &added)
    }

    #[test]
    fn a_copy_has_event_condition_and_statements() {
        assert_eq!(
            copied("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END"),
            "CREATE TEMP TRIGGER \"c\"  AFTER INSERT  ON main.\"my t\" WHEN deep BEGIN \
             UPDATE a; SELECT 1; \nUPDATE b; END"
        );
        assert_eq!(
            copied(
                "CREATE TRIGGER \"on\"/* ON t */BEFORE UPDATE OF \"on\", [begin] ON main . [t] \
                 for each row when NEW.begin > CASE WHEN (SELECT begin FROM t) THEN 1 END \
                 -- BEGIN\n\
                 BEGIN UPDATE t SET \"end\" = 'END;' WHERE x; END"
            ),
            "CREATE TEMP TRIGGER \"c\" /* ON t */BEFORE UPDATE OF \"on\", [begin]  ON \
             main.\"my t\" WHEN deep AND ( NEW.begin > CASE WHEN (SELECT begin FROM t) THEN 1 END \
             -- BEGIN\n\n) BEGIN UPDATE a; UPDATE t SET \"end\" = 'END;' WHERE x; \nUPDATE b; END"
        );
    }

    #[test]
    fn what_may_not_be_copied_is_noticed() {
        let read = |body: &str| {
            let sql = format!("CREATE TRIGGER x DELETE ON t BEGIN {body}; END");
            let parts = Parts::read(&sql).unwrap();
            (parts.raises(), parts.fails_partly())
        };
        assert_eq!(read("SELECT 'RAISE(FAIL)' -- RAISE(IGNORE)\n"), (false, false));
        assert_eq!(read("SELECT raise (ignore)"), (true, false));
        assert_eq!(read("SELECT RAISE(FAIL, 'no')"), (true, true));
        assert_eq!(read("INSERT or /**/ rollback INTO a VALUES (1)"), (false, true));
        assert_eq!(read("UPDATE OR FAIL a SET b = 1"), (false, true));
    }

    #[test]
    fn what_is_not_understood_is_no_trigger() {
        for sql in ["", "CREATE TRIGGER", "CREATE TRIGGER x AFTER INSERT ON t", "CREATE TABLE t"] {
            assert!(Parts::read(sql).is_none(), "{sql}");
        }
    }

    #[test]
    fn a_statement_that_would_fire_it_is_known() {
        let fired_by = |event: &str| {
            let sql = format!("CREATE TRIGGER x {event} ON t BEGIN SELECT 1; END");
            Parts::read(&sql).unwrap().fired_by("t", "\"c\"")
        };
        assert_eq!(fired_by("INSTEAD OF INSERT"), "INSERT INTO \"t\" DEFAULT VALUES");
        assert_eq!(fired_by("BEFORE DELETE"), "DELETE FROM \"t\"");
        assert_eq!(fired_by("UPDATE"), "UPDATE \"t\" SET \"c\" = \"c\"");
        assert_eq!(fired_by("AFTER UPDATE OF [a b], d"), "UPDATE \"t\" SET [a b] = [a b]");
    }
}
