//! What a server wants to hear from the client that cancels a statement of a session.

use crate::host::Host;

/// Names a session to the server that runs it.
#[derive(Debug, Clone)]
pub struct Key {
    pub(crate) host: Host,
    pub(crate) process_id: i32,
    pub(crate) secret: i32,
}
