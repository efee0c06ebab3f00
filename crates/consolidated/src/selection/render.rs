//! A selection as conditions and queries.
//!
//! Rows are found by a UNION of queries that each use an index, and never by an OR, which would
//! make databases read the whole table. Row aliases: `t` is the row in question, `p1`, `p2`, … its
//! ancestors, `m1` a row of a mapping table, `g`, `g1`, … entries of departure logs.

use super::{Dialect, Form, Rows, Selection, Table, place_column, same_key};
use crate::quote::{ident, idents};
use crate::sync_model::ClaimTest;

const ALWAYS: &str = "TRUE";

impl Selection {
    /// The condition that `row` of the table is covered now; none if every row is.
    ///
    /// It may be NULL, which means no.
    pub(crate) fn covered(&self, dialect: &dyn Dialect, row: &str, form: Form) -> Option<String> {
        Some(Render { dialect }.covered(self, row, form, 1)).filter(|sql| sql != ALWAYS)
    }

    /// The query for the keys that a remote may hold and that are not covered any more (I1), in
    /// key order: departed rows, and rows whose place is lost.
    pub(crate) fn deletes(&self, dialect: &dyn Dialect) -> String {
        let render = Render { dialect };
        let table = dialect.table(&self.table);
        let found = self.sought().and_then(|sought| dialect.departures_of(&self.table, sought));
        let looked_up = dialect.looked_up(&self.table, "t");
        let covered = render.covered(self, "t", Form::Probe, 1);
        let here = render.both(&dialect.same_key(&self.table, "t", "g"), &covered);
        let was = match found {
            Some(_) => ALWAYS.to_owned(),
            None => render.was(self, "g", Image::Departed, 1),
        };
        let departed = render.both(&dialect.departed_unknown(&self.table, "g"), &was);
        let log = match found {
            Some(entries) => format!("(\n    {}\n)", nest(&entries)),
            None => dialect.departures(&self.table),
        };
        let mut query = format!(
            "SELECT {key}\nFROM {log} AS g\nWHERE {departed}\n  \
             AND NOT EXISTS (SELECT 1 FROM {looked_up} WHERE {here})",
            key = idents("g.", &self.table.key),
            departed = nest(&departed),
            here = nest(&here),
        );
        if let Some(lost) = render.lost(self, "t", 1) {
            query.push_str(&format!(
                "\nUNION\nSELECT {key}\nFROM {table} AS t\nWHERE {lost}\n  \
                 AND ({covered}) IS NOT TRUE",
                key = idents("t.", &self.table.key),
                lost = nest(&lost),
                covered = nest(&covered),
            ));
        } else {
            query.replace_range(..6, "SELECT DISTINCT");
        }
        query
    }

    /// The condition on an entry `g` of the table's log without which [`Selection::deletes`] finds
    /// nothing; none where it looks at more than the table and its log.
    pub(crate) fn departures(&self, dialect: &dyn Dialect) -> Option<String> {
        let render = Render { dialect };
        matches!(self.rows, Rows::Column { .. }).then(|| {
            render.both(
                &dialect.departed_unknown(&self.table, "g"),
                &render.was(self, "g", Image::Departed, 1),
            )
        })
    }

    /// The condition that the place of `row` may have become covered since the last download
    /// although the row itself is unchanged (I2); none if that cannot be.
    pub(crate) fn entered(&self, dialect: &dyn Dialect, row: &str) -> Option<String> {
        Render { dialect }.entered(self, row, 1)
    }
}

/// Where the place of a row is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    /// In the table.
    Present,
    /// In an entry of the departure log.
    Departed,
}

struct Render<'d> {
    dialect: &'d dyn Dialect,
}

impl Render<'_> {
    fn covered(&self, selection: &Selection, row: &str, form: Form, depth: usize) -> String {
        match &selection.rows {
            Rows::All => ALWAYS.into(),
            Rows::Column { column, test } => {
                self.passes(test, &selection.table, row, column, Image::Present)
            }
            Rows::Mapping { column, mapping, selected, matched, test } => {
                let m = format!("m{depth}");
                let matches = self.passes(test, mapping, &m, matched, Image::Present);
                let from = format!("{} AS {m}", self.dialect.table(mapping));
                let link = [(column.clone(), selected.clone())];
                self.decides(form, &link, row, &m, &from, &matches)
            }
            Rows::Parent { link, parent } => {
                let p = format!("p{depth}");
                let covered = self.covered(parent, &p, form, depth + 1);
                let from = format!("{} AS {p}", self.dialect.table(&parent.table));
                self.decides(form, link, row, &p, &from, &covered)
            }
            // The condition says `t`; if the row has another name here, it is looked up under it.
            Rows::Custom(condition) if row == "t" => format!("({condition})"),
            Rows::Custom(condition) => format!(
                "EXISTS (SELECT 1 FROM {} AS t WHERE {} AND ({condition}))",
                self.dialect.table(&selection.table),
                same_key(&selection.table, "t", row),
            ),
        }
    }

    /// The condition that a row of `from`, which `row` is linked to, meets `condition`.
    fn decides(
        &self,
        form: Form,
        link: &[(String, String)],
        row: &str,
        other: &str,
        from: &str,
        condition: &str,
    ) -> String {
        let (here, there): (Vec<&str>, Vec<&str>) =
            link.iter().map(|(here, there)| (here.as_str(), there.as_str())).unzip();
        match form {
            Form::Probe | Form::Each => {
                let linked = link.iter().map(|(here, there)| {
                    format!("{other}.{} = {row}.{}", ident(there), ident(here))
                });
                let linked = linked.collect::<Vec<_>>().join(" AND ");
                let condition = nest(&self.both(&linked, condition));
                // What has an offset is not made a join.
                let apart = if form == Form::Each { "\n    OFFSET 0" } else { "" };
                format!("EXISTS (\n    SELECT 1 FROM {from}\n    WHERE {condition}{apart})")
            }
            Form::Search => {
                let found = idents(&format!("{other}."), &there);
                let condition = nest(condition);
                let query = format!("SELECT {found} FROM {from}\n    WHERE {condition}");
                format!("{} IN (\n    {query})", tuple(row, &here))
            }
        }
    }

    /// The condition that the place of a row, read from `row`, was covered at the last download or
    /// at some moment since: by what decides now, or by what has departed.
    fn was(&self, selection: &Selection, row: &str, image: Image, depth: usize) -> String {
        let (p, g) = (format!("p{depth}"), format!("g{depth}"));
        let (link, decider, present, departed) = match &selection.rows {
            Rows::All | Rows::Custom(_) => return ALWAYS.into(),
            Rows::Column { column, test } => {
                return self.passes(test, &selection.table, row, column, image);
            }
            Rows::Mapping { column, mapping, selected, matched, test } => (
                vec![(column.clone(), selected.clone())],
                mapping,
                self.passes(test, mapping, &p, matched, Image::Present),
                self.passes(test, mapping, &g, matched, Image::Departed),
            ),
            Rows::Parent { link, parent } => (
                link.clone(),
                &parent.table,
                self.was(parent, &p, Image::Present, depth + 1),
                self.was(parent, &g, Image::Departed, depth + 1),
            ),
        };
        let here: Vec<String> =
            link.iter().map(|(here, _)| column_of(&selection.table, row, here, image)).collect();
        let linked = link.iter().zip(&here);
        let linked = linked.map(|((_, there), here)| format!("{p}.{} = {here}", ident(there)));
        let linked = linked.collect::<Vec<_>>().join(" AND ");
        format!(
            "(EXISTS (\n        SELECT 1 FROM {from} AS {p}\n        WHERE {present})\n    \
             OR {here} IN (\n        {departed}))",
            from = self.dialect.table(decider),
            present = nest(&nest(&self.both(&linked, &present))),
            here = parenthesized(&here),
            departed = nest(&nest(&self.departed(decider, &there(&link), &g, &departed))),
        )
    }

    /// The query for `columns` of what has departed from `table` under `condition`.
    fn departed(&self, table: &Table, columns: &[&str], entry: &str, condition: &str) -> String {
        let log = self.dialect.departures(table);
        let columns = columns.iter().map(|c| column_of(table, entry, c, Image::Departed));
        let condition = self.both(&self.dialect.departed_since(table, entry), condition);
        format!(
            "SELECT {} FROM {log} AS {entry}\nWHERE {}",
            columns.collect::<Vec<_>>().join(", "),
            nest(&condition)
        )
    }

    /// The condition that what decided about the place of `row` may have ceased to do so.
    fn lost(&self, selection: &Selection, row: &str, depth: usize) -> Option<String> {
        let (p, g) = (format!("p{depth}"), format!("g{depth}"));
        let (from, mut query) = match &selection.rows {
            Rows::All | Rows::Column { .. } | Rows::Custom(_) => return None,
            Rows::Mapping { column, mapping, selected, matched, test } => {
                let matched = self.passes(test, mapping, &g, matched, Image::Departed);
                (vec![column.as_str()], self.departed(mapping, &[selected], &g, &matched))
            }
            Rows::Parent { link, parent } => {
                let was = self.was(parent, &g, Image::Departed, depth + 1);
                (here(link), self.departed(&parent.table, &there(link), &g, &was))
            }
        };
        if let Rows::Parent { link, parent } = &selection.rows
            && let Some(lost) = self.lost(parent, &p, depth + 1)
        {
            query.push_str(&format!(
                "\nUNION\nSELECT {} FROM {} AS {p}\nWHERE {}",
                idents(&format!("{p}."), &there(link)),
                self.dialect.table(&parent.table),
                nest(&lost)
            ));
        }
        Some(format!("{} IN (\n    {})", tuple(row, &from), nest(&query)))
    }

    /// See [`Selection::entered`].
    fn entered(&self, selection: &Selection, row: &str, depth: usize) -> Option<String> {
        let (p, g) = (format!("p{depth}"), format!("g{depth}"));
        let (from, query) = match &selection.rows {
            Rows::All | Rows::Column { .. } | Rows::Custom(_) => return None,
            Rows::Mapping { column, mapping, selected, matched, test } => {
                let matches = self.passes(test, mapping, &p, matched, Image::Present);
                let condition = self.both(&self.dialect.changed_since(mapping, &p), &matches);
                let query = format!(
                    "SELECT {p}.{} FROM {} AS {p}\nWHERE {}",
                    ident(selected),
                    self.dialect.table(mapping),
                    nest(&condition)
                );
                (vec![column.as_str()], query)
            }
            Rows::Parent { link, parent } => {
                let key: Vec<&str> = parent.table.key.iter().map(String::as_str).collect();
                let moved = format!(
                    "{} IN (\n    {})",
                    tuple(&p, &key),
                    nest(&self.departed(&parent.table, &key, &g, ALWAYS))
                );
                let covered = self.covered(parent, &p, Form::Probe, depth + 1);
                let parents = |condition: &str| {
                    format!(
                        "SELECT {} FROM {} AS {p}\nWHERE {}",
                        idents(&format!("{p}."), &there(link)),
                        self.dialect.table(&parent.table),
                        nest(&self.both(condition, &covered))
                    )
                };
                let entered = self.entered(parent, &p, depth + 1);
                let entered = entered.map(|entered| format!("\nUNION\n{}", parents(&entered)));
                (here(link), format!("{}{}", parents(&moved), entered.unwrap_or_default()))
            }
        };
        Some(format!("{} IN (\n    {})", tuple(row, &from), nest(&query)))
    }

    fn passes(
        &self,
        test: &ClaimTest,
        table: &Table,
        row: &str,
        column: &str,
        image: Image,
    ) -> String {
        self.dialect.passes(test, &column_of(table, row, column, image), table, column)
    }

    fn both(&self, one: &str, other: &str) -> String {
        match (one, other) {
            (ALWAYS, other) => other.into(),
            (one, ALWAYS) => one.into(),
            (one, other) => format!("{one}\n  AND {other}"),
        }
    }
}

fn here(link: &[(String, String)]) -> Vec<&str> {
    link.iter().map(|(here, _)| here.as_str()).collect()
}

fn there(link: &[(String, String)]) -> Vec<&str> {
    link.iter().map(|(_, there)| there.as_str()).collect()
}

/// `column` of the row, or of an entry in the departure log.
fn column_of(table: &Table, row: &str, column: &str, image: Image) -> String {
    match image {
        Image::Departed if !table.key.iter().any(|key| key == column) => {
            format!("{row}.{}", ident(&place_column(column)))
        }
        Image::Departed | Image::Present => format!("{row}.{}", ident(column)),
    }
}

fn tuple(row: &str, columns: &[&str]) -> String {
    let columns: Vec<String> = columns.iter().map(|c| format!("{row}.{}", ident(c))).collect();
    parenthesized(&columns)
}

fn parenthesized(values: &[String]) -> String {
    match values {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// The text inside something: lines after the first are indented.
fn nest(text: &str) -> String {
    text.replace('\n', "\n    ")
}
