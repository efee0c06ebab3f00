//! The row that loses a conflict.

use crate::sync_model::ConflictRule;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::{Code, Failure, RowReader};

/// What lost the conflict of an update or insert, encoded: the row as it was sent, or the one that
/// was `now` at the center before the rule has made the `result` of both. None where nothing did.
pub(crate) fn loser<'r>(
    row: &UploadedRow<'r>,
    (now, result): (Option<&'r [u8]>, Option<&'r [u8]>),
    rule: &str,
) -> Result<Option<&'r [u8]>, Failure> {
    let sent = row.new_image();
    Ok(match (now, result) {
        _ if row.change == Change::Delete => None,
        (now, result) if now == result => (now != Some(sent)).then_some(sent),
        (Some(now), Some(result)) if ConflictRule::merges(rule) => {
            loses_a_change(row, now, result)?.then_some(sent)
        }
        (now, _) => now.filter(|now| *now != sent),
    })
}

/// Whether the remote's side of a conflict has lost something by the rule of the table, or by
/// `scripts` of the user: then any other row than the one that it sent means that.
pub(crate) fn has_lost(
    row: &UploadedRow<'_>,
    (now, result): (Option<&[u8]>, Option<&[u8]>),
    rule: &str,
    scripts: bool,
) -> Result<bool, Failure> {
    let sent = row.new_image();
    Ok(match (now, result) {
        _ if row.change == Change::Delete => result.is_some(),
        (_, result) if result == Some(sent) => false,
        (now, result) if scripts || now == result => true,
        (Some(now), Some(result)) if ConflictRule::merges(rule) => {
            loses_a_change(row, now, result)?
        }
        _ => false,
    })
}

/// Whether a column that the row changes has stayed as it was at the center.
fn loses_a_change(row: &UploadedRow<'_>, now: &[u8], result: &[u8]) -> Result<bool, Failure> {
    let (mut before, mut after) = (RowReader::new(now), RowReader::new(result));
    for (old, new) in row.old.iter().zip(&row.new) {
        let (before, after) = (before.value()?, after.value()?);
        let changes = row.change == Change::Insert || !new.identical(*old);
        if changes && after.identical(before) && !after.identical(*new) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The failure to keep a row that lost.
pub(crate) fn not_kept(table: &str, why: &str) -> Failure {
    let message = format!("a row of {table} that lost a conflict cannot be kept: {why}");
    let hint = "the table that keep_losers names has to take the row";
    Failure::new(Code::ScriptFailed, message).table(table).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ValueRef, write_value};

    fn image(values: [i64; 2]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write_value(&mut bytes, ValueRef::Integer(*value)));
        bytes
    }

    #[test]
    fn the_row_loses_of_which_something_is_gone() {
        let (old, sent) = ([1, 10], [1, 11]);
        let (mut row, bytes) = (UploadedRow::default(), [image(old), image(sent)].concat());
        row.read(&bytes, Change::Update, 2).unwrap();
        let (latest, merge) = ("latest by at", "merge by column");
        for (now, result, rule, lost) in [
            (Some([1, 12]), Some([1, 12]), latest, Some(sent)),
            (Some([1, 12]), Some(sent), latest, Some([1, 12])),
            // Stored otherwise than it was sent.
            (Some([1, 12]), Some([1, 13]), latest, Some([1, 12])),
            (None, None, latest, Some(sent)),
            (None, Some(sent), latest, None),
            (Some(sent), Some(sent), merge, None),
            (Some([2, 12]), Some([2, 12]), merge, Some(sent)),
            (Some([2, 10]), Some([2, 11]), merge, None),
            (Some([2, 12]), Some([2, 13]), "merge by column, add n", None),
        ] {
            let (now, result) = (now.map(image), result.map(image));
            let images = (now.as_deref(), result.as_deref());
            let found = loser(&row, images, rule).unwrap();
            assert_eq!(found, lost.map(image).as_deref(), "{now:?} {result:?} {rule}");
            let has_lost = has_lost(&row, images, rule, false).unwrap();
            assert_eq!(has_lost, lost == Some(sent), "{now:?} {result:?} {rule}");
        }
    }
}
