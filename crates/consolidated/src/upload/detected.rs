//! What the scripts of the user that read a row at the center say about its update.

use crate::script::Detection;
use crate::synchronization::change::Change;
use crate::upload::rebase::{Rebased, values};
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;

/// Whether an update has a conflict.
#[derive(Debug, PartialEq)]
pub(crate) enum Detected {
    /// The row is as the remote saw it.
    AsSeen,
    /// Only columns differ that the remote did not change: the update as if it had seen the row.
    Aside(Rebased),
    Conflict,
}

/// Compares an update with the row that is there `now`, as the script returned it.
pub(crate) fn detected(
    detection: Detection,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Detected, Failure> {
    let Some(now) = now else { return Ok(Detected::Conflict) };
    if row.is_as_seen(now)? {
        return Ok(Detected::AsSeen);
    }
    if detection != Detection::Column {
        return Ok(Detected::Conflict);
    }
    let now = values(now)?;
    let mut becomes = Vec::with_capacity(now.len());
    for ((now, old), new) in now.iter().zip(&row.old).zip(&row.new) {
        let is_changed = !new.identical(*old);
        if is_changed && !now.identical(*old) {
            return Ok(Detected::Conflict);
        }
        becomes.push(if is_changed { *new } else { *now });
    }
    Ok(Detected::Aside(Rebased::of(Change::Update, &now, &becomes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ValueRef, write_value};

    fn image(values: [i64; 3]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write_value(&mut bytes, ValueRef::Integer(*value)));
        bytes
    }

    #[test]
    fn a_column_that_both_sides_changed_is_a_conflict() {
        let (old, new) = ([1, 10, 20], [1, 11, 20]);
        let bytes = [image(old), image(new)].concat();
        let mut row = UploadedRow::default();
        row.read(&bytes, Change::Update, 3).unwrap();
        let detect = |detection, now: Option<[i64; 3]>| {
            detected(detection, &row, now.map(image).as_deref()).unwrap()
        };
        for detection in [Detection::Fetch, Detection::Column] {
            assert_eq!(detect(detection, Some(old)), Detected::AsSeen);
            // Both sides having done the same is a conflict: the script may add it up.
            for now in [Some(new), Some([1, 12, 20]), Some([1, 12, 21]), None] {
                assert_eq!(detect(detection, now), Detected::Conflict, "{now:?}");
            }
        }
        assert_eq!(detect(Detection::Fetch, Some([1, 10, 21])), Detected::Conflict);
        let bytes = [image([1, 10, 21]), image([1, 11, 21])].concat();
        let aside = Rebased { change: Change::Update, bytes };
        assert_eq!(detect(Detection::Column, Some([1, 10, 21])), Detected::Aside(aside));
    }
}
