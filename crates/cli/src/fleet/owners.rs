//! To whom a remote belongs, for people and for programs.

use consolidated::RemoteBinding;
use model::UserName;
use serde_json::{Value, json};

/// Names; `null` if all users may use the remote.
pub(super) fn users_json(binding: &RemoteBinding) -> Value {
    match binding {
        RemoteBinding::Users(users) => json!(users),
        RemoteBinding::Open => json!([]),
        RemoteBinding::Any => Value::Null,
    }
}

pub(super) fn owners(binding: &RemoteBinding) -> String {
    match binding {
        RemoteBinding::Any => "everybody".to_owned(),
        RemoteBinding::Users(users) if !users.is_empty() => {
            let names: Vec<&str> = users.iter().map(UserName::as_str).collect();
            names.join(", ")
        }
        RemoteBinding::Users(_) | RemoteBinding::Open => "nobody".to_owned(),
    }
}
