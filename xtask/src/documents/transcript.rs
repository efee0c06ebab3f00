//! The commands of a document, each with what it prints.

/// What the `console` blocks of a document say.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// The commands, in order.
    pub(super) steps: Vec<Step>,
    /// The lines of the blocks that are not run here.
    pub(super) skipped: Vec<usize>,
    /// What cannot be understood.
    pub(super) faults: Vec<(usize, String)>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Its line in the document.
    pub(super) line: usize,
    /// What is typed.
    pub(super) command: String,
    /// What is printed, every line ended.
    pub(super) expected: String,
}

impl Step {
    /// Whether the shell does not wait for it.
    pub(super) fn is_background(&self) -> bool {
        let command = self.command.trim_end();
        command.ends_with('&') && !command.ends_with("&&")
    }
}

/// Reads every block whose first word is `console`.
pub(super) fn read(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim() != "```")
            .map(|(index, line)| (index + 1, line.get(indent..).unwrap_or(line.trim_start())))
            .collect();
        let words: Vec<&str> = info.split_whitespace().collect();
        if words.first() == Some(&"console") {
            transcript.take(index + 1, &words[1..], &block);
        }
    }
    transcript
}

impl Transcript {
    fn take(&mut self, line: usize, words: &[&str], block: &[(usize, &str)]) {
        let steps = match steps(block) {
            Ok(steps) => steps,
            Err(fault) => return self.faults.push(fault),
        };
        let is_for_the_checkout = steps.iter().all(|step| needs_checkout(&step.command));
        match words {
            [] | ["no-run"] if is_for_the_checkout => self.skipped.push(line),
            [] => self.steps.extend(steps),
            ["no-run"] => {
                let fault = "`no-run` is only for commands in a checkout of the sources";
                self.faults.push((line, fault.to_owned()));
            }
            _ => self.faults.push((line, format!("`console {}`", words.join(" ")))),
        }
    }
}

/// Whether a command is one that `.ci/run` runs in a checkout of the sources.
fn needs_checkout(command: &str) -> bool {
    let command = command.split('#').next().unwrap_or_default().trim();
    let begins = ["git clone ", "./test ", "cd syncline"];
    ["./test", ".ci/run", "cargo build --release", "cargo run --release -- demo"].contains(&command)
        || begins.iter().any(|begin| command.starts_with(begin))
}

fn steps(block: &[(usize, &str)]) -> Result<Vec<Step>, (usize, String)> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<Continuation> = None;
    for (line, text) in block {
        if let Some(continuation) = open.take()
            && let Some(step) = steps.last_mut()
        {
            let text = text.strip_prefix("> ").unwrap_or(text);
            step.command.push('\n');
            step.command.push_str(text);
            open = continuation.after(text);
        } else if let Some(command) = text.strip_prefix("$ ") {
            open = Continuation::of(command);
            let (command, expected) = (command.to_owned(), String::new());
            steps.push(Step { line: *line, command, expected });
        } else if let Some(step) = steps.last_mut() {
            step.expected.push_str(text);
            step.expected.push('\n');
        } else {
            return Err((*line, "a console block begins with `$ ` and a command".to_owned()));
        }
    }
    if let (Some(_), Some(step)) = (open, steps.last()) {
        return Err((step.line, "the command does not end within its block".to_owned()));
    }
    Ok(steps)
}

/// Why a command goes on in the next line.
enum Continuation {
    Backslash,
    HereDocument { end: String },
}

impl Continuation {
    fn of(command: &str) -> Option<Continuation> {
        if let Some((_, after)) = command.split_once("<<")
            && !after.starts_with('<')
        {
            let word = after.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
            return Some(Continuation::HereDocument { end: word.replace(['\'', '"'], "") });
        }
        command.ends_with('\\').then_some(Continuation::Backslash)
    }

    fn after(self, line: &str) -> Option<Continuation> {
        match self {
            Continuation::Backslash => Continuation::of(line),
            Continuation::HereDocument { end } if end == line.trim() => None,
            Continuation::HereDocument { .. } => Some(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Vec<(String, String)> {
        read(text).steps.into_iter().map(|step| (step.command, step.expected)).collect()
    }

    #[test]
    fn commands_have_the_lines_below_them() {
        let text = "Text\n```console\n$ a\none\n\ntwo\n$ b &\n```\n```toml\n$ c\n```\n";
        let steps = read(text).steps;
        assert_eq!(
            steps[0],
            Step { line: 3, command: "a".into(), expected: "one\n\ntwo\n".into() }
        );
        assert_eq!(steps[1].line, 7);
        assert!(steps[1].is_background());
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn long_commands_go_on() {
        let text = "```console\n$ a \\\n>   b\nout\n$ cat <<'END'\n> x\ny\nEND\nx\n```\n";
        let expected = [("a \\\n  b", "out\n"), ("cat <<'END'\nx\ny\nEND", "x\n")];
        assert_eq!(commands(text), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn blocks_in_lists_lose_their_indent() {
        let text = "1. First\n   ```console\n   $ a\n     b\n   ```\n";
        assert_eq!(commands(text), [("a".to_owned(), "  b\n".to_owned())]);
    }

    #[test]
    fn blocks_for_the_checkout_are_skipped() {
        let text = "```console\n$ ./test\n$ cargo run --release -- demo\n```\n";
        assert_eq!(read(text).skipped, [1]);
        assert_eq!(read("```console no-run\n$ git clone URL\n```\n").skipped, [1]);
    }

    #[test]
    fn what_cannot_be_run_is_found() {
        for text in [
            "```console no-run\n$ syncline demo\n```\n",
            "```console maybe\n$ syncline demo\n```\n",
            "```console\nsyncline demo\n```\n",
            "```console\n$ a \\\n```\n",
        ] {
            assert_eq!(read(text).faults.len(), 1, "{text}");
        }
    }
}
