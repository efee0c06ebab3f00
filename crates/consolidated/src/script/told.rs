//! What an event tells its script, beside rows and who synchronizes.

/// A value of an event, which a script names as `{s.…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// What becomes of an error: 1000, 3000 or 4000.
    ActionCode,
    /// The number of the database for it, if it has numbers.
    ErrorCode,
    /// SQLSTATE.
    SqlState,
    ErrorMessage,
    /// The table of the row.
    Table,
}

/// All of them.
const ALL: [Told; 5] =
    [Told::ActionCode, Told::ErrorCode, Told::SqlState, Told::ErrorMessage, Told::Table];

impl Told {
    /// The field's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Told::ActionCode => "action_code",
            Told::ErrorCode => "error_code",
            Told::SqlState => "sqlstate",
            Told::ErrorMessage => "error_message",
            Told::Table => "table",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Told> {
        ALL.into_iter().find(|told| told.name() == name)
    }

    /// Whether it is a whole number. Everything else is text.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Told::ActionCode | Told::ErrorCode)
    }
}

/// The values of one event.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToldValues(Vec<(Told, Option<String>)>);

impl ToldValues {
    pub(crate) fn with(mut self, told: Told, value: Option<String>) -> ToldValues {
        self.0.push((told, value));
        self
    }

    pub(crate) fn get(&self, told: Told) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == told)?.1.as_deref()
    }
}
