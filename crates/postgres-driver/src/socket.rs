//! The bytes of a connection: TCP or a Unix socket, with TLS or without.
//!
//! Reading blocks and writing does not. A server with a large answer waits until the client reads,
//! so a client that waited for the server to read would wait forever.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// When the operating system begins to ask a silent host whether it still lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// How long sent bytes may stay unconfirmed before the connection counts as lost.
#[cfg(target_os = "linux")]
const UNCONFIRMED_MAX_MS: u32 = 30_000;

/// A connected socket.
pub(crate) struct Socket {
    plain: Plain,
    tls: Option<Box<ClientConnection>>,
    /// How long one wait may take.
    wait_max: Option<Duration>,
}

/// What the operating system gives.
enum Plain {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to an address.
    pub(crate) fn tcp(address: SocketAddr, wait_max: Duration) -> io::Result<Socket> {
        let stream = TcpStream::connect_timeout(&address, wait_max)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_user_timeout(&stream, UNCONFIRMED_MAX_MS)?;
        Ok(Socket { plain: Plain::Tcp(stream), tls: None, wait_max: None })
    }

    /// Connects to the server whose sockets are in `folder`.
    pub(crate) fn unix(folder: &Path, port: u16, wait_max: Duration) -> io::Result<Socket> {
        let address = SocketAddrUnix::new(folder.join(format!(".s.PGSQL.{port}")))?;
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        // Otherwise the wait for a server that does not accept would never end.
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(wait_max))?;
        match rustix::net::connect(&socket, &address) {
            Err(rustix::io::Errno::AGAIN) => Err(ErrorKind::TimedOut.into()),
            outcome => outcome.map_err(io::Error::from),
        }?;
        Ok(Socket { plain: Plain::Unix(UnixStream::from(socket)), tls: None, wait_max: None })
    }

    /// Bounds how long one reading or writing may take; `None`: no bound.
    pub(crate) fn set_wait_max(&mut self, wait_max: Option<Duration>) -> io::Result<()> {
        self.wait_max = wait_max;
        let socket = self.plain.as_fd();
        sockopt::set_socket_timeout(socket, Timeout::Recv, wait_max)?;
        sockopt::set_socket_timeout(socket, Timeout::Send, wait_max)?;
        Ok(())
    }

    /// Asks in plain text and reads one byte, and not more: what follows may be encrypted.
    pub(crate) fn ask(&mut self, question: &[u8]) -> io::Result<u8> {
        let mut answer = [0];
        self.plain.write_all(question)?;
        self.plain.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    /// Begins to encrypt.
    pub(crate) fn encrypt(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<()> {
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.plain)?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The certificate with which an encrypted connection's server has shown itself.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Sends as much as goes without waiting, and tells how much it took.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.plain.write_now(bytes) };
        push(tls, &self.plain)?;
        if tls.wants_write() {
            return Ok(0);
        }
        let taken = tls.writer().write(bytes)?;
        push(tls, &self.plain)?;
        Ok(taken)
    }

    /// Sends what was taken and is still here, as far as it goes without waiting.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => push(tls, &self.plain),
            None => Ok(()),
        }
    }

    /// Whether nothing that was taken is still here.
    pub(crate) fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Waits until there is something to read or room to write; true: to read.
    pub(crate) fn wait(&mut self) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            if state.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
        }
        let mut sockets = [PollFd::new(&self.plain, PollFlags::IN | PollFlags::OUT)];
        let wait_max = self.wait_max.map(Timespec::try_from).transpose();
        let wait_max = wait_max.map_err(io::Error::other)?;
        if rustix::io::retry_on_intr(|| poll(&mut sockets, wait_max.as_ref()))? == 0 {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(sockets[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }

    /// Waits for bytes; none: the end. `Interrupted` when something came that holds none.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.plain.read(into) };
        match tls.reader().read(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        tls.read_tls(&mut self.plain)?;
        tls.process_new_packets().map_err(io::Error::other)?;
        match tls.reader().read(into) {
            // Half a record, or a ticket for another time.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(ErrorKind::Interrupted.into())
            }
            outcome => outcome,
        }
    }
}

/// Sends what is encrypted already, as far as it goes without waiting.
fn push(tls: &mut ClientConnection, plain: &Plain) -> io::Result<()> {
    while tls.wants_write() {
        if tls.write_tls(&mut Now(plain))? == 0 {
            break;
        }
    }
    Ok(())
}

/// Writes without waiting.
struct Now<'a>(&'a Plain);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_now(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Plain {
    /// Zero: there is no room now.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(self, bytes, SendFlags::DONTWAIT) {
            Ok(sent) => Ok(sent),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Plain::Tcp(stream) => stream.as_fd(),
            Plain::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Plain {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.read(into),
            Plain::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.write(bytes),
            Plain::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
