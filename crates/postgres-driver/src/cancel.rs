//! Asks a server to end the statement of a session, over a separate connection.

use crate::fault::Error;
use crate::key::Key;
use crate::options::Options;
use crate::startup;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io::ErrorKind;

/// Asks, and waits until the server has passed it on. Every step takes at most
/// [`Options::connect_timeout`].
pub fn cancel(key: &Key, options: &Options) -> Result<(), Error> {
    let mut request = BytesMut::new();
    frontend::cancel_request(key.process_id, key.secret, &mut request);
    let mut socket = startup::reach(&key.host, options)?;
    socket.write(&request)?;
    socket.flush()?;
    // The server closes the connection when it has done it.
    match socket.read(&mut [0]) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(()),
    }
}
