//! What the integration tests share: real programs, started, killed and compared.
//!
//! A [`World`] is a consolidated database with a server's folder and any number of remotes, all
//! in one temporary folder. A test writes to the databases with plain SQLite, runs `syncline`
//! as a user would, and asks the oracle ([`differences`]) whether everybody agrees.
//!
//! ```no_run
//! let world = harness::World::new("/path/to/syncline", "CREATE TABLE t (id INTEGER PRIMARY KEY)");
//! world.add_user("ann");
//! let server = world.serve();
//! world.sync("ann", &server);
//! harness::sql(&world.remote("ann"), "INSERT INTO t VALUES (1)");
//! world.sync("ann", &server);
//! world.assert_converged(&["ann"]);
//! ```
//!
//! Everything here panics on failure, because that is how a test fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod beside;
mod browser;
mod chance;
mod directory;
mod dump;
mod foreign;
mod network;
mod on_the_way;
mod peer;
pub mod postgres;
mod program;
mod proxy;
mod server;
mod shop;
mod visits;
mod wait;
mod world;

pub use authority::{Authority, ends_in_year};
pub use browser::{BROWSER_PICTURE_SIZE, Browser};
pub use chance::{Chance, full};
pub use directory::Directory;
pub use dump::{
    Center, Share, count, differences, differences_in, query, sql, sql_past_triggers, tables,
};
pub use foreign::ForeignTool;
pub use network::Network;
pub use on_the_way::{Balancer, ForwardProxy, Handing, Hoarder, Nginx, Road, Rules};
pub use peer::{Peer, hello};
pub use program::{Outcome, Syncline, finish};
pub use proxy::{Fault, Proxy, Side, Verdict};
pub use server::{Server, peak_memory_bytes};
pub use shop::{Dialect, Shop};
pub use visits::{VISITS, regions, visits};
pub use wait::{WAIT_MAX, time_of, until};
pub use world::World;
