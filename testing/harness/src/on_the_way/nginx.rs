//! A real nginx in front of a server.

use crate::beside::Beside;
use crate::postgres::settings::free_port;
use crate::server::Server;
use crate::wait::until;
use crate::world::World;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// A reverse proxy, which speaks TLS with the remotes and HTTP with the server. Dropping it ends
/// it.
#[derive(Debug)]
pub struct Nginx {
    _beside: Beside,
    port: u16,
    path: String,
    folder: TempDir,
}

impl Nginx {
    /// Starts one with the certificate `server.pem` of this world. Its settings are those that the
    /// distribution installs, with `more` for the paths of the server.
    pub fn start(world: &World, server: &Server, more: &str) -> Nginx {
        let (_, rest) = server.url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        for _ in 0..STARTS_MAX {
            let folder = tempfile::Builder::new().prefix("nginx-").tempdir().unwrap();
            let port = free_port();
            let config = folder.path().join("nginx.conf");
            let text = configuration(folder.path(), world, (authority, path), port, more);
            fs::write(&config, text).unwrap();
            let mut beside = Beside::start(&["nginx", "-c", config.to_str().unwrap()], |_| {});
            let mut runs = true;
            until("nginx to listen", || {
                runs = beside.runs();
                !runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if runs {
                return Nginx { _beside: beside, port, path: path.to_owned(), folder };
            }
        }
        panic!("nginx does not start; is it installed?");
    }

    /// Of the server, by way of the proxy.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Waits for so many requests. Returns the number of the connection of each, from the log.
    pub fn connections(&self, requests: usize) -> Vec<String> {
        let log = self.folder.path().join("access.log");
        let mut seen = Vec::new();
        until("nginx to log the requests", || {
            seen = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
            seen.len() >= requests
        });
        seen
    }

    /// What the guide adds for the paths of the server.
    pub fn guided() -> &'static str {
        "proxy_http_version 1.1;
            client_max_body_size 0;
            proxy_request_buffering off;
            proxy_buffering off;
            proxy_read_timeout 2m;
            proxy_send_timeout 2m;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header Host $host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;"
    }
}

/// One process, which ends with the test. The settings of `http` that Debian installs are among
/// these; the temporary folders are those of the test.
fn configuration(
    folder: &Path,
    world: &World,
    (authority, path): (&str, &str),
    port: u16,
    more: &str,
) -> String {
    let (folder, certificate, key) =
        (folder.display(), world.path("server.pem"), world.path("server.key"));
    let (certificate, key) = (certificate.display(), key.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {folder}/{kind};\n"))
        .concat();
    format!(
        "user root;
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 768; }}
http {{
{temporary}
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    default_type application/octet-stream;
    ssl_prefer_server_ciphers on;
    log_format connections $connection;
    access_log {folder}/access.log connections;
    gzip on;
    map $http_upgrade $connection_upgrade {{
        default upgrade;
        ''      '';
    }}
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        location {path}/ {{
            proxy_pass http://{authority};
            {more}
        }}
    }}
}}
"
    )
}
