//! Rebases rows of an upload onto the keys that rows have now.

use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::moves::Whereabouts;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::effects::Effect;
use crate::synchronization::change::Change;
use crate::upload::rebase::{Rebased, rebase, values};
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{UploadedRow, key_of};
use model::{Failure, ValueRef, write_value};

/// How a row of the upload is to be applied.
pub(in crate::sqlite) enum Rebasing {
    AsItIs,
    Onto(Rebased),
    /// Its row went with another one of the upload.
    Gone,
}

/// Rebases `row` onto what key changes made of it and of the rows that it refers to.
///
/// First come the key changes of the upload that failed, then those of others that the remote has
/// not received, then those of the upload.
pub(in crate::sqlite) fn rebase_over_key_changes(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<Rebasing, Failure> {
    let width = table.published.width();
    let mut rebased = attempt.over_kept_keys(table, position, row)?;
    let next = match &rebased {
        None => attempt.over_moves(table, position, row)?,
        Some(kept) => attempt.over_moves(table, position, &kept.row(width)?)?,
    };
    match next {
        Rebasing::Gone => return Ok(Rebasing::Gone),
        Rebasing::Onto(next) => rebased = Some(next),
        Rebasing::AsItIs => {}
    }
    let effect = match &rebased {
        None => effect(attempt, table, position, row)?,
        Some(now) => effect(attempt, table, position, &now.row(width)?)?,
    };
    let Some(effect) = effect else { return Ok(rebased.map_or(Rebasing::AsItIs, Rebasing::Onto)) };
    let Effect::Changed { before, after } = effect else { return Ok(Rebasing::Gone) };
    let (before, after) = (values(&before)?, values(&after)?);
    let rebased = match &rebased {
        None => attempt.over_effect(table, position, row, (&before, &after))?,
        Some(now) => attempt.over_effect(table, position, &now.row(width)?, (&before, &after))?,
    };
    let back = attempt.over_rows_aside(table, position, &rebased.row(width)?)?;
    Ok(Rebasing::Onto(back.unwrap_or(rebased)))
}

/// What the upload's own key changes made of the row.
fn effect(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<Option<Effect>, Failure> {
    let Some(moving) = attempt.moving.as_ref().filter(|_| row.change != Change::Insert) else {
        return Ok(None);
    };
    let key = key_of(&table.published, &row.old);
    moving.effects.of(attempt.connection, table, position, &values(&key)?)
}

impl Attempt<'_> {
    /// `row` with references to failed new keys replaced by the keys that the rows have kept; none
    /// if it has no such reference.
    fn over_kept_keys(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Rebased>, Failure> {
        let kept = self.moving.as_ref().map(|moving| &moving.kept);
        self.over_references(table, position, row, kept)
    }

    /// `row`, where it would refer to a row that was put aside to be deleted: a row that is not
    /// deleted with its parent refers to the one that took the parent's key.
    fn over_rows_aside(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Rebased>, Failure> {
        let aside = self.moving.as_ref().map(|moving| &moving.aside);
        self.over_references(table, position, row, aside)
    }

    /// `row` with each reference to a key in `keys` replaced by the key that is stored there; none
    /// if it has no such reference.
    fn over_references(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        keys: Option<&RowMap>,
    ) -> Result<Option<Rebased>, Failure> {
        let (Some(keys), Some(links)) = (keys, self.links) else { return Ok(None) };
        if keys.is_empty() || row.change == Change::Delete {
            return Ok(None);
        }
        let mut now = Vec::new();
        for link in links.of(position) {
            let referred = encoded(&row.new, &link.columns);
            if let Some(key) = keys.get(&(link.parent, referred))? {
                now.push((&link.columns, key));
            }
        }
        let mut new = row.new.clone();
        for (columns, key) in &now {
            for (column, value) in columns.iter().zip(values(key)?) {
                new[*column] = value;
            }
        }
        Ok((new != row.new).then(|| Rebased::of(row.change, &table.published, &row.old, &new)))
    }

    /// `row` under the keys that it, and the rows that it refers to, have got from others since the
    /// remote was here; none where they have the ones that it knows.
    fn over_moves(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Rebasing, Failure> {
        let (Some(moves), Some(links)) = (self.moves, self.links) else {
            return Ok(Rebasing::AsItIs);
        };
        let (published, remote) = (&table.published, self.request.session.remote_id.as_str());
        let (mut keys, mut after) = (Vec::new(), row.old.clone());
        let own: Vec<usize> = published.key.iter().map(|c| usize::from(*c)).collect();
        let mut gone = false;
        let mut follow = |at: usize, key: &[ValueRef<'_>], columns: &[usize]| {
            if key.contains(&ValueRef::Null) {
                return Ok::<(), Failure>(());
            }
            let parent = &self.tables[at].published;
            match moves.follow(self.connection, parent, at, key, remote)? {
                Whereabouts::At(now) => keys.push((columns.to_vec(), now)),
                Whereabouts::Replaced => gone |= at == position && columns == own,
                Whereabouts::Here => {}
            }
            Ok(())
        };
        if row.change != Change::Insert {
            for link in links.of(position) {
                follow(link.parent, &picked(&row.old, &link.columns), &link.columns)?;
            }
            follow(position, &picked(&row.old, &own), &own)?;
        }
        let seen = std::mem::take(&mut keys);
        for (columns, key) in &seen {
            columns.iter().zip(values(key)?).for_each(|(column, value)| after[*column] = value);
        }
        let mut follow_new = |link: &crate::sqlite::links::Link| -> Result<(), Failure> {
            let key = picked(&row.new, &link.columns);
            let same = row.change != Change::Insert && key == picked(&row.old, &link.columns);
            if same || key.contains(&ValueRef::Null) || self.brings(link.parent, &key)? {
                return Ok(());
            }
            let parent = &self.tables[link.parent].published;
            match moves.follow(self.connection, parent, link.parent, &key, remote)? {
                Whereabouts::At(now) => keys.push((link.columns.clone(), now)),
                Whereabouts::Replaced => gone = true,
                Whereabouts::Here => {}
            }
            Ok(())
        };
        if row.change != Change::Delete {
            links.of(position).try_for_each(&mut follow_new)?;
        }
        if gone {
            return Ok(Rebasing::Gone);
        }
        if seen.is_empty() && keys.is_empty() {
            return Ok(Rebasing::AsItIs);
        }
        let rebased = rebase(row, published, &row.old, &after);
        let rebased = rebased.row(published.width())?;
        let mut new = rebased.new.clone();
        for (columns, key) in &keys {
            columns.iter().zip(values(key)?).for_each(|(column, value)| new[*column] = value);
        }
        Ok(Rebasing::Onto(Rebased::of(row.change, published, &rebased.old, &new)))
    }

    /// Whether the remote has given up this key, or has a row of its own there: what has it at the
    /// remote is another row.
    fn brings(&self, position: usize, key: &[ValueRef<'_>]) -> Result<bool, Failure> {
        let mut id = Vec::new();
        key.iter().for_each(|value| write_value(&mut id, *value));
        let id = (position, id);
        if let Some(moves) = self.moves
            && moves.is_own(&id)?
        {
            return Ok(true);
        }
        self.moving.as_ref().map_or(Ok(false), |moving| moving.given_up.contains(&id))
    }
}

fn picked<'r>(row: &[ValueRef<'r>], columns: &[usize]) -> Vec<ValueRef<'r>> {
    columns.iter().map(|column| row[*column]).collect()
}

fn encoded(row: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    columns.iter().for_each(|column| write_value(&mut bytes, row[*column]));
    bytes
}
