//! Chooses what carries the bytes, by the URL of the server.

use super::http::websocket;
use super::http::{self, Way};
use super::tcp::{self, Timeouts};
use super::trust::Trust;
use super::{Transport, tls};
use model::{Code, Failure, Scheme, ServerUrl};
use rustls::ClientConfig;
use std::sync::Arc;

/// Connects to one server, again and again.
#[derive(Debug)]
pub struct Connector {
    url: ServerUrl,
    timeouts: Timeouts,
    /// Only where the URL asks for it. One for all connections: sessions are resumed.
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Reads the files of `trust` if the URL needs them.
    pub fn new(url: ServerUrl, trust: &Trust, timeouts: Timeouts) -> Result<Connector, Failure> {
        if trust.require_tls && !url.scheme().is_encrypted() && !url.is_loopback() {
            let message = format!("{url} would cross the network in clear text");
            return Err(Failure::new(Code::ClearTextRefused, message));
        }
        let spoken = if url.scheme().is_http() { "http/1.1" } else { "syncline/1" };
        let tls = url.scheme().is_encrypted().then(|| trust.config(spoken)).transpose()?;
        Ok(Connector { url, timeouts, tls })
    }

    /// Where it connects to.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Box<dyn Transport>, Failure> {
        if self.url.scheme().is_http() {
            let way = Way::from_environment(&self.url, self.timeouts, self.tls.clone())?;
            return Ok(match self.url.scheme().is_websocket() {
                true => Box::new(websocket::connect(&self.url, &way)?),
                false => Box::new(http::connect(&self.url, way)?),
            });
        }
        let stream = tcp::open(&self.url, self.timeouts)?;
        Ok(match (self.url.scheme(), &self.tls) {
            (Scheme::Tls, Some(tls)) => Box::new(tls::shake_hands(stream, &self.url, tls.clone())?),
            _ => Box::new(stream),
        })
    }
}
