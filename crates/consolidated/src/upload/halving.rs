//! Finds the rows for which a statement fails that runs for many at once.

/// Those of `rows` for which `ask` finds a fault when it asks about them alone. Where some fail
/// together, it asks about each half of them. If only a few fail, that takes few questions.
pub(crate) fn failing<'r, T, F, E>(
    rows: &'r [T],
    mut ask: impl FnMut(&'r [T]) -> Result<Option<F>, E>,
) -> Result<Vec<(&'r T, F)>, E> {
    let (mut found, mut stack) = (Vec::new(), vec![rows]);
    while let Some(some) = stack.pop() {
        if some.is_empty() {
            continue;
        }
        let Some(fault) = ask(some)? else { continue };
        match some {
            [row] => found.push((row, fault)),
            _ => {
                let (first, second) = some.split_at(some.len() / 2);
                stack.extend([second, first]);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[i32], expected: &[i32], questions: usize) {
        let mut asked = 0;
        let found = failing(rows, |some| {
            asked += 1;
            Ok::<_, ()>(some.iter().any(|row| *row < 0).then_some(()))
        });
        let found: Vec<i32> = found.unwrap().into_iter().map(|(row, ())| *row).collect();
        assert_eq!((found.as_slice(), asked), (expected, questions), "{rows:?}");
    }

    #[test]
    fn each_failing_row_is_found_in_its_order_with_few_questions() {
        check(&[], &[], 0);
        check(&[1, 2, 3], &[], 1);
        check(&[-1], &[-1], 1);
        check(&[1, 2, 3, 4, 5, 6, -7, 8], &[-7], 7);
        check(&[-1, 2, -3], &[-1, -3], 5);
    }

    #[test]
    fn what_cannot_be_asked_ends_the_search() {
        let mut asked = 0;
        let found = failing(&[1, 2], |_| {
            asked += 1;
            if asked == 2 { Err("lost") } else { Ok(Some(())) }
        });
        assert_eq!((found, asked), (Err("lost"), 2));
    }
}
