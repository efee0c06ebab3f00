//! The folder of a consolidated database, for the commands that need it.

use clap::{ArgMatches, Args};
use std::path::{Path, PathBuf};

/// Where `syncline.toml` is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Dir {
    /// The folder with syncline.toml
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// Commands that have `--dir` for it. Hints name them without.
const COMMANDS: [&str; 10] = [
    "deploy",
    "undeploy",
    "check",
    "model",
    "scripts",
    "user",
    "serve",
    "fleet",
    "rejects",
    "conflicts",
];

/// The folder that was given to a command, unless it is the present one.
pub(crate) fn given_dir(typed: &ArgMatches) -> Option<&Path> {
    match typed.subcommand() {
        Some((_, typed)) => given_dir(typed),
        None => {
            let dir = typed.try_get_one::<PathBuf>("dir").ok().flatten()?;
            (dir != Path::new(".")).then_some(dir)
        }
    }
}

/// The hint with the folder in each command that needs it, so that the command works as it is.
pub(crate) fn with_dir(hint: &str, dir: &Path) -> String {
    let mut parts: Vec<String> = hint.split('`').map(str::to_owned).collect();
    // Every second part is between two of the marks.
    for part in parts.iter_mut().skip(1).step_by(2) {
        let command = part.strip_prefix("syncline ").and_then(|it| it.split(' ').next());
        if command.is_some_and(|it| COMMANDS.contains(&it)) && !part.contains("--dir") {
            part.push_str(&format!(" --dir {}", quoted(&dir.display().to_string())));
        }
    }
    parts.join("`")
}

/// As a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+@:,=".contains(letter);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_folder_where_the_command_needs_it() {
        let told = with_dir("run `syncline deploy`, or `syncline sync FILE`", Path::new("sales"));
        assert_eq!(told, "run `syncline deploy --dir sales`, or `syncline sync FILE`");
        let told = with_dir("run `syncline deploy`", Path::new("ann's dir"));
        assert_eq!(told, r"run `syncline deploy --dir 'ann'\''s dir'`");
        let own = "`syncline check --dir a` and syncline deploy";
        assert_eq!(with_dir(own, Path::new("b")), own);
    }
}
