//! What a script returned to the event that ran it.

use super::told::Told;
use super::{Parameter, Piece, Script};

/// The first row that a script returned: the name of each column, and its value as text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Called {
    pub(crate) row: Vec<(String, Option<String>)>,
}

impl Called {
    /// A value that the event may set: that of the column with its name. A procedure names its
    /// columns after its own parameters. If it returns as many as the script gives it values that
    /// can be set, they are these, in their order.
    pub(crate) fn out(&self, script: &Script, told: Told) -> Option<&str> {
        let named = self.row.iter().find(|(name, _)| name.eq_ignore_ascii_case(told.name()));
        if let Some((_, value)) = named {
            return value.as_deref();
        }
        let given = given(script);
        let at = given.iter().position(|known| *known == told)?;
        let is_call = !script.counts() && self.row.len() == given.len();
        if is_call { self.row[at].1.as_deref() } else { None }
    }
}

/// The values of the event that a script names and that can be set, in the order of its text.
fn given(script: &Script) -> Vec<Told> {
    let named = script.pieces.iter().filter_map(|piece| match piece {
        Piece::Parameter(at) => match script.parameters.get(*at) {
            Some(Parameter::Told(told)) if script.sets(*told) => Some(*told),
            _ => None,
        },
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    fn out(text: &str, row: &[(&str, &str)]) -> Option<String> {
        let script = Script::of_version(text, Event::HandleError).unwrap();
        let row = row.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        let called = Called { row: row.collect() };
        called.out(&script, Told::ActionCode).map(str::to_owned)
    }

    #[test]
    fn a_value_is_found_by_its_name_or_as_that_of_a_procedure() {
        let query = "SELECT 1000 AS action_code";
        assert_eq!(out(query, &[("n", "1"), ("ACTION_CODE", "1000")]).unwrap(), "1000");
        assert_eq!(out(query, &[("n", "1")]), None);
        let call = "CALL decide({s.sqlstate}, {s.action_code}, {s.table})";
        assert_eq!(out(call, &[("action", "1000")]).unwrap(), "1000");
        assert_eq!(out(call, &[("action", "1000"), ("other", "1")]), None);
        assert_eq!(out("CALL decide({s.sqlstate})", &[("action", "1000")]), None);
    }
}
