//! What the core makes of an uploaded row whose statement did not change what it should have (S5).
//!
//! The backends look the row up and run the rule of the table. What the row is, is decided here.

use crate::sync_model::ConflictRule;
use crate::synchronization::change::Change;
use crate::upload::entered_again::EnteredAgain;
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use model::{Code, Failure, RowReader};

/// What an uploaded row that was not applied is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both sides did the same.
    Same,
    /// The row is not as the remote saw it: the rule of the table decides.
    Conflict,
    /// The row is outside the partition.
    Touches,
    /// The row would be outside the partition.
    Leads,
    /// Nothing stood in its way, and yet it was not taken.
    Vetoed,
}

/// What the center has under the key of an uploaded row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'n> {
    /// The row, encoded, if the partition covers it.
    pub(crate) now: Option<&'n [u8]>,
    /// There is a row that the partition does not cover.
    pub(crate) is_outside: bool,
    /// The uploaded row would be outside the partition. False where that is seen after the write.
    pub(crate) leads: bool,
    /// Rows of the table may leave the partition.
    pub(crate) may_leave: bool,
    /// The rule of the table may write what the remote sent.
    pub(crate) writes: bool,
    /// The scripts of the user say that a row that is not applied has a conflict.
    pub(crate) is_counted: bool,
    /// Positions of the columns in which the changes of both sides count.
    pub(crate) added: &'n [u16],
}

impl Found<'_> {
    pub(crate) fn verdict(&self, row: &UploadedRow<'_>) -> Result<Verdict, Failure> {
        // A delete leads nowhere.
        let leads = self.leads && row.change != Change::Delete;
        if self.is_counted && !self.is_outside {
            return Ok(Verdict::Conflict);
        }
        let Some(now) = self.now else {
            return Ok(match row.change {
                _ if self.is_outside => Verdict::Touches,
                Change::Delete => Verdict::Same,
                Change::Insert if leads => Verdict::Leads,
                Change::Insert => Verdict::Vetoed,
                Change::Update if leads && self.writes => Verdict::Leads,
                Change::Update => Verdict::Conflict,
            });
        };
        if self.is_same(row, now) {
            return Ok(Verdict::Same);
        }
        if row.change != Change::Insert && row.is_as_seen(now)? {
            let stays = !leads || self.may_leave;
            return Ok(if stays { Verdict::Vetoed } else { Verdict::Leads });
        }
        Ok(match leads && self.writes && !self.may_leave {
            true => Verdict::Leads,
            false => Verdict::Conflict,
        })
    }

    /// Whether it matters for the verdict if the uploaded row would be outside the partition.
    pub(crate) fn asks_where_it_leads(&self, row: &UploadedRow<'_>) -> Result<bool, Failure> {
        Ok(match (row.change, self.now) {
            _ if self.is_counted => false,
            (Change::Delete, _) => false,
            (_, None) if self.is_outside => false,
            (change, None) => change == Change::Insert || self.writes,
            (_, Some(now)) if self.is_same(row, now) => false,
            (Change::Insert, Some(_)) => self.writes && !self.may_leave,
            (_, Some(now)) => row.is_as_seen(now)? || self.writes && !self.may_leave,
        })
    }

    /// Whether both sides did the same. Two who take the same from one stock have each taken it.
    fn is_same(&self, row: &UploadedRow<'_>, now: &[u8]) -> bool {
        agrees(row, Some(now)) && !row.adds_to(self.added)
    }
}

/// What a trigger of the owner has made of a row that it kept from being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// What the remote wanted, on a way of its own.
    Same,
    /// Something else than a delete, such as a mark in the row. The remote gets the row.
    Kept,
    /// Nothing that can be seen in the row.
    Ignored,
}

impl Instead {
    /// By what there is `now`, after the statement.
    pub(crate) fn of(row: &UploadedRow<'_>, now: Option<&[u8]>) -> Result<Instead, Failure> {
        if agrees(row, now) {
            return Ok(Instead::Same);
        }
        let Some(now) = now.filter(|_| row.change == Change::Delete) else {
            return Ok(Instead::Ignored);
        };
        Ok(if row.is_as_seen(now)? { Instead::Ignored } else { Instead::Kept })
    }
}

/// The row at the center is what the remote holds.
pub(crate) fn agrees(row: &UploadedRow<'_>, now: Option<&[u8]>) -> bool {
    match row.change {
        Change::Delete => now.is_none(),
        Change::Insert | Change::Update => now == Some(row.new_image()),
    }
}

/// Why a new row is rejected that has lost something by the rule of the table: one that met another
/// one with its key, or that was `entered_again` for one that is gone. None where it has not. `id`
/// is what the upload calls the row.
pub(crate) fn loses(
    row: &UploadedRow<'_>,
    (entered_again, id): (Option<&EnteredAgain>, &RowId),
    (now, result): (Option<&[u8]>, Option<&[u8]>),
    rule: &str,
) -> Result<Option<Reason>, Failure> {
    let is_again = entered_again.map_or(Ok(false), |rows| rows.has(row, id))?;
    if is_again && now.is_none() && result.is_none() {
        let why = "the row was deleted at the center, and entered again here";
        return Ok(Some((Code::RowKeyTaken, why.to_owned()).into()));
    }
    let is_new = is_again || row.change == Change::Insert;
    Ok((is_new && gives_way(row, (now, result), rule)?).then(key_is_taken))
}

/// Whether a new row that met another one with its key has lost something to it. The other one was
/// `now` before the rule has decided, and is `result`. That need not be letter by letter what was
/// sent where the new row has won: the database may spell it in its own way, or a trigger.
fn gives_way(
    row: &UploadedRow<'_>,
    (now, result): (Option<&[u8]>, Option<&[u8]>),
    rule: &str,
) -> Result<bool, Failure> {
    let (Some(now), Some(result)) = (now, result) else { return Ok(false) };
    if now == result || !ConflictRule::merges(rule) {
        return Ok(now == result);
    }
    let (mut before, mut after) = (RowReader::new(now), RowReader::new(result));
    for new in &row.new {
        let (before, after) = (before.value()?, after.value()?);
        if after.identical(before) && !after.identical(*new) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why a new row is rejected that gives way to another one with its key.
pub(crate) fn key_is_taken() -> Reason {
    (Code::RowKeyTaken, "another row with this key was at the center before".to_owned()).into()
}

/// Why a row is rejected that is outside the partition.
pub(crate) fn is_outside() -> Reason {
    (Code::RowOutsideSubscription, "the row is outside the partition".to_owned()).into()
}

/// Why a row is rejected that would be outside the partition.
pub(crate) fn leads_outside(change: Change) -> Reason {
    match change {
        Change::Insert | Change::Delete => is_outside(),
        Change::Update => {
            let message = "the change moves the row out of the partition".to_owned();
            (Code::RowOutsideSubscription, message).into()
        }
    }
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

    fn judge(change: Change, now: Option<[i64; 2]>, leads: bool, added: &[u16]) -> Verdict {
        let (seen, wanted) = (image([1, 10]), image([1, 11]));
        let bytes = match change {
            Change::Insert => wanted,
            Change::Delete => seen,
            Change::Update => [seen, wanted].concat(),
        };
        let mut row = UploadedRow::default();
        row.read(&bytes, change, 2).unwrap();
        let now = now.map(image);
        let (is_outside, may_leave, writes, is_counted) = (false, false, true, false);
        let now = now.as_deref();
        let found = Found { now, is_outside, leads, may_leave, writes, is_counted, added };
        let verdict = found.verdict(&row).unwrap();
        let with = |leads| Found { leads, ..found }.verdict(&row).unwrap();
        if !found.asks_where_it_leads(&row).unwrap() {
            assert_eq!(with(true), with(false), "{change:?} does not ask");
        }
        verdict
    }

    #[test]
    fn a_row_is_judged_by_what_is_there() {
        use Verdict::{Conflict, Leads, Same, Vetoed};
        let (as_seen, as_wanted, other) = (Some([1, 10]), Some([1, 11]), Some([1, 12]));
        let cases = [
            (Change::Insert, None, [Vetoed, Leads]),
            (Change::Insert, as_wanted, [Same, Same]),
            (Change::Insert, other, [Conflict, Leads]),
            (Change::Update, None, [Conflict, Leads]),
            (Change::Update, as_seen, [Vetoed, Leads]),
            (Change::Update, as_wanted, [Same, Same]),
            (Change::Update, other, [Conflict, Leads]),
            (Change::Delete, None, [Same, Same]),
            (Change::Delete, as_seen, [Vetoed, Vetoed]),
            (Change::Delete, other, [Conflict, Conflict]),
        ];
        for (change, now, [stays, leads]) in cases {
            assert_eq!(judge(change, now, false, &[]), stays, "{change:?} over {now:?}");
            assert_eq!(judge(change, now, true, &[]), leads, "{change:?} over {now:?}, outside");
        }
    }

    // S5: two take the same from one stock.
    #[test]
    fn equal_changes_of_a_number_to_which_both_add_are_a_conflict() {
        let (wanted, changed, other) = (Some([1, 11]), &[1], &[0]);
        assert_eq!(judge(Change::Update, wanted, false, changed), Verdict::Conflict);
        assert_eq!(judge(Change::Update, wanted, true, changed), Verdict::Leads);
        assert_eq!(judge(Change::Update, wanted, false, other), Verdict::Same);
        assert_eq!(judge(Change::Insert, wanted, false, changed), Verdict::Same);
    }

    #[test]
    fn a_row_that_is_not_covered_is_never_touched() {
        let bytes = image([1, 10]);
        for change in [Change::Insert, Change::Delete] {
            let mut row = UploadedRow::default();
            row.read(&bytes, change, 2).unwrap();
            let (leads, may_leave, writes, is_counted) = (false, true, true, false);
            let (now, is_outside, added) = (None, true, &[][..]);
            let found = Found { now, is_outside, leads, may_leave, writes, is_counted, added };
            assert_eq!(found.verdict(&row).unwrap(), Verdict::Touches);
            assert!(!found.asks_where_it_leads(&row).unwrap());
        }
    }
}
