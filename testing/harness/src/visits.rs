//! Visits by region, each remote with those of the regions that its user has as a claim.

use crate::World;
use crate::dump::query;
use std::fs;
use std::path::Path;

/// Three of them, in three regions.
pub const VISITS: &str = "CREATE TABLE visit (id INTEGER PRIMARY KEY, region TEXT, note TEXT);
    CREATE INDEX visit_region ON visit (region);
    INSERT INTO visit VALUES (1, 'north', ''), (2, 'south', ''), (3, 'west', '')";

/// A deployed world of visits.
///
/// # Panics
/// When it cannot be made.
pub fn visits(executable: impl AsRef<Path>, postgres: bool) -> World {
    let world = match postgres {
        true => World::on_postgres(executable, VISITS),
        false => World::new(executable, VISITS),
    };
    let model = "script_version = \"v1\"\n[table.visit]\npartition = \"region IN {u.regions}\"\n";
    fs::write(world.path("model.toml"), model).unwrap();
    world.syncline.ok(&["deploy"]);
    world
}

/// The regions of the visits that a remote has, in order.
#[must_use]
pub fn regions(world: &World, remote: &str) -> Vec<String> {
    let rows = query(&world.remote(remote), "SELECT region FROM visit ORDER BY region");
    rows.into_iter().flatten().map(|text| text.trim_matches('\'').to_owned()).collect()
}
