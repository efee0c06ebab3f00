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
//! Without the feature `world` there is little more than [`postgres`], and nothing that needs
//! SQLite or TLS.
//!
//! Everything here panics on failure, because that is how a test fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg_attr(
    not(feature = "world"),
    allow(dead_code, unused_imports, reason = "what the world alone calls")
)]

#[cfg(feature = "world")]
mod authority;
mod beside;
mod browser;
mod chance;
#[cfg(feature = "world")]
mod directory;
#[cfg(feature = "world")]
mod dump;
mod foreign;
mod network;
#[cfg(feature = "world")]
mod on_the_way;
#[cfg(feature = "world")]
mod peer;
pub mod postgres;
mod program;
#[cfg(feature = "world")]
mod proxy;
mod server;
mod shop;
#[cfg(feature = "world")]
mod visits;
mod wait;
#[cfg(feature = "world")]
mod world;

#[cfg(feature = "world")]
pub use authority::{Authority, ends_in_year};
pub use browser::{BROWSER_PICTURE_SIZE, Browser};
pub use chance::{Chance, full};
#[cfg(feature = "world")]
pub use directory::Directory;
#[cfg(feature = "world")]
pub use dump::{
    Center, Share, count, differences, differences_in, query, sql, sql_past_triggers, tables,
};
pub use foreign::ForeignTool;
pub use network::Network;
#[cfg(feature = "world")]
pub use on_the_way::{Balancer, ForwardProxy, Handing, Hoarder, Nginx, Road, Rules};
#[cfg(feature = "world")]
pub use peer::{Peer, hello};
pub use program::{Outcome, Syncline, finish};
#[cfg(feature = "world")]
pub use proxy::{Fault, Proxy, Side, Verdict};
pub use server::{Server, peak_memory_bytes};
pub use shop::{Dialect, Shop};
#[cfg(feature = "world")]
pub use visits::{VISITS, regions, visits};
pub use wait::{WAIT_MAX, time_of, until};
#[cfg(feature = "world")]
pub use world::World;
