//! What a document says a command prints, compared with what it printed.
//!
//! `…` matches anything, also across lines; a line that is only `…` matches any number of whole
//! lines, none included. Blanks at the end of a line do not count.

/// A line-by-line difference, or nothing where the text is as expected.
pub(super) fn difference(expected: &str, actual: &str) -> Option<String> {
    let (expected, actual) = (tidy_lines(expected), tidy_lines(actual));
    (!matches(&expected, &actual)).then(|| side_by_side(&expected, &actual))
}

/// Every line without blanks at its end, ended; no empty lines at the end.
fn tidy_lines(text: &str) -> String {
    let mut tidied = String::new();
    for line in text.trim_end().lines() {
        tidied.push_str(line.trim_end());
        tidied.push('\n');
    }
    tidied
}

/// A piece of the expectation, after what may stand before it.
struct Piece<'a> {
    gap: Gap,
    text: &'a str,
}

#[derive(Clone, Copy, PartialEq)]
enum Gap {
    /// Nothing.
    None,
    /// Any text.
    Text,
    /// Any number of whole lines.
    Lines,
}

fn pieces(expected: &str) -> Vec<Piece<'_>> {
    let mut pieces = vec![Piece { gap: Gap::None, text: "" }];
    let mut rest = expected;
    let mut at_line_start = true;
    while let Some(at) = rest.find('…') {
        let (before, after) = (&rest[..at], &rest[at + '…'.len_utf8()..]);
        if let Some(piece) = pieces.last_mut() {
            piece.text = before;
        }
        let begins_line = before.ends_with('\n') || (before.is_empty() && at_line_start);
        let (gap, after) = match after.strip_prefix('\n') {
            Some(after) if begins_line => (Gap::Lines, after),
            _ => (Gap::Text, after),
        };
        at_line_start = gap == Gap::Lines;
        pieces.push(Piece { gap, text: "" });
        rest = after;
    }
    if let Some(piece) = pieces.last_mut() {
        piece.text = rest;
    }
    pieces
}

/// Whether the text fits. The leftmost place of each piece is the best: gaps take any length.
fn matches(expected: &str, actual: &str) -> bool {
    let pieces = pieces(expected);
    let last = pieces.len() - 1;
    let mut position = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let rest = &actual[position..];
        // The last piece must end where the text ends.
        let places: Box<dyn Iterator<Item = usize>> = if index == last {
            Box::new(rest.len().checked_sub(piece.text.len()).into_iter())
        } else {
            Box::new(0..=rest.len())
        };
        let fits = |at: &usize| {
            rest.get(*at..).is_some_and(|text| text.starts_with(piece.text))
                && match piece.gap {
                    Gap::None => *at == 0,
                    Gap::Text => true,
                    Gap::Lines => {
                        let at = position + at;
                        at == 0 || actual.as_bytes()[at - 1] == b'\n'
                    }
                }
        };
        match { places }.find(fits) {
            Some(at) => position += at + piece.text.len(),
            None => return false,
        }
    }
    position == actual.len()
}

/// The lines of both texts in their best alignment: ` ` both, `-` expected, `+` printed.
fn side_by_side(expected: &str, actual: &str) -> String {
    let expected: Vec<&str> = expected.lines().collect();
    let actual: Vec<&str> = actual.lines().collect();
    // common[i][j]: how many lines the rests from i and j have in common.
    let mut common = vec![vec![0_usize; actual.len() + 1]; expected.len() + 1];
    for i in (0..expected.len()).rev() {
        for j in (0..actual.len()).rev() {
            common[i][j] = if matches(expected[i], actual[j]) {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut text = String::new();
    while i < expected.len() || j < actual.len() {
        let both = i < expected.len() && j < actual.len();
        let (mark, line) = if both && matches(expected[i], actual[j]) {
            (i, j) = (i + 1, j + 1);
            (' ', actual[j - 1])
        } else if j == actual.len() || (both && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', expected[i - 1])
        } else {
            j += 1;
            ('+', actual[j - 1])
        };
        text.push_str(&format!("    {mark} {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fits(expected: &str, actual: &str) {
        assert_eq!(difference(expected, actual), None);
    }

    #[track_caller]
    fn differs(expected: &str, actual: &str) {
        assert!(difference(expected, actual).is_some());
    }

    #[test]
    fn plain_text_matches_itself_only() {
        fits("", "");
        fits("a\nb\n", "a  \nb");
        differs("a", "ab");
        differs("a", "");
        differs("", "a");
        differs("a\nb", "b\na");
    }

    #[test]
    fn an_ellipsis_in_a_line_matches_anything() {
        fits("took … ms", "took 12 ms");
        fits("a…z", "a\nb\nz");
        fits("…", "");
        fits("id …", "id 7f");
        differs("took … ms", "took 12 s");
        differs("a…b…c", "acb");
    }

    #[test]
    fn an_ellipsis_alone_matches_whole_lines() {
        fits("a\n…\nb", "a\nb");
        fits("a\n…\nb", "a\nx\ny\nb");
        fits("a\n…", "a");
        fits("a\n…", "a\nb\nc");
        fits("…\nb", "a\nb");
        differs("a\n…\nb", "a\nxb");
        differs("a\n…\nb\n", "a\nb\nc");
    }

    #[test]
    fn gaps_give_way_to_what_follows() {
        fits("…a\n…\na", "xa\nb\na\na");
        fits("… rows\n…\n… rows", "1 rows\n2 rows\n3 rows");
        fits("über … ß", "über straße ß");
    }

    #[test]
    fn the_difference_shows_both_sides() {
        let text = difference("one\n2…\nthree", "one\n22\nfour").unwrap();
        assert_eq!(text, "      one\n      22\n    - three\n    + four\n");
    }
}
