//! A document shows commands only where they are run.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// Names of a shell that would show commands which `xtask documents` does not run.
const SHELLS: &[&str] = &["sh", "bash", "shell", "zsh", "shell-session", "sh-session"];

/// Finds fences of a shell in the documents that users read.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    if file.path != "README.md" && !file.path.starts_with("docs/") {
        return Vec::new();
    }
    file.lines()
        .filter_map(|(number, line)| Some((number, line.trim_start().strip_prefix("```")?)))
        .filter(|(_, info)| info.split_whitespace().next().is_some_and(|it| SHELLS.contains(&it)))
        .map(|(number, info)| {
            let message = format!("`{info}` is not run: use `console`, with `$ ` before commands");
            Problem::at(&file.path, number, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn commands_that_nobody_runs_are_found() {
        let text = "```sh\nsyncline demo\n```\n```console\n$ syncline demo\n```\n";
        assert_eq!(check(&sample("docs/start/first.md", text)).len(), 1);
        assert_eq!(check(&sample("CONTRIBUTING.md", text)), []);
    }
}
