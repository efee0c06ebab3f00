//! What the server refuses, in its own words.

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use std::fmt;
use std::io;

/// The server's own words.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Whether the connection ends with it.
    fatal: bool,
    state: String,
    message: String,
    detail: Option<String>,
    /// The place in the statement that was sent, in characters from 1.
    position: Option<usize>,
    /// Where in functions it happened.
    place: Option<String>,
    /// The statement of a function that cannot be read.
    statement: Option<String>,
    schema: Option<String>,
    table: Option<String>,
    constraint: Option<String>,
    /// The function of PostgreSQL that said it.
    routine: Option<String>,
}

impl Refusal {
    /// Reads an error's fields.
    pub(crate) fn read(body: &ErrorResponseBody) -> io::Result<Refusal> {
        let mut refusal = Refusal::default();
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            // Before the session is set up the server may speak another encoding.
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // In the language of the server, and in English.
                b'S' | b'V' => refusal.fatal |= matches!(text.as_str(), "FATAL" | "PANIC"),
                b'C' => refusal.state = text,
                b'M' => refusal.message = text,
                b'D' => refusal.detail = Some(text),
                b'P' => refusal.position = text.parse().ok(),
                b'W' => refusal.place = Some(text),
                b'q' => refusal.statement = Some(text),
                b's' => refusal.schema = Some(text),
                b't' => refusal.table = Some(text),
                b'n' => refusal.constraint = Some(text),
                b'R' => refusal.routine = Some(text),
                _ => {}
            }
        }
        Ok(refusal)
    }

    /// The same, which says this, and has nothing any more that quotes values or statements.
    #[must_use]
    pub fn in_words(self, message: String) -> Refusal {
        Refusal { message, detail: None, place: None, statement: None, ..self }
    }

    /// The five letters that tell the kind of error.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// What it says, in its own language.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The schema of the table that it is about.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table that it is about.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// The constraint that it is about.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// Whether a policy of a table refuses the row, rather than a privilege the statement. Both
    /// have one state, and the message is in the language of the server.
    pub fn is_row_security(&self) -> bool {
        self.state == "42501" && self.routine.as_deref() == Some("ExecWithCheckOptions")
    }

    /// More of it, which often quotes a row.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The place in the statement that was sent, in characters from 1.
    pub fn position(&self) -> Option<usize> {
        self.position
    }

    /// Where in functions it happened, a line for each.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The statement of a function, where it was refused before it ran.
    pub fn statement(&self) -> Option<&str> {
        self.statement.as_deref()
    }

    /// The function of the server that said it.
    pub fn routine(&self) -> Option<&str> {
        self.routine.as_deref()
    }

    /// Whether the connection is gone.
    pub fn is_fatal(&self) -> bool {
        // 57P0x: shutdown, crash, still starting; 25P03, 57P05: ended for being idle.
        let state = &self.state;
        self.fatal || state.starts_with("08") || state.starts_with("57P") || state == "25P03"
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.state)
    }
}
