//! A row goes from one key to another.

use model::ValueRef;

/// A row goes from one key to another.
pub(in crate::apply) struct Shift<'a, 'b> {
    pub(in crate::apply) old: &'b [ValueRef<'a>],
    pub(in crate::apply) new: &'b [ValueRef<'a>],
    /// Where it goes in the end.
    pub(in crate::apply) last: &'b [ValueRef<'a>],
    /// The old key is a spare one: the row has been sent under another before.
    pub(in crate::apply) from_spare: bool,
}

impl<'a> Shift<'a, '_> {
    /// The parameters of all statements: the old key, the new one and the last.
    pub(in crate::apply) fn values(&self) -> Vec<ValueRef<'a>> {
        self.old.iter().chain(self.new).chain(self.last).copied().collect()
    }
}
