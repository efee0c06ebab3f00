//! The page of every error code, from the one table in `model`.

use model::{Actor, Code};

const INTRODUCTION: &str = "\
# Error codes

<!-- Written by `cargo run -p xtask -- generate` from crates/model/src/code.rs. -->

Every failure has a stable code. A program prints one line, `error E2101: …`, then `hint: …`;
`syncline sync --json` has the same in `error`, and the server's log carries the code as well.
*Retry* says whether the same request may succeed later without any other change.
";

/// What the first digit means.
const GROUPS: &[(u16, &str)] = &[
    (1, "E1 The connection and the protocol"),
    (2, "E2 The request"),
    (3, "E3 The consolidated database"),
    (4, "E4 The server"),
    (5, "E5 The remote database"),
    (6, "E6 Configuration and model"),
    (7, "E7 Single rows"),
    (9, "E9 Defects and benchmarks"),
];

/// The whole document.
pub(super) fn text() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut group = 0;
    for code in Code::ALL {
        if code.number() / 1000 != group {
            group = code.number() / 1000;
            let title = GROUPS.iter().find(|(number, _)| *number == group).map(|(_, title)| *title);
            text.push_str(&format!("\n## {}\n", title.unwrap_or("Others")));
        }
        text.push_str(&page(*code));
    }
    text
}

fn page(code: Code) -> String {
    let manual: Vec<&str> = code.manual().lines().map(str::trim).collect();
    let actor = match code.actor() {
        Actor::Remote => "those who use or build the remote",
        Actor::Operator => "those who run the server or the consolidated database",
        Actor::Nobody => "nobody; the problem is temporary",
        Actor::Maker => "the developers of Syncline",
    };
    let retry = if code.retry() { "yes" } else { "no" };
    format!(
        "\n### {code} {}\n\n{}\n\n- Who must act: {actor}.\n- Retry: {retry}.\n- Hint: {}.\n",
        code.name(),
        manual.join("\n").trim(),
        code.hint(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page_below_its_group() {
        let text = text();
        for code in Code::ALL {
            assert!(text.contains(&format!("\n### {code} {}\n", code.name())), "{code}");
        }
        assert!(!text.contains("## Others"));
    }
}
