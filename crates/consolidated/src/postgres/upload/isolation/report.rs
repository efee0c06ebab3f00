//! Reports on the rows of an upload, each as it was sent, whatever was applied.

use crate::postgres::errors::unreadable;
use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::synchronization::change::Change;
use crate::upload::echo::image_digest;
use crate::upload::rebase::Rebased;
use crate::upload::uploaded_row::{RowId, event_of};
use crate::upload::waiting::WaitingRow;
use model::{Code, Failure};
use std::borrow::Cow;

/// What may keep a row out of a table without a word: triggers, rules, row-level security. Those of
/// its partitions count too.
const SILENT: &str = "SELECT EXISTS (
    SELECT FROM pg_trigger AS t
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgname NOT LIKE 'syncline\\_%'
      AND (t.tgrelid = c.oid OR t.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))),
  EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid AND r.ev_type <> '1'),
  c.relrowsecurity
FROM pg_class AS c WHERE c.oid = $1::text::regclass";

impl Isolation<'_, '_> {
    /// Why a row is as it was although no statement failed.
    pub(in crate::postgres) fn vetoed(
        &mut self,
        table: usize,
        change: Change,
    ) -> Result<Reason, Stop> {
        if !self.silent.contains_key(&table) {
            self.flush()?;
            let name = self.table(table).deployed.details.sql_name();
            let looking = "look for what ignores rows";
            let rows = self.link.query(SILENT, &[&name]).map_err(stopped(looking))?;
            let kinds = ["a trigger", "a rule", "row-level security"].into_iter().enumerate();
            let mut silent = Vec::new();
            for (column, kind) in kinds {
                for row in &rows {
                    silent.extend(row.try_get::<bool>(column).map_err(unreadable)?.then_some(kind));
                }
            }
            self.silent.insert(table, silent);
        }
        let silent = self.silent.get(&table).map(|silent| silent.join(" or "));
        let why = match silent.filter(|silent| !silent.is_empty()) {
            Some(silent) => format!("{silent} ignored the row"),
            None => format!("the script {} did not change the row", event_of(change).name()),
        };
        Ok((Code::RowVetoed, why).into())
    }

    /// Remembers what a row was rebased to.
    pub(in crate::postgres) fn note_told(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        told: &Rebased,
    ) -> Result<(), Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        let value = [&[sent as u8], &*original].concat();
        self.originals.put(&place(table, told.change, &told.bytes), &value)
    }

    /// Whether a row was rebased.
    pub(in crate::postgres) fn is_told(
        &self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        self.originals.contains(&place(table, change, bytes))
    }

    /// A row as it was sent.
    fn original<'r>(
        &self,
        table: usize,
        change: Change,
        bytes: &'r [u8],
    ) -> Result<(Change, Cow<'r, [u8]>), Failure> {
        if self.originals.is_empty() {
            return Ok((change, Cow::Borrowed(bytes)));
        }
        let Some(mut original) = self.originals.get(&place(table, change, bytes))? else {
            return Ok((change, Cow::Borrowed(bytes)));
        };
        let sent = [Change::Insert, Change::Update, Change::Delete]
            .into_iter()
            .find(|it| original.first() == Some(&(*it as u8)))
            .ok_or_else(|| Failure::new(Code::Bug, "a row as it was sent does not read"))?;
        original.remove(0);
        Ok((sent, Cow::Owned(original)))
    }

    /// What the upload calls a row.
    pub(in crate::postgres) fn sent_id(
        &self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<RowId, Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        let row = self.read(table, sent, &original)?;
        Ok(row.key(&self.table(table).deployed.published, table))
    }

    /// Lets a row wait until others are applied; not one of a user's script, whose order counts.
    pub(in crate::postgres) fn park(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        reason: Reason,
    ) -> Result<(), Failure> {
        if self.table(table).deployed.is_own(change) {
            return self.reject(table, change, bytes, reason);
        }
        let (change, row) = self.original(table, change, bytes)?;
        let row = WaitingRow { table, change, row: row.into_owned(), reason };
        match self.waiting_rows.push(row) {
            Ok(()) => Ok(()),
            Err(too_many) => self.reject(table, change, bytes, too_many),
        }
    }

    /// Notes rows that need not come back. One that was rebased does, unless the remote has just
    /// that.
    pub(in crate::postgres) fn echo(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<(), Failure> {
        let published = &self.table(table).deployed.published;
        for bytes in rows {
            let (sent, original) = self.original(table, change, bytes)?;
            let told = self.read(table, change, bytes)?;
            let row = self.read(table, sent, &original)?;
            if sent == Change::Delete || told.new_image() == row.new_image() {
                self.record.echo(published, table, &row);
            }
        }
        Ok(())
    }

    /// Rejects a row.
    pub(in crate::postgres) fn reject(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        reason: Reason,
    ) -> Result<(), Failure> {
        let id = self.sent_id(table, change, bytes)?;
        self.record.reject((&id, change), reason)
    }

    /// The remote must be sent the row, whatever it is then.
    pub(in crate::postgres) fn owe(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let id = self.sent_id(table, change, bytes)?;
        self.record.owe(&id)
    }

    /// Owes a row of which a conflict was counted. The remote is told if it has `lost`.
    pub(in crate::postgres) fn owe_settled(
        &mut self,
        (table, change): (usize, Change),
        bytes: &[u8],
        lost: bool,
    ) -> Result<(), Failure> {
        let id = self.sent_id(table, change, bytes)?;
        match lost {
            true => self.record.lose(&id, self.table(table).deployed.decides(change)),
            false => self.record.owe(&id),
        }
    }

    /// Counts a conflict, and keeps its rows.
    pub(in crate::postgres) fn conflict(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        now: Option<&[u8]>,
        result: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        let row = self.read(table, sent, &original)?;
        let published = &self.table(table).deployed.published;
        self.record.conflict((table, published), &row, now, result);
        Ok(())
    }
}

/// Where the original of a row lies. A row may be large, and a key of a map should not be.
fn place(table: usize, change: Change, row: &[u8]) -> RowId {
    (table, [&image_digest(row)[..], &[change as u8]].concat())
}
