//! What every [`Transport`] must do, against a peer that runs [`echo`].

use super::Transport;

const BYTES: usize = 200_000;

/// The peer: returns what it receives, then closes.
pub(crate) fn echo(transport: &mut dyn Transport) {
    let (mut buffer, mut seen) = ([0; 1000], 0);
    while seen < BYTES {
        let len = transport.receive(&mut buffer).unwrap();
        assert!(len > 0, "the other end closed too early");
        transport.send(&buffer[..len]).unwrap();
        seen += len;
    }
}

/// Runs the suite.
pub(crate) fn check(mut transport: impl Transport) {
    let sent: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    for part in sent.chunks(7001) {
        transport.send(part).unwrap();
    }
    let (mut received, mut buffer) = (Vec::new(), [0; 333]);
    loop {
        match transport.receive(&mut buffer).unwrap() {
            0 => break,
            len => received.extend_from_slice(&buffer[..len]),
        }
    }
    assert!(received == sent, "bytes arrive in order and unchanged, and the end is seen");
    assert_eq!(transport.receive(&mut buffer).unwrap(), 0, "the end stays the end");
}
