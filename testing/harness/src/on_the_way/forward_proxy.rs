//! A real forward proxy, as it leads out of the network of a company: tinyproxy.

use crate::beside::Beside;
use crate::postgres::settings::free_port;
use crate::wait::until;
use std::fs;
use std::net::TcpStream;
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// A proxy that asks for a password. Dropping it ends it.
#[derive(Debug)]
pub struct ForwardProxy {
    _beside: Beside,
    /// With the password, for the environment of a program.
    pub url: String,
    /// The same without.
    pub url_without_password: String,
    folder: TempDir,
}

impl ForwardProxy {
    /// Starts one.
    pub fn start() -> ForwardProxy {
        for _ in 0..STARTS_MAX {
            let folder = tempfile::Builder::new().prefix("tinyproxy-").tempdir().unwrap();
            let port = free_port();
            let config = folder.path().join("tinyproxy.conf");
            let log = folder.path().join("log");
            let text = format!(
                "Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 20\nLogLevel Connect\n\
                 LogFile \"{}\"\nBasicAuth company open-sesame\n",
                log.display()
            );
            fs::write(&config, text).unwrap();
            let command = ["tinyproxy", "-d", "-c", config.to_str().unwrap()];
            let mut beside = Beside::start(&command, |_| {});
            let mut runs = true;
            until("tinyproxy to listen", || {
                runs = beside.runs();
                !runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if runs {
                return ForwardProxy {
                    _beside: beside,
                    url: format!("http://company:open-sesame@127.0.0.1:{port}"),
                    url_without_password: format!("http://127.0.0.1:{port}"),
                    folder,
                };
            }
        }
        panic!("tinyproxy does not start; is it installed?");
    }

    /// How many requests of this kind it has logged, for example `CONNECT`.
    pub fn requests(&self, method: &str) -> usize {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.matches(&format!("): {method} ")).count()
    }
}
