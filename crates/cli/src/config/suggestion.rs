//! The known name nearest to a misspelled one.

/// The known name with the fewest edits from `word`, if it is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits_max = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (edits(word, name), name))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, name)| name)
}

/// How many characters to insert, remove or replace to make `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_mistakes_are_recognized_and_other_words_are_not() {
        let known = ["listen", "sessions_max", "idle_timeout_s"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("session_max", known), Some("sessions_max"));
        assert_eq!(nearest("idle_timeout", known), Some("idle_timeout_s"));
        assert_eq!(nearest("color", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("größe", "grösse"), 2);
    }
}
