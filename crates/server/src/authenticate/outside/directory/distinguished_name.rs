//! The distinguished name of a user, from a template with the user's name in it (RFC 4514).

use super::filter::is_attribute;

/// What stands for the name of the user.
const NAME: &str = "{s.username}";

/// A distinguished name with one place for the name of a user, which is a whole value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template {
    before: String,
    attribute: String,
    after: String,
}

impl Template {
    /// Understands the text of a template. Fails with what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let (before, after) =
            text.split_once(NAME).ok_or_else(|| format!("has no {NAME} for the name"))?;
        let value_begins = before.strip_suffix('=').ok_or_else(|| {
            format!("has no attribute before {NAME}; it must be like uid={NAME},ou=people")
        })?;
        let attribute = value_begins.rsplit([',', '+']).next().unwrap_or_default().trim();
        if !is_attribute(attribute) {
            return Err(format!("has `{attribute}` where an attribute must be"));
        }
        if after.contains(NAME) {
            return Err(format!("has {NAME} twice"));
        }
        if !(after.is_empty() || after.starts_with([',', '+'])) {
            return Err(format!("has `{after}` behind {NAME}, which must be a whole value"));
        }
        let (before, attribute, after) = (before.into(), attribute.into(), after.into());
        Ok(Template { before, attribute, after })
    }

    /// The attribute whose value is the name.
    pub(super) fn attribute(&self) -> &str {
        &self.attribute
    }

    /// The distinguished name of this user.
    pub(super) fn of(&self, user: &str) -> String {
        format!("{}{}{}", self.before, escaped(user), self.after)
    }
}

/// A value in which nothing has a meaning of its own.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => text.extend(['\\', character]),
            '#' if at == 0 => text.push_str("\\#"),
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            '\0' => text.push_str("\\00"),
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_value_whatever_is_in_it() {
        let template = Template::parse("ou=x+uid={s.username},dc=test").unwrap();
        assert_eq!(template.attribute(), "uid");
        let of = |user| template.of(user);
        assert_eq!(of("ann"), "ou=x+uid=ann,dc=test");
        assert_eq!(of("ann,dc=other"), "ou=x+uid=ann\\,dc\\=other,dc=test");
        assert_eq!(of(" #a# "), "ou=x+uid=\\ #a#\\ ,dc=test");
        assert_eq!(of("#a+b\"<>;\\\0é"), "ou=x+uid=\\#a\\+b\\\"\\<\\>\\;\\\\\\00é,dc=test");
        assert_eq!(of(" "), "ou=x+uid=\\ ,dc=test");
        assert_eq!(of("{s.username}"), "ou=x+uid={s.username},dc=test");
    }

    #[test]
    fn mistakes_are_told() {
        let mistakes = [
            ("uid=ann", "has no {s.username}"),
            ("{s.username}@example.com", "no attribute"),
            ("u d={s.username}", "where an attribute"),
            ("={s.username}", "where an attribute"),
            ("uid={s.username}x,dc=test", "a whole value"),
            ("uid=x{s.username},dc=test", "no attribute"),
            ("uid={s.username},cn={s.username}", "twice"),
        ];
        for (text, expected) in mistakes {
            let mistake = Template::parse(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }
}
