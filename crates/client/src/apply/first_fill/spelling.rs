//! The SQL of a hidden table and of its indexes, out of that of the table that it stands for.
//!
//! SQLite keeps the text of each statement that created something. Only the names are exchanged in
//! it, so that both tables store their rows in the same way. And foreign keys are taken out: by one
//! of them the hidden rows would take part in what a program does to the rows that it sees. A
//! delete of a parent of its own would take along hidden children of another parent with that key.

use crate::sql::ident;
use crate::sql::tokens::{Token, tokens};

/// `CREATE TABLE` with the name `hidden`, without foreign keys. None if the text is not understood.
pub(super) fn hidden_table(create: &str, hidden: &str) -> Option<String> {
    let tokens = tokens(create);
    let [first, second, _, rest @ ..] = tokens.as_slice() else { return None };
    if !first.is("CREATE") || !second.is("TABLE") {
        return None;
    }
    let from = rest.first().filter(|token| token.text == "(")?.at;
    let mut sql = format!("CREATE TABLE {}", ident(hidden));
    let mut copied = from;
    for Cut { begin, end, instead } in foreign_keys(rest)? {
        sql.push_str(create.get(copied..begin)?);
        sql.push_str(instead);
        copied = end;
    }
    sql.push_str(create.get(copied..)?);
    Some(sql)
}

/// `CREATE INDEX` with these names. None if the text is not understood.
pub(super) fn hidden_index(create: &str, hidden: &str, table: &str) -> Option<String> {
    let tokens = tokens(create);
    let (unique, rest) = match tokens.as_slice() {
        [create, unique, rest @ ..] if create.is("CREATE") && unique.is("UNIQUE") => {
            ("UNIQUE ", rest)
        }
        [create, rest @ ..] if create.is("CREATE") => ("", rest),
        _ => return None,
    };
    let [index, _, on, _, columns, ..] = rest else { return None };
    if !index.is("INDEX") || !on.is("ON") || columns.text != "(" {
        return None;
    }
    let rest = create.get(columns.at..)?;
    Some(format!("CREATE {unique}INDEX {} ON {} {rest}", ident(hidden), ident(table)))
}

/// A part of the text, and what takes its place.
struct Cut {
    begin: usize,
    end: usize,
    instead: &'static str,
}

/// Where foreign keys are declared. Of a key that is declared behind the columns a CHECK is left
/// that always holds, because nothing may stay between two commas; its name, if it has one, is that
/// of the CHECK.
fn foreign_keys(tokens: &[Token<'_>]) -> Option<Vec<Cut>> {
    let mut cuts = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let (end, instead) = match token {
            token if depth == 1 && token.is("REFERENCES") => (references_end(tokens, at)?, ""),
            token if depth == 1 && token.is("FOREIGN") => {
                let columns = at + 2;
                tokens.get(at + 1).filter(|token| token.is("KEY"))?;
                let references = closing(tokens, columns)? + 1;
                tokens.get(references).filter(|token| token.is("REFERENCES"))?;
                (references_end(tokens, references)?, "CHECK (1)")
            }
            _ => {
                at += 1;
                continue;
            }
        };
        cuts.push(Cut { begin: token.at, end: tokens.get(end)?.at, instead });
        at = end;
    }
    Some(cuts)
}

/// Behind the last token of the clause that begins at `at` with `REFERENCES`.
fn references_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    let mut end = at + 2;
    if tokens.get(end).is_some_and(|token| token.text == "(") {
        end = closing(tokens, end)? + 1;
    }
    loop {
        if is(end, "MATCH") {
            end += 2;
        } else if is(end, "ON") {
            // SET NULL, SET DEFAULT and NO ACTION are two words.
            end += if is(end + 2, "SET") || is(end + 2, "NO") { 4 } else { 3 };
        } else if is(end, "DEFERRABLE") {
            end += 1;
        } else if is(end, "NOT") && is(end + 1, "DEFERRABLE") || is(end, "INITIALLY") {
            end += 2;
        } else {
            return Some(end);
        }
    }
}

/// The parenthesis that closes the one at `open`.
fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// What SQLite finds in tables made by this SQL and by what is made of it.
    #[test]
    fn a_hidden_table_has_no_foreign_key_and_is_the_same_otherwise() {
        for create in [
            "CREATE TABLE t (id INTEGER PRIMARY KEY, p REFERENCES p, q TEXT NOT NULL)",
            "create table \"t\"(id integer primary key, p int REFERENCES p (id) ON DELETE SET NULL \
             on update cascade MATCH FULL NOT DEFERRABLE INITIALLY IMMEDIATE NOT NULL UNIQUE)",
            "CREATE TABLE [t](a, b, [references] TEXT, \"foreign\" TEXT DEFAULT 'REFERENCES p', \
             PRIMARY KEY (a, b) CONSTRAINT own FOREIGN KEY (a, b) REFERENCES p (x, y) ON DELETE NO \
             ACTION DEFERRABLE INITIALLY DEFERRED CHECK (a > 0))",
            "CREATE TABLE `t` (a INT, -- REFERENCES p ( \n b /* , FOREIGN KEY */ INT, FOREIGN KEY \
             (a) REFERENCES t(b) ON UPDATE SET DEFAULT, CONSTRAINT x FOREIGN KEY (b) REFERENCES \
             \"p )\", PRIMARY KEY (a)) WITHOUT ROWID, STRICT",
            "CREATE TABLE t(id TEXT COLLATE NOCASE PRIMARY KEY ON CONFLICT REPLACE, \
             g TEXT AS (id || ')') STORED, h INT AS (length(id)) CONSTRAINT c REFERENCES t)",
            "CREATE TABLE 't' (é TEXT PRIMARY KEY CONSTRAINT dangling REFERENCES \"t\"\"t\" \
             CHECK (é <> ')('), \"it's\" REFERENCES [p]\t)",
        ] {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(create).unwrap();
            let stored: String = connection
                .query_row("SELECT sql FROM sqlite_schema WHERE name = 't'", [], |row| row.get(0))
                .unwrap();
            let hidden = hidden_table(&stored, "syncline_fill_7").unwrap();
            connection.execute_batch(&hidden).unwrap_or_else(|error| panic!("{error}: {hidden}"));
            let read = |pragma: &str, table: &str| -> Vec<String> {
                let sql = format!("SELECT * FROM {pragma}(?1)");
                let mut statement = connection.prepare(&sql).unwrap();
                let width = statement.column_count();
                let line = |row: &rusqlite::Row<'_>| {
                    let value = |at| crate::connection::value(row, at).unwrap().display();
                    let values: Vec<String> = (0..width).map(value).collect();
                    Ok(values.join(" ").replace("syncline_fill_7", "t"))
                };
                statement.query_map([table], line).unwrap().map(Result::unwrap).collect()
            };
            assert_ne!(read("pragma_foreign_key_list", "t"), Vec::<String>::new(), "{create}");
            assert_eq!(read("pragma_foreign_key_list", "syncline_fill_7"), Vec::<String>::new());
            for pragma in ["pragma_table_xinfo", "pragma_index_list"] {
                assert_eq!(read(pragma, "syncline_fill_7"), read(pragma, "t"), "{hidden}");
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for create in ["", "CREATE", "CREATE TABLE t", "CREATE VIRTUAL TABLE t USING fts5(x)"] {
            assert_eq!(hidden_table(create, "h"), None, "{create}");
        }
        for create in ["CREATE TABLE t (x FOREIGN)", "CREATE TABLE t (x, FOREIGN KEY (x)"] {
            assert_eq!(hidden_table(create, "h"), None, "{create}");
        }
        for create in ["", "CREATE INDEX", "CREATE UNIQUE INDEX i", "CREATE INDEX i ON t"] {
            assert_eq!(hidden_index(create, "h", "t"), None, "{create}");
        }
    }

    #[test]
    fn an_index_keeps_everything_but_its_names() {
        let create = "CREATE UNIQUE INDEX \"on\" ON /* a table */ [my t](a DESC, lower(b)) WHERE a";
        let hidden = "CREATE UNIQUE INDEX \"h\" ON \"f\" (a DESC, lower(b)) WHERE a";
        assert_eq!(hidden_index(create, "h", "f").unwrap(), hidden);
        let create = "CREATE INDEX i ON t (a)";
        assert_eq!(hidden_index(create, "h", "f").unwrap(), "CREATE INDEX \"h\" ON \"f\" (a)");
    }
}
