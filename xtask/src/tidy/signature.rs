//! No type of a database driver is in a public signature (A4).
//!
//! What is `pub` is taken for reachable: the lint `unreachable_pub` makes that true.

use super::mention::{self, Imports, Mention};
use crate::checkout::SourceFile;
use crate::problem::Problem;
use syn::visit::{self, Visit};

const DRIVERS: &[&str] = &["rusqlite", "libsqlite3_sys"];

/// Finds drivers in public functions, fields, aliases, constants and re-exports.
pub(crate) fn check(file: &SourceFile, syntax: &syn::File) -> Vec<Problem> {
    if file.product_crate().is_none() {
        return Vec::new();
    }
    let (_, imports) = mention::of_file(syntax);
    let mut finder = Finder { imports, found: Vec::new() };
    finder.visit_file(syntax);
    let driver = |mention: &Mention| DRIVERS.iter().any(|driver| mention.is_within(driver));
    finder
        .found
        .into_iter()
        .filter(driver)
        .map(|Mention { path, line }| {
            Problem::at(&file.path, line, format!("`{path}` in a public signature (A4)"))
        })
        .collect()
}

struct Finder {
    imports: Imports,
    found: Vec<Mention>,
}

impl Finder {
    fn signature(&mut self, signature: &syn::Signature) {
        self.found.extend(mention::of_signature(signature, &self.imports));
    }

    fn written(&mut self, written: &syn::Type) {
        self.found.extend(mention::of_type(written, &self.imports));
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !mention::only_in_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_public(&item.vis) {
            self.signature(&item.sig);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_public(&item.vis) {
            self.signature(&item.sig);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if !is_public(&item.vis) {
            return;
        }
        for member in &item.items {
            if let syn::TraitItem::Fn(function) = member {
                self.signature(&function.sig);
            }
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) {
            for field in item.variants.iter().flat_map(|variant| &variant.fields) {
                self.written(&field.ty);
            }
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if is_public(&field.vis) {
            self.written(&field.ty);
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if is_public(&item.vis) {
            self.written(&item.ty);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if is_public(&item.vis) {
            self.written(&item.ty);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_public(&item.vis) {
            self.found.extend(mention::of_use(item));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn count(text: &str) -> usize {
        let file = sample("crates/consolidated/src/sqlite.rs", text);
        check(&file, &syn::parse_file(text).unwrap()).len()
    }

    #[test]
    fn drivers_in_public_are_found() {
        assert_eq!(count("pub fn f(c: &rusqlite::Connection) {}"), 1);
        assert_eq!(count("use rusqlite::Row;\npub trait T { fn f(row: &Row<'_>); }"), 1);
        assert_eq!(count("use rusqlite as sql;\npub struct A { pub c: Option<sql::Error> }"), 1);
        assert_eq!(count("pub enum A { B(rusqlite::Error) }"), 1);
        assert_eq!(count("pub use rusqlite::Connection;"), 1);
    }

    #[test]
    fn drivers_behind_the_wall_are_left_alone() {
        assert_eq!(count("pub(crate) fn f(c: &rusqlite::Connection) {}"), 0);
        assert_eq!(count("pub struct A { c: rusqlite::Connection }"), 0);
        assert_eq!(count("pub fn f() { let c: rusqlite::Connection = g(); }"), 0);
    }
}
