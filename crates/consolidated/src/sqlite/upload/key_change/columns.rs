//! The columns of keys.

use crate::quote::ident;
use model::PublishedTable;

/// The columns of the key, in key order.
pub(super) fn key_names(published: &PublishedTable) -> Vec<&str> {
    published.key.iter().map(|c| published.columns[usize::from(*c)].as_str()).collect()
}

/// `"a" = ?1, "b" = ?2`, from the parameter `first` on.
pub(super) fn numbered(names: &[&str], first: usize, separator: &str) -> String {
    let each = names.iter().enumerate();
    let each = each.map(|(at, name)| format!("{} = ?{}", ident(name), first + at));
    each.collect::<Vec<_>>().join(separator)
}
