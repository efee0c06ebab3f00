//! Reports on the rows of an upload, each as it was sent, whatever was applied.

use crate::postgres::errors::unreadable;
use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::isolation::group::{Group, Rows};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::isolation::waiting::WaitingRow;
use crate::postgres::upload::moves::Rebasing;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::quote::ident;
use crate::synchronization::change::Change;
use crate::upload::rebase::{Rebased, image};
use crate::upload::uploaded_row::{RowId, UploadedRow, event_of};
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
            let details = &self.table(table).deployed.details;
            let name = format!("{}.{}", ident(&details.schema), ident(&details.name));
            let looking = "look for what ignores rows";
            let rows = self.link.query(SILENT, &[&name]).map_err(stopped(looking))?;
            let found = |column| {
                let found = rows.first().map(|row| row.try_get::<bool>(column));
                found.transpose().map_err(unreadable).map(|found| found == Some(true))
            };
            let kinds = ["a trigger", "a rule", "row-level security"].into_iter().enumerate();
            let mut silent = Vec::new();
            for (column, kind) in kinds {
                if found(column)? {
                    silent.push(kind);
                }
            }
            self.silent.insert(table, silent);
        }
        let silent = self.silent.get(&table).map(|silent| silent.join(" or "));
        let why = match silent.filter(|silent| !silent.is_empty()) {
            Some(silent) => format!("{silent} ignored the row"),
            None => format!("the script {} did not change the row", event_of(change).name()),
        };
        Ok((Code::RowVetoed, why))
    }

    /// The rows of `group` as they are to be applied: rebased where key changes of others or of
    /// the same upload have been there before.
    pub(in crate::postgres) fn told(&mut self, group: Group) -> Result<Vec<Group>, Failure> {
        if self.links.are_still() && self.moves.are_still() {
            return Ok(vec![group]);
        }
        let Group { table, change, rows } = group;
        let mut groups: Vec<Group> = Vec::new();
        for bytes in rows {
            if self.is_replaced(table, change, &bytes)? {
                self.lost(table, change, &bytes)?;
                continue;
            }
            let Rebased { change, bytes } = self.tell(table, change, bytes)?;
            match groups.iter_mut().find(|group| group.change == change) {
                Some(group) => group.rows.push(bytes),
                None => groups.push(Group { table, change, rows: vec![bytes] }),
            }
        }
        Ok(groups)
    }

    /// One row as it is to be applied.
    pub(in crate::postgres) fn tell(
        &mut self,
        table: usize,
        change: Change,
        bytes: Vec<u8>,
    ) -> Result<Rebased, Failure> {
        let row = self.read(table, change, &bytes)?;
        let published = &self.table(table).deployed.published;
        let told = match self.moves.tell(&self.links, self.upload.tables, table, &row)? {
            Rebasing::Onto(over) => {
                let further = self.links.tell(table, published, &over.row(published.width())?)?;
                Some(further.unwrap_or(over))
            }
            Rebasing::AsItIs | Rebasing::Replaced => self.links.tell(table, published, &row)?,
        };
        Ok(match told.filter(|told| (told.change, &told.bytes) != (change, &bytes)) {
            Some(told) => {
                self.note_told(table, change, &bytes, &told)?;
                told
            }
            None => Rebased { change, bytes },
        })
    }

    /// Whether the row that is spoken of is gone, and another has its key.
    fn is_replaced(&self, table: usize, change: Change, bytes: &[u8]) -> Result<bool, Failure> {
        if self.moves.are_still() {
            return Ok(false);
        }
        let row = self.read(table, change, bytes)?;
        let told = self.moves.tell(&self.links, self.upload.tables, table, &row)?;
        Ok(matches!(told, Rebasing::Replaced))
    }

    /// A row whose own row is gone: it is reported, and what has the key now is sent. One that is
    /// to be deleted is, as the remote wanted.
    fn lost(&mut self, table: usize, change: Change, bytes: &[u8]) -> Result<(), Failure> {
        if change == Change::Delete {
            return self.owe(table, change, bytes);
        }
        let message = "the row or its parent was deleted, or another row has its key".to_owned();
        self.reject(table, change, bytes, (Code::RowTakenAlong, message))
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
        self.originals.note(table, told, (sent, &original))
    }

    /// Whether a row was rebased.
    pub(in crate::postgres) fn is_told(
        &self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        Ok(self.originals.of(table, change, bytes)?.is_some())
    }

    /// A row as it was sent.
    fn original<'r>(
        &self,
        table: usize,
        change: Change,
        bytes: &'r [u8],
    ) -> Result<(Change, Cow<'r, [u8]>), Failure> {
        Ok(match self.originals.of(table, change, bytes)? {
            Some((sent, original)) => (sent, Cow::Owned(original)),
            None => (change, Cow::Borrowed(bytes)),
        })
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

    /// Lets a row wait until others are applied.
    pub(in crate::postgres) fn park(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        reason: Reason,
    ) -> Result<(), Failure> {
        let (change, row) = self.original(table, change, bytes)?;
        self.waiting_rows.push(&WaitingRow { table, change, row: row.into_owned(), reason })
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
                continue;
            }
            // The remote has it under a key that it did not get.
            let (has, got) = (row.new_key(published, table), told.new_key(published, table));
            if has != got {
                self.record.owe(&has)?;
            }
        }
        Ok(())
    }

    /// Rejects a row. Both keys of a key change are owed, and the row keeps the old one.
    pub(in crate::postgres) fn reject(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
        reason: Reason,
    ) -> Result<(), Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        let row = self.read(table, sent, &original)?;
        let published = &self.table(table).deployed.published;
        if sent == Change::KeyChange {
            self.record.owe(&row.new_key(published, table))?;
        }
        self.record.reject(&row.key(published, table), reason)?;
        self.kept(table, change, bytes)
    }

    /// The remote must be sent the row, whatever it is then, under either key.
    pub(in crate::postgres) fn owe(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        let row = self.read(table, sent, &original)?;
        let published = &self.table(table).deployed.published;
        self.record.owe(&row.key(published, table))?;
        if sent == Change::KeyChange {
            self.record.owe(&row.new_key(published, table))?;
        }
        Ok(())
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

    /// Takes note of what became of the values that others refer to.
    pub(in crate::postgres) fn moved(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        if !matches!(change, Change::Update | Change::KeyChange) {
            return Ok(());
        }
        let (sent, original) = self.original(table, change, bytes)?;
        let mut told = UploadedRow::default();
        told.read(bytes, change, self.table(table).deployed.published.width())?;
        let row = self.read(table, sent, &original)?;
        // What refers to it is rebased onto what others have changed first.
        match self.moves.tell(&self.links, self.upload.tables, table, &row)? {
            Rebasing::Onto(over) => {
                let width = self.table(table).deployed.published.width();
                self.links.moved(table, &over.row(width)?.old, &told.new)?;
            }
            Rebasing::AsItIs | Rebasing::Replaced => {
                self.links.moved(table, &row.old, &told.new)?;
            }
        }
        if sent == Change::Update && change == Change::KeyChange {
            self.links.returned(table, &told.new)?;
        }
        Ok(())
    }

    /// Takes note that the row of a key change keeps the key that it has.
    pub(in crate::postgres) fn kept(
        &mut self,
        table: usize,
        change: Change,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let (sent, original) = self.original(table, change, bytes)?;
        if sent != Change::KeyChange {
            return Ok(());
        }
        let told = self.read(table, change, bytes)?;
        let row = self.read(table, sent, &original)?;
        self.links.kept(table, &row.new, &told.old)
    }

    /// The rows by the keys that they are looked up by: a key change by the key that it had.
    pub(in crate::postgres) fn looked_up(
        &self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<Option<Rows>, Failure> {
        match change {
            // As the remote saw it, and as if it were deleted.
            Change::KeyChange => {
                let seen = |bytes: &Vec<u8>| Ok(image(&self.read(table, change, bytes)?.old));
                rows.iter().map(seen).collect::<Result<Rows, Failure>>().map(Some)
            }
            Change::Insert | Change::Update | Change::Delete => Ok(None),
        }
    }
}
