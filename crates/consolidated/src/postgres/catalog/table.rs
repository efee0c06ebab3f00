//! A table of a script version, ready to run.

use crate::catalog::table::{CatalogTable, Whole};
use crate::download::own::{Origin, origin};
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::download::own_cursor;
use crate::postgres::optimize::plan_cache;
use crate::postgres::optimize::round_trip_proof::RoundTripProof;
use crate::postgres::statement::Statement;
use crate::postgres::upload::fence::Fence;
use crate::postgres::upload::shortfall::seeker::Seeker;
use crate::script::{Event, Parameter, Script};
use crate::synchronization::change::Change;
use crate::upload::changed_columns::{ChangedColumns, Chosen, Variants};
use crate::upload::uploaded_row::{UploadedRow, event_of};
use model::{Code, Failure};
use std::collections::HashMap;
use std::sync::Arc;

/// One table of a script version, ready to run.
#[derive(Debug)]
pub(in crate::postgres) struct Table {
    pub(in crate::postgres) deployed: Arc<CatalogTable<TableDetails>>,
    statements: HashMap<Event, Statement>,
    /// Updates assign only what a row changes.
    assigns_changes: bool,
    /// The update, by the columns that it assigns.
    updates: Variants<Statement>,
    /// The parameters that decide which rows a remote has.
    pub(in crate::postgres) claims: Vec<Parameter>,
    is_verbatim: bool,
    /// Whether anything has departed since the last download; none where that is not known to
    /// say what the cursor over the departures would.
    pub(in crate::postgres) departed: Option<Statement>,
    /// Finds rows that were not applied; none where that is not sure.
    pub(in crate::postgres) seeker: Option<Seeker>,
    /// Looks rows up as the own cursor returns them; none of a table with a generated one.
    by_key: Option<Statement>,
    /// Finds a row of NULLs in what the own cursor of deleted keys returns.
    pub(in crate::postgres) nulls: Option<Statement>,
    /// Watches the scripts of users; none where there are none, or no partition.
    pub(in crate::postgres) fence: Option<Fence>,
    /// Keeps rows that lost a conflict.
    pub(in crate::postgres) losers: Option<Statement>,
    /// What runs a user's scripts, where this is only a part of a table.
    pub(in crate::postgres) wide: Option<Box<Wide>>,
}

/// The whole table, for rows of a part of it.
#[derive(Debug)]
pub(in crate::postgres) struct Wide {
    pub(in crate::postgres) table: Table,
    fetch: Option<Statement>,
}

impl Wide {
    fn of(whole: &Whole<TableDetails>, part: &CatalogTable<TableDetails>) -> Wide {
        let fetch = whole.table.script(Event::UploadLook);
        let fetch = fetch.map(|it| Statement::of(it, &part.published, &part.details.columns));
        Wide { table: Table::new(whole.table.clone()), fetch }
    }

    /// Finds whole rows by the keys of rows of the part.
    pub(in crate::postgres) fn fetch(&self) -> Result<&Statement, Failure> {
        self.table.deployed.required(Event::UploadLook)?;
        self.fetch.as_ref().ok_or_else(|| Failure::new(Code::Bug, "a script was not rendered"))
    }
}

impl Table {
    pub(in crate::postgres) fn new(deployed: Arc<CatalogTable<TableDetails>>) -> Table {
        let (published, columns) = (&deployed.published, &deployed.details.columns);
        let zone = deployed.details.time_zone.as_deref();
        let mut statements = HashMap::new();
        let mut claims: Vec<Parameter> = Vec::new();
        let scripts = deployed.scripts().iter().filter(|(_, script)| !script.is_ignored());
        for (event, script) in scripts {
            let mut statement = match event.is_upload() {
                true => Statement::of(script, published, columns),
                false => Statement::cursor(script, published, columns, zone),
            };
            // The database decides about the plans of a user's script.
            statement.keeps_plan = event.is_upload() && script.is_own()
                || plan_cache::is_kept(&deployed.details.kept, script);
            statements.insert(*event, statement);
            if event.is_upload() {
                continue;
            }
            for parameter in &script.parameters {
                let parameter = parameter.as_claim();
                if !parameter.is_of_download() && !claims.contains(&parameter) {
                    claims.push(parameter);
                }
            }
        }
        let own = |event| {
            let is_own = origin(deployed.scripts(), event) == Origin::Own;
            statements.get(&event).filter(|_| is_own)
        };
        let by_key =
            own(Event::DownloadCursor).map(|cursor| own_cursor::by_key(cursor, published, columns));
        let deletes = own(Event::DownloadDeleteCursor);
        let nulls = deletes.map(|cursor| own_cursor::nulls(cursor, published));
        let keys = deletes.map(|cursor| own_cursor::keys(cursor, published));
        statements.extend(keys.map(|keys| (Event::DownloadDeleteCursor, keys)));
        let verbatim = deployed.details.verbatim.as_ref();
        let is_verbatim = verbatim.is_some_and(|verbatim| verbatim.is_about(deployed.scripts()));
        let departed = departed(&deployed);
        let seeker = Seeker::of(&deployed);
        let fence = Fence::of(&deployed);
        let assigns_changes = deployed.assigns_changes(Change::Update);
        let losers = deployed.details.losers.as_deref();
        let losers = losers.and_then(|text| of_own(&deployed, text));
        let wide = deployed.whole.as_ref().map(|whole| Box::new(Wide::of(whole, &deployed)));
        Table {
            deployed,
            statements,
            assigns_changes,
            updates: Variants::default(),
            claims,
            is_verbatim,
            departed,
            seeker,
            by_key,
            nulls,
            fence,
            losers,
            wide,
        }
    }

    /// The columns in which the changes of both sides count. A user's script that counts no changes
    /// may have made this one.
    pub(in crate::postgres) fn added(&self, change: Change) -> &[u16] {
        if self.deployed.is_own(change) { &[] } else { &self.deployed.details.added }
    }

    /// What looks owed rows up by their keys, and the event whose script it is (OC1).
    pub(in crate::postgres) fn lookup(&self) -> Result<(Event, &Statement), Failure> {
        match &self.by_key {
            Some(own) => Ok((Event::DownloadCursor, own)),
            None => Ok((Event::UploadLook, self.required(Event::UploadLook)?)),
        }
    }

    /// The statements that read for a download.
    pub(in crate::postgres) fn reads(&self) -> impl Iterator<Item = &Statement> {
        let events = [Event::DownloadCursor, Event::DownloadDeleteCursor, Event::UploadLook];
        events.into_iter().filter_map(|event| self.statement(event))
    }

    /// How it is proven that what was uploaded is what is stored; none where it is not.
    pub(in crate::postgres) fn verbatim(&self) -> Option<&RoundTripProof> {
        self.deployed.details.verbatim.as_ref().filter(|_| self.is_verbatim)
    }

    pub(in crate::postgres) fn statement(&self, event: Event) -> Option<&Statement> {
        self.statements.get(&event)
    }

    /// Notes which columns a row changes, where its statement assigns only these.
    pub(in crate::postgres) fn look_at(&self, row: &UploadedRow<'_>, changed: &mut ChangedColumns) {
        match row.change == Change::Update && self.assigns_changes {
            true => changed.read(row),
            false => changed.clear(),
        }
    }

    /// What applies rows of an upload that were looked at.
    pub(in crate::postgres) fn applying(
        &self,
        change: Change,
        changed: &ChangedColumns,
    ) -> Result<Chosen<'_, Statement>, Failure> {
        let whole = self.required(event_of(change))?;
        if change != Change::Update || !self.assigns_changes {
            return Ok(Chosen::Whole(whole));
        }
        let variant = self.updates.of(changed, || {
            let (published, columns) = (&self.deployed.published, &self.deployed.details.columns);
            let script = self.deployed.update(changed)?;
            let statement = Statement::of(&script, published, columns);
            Ok::<_, Failure>(Statement { keeps_plan: whole.keeps_plan, ..statement })
        });
        variant.map(Chosen::Variant)
    }

    /// The statement of an event that every table of this direction has.
    pub(in crate::postgres) fn required(&self, event: Event) -> Result<&Statement, Failure> {
        self.deployed.required(event)?;
        self.statement(event).ok_or_else(|| Failure::new(Code::Bug, "a script was not rendered"))
    }
}

fn departed(deployed: &CatalogTable<TableDetails>) -> Option<Statement> {
    let probe = deployed.details.departed.as_ref()?;
    of_own(deployed, probe.about(deployed.script(Event::DownloadDeleteCursor)?)?)
}

/// A statement that `deploy` has stored beside the scripts.
fn of_own(deployed: &CatalogTable<TableDetails>, text: &str) -> Option<Statement> {
    let published = &deployed.published;
    let script = Script::parse(text, published).ok()?;
    Some(Statement::of(&script, published, &deployed.details.columns))
}
