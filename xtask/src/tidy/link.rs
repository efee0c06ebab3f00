//! Every relative link of a document leads somewhere.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;
use std::collections::HashMap;

/// Checks the file and, where a Markdown file is meant, the heading that each link names.
pub(crate) fn check(checkout: &Checkout, file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (line, target) in links(&file.text) {
        if let Some(fault) = fault(checkout, &file.path, target) {
            problems.push(Problem::at(&file.path, line, format!("link `{target}`: {fault}")));
        }
    }
    problems
}

fn fault(checkout: &Checkout, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, path) else {
        return Some("leaves the repository".to_owned());
    };
    let text = checkout.text(&path);
    if text.is_none() && !checkout.root.join(&path).exists() {
        return Some(format!("there is no `{path}`"));
    }
    let headings = text.filter(|_| path.ends_with(".md") && !anchor.is_empty()).map(anchors)?;
    (!headings.iter().any(|heading| heading == anchor))
        .then(|| format!("`{path}` has no heading `#{anchor}`"))
}

/// The path that a link written in `from` means, from the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of `[text](target)`, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            for start in piece.split("](").skip(1) {
                if let Some((target, _)) = start.split_once(')') {
                    links.push((number, target.split_whitespace().next().unwrap_or_default()));
                }
            }
        }
        // A link whose text ends in code has its target in the next piece: "[`a`](b)".
        for start in line.split("`](").skip(1) {
            if let Some((target, _)) = start.split_once(')')
                && !links.contains(&(number, target))
            {
                links.push((number, target));
            }
        }
    }
    links
}

/// The lines outside fenced code, numbered from one.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The anchors of the headings, as the web makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    headings
        .map(|heading| {
            let anchor: String = heading
                .trim()
                .to_lowercase()
                .chars()
                .filter(|it| it.is_alphanumeric() || " -_".contains(*it))
                .map(|it| if it == ' ' { '-' } else { it })
                .collect();
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    fn problems(text: &str) -> usize {
        let files = vec![
            sample("docs/internals/a.md", text),
            sample("docs/b.md", "# One thing: `x`\n## One thing: `x`\n"),
        ];
        let checkout = Checkout { root: PathBuf::from("/nonexistent"), files };
        check(&checkout, &checkout.files[0]).len()
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(problems("[b](../c.md)"), 1);
        assert_eq!(problems("[b](../../../b.md)"), 1);
        assert_eq!(problems("[b](../b.md#two)"), 1);
        assert_eq!(problems("[`b`](../c.md)"), 1);
        assert_eq!(problems("[b](#here)"), 1);
    }

    #[test]
    fn living_links_and_code_are_left_alone() {
        assert_eq!(problems("[b](../b.md) and [b](../b.md#one-thing-x-1)"), 0);
        assert_eq!(problems("# Here\n[b](#here) [c](https://example.org/c)"), 0);
        assert_eq!(problems("```\n[b](../c.md)\n```\n`[b](c.md)`"), 0);
    }
}
