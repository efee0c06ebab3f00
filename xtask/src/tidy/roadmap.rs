//! What exists is not planned.
//!
//! The roadmap promises that nothing on it exists. An entry there begins with a name in bold, and
//! so does the entry of the changelog once it is made. So a name that stands in both is one that
//! somebody forgot to take off the roadmap.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;

const ROADMAP: &str = "docs/roadmap.md";
const CHANGELOG: &str = "CHANGELOG.md";

/// Finds names of the roadmap that the changelog has too, and entries of the roadmap that cannot be
/// compared because they have no name.
pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let file = |path: &str| checkout.files.iter().find(|file| file.path == path);
    let Some(roadmap) = file(ROADMAP) else { return Vec::new() };
    let added: Vec<String> = file(CHANGELOG).map(added).unwrap_or_default();
    let entries = roadmap.lines().filter(|(_, line)| line.starts_with("- "));
    let fault = |line: &str| match name(line) {
        None => Some("an entry begins with its name: `- **Name**`".to_owned()),
        Some(name) if added.contains(&name) => {
            Some(format!("`{name}` is in {CHANGELOG} under `### Added`: take it off the roadmap"))
        }
        Some(_) => None,
    };
    entries.filter_map(|(number, line)| Some(Problem::at(ROADMAP, number, fault(line)?))).collect()
}

/// The names of all entries under `### Added`, of every version.
fn added(changelog: &SourceFile) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for (_, line) in changelog.lines() {
        if line.starts_with('#') {
            inside = line.trim_end() == "### Added";
        }
        names.extend(name(line).filter(|_| inside));
    }
    names
}

/// The name in `- **Name.** More`, in lower case, without the marks of code and without punctuation
/// at its end. A name does not go on in the next line.
fn name(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix("- **")?.split_once("**")?;
    let name = name.replace('`', "").to_lowercase();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_punctuation());
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn lines(roadmap: &str, changelog: &str) -> Vec<String> {
        let files = vec![sample(CHANGELOG, changelog), sample(ROADMAP, roadmap)];
        let problems = check(&Checkout { root: "/".into(), files });
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_in_both_is_found() {
        let roadmap =
            "# Roadmap\n\n- **Push**: soon.\n- **Browser remotes.**\n- **`monitor`**: a view.\n";
        let changelog = "## 1.0\n\n### Added\n\n- **browser Remotes**: they\n  exist.\n";
        let found = lines(roadmap, changelog);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/roadmap.md:4: `browser remotes`"), "{found:?}");
        let older = format!("{changelog}\n## 0.9\n\n### Added\n\n- **Monitor.** It shows.\n");
        assert_eq!(lines(roadmap, &older).len(), 2, "of every version");
    }

    #[test]
    fn other_sections_and_other_names_are_no_matter() {
        let roadmap = "- **Push**: soon.\n";
        assert!(lines(roadmap, "### Added\n\n- **Push by hand**: a key.\n").is_empty());
        assert!(lines(roadmap, "### Added\n\n- It is no **push**.\n").is_empty());
        assert!(lines(roadmap, "### Added\n\n### Known limits\n\n- **Push**: none.\n").is_empty());
    }

    #[test]
    fn an_entry_of_the_roadmap_has_a_name() {
        assert_eq!(lines("- A threat model.\n- **Push**\n- ****\n", "").len(), 2);
    }
}
