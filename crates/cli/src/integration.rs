//! `syncline completions` and `syncline man`: the commands for shells and for `man`.

use crate::args::{Arguments, CompletionsOptions, ManOptions, Shell};
use clap::CommandFactory;
use clap_complete::Shell as Generated;
use model::{Code, Failure};
use std::fs;
use terminal::output;

const PROGRAM: &str = "syncline";

/// Prints the script for a shell.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<(), Failure> {
    let shell = match options.shell {
        Shell::Bash => Generated::Bash,
        Shell::Zsh => Generated::Zsh,
        Shell::Fish => Generated::Fish,
        Shell::Powershell => Generated::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())
}

/// Writes a page for the program, and one for each command.
pub(crate) fn man_pages(options: &ManOptions) -> Result<(), Failure> {
    let dir = options.dir.as_path();
    let failed = |error| {
        Failure::new(Code::CannotWrite, format!("cannot write to {}", dir.display())).source(error)
    };
    fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), dir).map_err(failed)?;
    output::line(&format!("wrote man pages to {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference lacked fifteen commands.
    #[test]
    fn the_reference_shows_the_help_of_every_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command-line.md");
        let reference = fs::read_to_string(path).unwrap();
        let mut left = vec![(PROGRAM.to_owned(), Arguments::command())];
        let mut absent = Vec::new();
        while let Some((name, command)) = left.pop() {
            if !reference.contains(&format!("\n$ {name} -h\n")) {
                absent.push(name.clone());
            }
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            left.extend(shown.map(|it| (format!("{name} {}", it.get_name()), it.clone())));
        }
        assert!(absent.is_empty(), "docs/reference/command-line.md lacks {absent:?}");
    }
}
