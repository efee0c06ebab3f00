//! Which columns of a row an upload changes.

use crate::upload::uploaded_row::UploadedRow;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Positions of columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChangedColumns {
    /// By 64 columns, without zeros at the end.
    bits: Vec<u64>,
}

impl ChangedColumns {
    /// Becomes those of an update.
    pub(crate) fn read(&mut self, row: &UploadedRow<'_>) {
        self.clear();
        for (at, (old, new)) in row.old.iter().zip(&row.new).enumerate() {
            if !old.identical(*new) {
                self.insert(at);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bits.clear();
    }

    pub(crate) fn insert(&mut self, column: usize) {
        let word = column / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (column % 64);
    }

    pub(crate) fn contains(&self, column: usize) -> bool {
        self.bits.get(column / 64).is_some_and(|word| word & 1 << (column % 64) != 0)
    }
}

/// A script, or one of its variants.
#[derive(Debug)]
pub(crate) enum Chosen<'t, T> {
    Whole(&'t T),
    Variant(Arc<T>),
}

impl<'t, T> From<&'t T> for Chosen<'t, T> {
    fn from(whole: &'t T) -> Chosen<'t, T> {
        Chosen::Whole(whole)
    }
}

impl<T> Deref for Chosen<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Chosen::Whole(whole) => whole,
            Chosen::Variant(variant) => variant,
        }
    }
}

/// Most variants that are kept of a script. Others are made anew each time.
const VARIANTS_MAX: usize = 256;

/// What was made of a script, by the columns that it assigns.
#[derive(Debug)]
pub(crate) struct Variants<T> {
    made: Mutex<Vec<(ChangedColumns, Arc<T>)>>,
}

impl<T> Default for Variants<T> {
    fn default() -> Variants<T> {
        Variants { made: Mutex::default() }
    }
}

impl<T> Variants<T> {
    /// The variant for `changed`, which `make` makes if there is none yet.
    pub(crate) fn of<E>(
        &self,
        changed: &ChangedColumns,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(of, _)| of == changed) {
            return Ok(known.clone());
        }
        let new = Arc::new(make()?);
        if made.len() < VARIANTS_MAX {
            made.push((changed.clone(), new.clone()));
        }
        Ok(new)
    }
}
