//! A document with what its commands print now.

use super::transcript::Step;

/// A command that prints something else than its document says.
pub(super) struct Correction {
    /// The command, with what the document says.
    pub(super) step: Step,
    /// What it printed.
    pub(super) printed: String,
}

impl Correction {
    /// Whether the document can simply be written again. What it leaves open with `…`, and what a
    /// background job prints, needs an author.
    pub(super) fn is_plain(&self) -> bool {
        !self.step.is_background() && !self.step.expected.contains('…')
    }
}

/// Puts into `text` what is printed now. The corrections are in the order of the text.
pub(super) fn apply(text: &str, corrections: &[Correction]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for Correction { step, printed } in corrections.iter().rev() {
        let command = &lines[step.line - 1];
        let indent = command[..command.len() - command.trim_start().len()].to_owned();
        let begin = step.line - 1 + step.command.lines().count();
        let end = begin + step.expected.lines().count();
        let printed = printed.trim_end().lines().map(|line| match line.trim_end() {
            "" => String::new(),
            line => format!("{indent}{line}"),
        });
        lines.splice(begin..end, printed);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::transcript;
    use super::*;

    #[test]
    fn only_what_is_printed_changes() {
        let text = "Before\n```console\n$ a\none\n\n$ b <<E\n> x\n> E\n$ c\ntwo…\n```\nAfter\n\
                    \x20 ```console\n  $ d\n  three\n  ```\n";
        let steps = transcript::read(text).steps;
        let printed = ["1\n\n1\n", "2\n", "", "3\n"];
        let corrections: Vec<Correction> = steps
            .into_iter()
            .zip(printed)
            .map(|(step, printed)| Correction { step, printed: printed.to_owned() })
            .filter(Correction::is_plain)
            .collect();
        assert_eq!(corrections.len(), 3);
        let expected = "Before\n```console\n$ a\n1\n\n1\n$ b <<E\n> x\n> E\n2\n$ c\ntwo…\n```\n\
                        After\n  ```console\n  $ d\n  3\n  ```\n";
        assert_eq!(apply(text, &corrections), expected);
    }
}
