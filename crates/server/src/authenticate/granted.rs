//! The claims that somebody else gives a user: a JWT, a service that knows the users, or scripts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The claims that an identity provider decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Granted {
    /// None where the provider gives none.
    claims: BTreeMap<String, Option<String>>,
}

impl Granted {
    /// Takes what scripts have set.
    pub(crate) fn set(claims: BTreeMap<String, Option<String>>) -> Granted {
        Granted { claims }
    }

    /// These, and what is `set` in their place or beside them.
    pub(crate) fn and(&self, set: &Granted) -> Granted {
        let mut claims = self.claims.clone();
        claims.extend(set.claims.clone());
        Granted { claims }
    }

    /// Whether it decides nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Takes the claims with these names. A list becomes a list. Fails with why they cannot be
    /// taken.
    pub(super) fn read(claims: &Map<String, Value>, names: &[String]) -> Result<Granted, String> {
        let claim = |name: &String| {
            let value = claims.get(name).map_or(Ok(None), |value| value_of(name, value))?;
            Ok((name.clone(), value))
        };
        Ok(Granted { claims: names.iter().map(claim).collect::<Result<_, String>>()? })
    }

    /// Whether exactly the claims with these names are decided.
    pub(super) fn decides(&self, names: &[String]) -> bool {
        let names: BTreeSet<&String> = names.iter().collect();
        self.claims.keys().eq(names)
    }

    /// The claims of the user: these, and those of `stored` that the provider does not decide.
    pub(crate) fn over(&self, mut stored: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for (name, value) in &self.claims {
            match value {
                Some(value) => drop(stored.insert(name.clone(), value.clone())),
                None => drop(stored.remove(name)),
            }
        }
        stored
    }
}

fn value_of(name: &str, value: &Value) -> Result<Option<String>, String> {
    let Value::Array(entries) = value else { return plain(name, value) };
    let mut texts = Vec::with_capacity(entries.len());
    for entry in entries {
        let text = plain(name, entry)?.unwrap_or_default();
        // A claim holds a list with commas between its entries, and blanks around them are
        // ignored. An entry with a comma of its own would become two, and give rows of others.
        if text.is_empty() || text.contains(',') || text.trim() != text {
            return Err(format!(
                "has an entry in its claim {name} that is empty, has a comma, or begins or ends \
                 with a blank"
            ));
        }
        texts.push(text);
    }
    Ok(Some(texts.join(",")))
}

fn plain(name: &str, value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Bool(truth) => Ok(Some(truth.to_string())),
        Value::Array(_) | Value::Object(_) => {
            Err(format!("has a claim {name} that is no text, number or list of these"))
        }
    }
}
