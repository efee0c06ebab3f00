//! The options of `syncline completions` and `syncline man`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Prints a script for a shell that completes commands and options.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline completions bash > ~/.local/share/bash-completion/completions/syncline
  syncline completions zsh > ~/.zfunc/_syncline
  syncline completions fish > ~/.config/fish/completions/syncline.fish
  syncline completions powershell >> $PROFILE")]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The shells that we write completions for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
}

/// Writes man pages, one for each command.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  syncline man --dir /usr/local/share/man/man1")]
pub(crate) struct ManOptions {
    /// The folder for syncline.1, syncline-serve.1 and so on; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}
