//! A line fits in 100 columns, so that two files fit beside each other.

use crate::checkout::SourceFile;
use crate::problem::Problem;

const COLUMNS_MAX: usize = 100;

/// rustfmt does not break strings and comments, so it alone does not keep the limit.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    file.lines()
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .map(|(number, columns)| {
            Problem::at(&file.path, number, format!("{columns} columns, {COLUMNS_MAX} fit"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn long_lines_are_found_and_letters_are_counted_not_bytes() {
        assert_eq!(check(&sample("a.rs", &"a".repeat(101))).len(), 1);
        assert_eq!(check(&sample("a.rs", &"ä".repeat(100))), []);
    }
}
