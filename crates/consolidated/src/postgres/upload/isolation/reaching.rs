//! Asks which rows the deletes and key changes of an upload reach, before they are run.

use crate::postgres::catalog::table::Table;
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{self, Batch, batches};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::reached::{ask, by, marks_by, reaches};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::reach::{By, Effect};
use crate::upload::reached::Mark;
use crate::upload::rebase::image;
use model::{Failure, ValueRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A query and the rows that it is about, as if they were deleted.
type Question = (Arc<Statement>, Vec<Vec<u8>>);

impl Isolation<'_, '_> {
    /// The query before the script of `event` for `rows`.
    pub(in crate::postgres) fn questions(
        &self,
        table: usize,
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<Vec<Question>, Failure> {
        let this = self.table(table);
        match by(event) {
            None => Ok(Vec::new()),
            Some(By::Delete) => {
                let query = this.reach.by_delete.clone();
                Ok(query.map(|query| (Arc::new(query), rows.to_vec())).into_iter().collect())
            }
            Some(By::KeyChange) if !this.reach.by_key_change => Ok(Vec::new()),
            Some(By::KeyChange) => {
                let columns = &this.deployed.published.columns;
                let mut groups: BTreeMap<BTreeSet<String>, Vec<Vec<u8>>> = BTreeMap::new();
                for bytes in rows {
                    let row = self.read(table, Change::KeyChange, bytes)?;
                    let pairs = columns.iter().zip(row.old.iter().zip(&row.new));
                    let changed =
                        pairs.filter(|(_, (old, new))| !ValueRef::identical(**old, **new));
                    let changed = changed.map(|(column, _)| column.clone()).collect();
                    groups.entry(changed).or_default().push(image(&row.old));
                }
                let mut questions = Vec::new();
                for (changed, rows) in groups {
                    let effect = Effect::Changed(changed);
                    let query = this.reach.reach.query(&this.deployed, effect)?;
                    questions.extend(query.map(|query| (Arc::new(query), rows)));
                }
                Ok(questions)
            }
        }
    }

    /// Takes note of the rows that the upload changes or deletes itself, where others of it may
    /// reach them.
    pub(in crate::postgres) fn name_rows(&mut self, outline: &UploadShape) -> Result<(), Stop> {
        if !outline.reaches(self.upload) {
            return Ok(());
        }
        let upload = self.upload;
        let mut named: BTreeMap<(usize, bool), Vec<Vec<u8>>> = BTreeMap::new();
        let (mut bytes, mut count) = (0, 0);
        outline.visit(upload, &mut |table, row| {
            if row.change == Change::Insert || upload.tables[table].reach.marks.is_none() {
                return Ok(());
            }
            (bytes, count) = (bytes + row.bytes.len(), count + 1);
            let deleted = row.change == Change::Delete;
            named.entry((table, deleted)).or_default().push(image(&row.old));
            if batch::are_enough(count, bytes) {
                (bytes, count) = (0, 0);
                self.name_these(std::mem::take(&mut named))?;
            }
            Ok(())
        })?;
        self.name_these(named)
    }

    fn name_these(&mut self, named: BTreeMap<(usize, bool), Vec<Vec<u8>>>) -> Result<(), Stop> {
        for ((table, deleted), rows) in named {
            let this = self.table(table);
            let Some(statement) = &this.reach.marks else { continue };
            let batches = batches(this, statement, self.upload, Change::Delete, &rows)?;
            for mark in self.marks_of(&batches)? {
                self.reached.name(mark, deleted)?;
            }
        }
        Ok(())
    }

    fn marks_of(&mut self, batches: &[Batch<'_>]) -> Result<Vec<Mark>, Stop> {
        self.flush()?;
        let values: Vec<_> = batches.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let mut calls = Vec::new();
        ask(&mut calls, batches.iter().zip(&parameters).map(|(batch, p)| batch::query(batch, p)));
        let answers = self.link.flight(&calls).map_err(stopped("look for rows of the upload"))?;
        Ok(marks_by(&answers)?)
    }
}

impl UploadShape {
    /// Whether anything of the upload may reach rows by the actions of foreign keys.
    fn reaches(&self, upload: Upload<'_>) -> bool {
        let table = |at: &usize| -> &Table { &upload.tables[*at] };
        self.deleted().any(|at| reaches(table(at), Change::Delete))
            || self.key_changed().any(|at| reaches(table(&at), Change::KeyChange))
    }
}
