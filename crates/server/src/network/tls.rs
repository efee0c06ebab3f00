//! Encrypted connections: TLS around the connections of any acceptor.

mod fault;
mod files;
mod settings;
mod stream;

pub(crate) use settings::{Protocols, TlsSettings};

use super::stream::{Acceptor, Stream};
use model::Memory;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use stream::TlsStream;

/// Encrypts the connections of another acceptor.
pub(crate) struct TlsAcceptor {
    inner: Box<dyn Acceptor>,
    url: String,
    settings: Arc<TlsSettings>,
    protocols: Protocols,
    memory: Arc<Memory>,
}

impl TlsAcceptor {
    /// `scheme` is what its URL begins with, and `protocols` what is spoken inside.
    pub(crate) fn new(
        inner: Box<dyn Acceptor>,
        scheme: &str,
        settings: Arc<TlsSettings>,
        protocols: Protocols,
        memory: Arc<Memory>,
    ) -> TlsAcceptor {
        let address = inner.url().split_once("://").map_or("", |(_, address)| address);
        let url = format!("{scheme}://{address}");
        TlsAcceptor { inner, url, settings, protocols, memory }
    }
}

impl Acceptor for TlsAcceptor {
    fn url(&self) -> &str {
        &self.url
    }

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (stream, peer) = ready!(self.inner.poll_accept(context))?;
        let (settings, memory) = (self.settings.clone(), self.memory.hold());
        let stream = TlsStream::new(stream, settings, self.protocols, memory);
        Poll::Ready(Ok((Box::new(stream), peer)))
    }
}
