//! Which rejects or conflicts of a remote are meant, and what becomes of them.

use crate::args::{RemoteFile, Selection};
use crate::readable;
use model::{Code, Failure};
use serde_json::json;
use terminal::output::{self, counted};

/// Something that a person decides about.
pub(super) trait Entry {
    /// What it is.
    const NOUN: &'static str;

    /// Its number in the file.
    fn id(&self) -> i64;

    /// Its table and key.
    fn of(&self) -> (&str, &str);
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decided {
    Retried,
    Dismissed,
}

impl Decided {
    fn word(self) -> &'static str {
        match self {
            Decided::Retried => "retried",
            Decided::Dismissed => "dismissed",
        }
    }
}

/// The numbers of those that are meant.
pub(super) fn selected<E: Entry>(
    entries: &[E],
    selection: &Selection,
) -> Result<Vec<i64>, Failure> {
    if !selection.ids.is_empty() {
        return Ok(selection.ids.clone());
    }
    let is_meant = |entry: &&E| {
        let (table, key) = entry.of();
        let (wanted_table, wanted_key) = (selection.table.as_ref(), selection.key.as_ref());
        wanted_table.is_none_or(|name| name.eq_ignore_ascii_case(table))
            && wanted_key.is_none_or(|wanted| *wanted == readable::key(key) || wanted == key)
    };
    let ids: Vec<i64> = entries.iter().filter(is_meant).map(Entry::id).collect();
    match ids.is_empty() && !selection.all {
        true => {
            let message = format!("there is no {} with this table and key", E::NOUN);
            Err(Failure::new(Code::NoSuchReject, message))
        }
        false => Ok(ids),
    }
}

/// Does something with those that are meant, and says with how many. Those that are named by
/// number are one decision: all or none. Of others each stands for itself; what could not be done
/// is listed with the reason, and is a failure.
pub(super) fn decide<E: Entry>(
    file: &RemoteFile,
    entries: &[E],
    selection: &Selection,
    decided: Decided,
    act: &mut dyn FnMut(&[i64]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ids = selected(entries, selection)?;
    let (mut done, mut left) = (Vec::new(), Vec::new());
    if selection.ids.is_empty() {
        for id in ids {
            match act(&[id]) {
                Ok(()) => done.push(id),
                Err(failure) => left.push((id, failure)),
            }
        }
    } else {
        act(&ids)?;
        done = ids;
    }
    if file.json {
        let left: Vec<_> = left
            .iter()
            .map(|(id, why)| {
                json!({ "id": id, "code": why.code().to_string(), "message": why.full_message(),
                    "hint": why.hint_text() })
            })
            .collect();
        output::json(&json!({ decided.word(): done, "left": left }))?;
    } else {
        output::line(&format!("{} {}", decided.word(), counted(done.len() as u64, E::NOUN)))?;
        for (_, why) in &left {
            output::line(&output::one_line(&format!("left {}", why.full_message())))?;
        }
    }
    let Some((_, first)) = left.first() else { return Ok(()) };
    let all = counted((done.len() + left.len()) as u64, E::NOUN);
    let message = format!("{} of {all} could not be {}", left.len(), decided.word());
    Err(Failure::new(first.code(), message).hint(first.hint_text()))
}
