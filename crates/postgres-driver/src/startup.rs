//! From a host to a session: TLS, the user and the password.

use crate::authentication::{Reach, authenticate};
use crate::fault::Error;
use crate::host::Host;
use crate::key::Key;
use crate::message::garbled;
use crate::options::{Encryption, Options};
use crate::socket::Socket;
use crate::tls;
use crate::wire::{Wire, unexpected};
use postgres_protocol::message::backend;
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

/// Connects to `host` and proves who we are. A host may have several addresses.
pub(crate) fn connect(host: &Host, options: &Options) -> Result<(Wire, Option<Key>), Error> {
    through(host, options, &mut |socket, reach| enter(socket, reach, host, options))
}

/// Connects to `host`, without a session.
pub(crate) fn reach(host: &Host, options: &Options) -> Result<Socket, Error> {
    through(host, options, &mut |socket, _| Ok(socket))
}

/// Begins with the first address of `host` where it can be done.
fn through<T>(
    host: &Host,
    options: &Options,
    begin: &mut dyn FnMut(Socket, Reach) -> Result<T, Error>,
) -> Result<T, Error> {
    let wait_max = options.connect_timeout;
    let (name, port) = match host {
        // A connection within the machine is not encrypted, as with libpq.
        Host::Socket(folder, port) => {
            let mut socket = Socket::unix(folder, *port, wait_max)?;
            socket.set_wait_max(Some(wait_max))?;
            return begin(socket, Reach::Machine);
        }
        Host::Tcp(name, port) => (name.as_str(), *port),
    };
    let mut last = Error::Broken(io::Error::new(ErrorKind::NotFound, "the host has no address"));
    for address in (name, port).to_socket_addrs()? {
        let connected = Socket::tcp(address, wait_max).map_err(Error::from);
        let connected = connected.and_then(|mut socket| {
            socket.set_wait_max(Some(wait_max))?;
            encrypt(&mut socket, name, options)?;
            begin(socket, Reach::of(address.ip()))
        });
        match connected {
            Ok(connected) => return Ok(connected),
            Err(fault) => last = fault,
        }
    }
    Err(last)
}

fn encrypt(socket: &mut Socket, name: &str, options: &Options) -> Result<(), Error> {
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
    let own = options.proof.certificate.as_ref();
    let config = tls::config(check, options.root.as_deref(), own)?;
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    Ok(socket.encrypt(config, name)?)
}

/// Tells who we are, proves it, and waits until the server is ready.
fn enter(
    socket: Socket,
    reach: Reach,
    host: &Host,
    options: &Options,
) -> Result<(Wire, Option<Key>), Error> {
    let mut wire = Wire::new(socket);
    frontend::startup_message(options.parameters(), wire.outbox())?;
    wire.send();
    authenticate(&mut wire, reach, options)?;
    let mut key = None;
    loop {
        match wire.answer()? {
            backend::Message::BackendKeyData(body) => {
                let (process_id, secret) = (body.process_id(), body.secret_key());
                key = Some(Key { host: host.clone(), process_id, secret });
            }
            backend::Message::ReadyForQuery(_) => break,
            _ => return Err(unexpected()),
        }
    }
    wire.socket_mut().set_wait_max(options.silence_max)?;
    Ok((wire, key))
}

/// Connections to servers that are not PostgreSQL, or that behave wrongly.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::objection::Ground;
    use crate::proof::Proof;
    use crate::session::Session;
    use postgres_protocol::authentication::md5_hash;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::ops::ControlFlow;
    use std::thread::{JoinHandle, spawn};
    use std::time::Duration;

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

    fn options(seconds: u64) -> Options {
        Options {
            user: "ann".to_owned(),
            password: Some("secret".to_owned()),
            database: "db".to_owned(),
            application_name: "test".to_owned(),
            settings: None,
            connect_timeout: Duration::from_secs(seconds),
            silence_max: None,
            encryption: None,
            root: None,
            proof: Proof::default(),
        }
    }

    fn open(answers: &[&[u8]]) -> (Result<Session, Error>, Vec<Vec<u8>>) {
        let (host, heard) = server(answers);
        let session = Session::open(&host, &options(60), "mark");
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

    #[test]
    fn a_password_does_not_leave_the_machine_in_the_clear() {
        let cleartext = b"R\0\0\0\x08\0\0\0\x03";
        for reach in [Reach::Network, Reach::Machine] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let heard = spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                message(&mut client, false);
                client.write_all(cleartext).unwrap();
                client.shutdown(std::net::Shutdown::Write).unwrap();
                let mut rest = Vec::new();
                client.read_to_end(&mut rest).unwrap();
                rest
            });
            let socket = Socket::tcp(address, Duration::from_secs(60)).unwrap();
            let host = Host::Tcp("127.0.0.1".to_owned(), address.port());
            let error = enter(socket, reach, &host, &options(60)).err().unwrap();
            let heard = heard.join().unwrap();
            let told = heard.windows(6).any(|part| part == b"secret");
            match reach {
                Reach::Network => {
                    let Error::Objected(objection) = error else { panic!("{error:?}") };
                    let seen = (objection.ground(), heard.len());
                    assert_eq!(seen, (Ground::PasswordExposed, 0));
                }
                Reach::Machine => assert!(told, "{error:?}"),
            }
        }
    }

    #[test]
    fn only_the_loopback_is_within_the_machine() {
        for (address, reach) in [
            ("127.0.0.1", Reach::Machine),
            ("127.9.9.9", Reach::Machine),
            ("::1", Reach::Machine),
            ("::ffff:127.0.0.1", Reach::Machine),
            ("192.0.2.2", Reach::Network),
            ("10.0.0.1", Reach::Network),
            ("0.0.0.0", Reach::Network),
            ("::ffff:192.0.2.2", Reach::Network),
            ("fe80::1", Reach::Network),
        ] {
            assert_eq!(Reach::of(address.parse().unwrap()), reach, "{address}");
        }
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
            // An unknown mechanism.
            b"R\0\0\0\x0b\0\0\0\x0aX\0\0",
            READY,
        ];
        for case in cases {
            let (session, _) = open(&[case]);
            let error = session.err().unwrap();
            assert!(matches!(error, Error::Broken(_)), "{case:?}: {error:?}");
        }
        let (session, _) = open(&[b"E\0\0\0\x16SFATAL\0C28P01\0M\xff\0\0"]);
        let Err(Error::Refused(refusal)) = session else { panic!() };
        assert_eq!((refusal.state(), refusal.message()), ("28P01", "\u{fffd}"));
    }

    // S9
    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Host::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let Err(Error::Broken(error)) = Session::open(&host, &options(1), "mark") else { panic!() };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    // S9, S11: a worker that waits forever is lost for all remotes.
    #[test]
    fn a_server_that_falls_silent_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Host::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let (ended, end) = std::sync::mpsc::sync_channel::<()>(1);
        let silent = spawn(move || {
            let clients = [(); 2].map(|()| {
                let (mut client, _) = listener.accept().unwrap();
                message(&mut client, false);
                client.write_all(&[WELCOME, READY].concat()).unwrap();
                client
            });
            // It hears nothing either: what does not fit into the network waits as well.
            let _ = end.recv();
            drop(clients);
        });
        let mut options = options(60);
        options.silence_max = Some(std::time::Duration::from_millis(50));
        let long = format!("SELECT '{}'", "x".repeat(32 << 20));
        for question in ["SELECT 1", &long] {
            let mut session = Session::open(&host, &options, "mark").unwrap();
            let fault = session
                .run(&[Call::Simple(question)], &mut |_, _| ControlFlow::Continue(()))
                .unwrap_err();
            assert!(fault.is_lost());
            let Error::Broken(error) = fault.error else { panic!("{fault:?}") };
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        drop(ended);
        silent.join().unwrap();
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
            let mut session = Session::open(&host, &options(60), "mark").unwrap();
            let fault = session
                .run(&[Call::Simple("SELECT 1")], &mut |_, _| ControlFlow::Continue(()))
                .unwrap_err();
            assert!(fault.is_lost(), "{case:?}");
            heard.join().unwrap();
        }
    }
}
