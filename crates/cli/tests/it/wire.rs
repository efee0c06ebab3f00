//! Connections: every road between a remote and a server, and whoever disturbs it.

mod bad_input;
mod balancer;
mod client_certificates;
mod compression;
mod conversation;
mod encrypted;
mod http;
mod http2;
mod large_values;
mod open_wire;
mod oversize;
mod patience;
mod ping;
mod proxies;
mod python_client;
mod schemes;
mod tls_sessions;
mod version;
