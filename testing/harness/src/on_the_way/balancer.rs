//! A real HAProxy in front of a server.

use crate::beside::Beside;
use crate::postgres::settings::free_port;
use crate::server::Server;
use crate::wait::until;
use std::fs;
use std::net::TcpStream;
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// How it hands a connection on.
#[derive(Debug, Clone, Copy)]
pub enum Handing {
    /// Its bytes, behind a PROXY header of version 1.
    Version1,
    /// Its bytes, behind a PROXY header of version 2.
    Version2,
    /// Its requests of HTTP, with `X-Forwarded-For`.
    Requests,
    /// The same over HTTP/2, many requests over one connection.
    RequestsOverHttp2,
}

/// A balancer. Dropping it ends it.
#[derive(Debug)]
pub struct Balancer {
    _beside: Beside,
    /// Of the server, by way of the balancer.
    pub url: String,
    _folder: TempDir,
}

impl Balancer {
    /// The address from which its connections come to the server.
    pub const ADDRESS: &str = "127.0.0.2";

    /// Starts one in front of the first listener of this server.
    pub fn start(server: &Server, handing: Handing) -> Balancer {
        let (scheme, rest) = server.url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        for _ in 0..STARTS_MAX {
            let folder = tempfile::Builder::new().prefix("balancer-").tempdir().unwrap();
            let port = free_port();
            let config = folder.path().join("haproxy.cfg");
            fs::write(&config, configuration(handing, authority, port)).unwrap();
            let command = ["haproxy", "-db", "-f", config.to_str().unwrap()];
            let mut beside = Beside::start(&command, |_| {});
            let mut runs = true;
            until("haproxy to listen", || {
                runs = beside.runs();
                !runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if runs {
                let url = format!("{scheme}://127.0.0.1:{port}{path}");
                return Balancer { _beside: beside, url, _folder: folder };
            }
        }
        panic!("haproxy does not start; is it installed?");
    }
}

fn configuration(handing: Handing, authority: &str, port: u16) -> String {
    let (mode, header) = match handing {
        Handing::Version1 => ("tcp", "send-proxy"),
        Handing::Version2 => ("tcp", "send-proxy-v2"),
        Handing::Requests => ("http\n    option forwardfor", ""),
        Handing::RequestsOverHttp2 => ("http\n    option forwardfor", "proto h2"),
    };
    let address = Balancer::ADDRESS;
    format!(
        "defaults
    mode {mode}
    timeout connect 10s
    timeout client 60s
    timeout server 60s
    timeout tunnel 60s
frontend remotes
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    source {address}
    server one {authority} {header}
"
    )
}
