//! A sync model, `model.toml`.

use super::refusal;
use consolidated::SyncModel;

pub(crate) const WORDS: &[&str] = &[
    "script_version = \"v1\"\n",
    "[table.t]\n",
    "[table.\"a.b\"]\n",
    "columns = [\"id\"]\n",
    "conflict = \"merge\"\n",
    "conflict = { latest = \"at\" }\n",
    "partition = \"a = {u.rep}\"\n",
    "parent = \"t\"\n",
    "may_leave = true\n",
    "renamed = { a = \"b\" }\n",
    "dropped = [\"a\"]\n",
    "renamed_from = \"s\"\n",
    "direction = \"both\"\n",
    "publications = [\"all\"]\n",
    "{u.rep}",
    "{s.remote_id}",
    "\"\"\"",
    "'''",
    "[[",
    "{",
    "}",
    "\\u0000",
    "= ",
];

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(failure) = SyncModel::parse(text, "model.toml") {
        refusal::is_told(&failure);
    }
}
