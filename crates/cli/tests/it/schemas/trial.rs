//! A transaction at the center that tries writes, keeps those that work, and is undone at the end.

use harness::postgres::PsqlSession;
use harness::{Dialect, World};
use rusqlite::Connection;

/// Answers nothing where the statement has worked, and otherwise what was wrong, without a trace.
const ATTEMPT: &str = "CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text
    LANGUAGE plpgsql AS $attempt$ BEGIN EXECUTE statement; RETURN '';
    EXCEPTION WHEN OTHERS THEN RETURN replace(SQLERRM, chr(10), ' '); END $attempt$";

pub(crate) enum Trial {
    Sqlite(Connection),
    Postgres(PsqlSession),
}

impl Trial {
    pub(crate) fn begin(world: &World, dialect: Dialect) -> Trial {
        match dialect {
            Dialect::Sqlite => {
                let connection = Connection::open(world.consolidated()).unwrap();
                connection.execute_batch("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE").unwrap();
                Trial::Sqlite(connection)
            }
            Dialect::Postgres => {
                let mut session = world.database().session();
                session.sql(&format!("BEGIN; {ATTEMPT}; SET CONSTRAINTS ALL IMMEDIATE"));
                Trial::Postgres(session)
            }
        }
    }

    /// Whether the statement works after those that worked before.
    pub(crate) fn attempt(&mut self, statement: &str) -> Result<(), String> {
        match self {
            Trial::Sqlite(connection) => {
                connection.execute_batch(statement).map_err(|error| error.to_string())
            }
            Trial::Postgres(session) => {
                let told = session.sql(&format!("SELECT pg_temp.attempt($try${statement}$try$)"));
                match told.trim() {
                    "" => Ok(()),
                    wrong => Err(wrong.to_owned()),
                }
            }
        }
    }

    /// Undoes everything.
    pub(crate) fn end(self) {
        match self {
            Trial::Sqlite(connection) => connection.execute_batch("ROLLBACK").unwrap(),
            Trial::Postgres(mut session) => drop(session.sql("ROLLBACK")),
        }
    }
}
