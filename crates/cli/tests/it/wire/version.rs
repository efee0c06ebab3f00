//! A client of another version of the protocol.

use harness::{Peer, Proxy, Side, World, hello};
use protocol::{Hello, MAGIC, Message};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

// S11, Trap 18
#[test]
fn a_client_of_another_version_is_refused_and_both_versions_are_told() {
    let world = World::new(PROGRAM, "CREATE TABLE note (id INTEGER PRIMARY KEY)");
    world.add_user("ann");
    let server = world.serve();
    for (version, hint) in [(1, "update the client"), (3, "update the server")] {
        let mut peer = Peer::connect(&server.url);
        peer.send_bytes(&MAGIC);
        let other = Hello { protocol_version: version, ..hello("ann", "another") };
        peer.send(&Message::Hello(Box::new(other)));
        let Some(Message::Failed(failed)) = peer.receive() else { panic!("it was not refused") };
        assert_eq!((failed.code, failed.hint.as_deref()), (1002, Some(hint)));
        assert_eq!((failed.min_version, failed.max_version), (Some(2), Some(2)));
        assert!(failed.message.contains(&format!("version {version} ")), "{}", failed.message);
    }
    // The program says so, and nothing is stored of the attempt.
    let proxy = Proxy::new(&server.url);
    proxy.forge(|from, message| {
        if let (Side::Client, Message::Hello(hello)) = (from, message) {
            hello.protocol_version = 3;
        }
    });
    let mut arguments = world.sync_arguments("ann", &server);
    let url = arguments.iter().position(|argument| *argument == server.url).unwrap();
    arguments[url].clone_from(&proxy.url);
    let told = world.syncline.fails("E1002", &arguments);
    assert!(told.contains("this server speaks 2 to 2"), "{told}");
    assert_eq!(proxy.hellos().len(), 1);
    assert!(server.log().contains("code=\"E1002\""), "{}", server.log());
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}
