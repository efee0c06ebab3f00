//! The tables that remotes may hold, and what uploads under them are applied to.

use super::table::{CatalogTable, Whole};
use crate::script::{Event, Script};
use crate::sql::{json, unreadable};
use crate::upload::changed_columns::Variants;
use model::{Failure, PublishedTable};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A row of the shapes: what remotes hold, table number, numbers of the columns, and since which
/// deployment it is not published any more.
pub(crate) type ShapeRow = (String, String, String, Option<String>);

/// How uploads under an older shape are applied: script version, fingerprint, table, conflict
/// rule, details, projection, scripts.
pub(crate) type HeldRow = (String, String, String, String, String, String, String);

/// A shape as a server needs it.
#[derive(Debug)]
pub(super) struct KnownShape {
    pub(super) published: PublishedTable,
    pub(super) table: String,
    pub(super) columns: Vec<i64>,
}

/// What uploads under an older shape are applied to.
#[derive(Debug)]
pub(super) struct HeldTable<D> {
    pub(super) projection: Vec<Option<u16>>,
    pub(super) table: Arc<CatalogTable<D>>,
}

pub(super) type Shapes = HashMap<String, KnownShape>;

/// Makes sense of the shapes, and says whether any is not published any more.
pub(super) fn shapes(rows: Vec<ShapeRow>) -> Result<(Shapes, bool), Failure> {
    let mut shapes = Shapes::new();
    let mut older = false;
    for (published, table, columns, superseded) in rows {
        let published: PublishedTable = json(&published)?;
        older |= superseded.is_some();
        let fingerprint = published.fingerprint.clone();
        shapes.insert(fingerprint, KnownShape { published, table, columns: json(&columns)? });
    }
    Ok((shapes, older))
}

/// The held tables of one script version, by fingerprint. `today`: the present ones of it.
pub(super) fn tables<D: DeserializeOwned>(
    rows: &[HeldRow],
    version: &str,
    today: &[Arc<CatalogTable<D>>],
) -> Result<HashMap<String, HeldTable<D>>, Failure> {
    let mut tables = HashMap::new();
    for (_, fingerprint, published, rule, details, projection, scripts) in
        rows.iter().filter(|row| row.0 == version)
    {
        let published: PublishedTable = json(published)?;
        let texts: BTreeMap<String, String> = json(scripts)?;
        let mut scripts = BTreeMap::new();
        for (event, text) in texts {
            let event = Event::from_name(&event).ok_or_else(unreadable)?;
            scripts.insert(event, Script::parse(&text, &published)?);
        }
        let (conflict_rule, details) = (rule.clone(), json(details)?);
        let outward = published.clone();
        let mut now = today.iter().filter(|table| table.published.name == published.name);
        let whole = now.find(|table| table.has_own_uploads());
        let whole = whole.map(|table| Whole::of(table, &published));
        let (updates, detection) = (Variants::default(), None);
        let table = Arc::new(CatalogTable {
            published,
            outward,
            conflict_rule,
            details,
            scripts,
            detection,
            resolving: Vec::new(),
            whole,
            updates,
        });
        tables.insert(fingerprint.clone(), HeldTable { projection: json(projection)?, table });
    }
    Ok(tables)
}
