//! From a host to a session: TLS, the user and the password.

use super::cancel::Key;
use super::message::{Message, garbled};
use super::socket::Socket;
use super::wire::Wire;
use crate::postgres::connect::{Encryption, Options};
use crate::postgres::errors::{FaultKind, Refusal};
use crate::postgres::tls;
use crate::url::Host;
use fallible_iterator::FallibleIterator;
use model::{Code, Failure};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{self, AuthenticationSaslBody};
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

/// Connects to `host` and proves who we are. A host may have several addresses.
pub(super) fn connect(host: &Host, options: &Options) -> Result<(Wire, Option<Key>), FaultKind> {
    through(host, options, &mut |socket| enter(socket, host, options))
}

/// Connects to `host`, and no more than that.
pub(super) fn reach(host: &Host, options: &Options) -> Result<Socket, FaultKind> {
    through(host, options, &mut Ok)
}

/// Begins with the first address of `host` where it can be done.
fn through<T>(
    host: &Host,
    options: &Options,
    begin: &mut dyn FnMut(Socket) -> Result<T, FaultKind>,
) -> Result<T, FaultKind> {
    let wait_max = options.connect_timeout;
    let (name, port) = match host {
        // A connection within the machine is not encrypted, as with libpq.
        Host::Socket(folder, port) => {
            let socket = Socket::unix(folder, *port, wait_max)?;
            socket.set_wait_max(Some(wait_max))?;
            return begin(socket);
        }
        Host::Tcp(name, port) => (name.as_str(), *port),
    };
    let mut last =
        FaultKind::Broken(io::Error::new(ErrorKind::NotFound, "the host has no address"));
    for address in (name, port).to_socket_addrs()? {
        let connected = Socket::tcp(address, wait_max).map_err(FaultKind::from);
        let connected = connected.and_then(|mut socket| {
            socket.set_wait_max(Some(wait_max))?;
            encrypt(&mut socket, name, options)?;
            begin(socket)
        });
        match connected {
            Ok(connected) => return Ok(connected),
            Err(fault) => last = fault,
        }
    }
    Err(last)
}

fn encrypt(socket: &mut Socket, name: &str, options: &Options) -> Result<(), FaultKind> {
    let Some(Encryption { required, check }) = options.encryption else { return Ok(()) };
    let mut request = bytes::BytesMut::new();
    frontend::ssl_request(&mut request);
    match socket.ask(&request)? {
        b'S' => {}
        b'N' if !required => return Ok(()),
        b'N' => {
            return Err(io::Error::new(ErrorKind::Unsupported, "the server has no TLS").into());
        }
        _ => return Err(garbled("the server does not know whether it has TLS").into()),
    }
    let config = tls::config(check, options.root.as_deref()).map_err(FaultKind::Failure)?;
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    Ok(socket.encrypt(config, name)?)
}

/// Tells who we are, proves it, and waits until the server is ready.
fn enter(socket: Socket, host: &Host, options: &Options) -> Result<(Wire, Option<Key>), FaultKind> {
    let mut wire = Wire::new(socket);
    frontend::startup_message(options.parameters(), wire.outbox())?;
    wire.send();
    authenticate(&mut wire, options)?;
    let mut key = None;
    loop {
        match answer(&mut wire)? {
            backend::Message::BackendKeyData(body) => {
                let (process_id, secret) = (body.process_id(), body.secret_key());
                key = Some(Key { host: host.clone(), process_id, secret });
            }
            backend::Message::ReadyForQuery(_) => break,
            _ => return Err(unexpected()),
        }
    }
    wire.socket().set_wait_max(None)?;
    Ok((wire, key))
}

fn authenticate(wire: &mut Wire, options: &Options) -> Result<(), FaultKind> {
    let password = || match &options.password {
        Some(password) => Ok(password.reveal().as_bytes()),
        None => Err(FaultKind::Failure(
            Failure::new(Code::DatabaseUnavailable, "PostgreSQL asks for a password")
                .hint("name it in the URL, PGPASSWORD or the password file"),
        )),
    };
    match answer(wire)? {
        backend::Message::AuthenticationOk => return Ok(()),
        backend::Message::AuthenticationCleartextPassword => {
            frontend::password_message(password()?, wire.outbox())?;
            wire.send();
        }
        backend::Message::AuthenticationMd5Password(body) => {
            let hash = md5_hash(options.user.as_bytes(), password()?, body.salt());
            frontend::password_message(hash.as_bytes(), wire.outbox())?;
            wire.send();
        }
        backend::Message::AuthenticationSasl(body) => scram(wire, &body, password()?)?,
        _ => {
            let what = "the server asks for a proof other than a password";
            return Err(io::Error::new(ErrorKind::Unsupported, what).into());
        }
    }
    match answer(wire)? {
        backend::Message::AuthenticationOk => Ok(()),
        _ => Err(unexpected()),
    }
}

/// Proves that both sides know the password; where TLS allows it, over this connection only.
fn scram(
    wire: &mut Wire,
    offered: &AuthenticationSaslBody,
    password: &[u8],
) -> Result<(), FaultKind> {
    let (mut plain, mut bound) = (false, false);
    let mut mechanisms = offered.mechanisms();
    while let Some(mechanism) = mechanisms.next()? {
        plain |= mechanism == SCRAM_SHA_256;
        bound |= mechanism == SCRAM_SHA_256_PLUS;
    }
    let end_point = wire.socket().certificate().and_then(tls::end_point);
    let (mechanism, binding) = match end_point {
        Some(end_point) if bound => {
            (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(end_point))
        }
        // Says that we could: a server that can too learns that somebody is in between.
        Some(_) if plain => (SCRAM_SHA_256, ChannelBinding::unrequested()),
        None if plain => (SCRAM_SHA_256, ChannelBinding::unsupported()),
        _ => {
            let what = "the server offers no SCRAM-SHA-256";
            return Err(io::Error::new(ErrorKind::Unsupported, what).into());
        }
    };
    let mut scram = ScramSha256::new(password, binding);
    frontend::sasl_initial_response(mechanism, scram.message(), wire.outbox())?;
    wire.send();
    let backend::Message::AuthenticationSaslContinue(body) = answer(wire)? else {
        return Err(unexpected());
    };
    scram.update(body.data())?;
    frontend::sasl_response(scram.message(), wire.outbox())?;
    wire.send();
    let backend::Message::AuthenticationSaslFinal(body) = answer(wire)? else {
        return Err(unexpected());
    };
    Ok(scram.finish(body.data())?)
}

/// The next message; what the server refuses is an error.
fn answer(wire: &mut Wire) -> Result<backend::Message, FaultKind> {
    let message: Message<'_> = wire.message()?;
    match message.parse()? {
        backend::Message::ErrorResponse(body) => {
            Err(FaultKind::Refused(Box::new(Refusal::read(&body)?)))
        }
        message => Ok(message),
    }
}

fn unexpected() -> FaultKind {
    garbled("the server does not follow the protocol").into()
}

/// Beginnings with servers that are not PostgreSQL, or not as it should be.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::link::{Call, Session};
    use crate::url::Url;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{JoinHandle, spawn};

    const READY: &[u8] = b"Z\0\0\0\x05I";
    const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0";

    /// A server that answers each message with the next of these, and returns what it was sent.
    fn server(answers: &[&[u8]]) -> (Host, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Host::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let answers: Vec<Vec<u8>> = answers.iter().map(|answer| answer.to_vec()).collect();
        let heard = spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut heard = Vec::new();
            for (at, answer) in answers.iter().enumerate() {
                heard.push(message(&mut client, at > 0));
                client.write_all(answer).unwrap();
            }
            heard
        });
        (host, heard)
    }

    fn message(client: &mut TcpStream, tagged: bool) -> Vec<u8> {
        let mut header = vec![0; if tagged { 5 } else { 4 }];
        client.read_exact(&mut header).unwrap();
        let len = u32::from_be_bytes(*header.last_chunk().unwrap());
        let mut body = vec![0; len as usize - 4];
        client.read_exact(&mut body).unwrap();
        body
    }

    fn options(seconds: u32) -> Options {
        let url = format!("postgres://ann:secret@h/db?sslmode=disable&connect_timeout={seconds}");
        let Url::Postgres(url) = Url::parse(&url).unwrap() else { panic!("{url}") };
        Options::of(&url)
    }

    fn open(answers: &[&[u8]]) -> (Result<Session, FaultKind>, Vec<Vec<u8>>) {
        let (host, heard) = server(answers);
        let session = Session::open(&host, &options(60));
        (session, heard.join().unwrap())
    }

    #[test]
    fn older_servers_are_shown_the_password_as_they_ask_for_it() {
        let ready = [WELCOME, READY].concat();
        let (session, heard) = open(&[b"R\0\0\0\x08\0\0\0\x03", &ready]);
        assert!(session.is_ok());
        assert!(heard[0].windows(9).any(|part| part == b"user\0ann\0"), "{:?}", heard[0]);
        assert_eq!(heard[1], b"secret\0");
        let (session, heard) = open(&[b"R\0\0\0\x0c\0\0\0\x05salt", &ready]);
        assert!(session.is_ok());
        assert_eq!(heard[1], [md5_hash(b"ann", b"secret", *b"salt").as_bytes(), b"\0"].concat());
    }

    // S11
    #[test]
    fn whatever_answers_at_the_beginning_is_told_and_never_a_panic() {
        let cases: [&[u8]; 8] = [
            b"",
            b"R",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"R\0\0\0\x03",
            b"R\x7f\xff\xff\xff\0\0\0\0",
            // GSS
            b"R\0\0\0\x08\0\0\0\x07",
            // A mechanism that nobody knows.
            b"R\0\0\0\x0b\0\0\0\x0aX\0\0",
            READY,
        ];
        for case in cases {
            let (session, _) = open(&[case]);
            let failure = session.err().unwrap().failure("cannot connect".to_owned());
            assert_eq!(failure.code(), Code::DatabaseUnavailable, "{case:?}");
        }
        let (session, _) = open(&[b"E\0\0\0\x16SFATAL\0C28P01\0M\xff\0\0"]);
        let failure = session.err().unwrap().failure("cannot connect".to_owned());
        assert!(failure.hint_text().contains("pg_hba.conf"), "{}", failure.hint_text());
    }

    // S9
    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Host::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let Err(FaultKind::Broken(error)) = Session::open(&host, &options(1)) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    // S11
    #[test]
    fn rubbish_in_a_flight_ends_the_connection() {
        let ready = [WELCOME, READY].concat();
        let cases: [&[u8]; 5] = [
            b"",
            b"?\0\0\0\x04",
            b"D\0\0\0\x06\0\x01",
            b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x04",
            b"E\0\0\0\x05SZ\0\0\0\x05I",
        ];
        for case in cases {
            let (host, heard) = server(&[&ready, case]);
            let mut session = Session::open(&host, &options(60)).unwrap();
            let fault = session.run(&[Call::Simple("SELECT 1")], &mut |_, _| Ok(())).unwrap_err();
            assert!(fault.is_lost(), "{case:?}");
            heard.join().unwrap();
        }
    }
}
