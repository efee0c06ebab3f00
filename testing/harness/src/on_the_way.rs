//! What stands between remotes and their server: real proxies, and what no program does on request.

mod balancer;
mod forward_proxy;
mod hoarder;
mod nginx;
mod road;

pub use balancer::{Balancer, Handing};
pub use forward_proxy::ForwardProxy;
pub use hoarder::Hoarder;
pub use nginx::Nginx;
pub use road::{Road, Rules};
