//! Accepts connections.

use model::{Code, Failure};
use std::net::{SocketAddr, ToSocketAddrs};
use tokio::net::{TcpListener, TcpStream};

/// Descriptors that connections must leave for files, the database, and newcomers who are refused.
const DESCRIPTORS_RESERVED: u64 = 256;

/// A bound address.
pub(crate) struct Listener {
    inner: TcpListener,
    /// As `tcp://HOST:PORT`, with the real port.
    pub(crate) url: String,
}

impl Listener {
    /// Binds `tcp://HOST:PORT`. Must be called inside the runtime.
    pub(crate) fn bind(url: &str) -> Result<Listener, Failure> {
        let bad = |why: &str| {
            Failure::new(Code::BadUrl, format!("`{url}` {why}")).hint("tcp://HOST:PORT")
        };
        let address = match url.split_once("://") {
            Some(("tcp", address)) => address,
            Some((scheme, _)) => return Err(bad(&format!("has the unsupported kind {scheme}"))),
            None => return Err(bad("is not an address to listen on")),
        };
        let mut addresses =
            address.to_socket_addrs().map_err(|e| bad("is not an address").source(e))?;
        let address = addresses.next().ok_or_else(|| bad("has no address"))?;
        let failed = |error: std::io::Error| {
            Failure::new(Code::CannotListen, format!("cannot listen on {url}")).source(error)
        };
        let inner = bind(address).map_err(failed)?;
        let url = format!("tcp://{}", inner.local_addr().map_err(failed)?);
        Ok(Listener { inner, url })
    }

    /// The next connection. Errors are passing ones (descriptors, aborted handshakes).
    pub(crate) async fn accept(&self) -> std::io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.inner.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
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
