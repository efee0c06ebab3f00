//! Which paths a piece of Rust names, written out in full.
//!
//! `use std::time::Instant;` and `Instant::now()` together mention `std::time::Instant::now`.
//! Names are resolved by the imports of the file alone: crude, and enough for rules about
//! architecture, which only have to be hard to break by accident.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashMap;
use syn::visit::{self, Visit};

/// One path, and the line that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The path in full, `::` between its parts.
    pub(crate) path: String,
    /// The line, counted from one.
    pub(crate) line: usize,
}

impl Mention {
    /// Whether the path is this one or lies below it.
    pub(crate) fn is_within(&self, path: &str) -> bool {
        self.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }
}

/// What a file imports: the short name, and the path in full.
pub(crate) type Imports = HashMap<String, String>;

/// Everything a file mentions outside its tests, and its imports.
pub(crate) fn of_file(file: &syn::File) -> (Vec<Mention>, Imports) {
    let mut collector = Collector::default();
    collector.visit_file(file);
    let imports = collector.imports;
    (expand(collector.mentions, &imports), imports)
}

/// Everything a signature mentions.
pub(crate) fn of_signature(signature: &syn::Signature, imports: &Imports) -> Vec<Mention> {
    let mut collector = Collector::default();
    collector.visit_signature(signature);
    expand(collector.mentions, imports)
}

/// Everything a type mentions.
pub(crate) fn of_type(written: &syn::Type, imports: &Imports) -> Vec<Mention> {
    let mut collector = Collector::default();
    collector.visit_type(written);
    expand(collector.mentions, imports)
}

/// Everything a `use` mentions.
pub(crate) fn of_use(item: &syn::ItemUse) -> Vec<Mention> {
    let mut collector = Collector::default();
    collector.visit_item_use(item);
    collector.mentions
}

/// Whether these attributes say that something exists only in tests.
pub(crate) fn only_in_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.segments.last().is_some_and(|it| it.ident == "test"),
        syn::Meta::List(list) => {
            let tokens = list.tokens.to_string();
            let is_test = tokens == "test" || tokens.starts_with("all (test");
            list.path.is_ident("cfg") && is_test
        }
        syn::Meta::NameValue(_) => false,
    })
}

fn expand(mentions: Vec<Mention>, imports: &Imports) -> Vec<Mention> {
    let in_full = |mention: Mention| {
        let (first, rest) = mention.path.split_once("::").unwrap_or((&mention.path, ""));
        let path = match (imports.get(first), rest) {
            (None, _) => return mention,
            (Some(full), "") => full.clone(),
            (Some(full), rest) => format!("{full}::{rest}"),
        };
        Mention { path, line: mention.line }
    };
    mentions.into_iter().map(in_full).collect()
}

#[derive(Default)]
struct Collector {
    mentions: Vec<Mention>,
    imports: Imports,
}

impl Collector {
    fn walk_use(&mut self, tree: &syn::UseTree, prefix: &str) {
        let below = |name: &str| match prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}::{name}"),
        };
        match tree {
            syn::UseTree::Path(path) => {
                self.walk_use(&path.tree, &below(&path.ident.to_string()));
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.walk_use(tree, prefix);
                }
            }
            syn::UseTree::Glob(glob) => {
                self.mention(below("*"), glob.star_token.spans[0].start().line);
            }
            syn::UseTree::Name(name) => self.import(&name.ident, &name.ident, prefix),
            syn::UseTree::Rename(rename) => self.import(&rename.ident, &rename.rename, prefix),
        }
    }

    fn import(&mut self, name: &syn::Ident, short: &syn::Ident, prefix: &str) {
        let full = match (prefix, name.to_string().as_str()) {
            (prefix, "self") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}::{name}"),
        };
        let short = match short.to_string().as_str() {
            "self" => full.rsplit("::").next().unwrap_or_default().to_owned(),
            short => short.to_owned(),
        };
        self.mention(full.clone(), name.span().start().line);
        self.imports.insert(short, full);
    }

    fn mention(&mut self, path: String, line: usize) {
        self.mentions.push(Mention { path, line });
    }

    /// The paths in the arguments of a macro, which are not parsed.
    fn walk_tokens(&mut self, tokens: TokenStream) {
        let mut path = String::new();
        let mut line = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if !path.ends_with("::") {
                        self.finish(&mut path, line);
                        line = ident.span().start().line;
                    }
                    path.push_str(&ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    path.push(':');
                }
                TokenTree::Group(group) => {
                    self.finish(&mut path, line);
                    self.walk_tokens(group.stream());
                }
                _ => self.finish(&mut path, line),
            }
        }
        self.finish(&mut path, line);
    }

    fn finish(&mut self, path: &mut String, line: usize) {
        let finished = std::mem::take(path);
        let finished = finished.trim_end_matches(':');
        if !finished.is_empty() {
            self.mention(finished.to_owned(), line);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !only_in_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !only_in_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !only_in_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !only_in_tests(&item.attrs) {
            self.walk_use(&item.tree, "");
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.mention(parts.join("::"), first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_path(self, &item.path);
        self.walk_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let (mentions, _) = of_file(&syn::parse_file(text).unwrap());
        mentions.into_iter().map(|mention| mention.path).collect()
    }

    #[test]
    fn imported_names_are_written_out() {
        let text = "use std::{net::{self, TcpStream as Stream}, time::Instant};\n\
                    fn f() { Instant::now(); net::UdpSocket::bind(a); let s: Stream; }";
        let paths = paths(text);
        for path in ["std::time::Instant::now", "std::net::UdpSocket::bind", "std::net::TcpStream"]
        {
            assert!(paths.iter().any(|it| it == path), "{path} in {paths:?}");
        }
    }

    #[test]
    fn arguments_of_macros_are_seen() {
        let paths =
            paths("use tokio::net;\nfn f() { select! { a = g(net::lookup_host(b)) => {} } }");
        assert!(paths.contains(&"tokio::net::lookup_host".to_owned()), "{paths:?}");
    }

    #[test]
    fn tests_are_not_seen() {
        let text = "#[cfg(test)] mod tests { use std::net::TcpStream; }\n\
                    #[cfg(all(test, unix))] use std::fs;\n#[test] fn f() { std::fs::read(a); }";
        assert_eq!(paths(text), Vec::<String>::new());
    }
}
