//! The way to a server of HTTP, and to one of TLS.
//!
//! A connection, through a forward proxy if the environment names one, and encrypted if the URL
//! says so.

use super::head::HeadReader;
use super::proxy::Proxy;
use crate::transport::Transport;
use crate::transport::meter::{Meter, Socket};
use crate::transport::tcp::{self, Tcp, Timeouts};
use crate::transport::tls::{self, Tls};
use model::{Code, Failure, ServerUrl};
use rustls::ClientConfig;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// A proxy that collects whole responses passes no heartbeat on, so silence may last so many times
/// as long as on a connection that reaches the server.
const SILENCE_BY_PROXY: u32 = 10;

/// How a server is reached.
#[derive(Debug, Clone)]
pub(in crate::transport) struct Way {
    pub(super) proxy: Option<Proxy>,
    pub(super) timeouts: Timeouts,
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Counts what goes over it.
    pub(super) meter: Arc<Meter>,
}

impl Way {
    /// The way that the environment names.
    pub(in crate::transport) fn from_environment(
        url: &ServerUrl,
        timeouts: Timeouts,
        tls: Option<Arc<ClientConfig>>,
        meter: Arc<Meter>,
    ) -> Result<Way, Failure> {
        let proxy = Proxy::to(url, |name| std::env::var(name).ok())?;
        Ok(Way { proxy, timeouts, tls, meter })
    }

    /// A new connection.
    pub(super) fn connect(&self, url: &ServerUrl) -> Result<Line, Failure> {
        let websocket = url.scheme().is_websocket();
        let collected = if websocket { 1 } else { SILENCE_BY_PROXY };
        let receive = self.timeouts.receive.saturating_mul(collected);
        let tcp = self.reach(url, Timeouts { receive, ..self.timeouts })?;
        let inner = match &self.tls {
            Some(tls) => Inner::Encrypted(Box::new(tls::shake_hands(tcp, url, tls.clone())?)),
            None => Inner::Plain(tcp),
        };
        Ok(Line { receive, inner, keeps: false })
    }

    /// A connection to the server, or through a tunnel of the proxy to it, in which nothing is
    /// encrypted yet.
    pub(in crate::transport) fn reach(
        &self,
        url: &ServerUrl,
        timeouts: Timeouts,
    ) -> Result<Tcp, Failure> {
        let meter = self.meter.clone();
        let Some(proxy) = &self.proxy else { return tcp::open(url, timeouts, meter) };
        let mut tcp = tcp::open(&proxy.url, timeouts, meter)?;
        // A request in clear text names the server itself. Nothing else says where it is to go.
        if url.scheme().is_websocket() || self.tls.is_some() {
            tunnel(&mut tcp, url, proxy)?;
        }
        Ok(tcp)
    }

    /// What a proxy is asked for names the server, too.
    pub(super) fn asks_a_proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| self.tls.is_none())
    }
}

/// Asks the proxy for a connection to the server, in which nothing is its own.
fn tunnel(tcp: &mut Tcp, url: &ServerUrl, proxy: &Proxy) -> Result<(), Failure> {
    let address = url.address();
    let request = format!(
        "CONNECT {address} HTTP/1.1\r\nhost: {address}\r\n{}\r\n",
        proxy.authorization_line()
    );
    tcp.send(request.as_bytes())?;
    let mut reader = HeadReader::default();
    let head = reader.read(tcp.stream()).map_err(|error| tcp.lost(error))??;
    if (200..300).contains(&head.status) && reader.rest().is_empty() {
        return Ok(());
    }
    let message = format!("the proxy {} answers with status {}", proxy.url.address(), head.status);
    Err(Failure::new(Code::ProxyRefused, message))
}

/// A connection as a stream of bytes, whose errors keep what they mean.
pub(super) struct Line {
    receive: Duration,
    inner: Inner,
    /// It may carry another request once the response has ended.
    pub(super) keeps: bool,
}

enum Inner {
    Plain(Tcp),
    Encrypted(Box<Tls>),
}

impl Line {
    fn transport(&mut self) -> &mut dyn Transport {
        match &mut self.inner {
            Inner::Plain(tcp) => tcp,
            Inner::Encrypted(tls) => &mut **tls,
        }
    }

    fn socket(&mut self) -> &mut Socket {
        match &mut self.inner {
            Inner::Plain(tcp) => tcp.stream(),
            Inner::Encrypted(tls) => tls.tcp().stream(),
        }
    }

    /// Nobody has closed it while the request was gathered. One that has carried a request is not
    /// used either where something came unasked: a server may say there why it closes.
    pub(super) fn is_open(&mut self) -> bool {
        if self.socket().stream().set_nonblocking(true).is_err() {
            return false;
        }
        let open = match self.keeps {
            // Through TLS, which also has messages that are none of ours.
            true => self.read(&mut [0]).is_err_and(|it| it.kind() == ErrorKind::TimedOut),
            false => match self.socket().stream().peek(&mut [0]) {
                // A session that can be resumed says so unasked.
                Ok(n) => n > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
        };
        self.socket().stream().set_nonblocking(false).is_ok() && open
    }

    /// Waits so long at most for each of the next bytes, or as long as usual.
    pub(super) fn wait_at_most(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.unwrap_or(self.receive);
        self.socket().stream().set_read_timeout(Some(limit))
    }

    /// Waits so long at most while `heard` is asked.
    pub(super) fn within<T>(
        &mut self,
        limit: Duration,
        heard: impl FnOnce(&mut Line) -> io::Result<T>,
    ) -> io::Result<T> {
        self.wait_at_most(Some(limit))?;
        let heard = heard(self);
        self.wait_at_most(None)?;
        heard
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.transport().receive(buffer).map_err(kept)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.transport().send(bytes).map_err(kept)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A failure as an error, from which [`meant`] makes it again.
fn kept(failure: Failure) -> io::Error {
    let kind = match failure.code() {
        Code::PeerSilent => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, failure)
}

/// What an error of a [`Line`] means.
pub(super) fn meant(error: io::Error) -> Failure {
    let lost = || Failure::new(Code::ConnectionLost, "the connection to the server broke");
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => lost().source(error),
    }
}
