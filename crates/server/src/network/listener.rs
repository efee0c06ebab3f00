//! Connections of TCP.

use super::acknowledged::unacknowledged;
use super::stream::{Acceptor, Stream};
use model::{Code, Failure, ServerUrl};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll, ready};
use tokio::net::{TcpListener, TcpStream};

/// Descriptors that connections must leave for files, the database, and newcomers who are refused.
const DESCRIPTORS_RESERVED: u64 = 256;

/// A bound address.
pub(super) struct Listener {
    inner: TcpListener,
    url: String,
}

impl Listener {
    /// Binds the address of a URL. Must be called inside the runtime.
    pub(super) fn bind(url: &ServerUrl) -> Result<Listener, Failure> {
        let failed = |error: io::Error| {
            Failure::new(Code::CannotListen, format!("cannot listen on {url}")).source(error)
        };
        let mut addresses = (url.host(), url.port()).to_socket_addrs().map_err(failed)?;
        let address = addresses.next().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let inner = bind(address).map_err(failed)?;
        let url = format!("tcp://{}", inner.local_addr().map_err(failed)?);
        Ok(Listener { inner, url })
    }
}

impl Acceptor for Listener {
    fn url(&self) -> &str {
        &self.url
    }

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (stream, peer) = ready!(self.inner.poll_accept(context))?;
        stream.set_nodelay(true)?;
        Poll::Ready(Ok((Box::new(stream), peer)))
    }
}

impl Stream for TcpStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, bytes)
    }

    /// The system wakes a writer when a third of its buffer is free, and with a modem this takes
    /// minutes.
    fn write_unasked(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&*self, bytes)?)
    }

    fn unacknowledged(&self) -> Option<u64> {
        unacknowledged(self)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // With the usual 128 the kernel drops the requests of a rush and its tail takes seconds.
    socket.listen(4096)
}

/// Raises the descriptor limit as far as allowed and returns how many connections it leaves.
pub(crate) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it may not be raised, the present limit stands.
    let _ = setrlimit(Resource::Nofile, limit);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(usize::MAX).max(1)
}
