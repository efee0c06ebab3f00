//! A connection that is encrypted by TLS.

use super::Transport;
use super::meter::Socket;
use super::tcp::Tcp;
use model::{Code, Failure, Scheme, ServerUrl};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Stream};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// An encrypted connection.
pub(super) struct Tls {
    session: ClientConnection,
    tcp: Tcp,
    /// Nothing goes out any more: what is read is why.
    unsent: bool,
}

/// Encrypts a connection that was just made, once it is certain who answers.
pub(super) fn shake_hands(
    mut tcp: Tcp,
    url: &ServerUrl,
    config: Arc<ClientConfig>,
) -> Result<Tls, Failure> {
    let name = ServerName::try_from(url.host().to_owned()).map_err(|error| {
        let message = format!("`{}` can be in no certificate", url.host());
        Failure::new(Code::BadUrl, message).source(error)
    })?;
    let mut session = ClientConnection::new(config, name)
        .map_err(|error| Failure::new(Code::Bug, "cannot set up TLS").source(error))?;
    while session.is_handshaking() {
        if let Err(error) = session.complete_io(tcp.stream()) {
            return Err(handshake_fault(error, url, &tcp));
        }
    }
    tcp.stream().shook_hands(session.handshake_kind());
    Ok(Tls { session, tcp, unsent: false })
}

/// Why there is no session.
fn handshake_fault(error: io::Error, url: &ServerUrl, tcp: &Tcp) -> Failure {
    let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return tcp.lost(error);
    };
    let failure = match fault {
        rustls::Error::InvalidCertificate(fault) => certificate_fault(fault, url),
        rustls::Error::InvalidMessage(_) => {
            let message = format!("{} does not speak TLS", url.address());
            // The answer was not understood: HTTP may be spoken there, or not.
            let fits = in_place(url, |it| !it.is_encrypted());
            Failure::new(Code::EncryptionMismatch, message).hint(format!(
                "{fits}, as the server prints it, or the port of the server that is encrypted"
            ))
        }
        // Each port offers one, by which it tells HTTP from our own protocol.
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            let is_http = url.scheme().is_http();
            let speaks = if is_http { "Syncline without HTTP" } else { "HTTP" };
            let message = format!("{} speaks {speaks}", url.address());
            let fits = in_place(url, |it| it.is_encrypted() && it.is_http() != is_http);
            Failure::new(Code::HandshakeFailed, message).hint(fits)
        }
        rustls::Error::AlertReceived(alert) => refused(*alert),
        _ => Failure::new(Code::HandshakeFailed, "the TLS handshake with the server failed"),
    };
    failure.source(error)
}

/// Which schemes may fit the port.
fn in_place(url: &ServerUrl, fits: impl Fn(&Scheme) -> bool) -> String {
    let fitting = Scheme::ALL.iter().filter(|it| fits(it)).map(|it| format!("{}://", it.name()));
    let fitting: Vec<String> = fitting.collect();
    format!("write {} in place of {}://", fitting.join(" or "), url.scheme().name())
}

fn certificate_fault(fault: &CertificateError, url: &ServerUrl) -> Failure {
    use CertificateError::{
        ApplicationVerificationFailure, Expired, ExpiredContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext,
    };
    match fault {
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => Failure::new(
            Code::ServerCertificateEnded,
            format!("the certificate of {} is not valid at this time", url.address()),
        ),
        NotValidForName | NotValidForNameContext { .. } => Failure::new(
            Code::ServerNameDiffers,
            format!("the certificate of {} is for another name", url.address()),
        ),
        ApplicationVerificationFailure => Failure::new(
            Code::ServerUntrusted,
            format!("{} has another key than the one that was pinned", url.address()),
        ),
        _ => Failure::new(
            Code::ServerUntrusted,
            format!("the certificate of {} is not trusted", url.address()),
        ),
    }
}

/// The server has said why it ends the connection.
fn refused(alert: AlertDescription) -> Failure {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, DecryptError, UnknownCA, UnsupportedCertificate,
    };
    let (code, what) = match alert {
        CertificateRequired => {
            (Code::ClientCertificateNeeded, "the server asks for a certificate of this remote")
        }
        AccessDenied
        | BadCertificate
        | CertificateExpired
        | CertificateRevoked
        | CertificateUnknown
        | DecryptError
        | UnknownCA
        | UnsupportedCertificate => (
            Code::ClientCertificateNeeded,
            "the server does not accept the certificate of this remote",
        ),
        _ => (Code::HandshakeFailed, "the server ended the encrypted connection"),
    };
    Failure::new(code, format!("{what} ({alert:?})"))
}

impl Tls {
    fn stream(&mut self) -> Stream<'_, ClientConnection, Socket> {
        Stream::new(&mut self.session, self.tcp.stream())
    }

    /// What is below.
    pub(super) fn tcp(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// Reads without writing first what can go nowhere: the server may have said why.
    fn last_words(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if self.session.read_tls(self.tcp.stream())? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let processed = self.session.process_new_packets();
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// A server that refuses this remote's part of the handshake says so afterwards.
    fn lost(&self, error: io::Error, sending: bool) -> Failure {
        let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match fault {
            Some(rustls::Error::AlertReceived(alert)) => refused(*alert).source(error),
            _ if sending => self.tcp.not_sent(error),
            _ => self.tcp.lost(error),
        }
    }
}

impl Transport for Tls {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stream = self.stream();
        let sent = stream.write_all(bytes).and_then(|()| stream.flush());
        self.unsent |= sent.is_err();
        sent.map_err(|error| self.lost(error, true))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let read = match self.unsent {
                true => self.last_words(buffer),
                false => self.stream().read(buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A server that was killed closes without a word.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                result => return result.map_err(|error| self.lost(error, false)),
            }
        }
    }
}
