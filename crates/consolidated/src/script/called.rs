//! What a script returned to the event that ran it.

use super::told::Told;
use super::{Parameter, Piece, Script};

/// The first row that a script returned: the name of each column, and its value as text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Called {
    pub(crate) row: Vec<(String, Option<String>)>,
}

/// A value that a script may set.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Out<'s> {
    Told(Told),
    User(&'s str),
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
        let given = self.given(script);
        let at = given.iter().position(|known| *known == Out::Told(told))?;
        self.row[at].1.as_deref()
    }

    /// What is set of `{u.…}`: by the columns `u.NAME` or `u_NAME`, or by a procedure.
    pub(crate) fn user_values<'c>(
        &'c self,
        script: &'c Script,
    ) -> impl Iterator<Item = (&'c str, Option<&'c str>)> {
        let name_of = |column: &'c str| {
            let (kind, rest) = column.split_at_checked(2)?;
            matches!(kind, "u." | "u_" | "U." | "U_").then_some(rest)
        };
        let named = self.row.iter();
        let named = named.filter_map(move |(name, value)| Some((name_of(name)?, value.as_deref())));
        let given = self.given(script).into_iter().zip(&self.row);
        named.chain(given.filter_map(|(out, (_, value))| match out {
            Out::User(name) => Some((name, value.as_deref())),
            Out::Told(_) => None,
        }))
    }

    /// What the columns are that a procedure has returned.
    fn given<'s>(&self, script: &'s Script) -> Vec<Out<'s>> {
        if script.counts() {
            return Vec::new();
        }
        let mut given = given(script);
        // A value of the user may be one that the procedure only reads.
        if given.len() != self.row.len() {
            given.retain(|out| matches!(out, Out::Told(_)));
        }
        if given.len() == self.row.len() { given } else { Vec::new() }
    }
}

/// The values that a script names and that can be set, in the order of its text.
fn given(script: &Script) -> Vec<Out<'_>> {
    let named = script.pieces.iter().filter_map(|piece| match piece {
        Piece::Parameter(at) => match script.parameters.get(*at) {
            Some(Parameter::Told(told)) if script.sets(*told) => Some(Out::Told(*told)),
            Some(Parameter::User(name)) => Some(Out::User(name)),
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

    #[test]
    fn values_of_the_user_are_set_by_name_and_by_procedures() {
        let set = |text: &str, row: &[(&str, &str)]| {
            let script = Script::of_version(text, Event::HandleError).unwrap();
            let row = row.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).into())));
            let called = Called { row: row.collect() };
            let set = called.user_values(&script);
            let set: Vec<_> =
                set.map(|(name, value)| format!("{name}={}", value.unwrap())).collect();
            (set, called.out(&script, Told::ActionCode).map(str::to_owned))
        };
        let query = "SELECT 1";
        let named = [("u.Region", "north"), ("u_team", "7"), ("user", "x")];
        assert_eq!(set(query, &named).0, ["Region=north", "team=7"]);
        let call = "CALL decide({u.region}, {s.action_code})";
        let both = set(call, &[("a", "north"), ("b", "1000")]);
        assert_eq!(both, (vec!["region=north".to_owned()], Some("1000".to_owned())));
        assert_eq!(set(call, &[("b", "1000")]), (Vec::new(), Some("1000".to_owned())));
    }
}
