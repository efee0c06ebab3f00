//! The scripts around the cursors of a download.
//!
//! All cursors could be sent at once. But where a script runs between two of them, their flight
//! ends.

use crate::download::batches::{Kind, Part};
use crate::download::time::{Time, Times};
use crate::postgres::catalog::Catalog;
use crate::postgres::download::cursor::FOR_SCRIPTS;
use crate::postgres::errors::failed;
use crate::postgres::event_script::Running;
use crate::postgres::link::{Call, Link};
use crate::script::Event;
use crate::script::around::Around;
use crate::synchronization::{Fetched, Session};
use model::Failure;

/// What is still to be run in one download.
pub(in crate::postgres) struct Scripted {
    around: Around,
    /// Of the times of the script version, if it has one.
    zone: Option<String>,
    /// Since when the remote lacks what was stamped, of each table.
    times: Vec<Times>,
    /// Before which cursor a script of a table runs, the next one last.
    places: Vec<(usize, Event, usize)>,
}

impl Scripted {
    /// Those of a session; none where there are no such scripts.
    pub(super) fn of(catalog: &Catalog, session: &Session) -> Option<Scripted> {
        let scripts = catalog.deployed.version_scripts(&session.script_version);
        let around = Around::of_download(&scripts, session)?;
        let (zone, times, places) = (catalog.zone_of(session), Vec::new(), Vec::new());
        Some(Scripted { around, zone, times, places })
    }

    /// The session, with what the scripts have set so far.
    pub(super) fn session(&self) -> &Session {
        &self.around.session
    }

    /// Runs those before all cursors. From here on everything is planned as scripts are.
    pub(super) fn begin(&mut self, link: &mut Link, times: Vec<Times>) -> Result<(), Failure> {
        let calls = FOR_SCRIPTS.map(|sql| Call::new(sql, &[]));
        link.flight(&calls).map_err(failed("prepare for the scripts of a download"))?;
        self.times = times;
        let Scripted { around, zone, times, .. } = self;
        around.begin_download(&mut Running { link, zone: zone.as_deref() }, times)
    }

    /// Whether scripts run between the cursors of a table: that of deleted keys comes first then.
    pub(super) fn surrounds(&self, position: usize) -> bool {
        self.around.surrounds(position)
    }

    /// Finds the places of the scripts between the cursors of tables, of which these are sent.
    pub(super) fn place(&mut self, parts: &[Part], sent: impl Iterator<Item = usize>) {
        let mut places = Vec::new();
        for position in sent.filter(|position| self.surrounds(*position)) {
            let before = parts.iter().take_while(|part| part.position < position).count();
            let of_table = || parts[before..].iter().take_while(|it| it.position == position);
            let deletes = of_table().take_while(|part| part.kind == Kind::DeletedKeys).count();
            places.extend([
                (before, Event::BeginDownloadDeletes, position),
                (before + deletes, Event::EndDownloadDeletes, position),
                (before + deletes, Event::BeginDownloadRows, position),
                (before + of_table().count(), Event::EndDownloadRows, position),
            ]);
        }
        places.reverse();
        self.places = places;
    }

    /// Whether a script runs before the cursor at `at`.
    pub(super) fn stops_at(&self, at: usize) -> bool {
        self.places.iter().any(|(place, ..)| *place == at)
    }

    /// Runs the scripts before the cursor at `at`, once.
    pub(super) fn run(&mut self, link: &mut Link, at: usize) -> Result<(), Failure> {
        let Scripted { around, zone, times, places } = self;
        while let Some((_, event, position)) = places.pop_if(|(place, ..)| *place <= at) {
            let mut running = Running { link, zone: zone.as_deref() };
            around.around_cursor(&mut running, (event, position), times)?;
        }
        Ok(())
    }

    /// Runs those behind all cursors.
    pub(super) fn end(
        self,
        link: &mut Link,
        next: Option<Time>,
        fetched: &mut Fetched,
    ) -> Result<(), Failure> {
        let Scripted { mut around, zone, times, .. } = self;
        let mut running = Running { link, zone: zone.as_deref() };
        around.end_download(&mut running, (&times, next), &fetched.sent)?;
        fetched.by_scripts = around.session.by_scripts;
        Ok(())
    }
}
