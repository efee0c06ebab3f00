//! A published table of the remote, with the SQL that names its parts.

use super::spelled::{Collecting, Writing};
use super::stored_table::StoredTable;
use super::{Affinity, LocalTable};
use crate::sql::{all, ident, list};
use model::{Code, Failure, PublishedTable};

/// Columns that may be large, at most; beyond it they are captured like any other.
const LARGE_COLUMNS_MAX: usize = 62;

/// A column of the key.
#[derive(Debug, Clone)]
pub(crate) struct KeyColumn {
    /// Its position among the published columns.
    pub(crate) position: usize,
    pub(crate) name: String,
    pub(crate) affinity: Affinity,
    /// How the key compares; none where only integers can be in it.
    pub(crate) collation: Option<String>,
    pub(crate) nullable: bool,
}

/// A column of a UNIQUE index, with the collation under which the index compares it.
#[derive(Debug, Clone)]
pub(crate) struct UniqueColumn {
    pub(crate) name: String,
    pub(crate) collation: String,
    pub(crate) affinity: Affinity,
    pub(crate) nullable: bool,
    /// Computed from other columns, so it changes without being named.
    pub(crate) generated: bool,
    /// It may be set by an upsert: published, not generated, not in the key.
    pub(crate) settable: bool,
}

/// The published columns whose values may be large: they are captured only where they change.
pub(crate) fn large_columns(published: &PublishedTable, local: &LocalTable) -> Vec<String> {
    let in_key = |name: &str| {
        published.key.iter().any(|&key| {
            published.columns.get(usize::from(key)).is_some_and(|column| column == name)
        })
    };
    let is_large =
        |name: &&String| !in_key(name) && local.column(name).is_some_and(|column| column.large);
    published.columns.iter().filter(is_large).take(LARGE_COLUMNS_MAX).cloned().collect()
}

/// One published table.
#[derive(Debug, Clone)]
pub(crate) struct RemoteTable {
    pub(crate) position: u16,
    pub(crate) published: PublishedTable,
    pub(crate) key: Vec<KeyColumn>,
    pub(crate) unique: Vec<Vec<UniqueColumn>>,
    /// Per published column: its bit in `captured` when it may be large.
    pub(crate) large: Vec<Option<u32>>,
    pub(crate) key_is_rowid: bool,
    pub(crate) autoincrement: bool,
    /// A foreign key of any table of the file begins or ends here; or this is not known yet.
    pub(crate) in_foreign_keys: bool,
    /// A foreign key of the file refers to columns of this table that are not its whole key.
    pub(crate) referred_by_value: bool,
    /// Statements that collect an upload.
    pub(crate) collecting: Collecting,
    /// Statements that apply a download.
    pub(crate) writing: Writing,
}

impl RemoteTable {
    /// Fits what is published to what lies in the file.
    pub(crate) fn new(
        position: usize,
        stored: StoredTable,
        local: &LocalTable,
    ) -> Result<RemoteTable, Failure> {
        let published = stored.published;
        let differs = |message: String| {
            Failure::new(Code::RemoteSchemaDiffers, message).table(&published.name)
        };
        if let Some(name) = published.columns.iter().find(|name| local.column(name).is_none()) {
            return Err(differs(format!("table {} has no column {name}", published.name)));
        }
        let bit = |name: &String| stored.large.iter().position(|large| large == name);
        let large = published.columns.iter().map(|name| bit(name).map(|bit| bit as u32)).collect();
        let key = key_columns(&published, local).ok_or_else(|| {
            let names = |keys: Vec<&str>| match keys.is_empty() {
                true => "none".to_owned(),
                false => keys.join(", "),
            };
            let wanted = published.key.iter().filter_map(|&at| published.columns.get(at as usize));
            differs(format!(
                "table {} has another primary key than is published: {} here, {} there",
                published.name,
                names(local.key.iter().map(|key| key.name.as_str()).collect()),
                names(wanted.map(String::as_str).collect()),
            ))
            .hint("give your table this primary key, or rename it and synchronize again")
        })?;
        let unique = unique_columns(&published, local);
        Ok(RemoteTable {
            position: position as u16,
            key,
            unique,
            large,
            key_is_rowid: local.key_is_rowid,
            autoincrement: local.autoincrement,
            in_foreign_keys: true,
            referred_by_value: false,
            collecting: Collecting::default(),
            writing: Writing::default(),
            published,
        })
    }

    pub(crate) fn width(&self) -> usize {
        self.published.width()
    }

    /// The value of a published column before the change `entry` of the row `live`. A large one
    /// that the change did not set is not in the entry.
    pub(crate) fn before_sql(&self, column: usize, entry: &str, live: &str) -> String {
        let name = &self.published.columns[column];
        let old = Image::Old.column(name);
        match self.large[column] {
            None => format!("{entry}{old}"),
            Some(bit) => format!(
                "CASE WHEN {entry}\"captured\" & {} THEN {entry}{old} ELSE {live}{} END",
                1u64 << bit,
                ident(name)
            ),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.published.name
    }

    /// Whether it receives rows of the center.
    pub(crate) fn downloads(&self) -> bool {
        self.published.direction.downloads()
    }

    /// Whether its changes are uploaded.
    pub(crate) fn uploads(&self) -> bool {
        self.published.direction.uploads()
    }

    /// The table's name in SQL.
    pub(crate) fn table_sql(&self) -> String {
        ident(self.name())
    }

    /// Its change table's name in SQL.
    pub(crate) fn change_sql(&self) -> String {
        ident(&format!("syncline_change_{}", self.name()))
    }

    /// Its incoming table's name in SQL.
    pub(crate) fn incoming_sql(&self) -> String {
        ident(&format!("syncline_incoming_{}", self.name()))
    }

    /// The name in SQL of the table with its rows that are set aside.
    pub(crate) fn orphans_sql(&self) -> String {
        ident(&format!("syncline_orphan_{}", self.name()))
    }

    /// `prefix` before each published column, for example `t.` or `NEW.`.
    pub(crate) fn columns_sql(&self, prefix: &str) -> String {
        list(self.published.columns.iter().map(|name| format!("{prefix}{}", ident(name))))
    }

    /// The images of the published columns in the change or incoming table.
    pub(crate) fn images_sql(&self, prefix: &str, image: Image) -> String {
        list(self.published.columns.iter().map(|name| format!("{prefix}{}", image.column(name))))
    }

    /// The key's columns in the user's table.
    pub(crate) fn keys_sql(&self, prefix: &str) -> String {
        list(self.key.iter().map(|key| format!("{prefix}{}", ident(&key.name))))
    }

    /// The key's columns in our tables.
    pub(crate) fn our_keys_sql(&self, prefix: &str) -> String {
        list(self.key.iter().map(|key| format!("{prefix}{}", key.ours())))
    }

    /// The key's columns in our tables as they are declared: with the same affinity and
    /// collation as the user's, so that both hold the same keys to be equal.
    pub(crate) fn our_keys_declared(&self) -> String {
        list(self.key.iter().map(|key| {
            let collation = key.collation.as_deref().unwrap_or("BINARY");
            format!("{} {} COLLATE {}", key.ours(), key.affinity.type_name(), ident(collation))
        }))
    }

    /// The user's row at `live` and ours at `entry` have the same key.
    pub(crate) fn same_key(&self, live: &str, entry: &str) -> String {
        all(self.key.iter().map(|key| {
            format!("{live}{} = {entry}{}{}", ident(&key.name), key.ours(), key.collate())
        }))
    }

    /// Our row has the key of the user's row at `live`, as a trigger sees it.
    pub(crate) fn our_key_is_of(&self, live: &str) -> String {
        all(self.key.iter().map(|key| format!("{} = {live}{}", key.ours(), ident(&key.name))))
    }

    /// Two of our rows have the same key.
    pub(crate) fn same_our_key(&self, left: &str, right: &str) -> String {
        all(self.key.iter().map(|key| format!("{left}{0} = {right}{0}", key.ours())))
    }

    /// The user's row at `live` has the key of parameters from `first` on.
    pub(crate) fn key_is_parameter(&self, live: &str, first: usize) -> String {
        all(self.key.iter().enumerate().map(|(n, key)| {
            format!("{live}{} = ?{}{}", ident(&key.name), first + n, key.collate())
        }))
    }

    /// Our row has the key of parameters from `first` on.
    pub(crate) fn our_key_is_parameter(&self, first: usize) -> String {
        all(self.key.iter().enumerate().map(|(n, key)| format!("{} = ?{}", key.ours(), first + n)))
    }

    /// Every bit of `captured`; zero for a table without large columns.
    pub(crate) fn large_bits(&self) -> i64 {
        self.large.iter().flatten().fold(0, |bits, bit| bits | 1 << bit)
    }

    /// The key in a message, from its values in key order.
    pub(crate) fn key_text<'a>(&self, values: impl Iterator<Item = model::ValueRef<'a>>) -> String {
        let names = self.key.iter().map(|key| key.name.as_str());
        list(names.zip(values).map(|(name, value)| format!("{name} = {}", value.display())))
    }
}

/// Which image of a row a column of Syncline holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Image {
    /// As it was before the change, in the change table.
    Old,
    /// As it was downloaded, in the incoming table.
    Incoming,
}

impl Image {
    /// The column of Syncline for the user's column `name`.
    pub(crate) fn column(self, name: &str) -> String {
        match self {
            Image::Old => ident(&format!("old_{name}")),
            Image::Incoming => ident(&format!("new_{name}")),
        }
    }
}

impl KeyColumn {
    /// The column in our tables.
    pub(crate) fn ours(&self) -> String {
        ident(&format!("key_{}", self.name))
    }

    /// Values that are equal here are spelled in one way, so that equal keys are the same.
    pub(crate) fn is_exact(&self) -> bool {
        let binary = self.collation.as_deref().is_none_or(|it| it.eq_ignore_ascii_case("BINARY"));
        binary && self.affinity != Affinity::Blob
    }

    /// The collation of a comparison, spelled out: the index of a key may have another one than
    /// its column.
    pub(crate) fn collate(&self) -> String {
        match &self.collation {
            Some(collation) => format!(" COLLATE {}", ident(collation)),
            None => String::new(),
        }
    }
}

fn key_columns(published: &PublishedTable, local: &LocalTable) -> Option<Vec<KeyColumn>> {
    if published.key.is_empty() || published.key.len() != local.key.len() {
        return None;
    }
    published
        .key
        .iter()
        .map(|&position| {
            let name = published.columns.get(usize::from(position))?;
            let index = local.key.iter().find(|key| key.name.eq_ignore_ascii_case(name))?;
            let column = local.column(name)?;
            Some(KeyColumn {
                position: usize::from(position),
                name: name.clone(),
                affinity: column.affinity,
                collation: (!local.key_is_rowid).then(|| index.collation.clone()),
                nullable: column.nullable && !local.key_is_rowid,
            })
        })
        .collect()
}

fn unique_columns(published: &PublishedTable, local: &LocalTable) -> Vec<Vec<UniqueColumn>> {
    let position =
        |name: &str| published.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let columns = |index: &Vec<super::local_table::IndexColumn>| {
        index
            .iter()
            .filter_map(|in_index| {
                let column = local.column(&in_index.name)?;
                let position = position(&in_index.name);
                Some(UniqueColumn {
                    name: column.name.clone(),
                    collation: in_index.collation.clone(),
                    affinity: column.affinity,
                    nullable: column.nullable,
                    generated: column.generated,
                    settable: !column.generated
                        && position.is_some_and(|at| !published.key.contains(&(at as u16))),
                })
            })
            .collect()
    };
    local.unique.iter().map(columns).collect()
}
