//! What is spoken inside of TLS, with a client that chooses: versions, keys, names, resumption.

use harness::{Authority, Server, WAIT_MAX, World, hello, until};
use protocol::{Credential, FrameDecoder, Hello, MAGIC, Message, Mode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)";

const FILES: &str = "tls_certificate = \"server.pem\"\ntls_key = \"server.key\"";

fn shop(authority: &Authority, lines: &str) -> World {
    let world = World::new(PROGRAM, SHOP);
    authority.write(&world, "ca.pem");
    authority.server(&world, "server", |_| {});
    world.configure(FILES);
    world.configure(lines);
    world.add_user("ann");
    world
}

/// A client that speaks this version only, and names these protocols.
fn client(
    world: &World,
    version: &'static SupportedProtocolVersion,
    names: &[&str],
    own: bool,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(world.path("ca.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(certificates::provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        false => builder.with_no_client_auth(),
        true => {
            let chain = vec![CertificateDer::from_pem_file(world.path("own.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(world.path("own.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.enable_early_data = true;
    Arc::new(config)
}

/// What became of one connection.
#[derive(Debug)]
struct Talk {
    kind: Option<HandshakeKind>,
    version: Option<ProtocolVersion>,
    name: Option<Vec<u8>>,
    /// Bytes could have been sent before the handshake.
    early: bool,
    answer: Option<Message>,
}

/// Shakes hands and synchronizes nothing.
fn talk(server: &Server, config: &Arc<ClientConfig>) -> std::io::Result<Talk> {
    let address = server.url.split_once("://").unwrap().1.split('/').next().unwrap();
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let mut session =
        ClientConnection::new(config.clone(), "127.0.0.1".try_into().unwrap()).unwrap();
    let early = session.early_data().is_some();
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    let mut stream = StreamOwned::new(session, tcp);
    let ping = Hello {
        mode: Mode::Ping,
        credential: Credential::Password("ann-password".into()),
        ..hello("ann", "r")
    };
    let mut bytes = MAGIC.to_vec();
    Message::Hello(Box::new(ping)).encode(&mut bytes).unwrap();
    let mut answer = None;
    if server.url.starts_with("tls") {
        stream.write_all(&bytes)?;
        let (mut decoder, mut buffer) = (FrameDecoder::new(1 << 20), [0; 4096]);
        while answer.is_none() {
            match stream.read(&mut buffer)? {
                0 => break,
                n => decoder.push(&buffer[..n]),
            }
            answer = decoder.next_frame().unwrap().and_then(|it| Message::decode(it).unwrap());
        }
    }
    let session = &stream.conn;
    Ok(Talk {
        kind: session.handshake_kind(),
        version: session.protocol_version(),
        name: session.alpn_protocol().map(<[u8]>::to_vec),
        early,
        answer,
    })
}

/// Both versions, and what curl calls them.
const VERSIONS: [(&SupportedProtocolVersion, ProtocolVersion, &str); 2] =
    [(&TLS12, ProtocolVersion::TLSv1_2, "1.2"), (&TLS13, ProtocolVersion::TLSv1_3, "1.3")];

// S11: a real client of OpenSSL, too.
#[test]
fn both_versions_are_spoken_with_both_kinds_of_keys() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    for rsa in [false, true] {
        if rsa {
            authority.server_with_rsa(&world, "server");
        }
        let server = world.serve_at("tls://127.0.0.1:0");
        for (version, spoken, _) in VERSIONS {
            let said = talk(&server, &client(&world, version, &["syncline/1"], false)).unwrap();
            assert_eq!(said.version, Some(spoken));
            assert!(matches!(said.answer, Some(Message::Welcome(_))), "{said:?}");
        }
        server.stop();
        let server = world.serve_at("https://127.0.0.1:0");
        for (.., option) in VERSIONS {
            let output = Command::new("curl")
                .args(["-sS", "--noproxy", "*", "--tls-max", option, "--cacert"])
                .arg(world.path("ca.pem"))
                .args(["-v", &format!("--tlsv{option}"), &format!("{}/health", server.url)])
                .output()
                .unwrap();
            assert_eq!(output.stdout, b"alive\n", "{output:?}");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains(&format!("SSL connection using TLSv{option}")), "{told}");
        }
        server.stop();
    }
}

// S11: the second handshake is short, on another server with the same files it is whole, and no
// server takes what could be sent again by others.
#[test]
fn sessions_are_resumed_and_early_data_is_never_offered() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    for version in [&TLS12, &TLS13] {
        let server = world.serve_at("tls://127.0.0.1:0");
        let config = client(&world, version, &["syncline/1"], false);
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let said = talk(&server, &config).unwrap();
            assert!(!said.early, "{said:?}");
            assert!(matches!(said.answer, Some(Message::Welcome(_))), "{said:?}");
            kinds.push(said.kind.unwrap());
        }
        let resumed = HandshakeKind::Resumed;
        assert_eq!(kinds, [HandshakeKind::Full, resumed, resumed], "{version:?}");
        // Files that are read again and say the same change nothing.
        server.reload();
        assert_eq!(talk(&server, &config).unwrap().kind, Some(resumed));
        server.stop();
        let server = world.serve_at("tls://127.0.0.1:0");
        assert_eq!(talk(&server, &config).unwrap().kind, Some(HandshakeKind::Full));
        server.stop();
    }
}

// S7: who was vouched for by an authority that is not believed any more comes in by no back door.
#[test]
fn another_authority_of_remotes_voids_the_sessions_of_the_former_one() {
    for version in [&TLS12, &TLS13] {
        let (authority, next) = (Authority::new(), Authority::new());
        let lines = "tls_client_ca = \"remotes.pem\"\ntls_client = \"optional\"";
        let world = World::new(PROGRAM, SHOP);
        authority.write(&world, "ca.pem");
        authority.write(&world, "remotes.pem");
        authority.server(&world, "server", |_| {});
        authority.user(&world, "own", "ann", |_| {});
        world.configure(FILES);
        world.configure(lines);
        world.add_user("ann");
        let server = world.serve_at("tls://127.0.0.1:0");
        let config = client(&world, version, &["syncline/1"], true);
        let kinds = [(); 2].map(|()| talk(&server, &config).unwrap().kind.unwrap());
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed], "{version:?}");
        next.write(&world, "remotes.pem");
        server.reload();
        // With the former certificate the handshake is whole, and refused.
        let refused = talk(&server, &config);
        let served = refused.as_ref().is_ok_and(|said| said.answer.is_some());
        assert!(!served, "{refused:?}");
        until("the refusal", || server.log().contains("E1021"));
        // Without any it is whole, and accepted.
        let bare = client(&world, version, &["syncline/1"], false);
        let said = talk(&server, &bare).unwrap();
        assert_eq!(said.kind, Some(HandshakeKind::Full));
        assert!(matches!(said.answer, Some(Message::Welcome(_))), "{said:?}");
        server.stop();
    }
}

// S11: who thinks that something else is spoken here learns so in the handshake.
#[test]
fn a_name_of_another_protocol_is_refused() {
    let authority = Authority::new();
    let world = shop(&authority, "");
    let check = |server: &Server, names: &[&str], agreed: Option<&str>| {
        for (version, ..) in VERSIONS {
            let said = talk(server, &client(&world, version, names, false)).unwrap();
            assert_eq!(said.name.as_deref(), agreed.map(str::as_bytes), "{names:?}");
        }
    };
    let refused = |server: &Server, names: &[&str]| {
        for (version, ..) in VERSIONS {
            let error = talk(server, &client(&world, version, names, false)).unwrap_err();
            assert!(error.to_string().contains("NoApplicationProtocol"), "{names:?}: {error}");
        }
    };
    let server = world.serve_at("tls://127.0.0.1:0");
    check(&server, &["syncline/1"], Some("syncline/1"));
    check(&server, &["x", "syncline/1"], Some("syncline/1"));
    check(&server, &[], None);
    refused(&server, &["http/1.1"]);
    refused(&server, &["h2", "http/1.1"]);
    server.stop();
    let server = world.serve_at("https://127.0.0.1:0");
    check(&server, &["http/1.1"], Some("http/1.1"));
    check(&server, &["h2", "http/1.1"], Some("h2"));
    check(&server, &["http/1.1", "h2"], Some("h2"));
    check(&server, &[], None);
    refused(&server, &["syncline/1"]);
    refused(&server, &["spdy/3"]);
    server.stop();
}
