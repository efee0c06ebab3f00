//! Chooses what carries the bytes, by the URL of the server.

use super::http::websocket;
use super::http::{self, Kept, Way};
use super::meter::{Meter, Metered};
use super::tcp::{self, Timeouts};
use super::trust::Trust;
use super::{Transport, tls};
use model::{Code, Failure, Scheme, ServerUrl};
use rustls::ClientConfig;
use rustls::client::Resumption;
use std::sync::Arc;

/// Connects to one server, again and again.
#[derive(Debug)]
pub struct Connector {
    url: ServerUrl,
    timeouts: Timeouts,
    /// Only where the URL asks for it. One for all connections: sessions are resumed.
    tls: Option<Arc<ClientConfig>>,
    meter: Arc<Meter>,
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
        Ok(Connector { url, timeouts, tls, meter: Arc::default() })
    }

    /// The same, but no session is resumed: each connection begins with a full handshake.
    #[must_use]
    pub fn without_resumption(mut self) -> Connector {
        if let Some(config) = &mut self.tls {
            Arc::make_mut(config).resumption = Resumption::disabled();
        }
        self
    }

    /// Where it connects to.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// What has gone over all its connections.
    pub fn metered(&self) -> Metered {
        self.meter.read()
    }

    /// The connections of one synchronization. Dropping it closes what was kept between them.
    pub fn connections(&self) -> Connections<'_> {
        Connections { connector: self, kept: Kept::default() }
    }
}

/// Connects for each attempt of one synchronization.
pub struct Connections<'a> {
    connector: &'a Connector,
    kept: Kept,
}

impl Connections<'_> {
    /// A new connection. Over HTTP it is the one before, if that can carry another request.
    pub fn connect(&self) -> Result<Box<dyn Transport>, Failure> {
        let Connector { url, timeouts, tls, meter } = self.connector;
        let way = || Way::from_environment(url, *timeouts, tls.clone(), meter.clone());
        Ok(match (url.scheme(), tls) {
            (scheme, _) if scheme.is_websocket() => Box::new(websocket::connect(url, &way()?)?),
            (scheme, _) if scheme.is_http() => Box::new(http::connect(url, way()?, &self.kept)?),
            (Scheme::Tls, Some(tls)) => {
                let tcp = way()?.reach(url, *timeouts)?;
                Box::new(tls::shake_hands(tcp, url, tls.clone())?)
            }
            _ => Box::new(tcp::open(url, *timeouts, meter.clone())?),
        })
    }
}
