//! The configuration file, `syncline.toml`, and the URLs in it.

use super::product::config::{Config, FILE_NAME};
use super::refusal;
use tempfile::TempDir;

pub(crate) const WORDS: &[&str] = &[
    "consolidated = \"",
    "sqlite:a.db\"\n",
    "postgres://u:p@h:1,h:2/d?sslmode=require\"\n",
    "postgres:///d?host=/tmp&port=1\"\n",
    "models = [\"m.toml\"]\n",
    "[server]\n",
    "listen = [\"tcp://127.0.0.1:0\"]\n",
    "workers = 1\n",
    "batch_rows = 99999999999999999999\n",
    "log = \"info\"\n",
    "spill_dir = \"/tmp\"\n",
    "%00",
    "%",
    "@",
    "[::1]",
    "?",
    "&",
    "0x",
    "-1",
    "target_session_attrs=",
    "channel_binding=",
    "require_auth=",
    "sslrootcert=",
    "\\u0000",
];

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().unwrap();
}

pub(crate) fn run(bytes: &[u8]) {
    FOLDER.with(|folder| {
        std::fs::write(folder.path().join(FILE_NAME), bytes).unwrap();
        match Config::read(folder.path()) {
            Ok(config) => drop(config.server.meaning()),
            Err(failure) => refusal::is_told(&failure),
        }
    });
}
