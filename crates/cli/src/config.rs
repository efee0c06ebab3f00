//! `syncline.toml`: the consolidated database, the sync models, and the options of the server.
//!
//! [`ConfigFile`] has exactly the contents of the file. All mistakes are found here, each with its
//! line. The commands get correct values only.

mod compression;
mod directory;
mod jwt;
pub(crate) mod log_level;
mod login_service;
mod options;
pub(crate) mod sample;
mod spelled;
mod suggestion;
mod tls;
mod trusted_proxy;

pub(crate) use options::ServerOptions;

use consolidated::{SyncModel, Url};
use model::{Code, Failure};
use options::SERVER_OPTIONS;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The name of the file in the folder that `--dir` names.
pub(crate) const FILE_NAME: &str = "syncline.toml";
/// The name of the sync model that `syncline init` writes.
pub(crate) const MODEL_FILE_NAME: &str = "model.toml";

/// The file, exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConfigFile {
    /// URL of the consolidated database.
    pub(crate) consolidated: String,
    /// Files with sync models, relative to this file.
    #[serde(default = "models_default")]
    pub(crate) models: Vec<String>,
    /// How the server behaves.
    #[serde(default)]
    pub(crate) server: ServerOptions,
}

fn models_default() -> Vec<String> {
    vec![MODEL_FILE_NAME.to_owned()]
}

/// What the file means.
#[derive(Debug)]
pub(crate) struct Config {
    /// The consolidated database.
    pub(crate) consolidated: Url,
    /// How the server behaves.
    pub(crate) server: ServerOptions,
    pub(crate) models: Vec<PathBuf>,
    /// The folder of the file.
    pub(crate) dir: PathBuf,
}

impl Config {
    /// Reads `syncline.toml` in this folder.
    pub(crate) fn read(dir: &Path) -> Result<Config, Failure> {
        let path = dir.join(FILE_NAME);
        let file = parse(&read_text(&path)?, &path.display().to_string())?;
        Ok(Config {
            consolidated: Url::parse_in(dir, &file.consolidated)?,
            server: file.server,
            models: file.models.iter().map(|model| dir.join(model)).collect(),
            dir: dir.to_owned(),
        })
    }

    /// Reads the sync models, without the scripts that the user wrote.
    pub(crate) fn read_models(&self) -> Result<Vec<SyncModel>, Failure> {
        self.models
            .iter()
            .map(|path| SyncModel::parse(&read_text(path)?, &path.display().to_string()))
            .collect()
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Code::ConfigUnreadable, format!("cannot read {}", path.display()))
            .hint("name its folder with --dir; `syncline init` writes a complete file")
            .source(error)
    })
}

/// Understands the text of the file.
fn parse(text: &str, file_name: &str) -> Result<ConfigFile, Failure> {
    let table =
        DeTable::parse(text).map_err(|error| syntax_mistake(&error).told(text, file_name))?;
    let mistakes = mistakes(table.get_ref());
    if !mistakes.is_empty() {
        let told: Vec<String> =
            mistakes.iter().map(|mistake| mistake.text(text, file_name)).collect();
        return Err(Failure::new(Code::ConfigInvalid, told.join("; ")));
    }
    toml::from_str(text).map_err(|error| syntax_mistake(&error).told(text, file_name))
}

/// One thing that is wrong with the file, and where.
struct Mistake {
    at: Option<Range<usize>>,
    what: String,
}

impl Mistake {
    fn text(&self, text: &str, file_name: &str) -> String {
        match &self.at {
            Some(at) => {
                let before = &text.as_bytes()[..at.start.min(text.len())];
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                format!("{file_name}:{line}: {}", self.what)
            }
            None => format!("{file_name}: {}", self.what),
        }
    }

    fn told(&self, text: &str, file_name: &str) -> Failure {
        Failure::new(Code::ConfigInvalid, self.text(text, file_name))
    }
}

fn syntax_mistake(error: &toml::de::Error) -> Mistake {
    Mistake { at: error.span(), what: error.message().to_owned() }
}

/// Mistakes that serde misses or explains badly: unknown keys and numbers out of bounds.
fn mistakes(file: &DeTable<'_>) -> Vec<Mistake> {
    let (top, keys) = (["consolidated", "models"], ServerOptions::keys().collect::<Vec<&str>>());
    let mut known = top.to_vec();
    known.push("server");
    let mut mistakes = unknown_keys(file, &known, "", (&keys, "below [server]"));
    if let Some(server) = file.get("server").and_then(|server| server.get_ref().as_table()) {
        let of_top = (&top[..], "to the top of the file, before [server]");
        mistakes.extend(unknown_keys(server, &keys, " of [server]", of_top));
        mistakes.extend(numbers_out_of_bounds(server));
        mistakes.extend(protocol_of_nobody(server));
    }
    mistakes
}

/// The keys that are not `known`. Those of another part are told where they belong.
fn unknown_keys(
    table: &DeTable<'_>,
    known: &[&str],
    place: &str,
    (elsewhere, belong): (&[&str], &str),
) -> Vec<Mistake> {
    let unknown = table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref()));
    unknown
        .map(|(key, _)| {
            let name = key.get_ref().as_ref();
            let what = match suggestion::nearest(name, known.iter().copied()) {
                _ if elsewhere.contains(&name) => format!("`{name}` belongs {belong}"),
                Some(meant) => format!("unknown key `{name}`{place}, did you mean `{meant}`?"),
                None => format!("unknown key `{name}`{place}"),
            };
            Mistake { at: Some(key.span()), what }
        })
        .collect()
}

/// A PROXY header that nobody may send.
fn protocol_of_nobody(server: &DeTable<'_>) -> Option<Mistake> {
    let protocol = server.get("proxy_protocol")?;
    let named = server.get("trusted_proxies").and_then(|proxies| proxies.get_ref().as_array());
    if protocol.get_ref().as_bool() != Some(true) || named.is_some_and(|list| !list.is_empty()) {
        return None;
    }
    let what = "`proxy_protocol` needs `trusted_proxies`, which names who may send the header";
    Some(Mistake { at: Some(protocol.span()), what: what.to_owned() })
}

fn numbers_out_of_bounds(server: &DeTable<'_>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for option in SERVER_OPTIONS {
        let Some(value) = server.get(option.name) else { continue };
        let DeValue::Integer(number) = value.get_ref() else { continue };
        let in_bounds = i128::from_str_radix(number.as_str(), number.radix())
            .ok()
            .and_then(|number| u64::try_from(number).ok())
            .is_some_and(|number| option.bounds.contains(&number));
        if !in_bounds {
            let (min, max) = (option.bounds.start(), option.bounds.end());
            let what = format!("`{}` must be {min} to {max} {}", option.name, option.unit);
            mistakes.push(Mistake { at: Some(value.span()), what });
        }
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use super::trusted_proxy::TrustedProxy;
    use super::*;

    fn check(text: &str) -> String {
        let failure = parse(text, "syncline.toml").unwrap_err();
        assert_eq!(failure.code(), Code::ConfigInvalid);
        let message = failure.full_message();
        assert!(!message.contains('\n'), "{message}");
        message
    }

    fn defaults() -> ConfigFile {
        ConfigFile {
            consolidated: "sqlite:/srv/a \"b\".db".to_owned(),
            models: models_default(),
            server: ServerOptions::default(),
        }
    }

    fn sample() -> String {
        sample::text(&defaults().consolidated, &[MODEL_FILE_NAME])
    }

    #[test]
    fn the_sample_file_has_the_defaults_whether_its_options_are_commented_or_not() {
        let sample = sample();
        assert_eq!(parse(&sample, "sample").unwrap(), defaults());
        let option = |line: &str| {
            line.strip_prefix('#').is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        };
        let uncommented: Vec<&str> =
            sample.lines().map(|line| if option(line) { &line[1..] } else { line }).collect();
        let mut parsed = parse(&uncommented.join("\n"), "sample").unwrap();
        assert!(parsed.server.log.take().is_some());
        assert_eq!(parsed.server.tls_certificate.take().as_deref(), Some("server.pem"));
        assert_eq!(parsed.server.tls_key.take().as_deref(), Some("server.key"));
        let origins = std::mem::take(&mut parsed.server.allowed_origins);
        assert_eq!(origins, ["https://app.example.com"]);
        let proxies = std::mem::take(&mut parsed.server.trusted_proxies);
        assert_eq!(proxies, [TrustedProxy("10.0.0.0/8".parse().unwrap())]);
        let jwt = std::mem::take(&mut parsed.server.jwt).meaning();
        assert!(jwt.enabled() && jwt.register && jwt.claims == ["region"]);
        let service = std::mem::take(&mut parsed.server.service).meaning(0, 0);
        assert!(service.url.is_some() && service.register && service.claims == ["region"]);
        let directory = std::mem::take(&mut parsed.server.directory).meaning(0, 0, 0);
        assert!(directory.url.is_some() && directory.register && !directory.claims.is_empty());
        assert_eq!(parsed.server.tls_client_ca.take().as_deref(), Some("ca.pem"));
        assert_eq!(parsed.server.spill_dir.take().as_deref(), Some("/var/tmp"));
        assert_eq!(parsed, defaults());
    }

    #[test]
    fn the_sample_file_names_every_key() {
        for key in ServerOptions::keys() {
            assert!(sample().contains(&format!("\n#{key} = ")), "{key}");
        }
    }

    #[test]
    fn unknown_keys_are_told_with_line_and_suggestion() {
        assert_eq!(
            check("consolidated = \"sqlite:a\"\n\n[server]\nsession_max = 3\n"),
            "syncline.toml:4: unknown key `session_max` of [server], did you mean `sessions_max`?"
        );
        assert_eq!(
            check("consolidated = \"sqlite:a\"\ncolor = 1\nmodel = []\n"),
            "syncline.toml:2: unknown key `color`; \
             syncline.toml:3: unknown key `model`, did you mean `models`?"
        );
        assert_eq!(
            check("listen = []\nconsolidated = \"sqlite:a\"\n[server]\nmodels = []\n"),
            "syncline.toml:1: `listen` belongs below [server]; \
             syncline.toml:4: `models` belongs to the top of the file, before [server]"
        );
    }

    #[test]
    fn proxies_are_addresses_and_a_header_needs_somebody_who_sends_it() {
        let of = |lines: &str| check(&format!("consolidated = \"a\"\n[server]\n{lines}\n"));
        let nobody = ":3: `proxy_protocol` needs `trusted_proxies`";
        assert!(of("proxy_protocol = true").contains(nobody));
        assert!(of("proxy_protocol = true\ntrusted_proxies = []").contains(nobody));
        let message = of("trusted_proxies = [\"balancer\"]");
        assert!(message.contains(":3: `balancer` is no address"), "{message}");
    }

    #[test]
    fn wrong_types_and_numbers_are_told_with_their_line() {
        assert!(check("consolidated = \"sqlite:a\"\n[server]\nlisten = 4\n").contains(":3: "));
        assert!(check("consolidated = 1\n").starts_with("syncline.toml:1: "));
        assert!(check("consolidated = \"sqlite:a\"\nmodels = [\n").starts_with("syncline.toml:"));
        assert!(check("[server]\n").contains("consolidated"));
        let bounds = "`workers` must be 0 to 1024 connections to the consolidated database";
        for number in ["-1", "1025", "99999999999999999999999"] {
            let message = check(&format!("consolidated = \"a\"\n[server]\nworkers = {number}\n"));
            assert!(message.ends_with(bounds), "{message}");
        }
    }
}
