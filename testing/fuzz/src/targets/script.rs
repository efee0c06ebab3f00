//! A script with its parameters.

use super::refusal;
use consolidated::Script;
use model::{Direction, PublishedTable};

pub(crate) const WORDS: &[&str] = &[
    "{r.id}",
    "{o.id}",
    "{r.\"a b\"}",
    "{ml r.id}",
    "{s.last_download}",
    "{s.remote_id}",
    "{s.last_download.t}",
    "{u.rep}",
    "{ui.rep}",
    "{inserts}",
    "{keys}",
    "{",
    "}",
    "'",
    "\"",
    "`",
    "[",
    "]",
    "--",
    "/*",
    "*/",
    "\n",
    ".",
    "\u{e4}",
    "SELECT ",
];

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let table = PublishedTable {
        compress: true,
        fires: false,
        name: "t".to_owned(),
        columns: ["id", "a b", "\u{e4}"].map(str::to_owned).to_vec(),
        key: vec![0],
        direction: Direction::Both,
        create: Vec::new(),
        fingerprint: String::new(),
    };
    if let Err(failure) = Script::parse(text, &table) {
        refusal::is_told(&failure);
    }
}
