//! The assignments of a generated update, of which each row needs only some.
//!
//! An edit touches only the columns that the remote has changed (S5), so a trigger that is declared
//! for others does not fire. The generated script assigns all columns. It is taken apart once, and
//! put together again for every set of changed columns that occurs.

use super::lexer::{Token, Tokens};
use crate::quote::ident;
use crate::upload::changed_columns::ChangedColumns;
use model::PublishedTable;

/// What stands before the first assignment, and between two of them.
const BEGIN: &str = "SET\n    ";
const BETWEEN: &str = ",\n    ";

/// How the part behind the last one begins.
const ENDS: [&str; 2] = ["\nFROM ", "\nWHERE "];

/// A generated update, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignments {
    head: String,
    /// Each with the position of its column; none of one that is always made.
    each: Vec<(Option<usize>, String)>,
    tail: String,
}

impl Assignments {
    /// Takes `text` apart. None of a script that is not built as a generated update is.
    pub(super) fn of(text: &str, table: &PublishedTable) -> Option<Assignments> {
        if !text.starts_with("UPDATE ") {
            return None;
        }
        let (mut begin, mut end, mut cuts, mut depth) = (None, None, Vec::new(), 0);
        for (at, token) in Tokens::of(text) {
            let Token::Plain(plain) = token else { continue };
            for (within, c) in plain.char_indices() {
                let rest = &plain[within..];
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ if depth != 0 || end.is_some() => {}
                    'S' if begin.is_none() && rest.starts_with(BEGIN) => {
                        begin = Some(at + within + BEGIN.len());
                    }
                    _ if begin.is_none() => {}
                    ',' if rest.starts_with(BETWEEN) && !rest[BETWEEN.len()..].starts_with(' ') => {
                        cuts.push(at + within);
                    }
                    '\n' if ENDS.iter().any(|it| rest.starts_with(it)) => end = Some(at + within),
                    _ => {}
                }
            }
        }
        let (begin, end) = (begin?, end?);
        let starts = std::iter::once(begin).chain(cuts.iter().map(|at| at + BETWEEN.len()));
        let ends = cuts.iter().copied().chain([end]);
        let each = starts.zip(ends).map(|(start, end)| {
            let assignment = text.get(start..end)?;
            let is_it = |name: &String| assignment.starts_with(&format!("{} = ", ident(name)));
            Some((table.columns.iter().position(is_it), assignment.to_owned()))
        });
        let each = each.collect::<Option<Vec<_>>>()?;
        Some(Assignments { head: text[..begin].to_owned(), each, tail: text[end..].to_owned() })
    }

    /// The script that assigns the `changed` columns. Some assignment it has to have.
    pub(super) fn text(&self, changed: &ChangedColumns) -> String {
        let wanted = |(column, _): &&(Option<usize>, String)| {
            column.is_none_or(|column| changed.contains(column))
        };
        let mut chosen: Vec<&str> =
            self.each.iter().filter(wanted).map(|(_, text)| text.as_str()).collect();
        if chosen.is_empty() {
            chosen.extend(self.each.first().map(|(_, text)| text.as_str()));
        }
        format!("{}{}{}", self.head, chosen.join(BETWEEN), self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    fn changed(columns: &[usize]) -> ChangedColumns {
        let mut changed = ChangedColumns::default();
        columns.iter().for_each(|at| changed.insert(*at));
        changed
    }

    #[test]
    fn only_what_changed_is_assigned() {
        let text = "UPDATE \"t SET\n    \" AS t SET\n    \"id\" = f(u.\"id\",\n    1),\n    \
                    \"Full Name\" = CASE WHEN u.\"Full Name\" > ',\n    ' THEN 1\n        \
                    ELSE 2 END,\n    version = now()\nFROM (SELECT\nFROM x) AS u\nWHERE true";
        let assignments = Assignments::of(text, &table()).unwrap();
        assert_eq!(assignments.text(&changed(&[0, 1])), text);
        let name = text.replace("\"id\" = f(u.\"id\",\n    1),\n    ", "");
        assert_eq!(assignments.text(&changed(&[1])), name);
        let none = "UPDATE \"t SET\n    \" AS t SET\n    version = now()\n\
                    FROM (SELECT\nFROM x) AS u\nWHERE true";
        assert_eq!(assignments.text(&changed(&[])), none);
    }

    #[test]
    fn some_assignment_is_made() {
        let text = "UPDATE OR FAIL \"t\" SET\n    \"Full Name\" = {r.\"Full Name\"}\nWHERE 1";
        let assignments = Assignments::of(text, &table()).unwrap();
        assert_eq!(assignments.text(&changed(&[])), text);
        assert_eq!(Assignments::of("UPDATE t SET a = 1 WHERE 1", &table()), None);
        assert_eq!(Assignments::of("INSERT INTO t VALUES (1)", &table()), None);
    }
}
