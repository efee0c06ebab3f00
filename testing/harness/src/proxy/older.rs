//! A server that appears older than it is.

use super::verdict::{Side, Verdict};
use model::{Code, Failure};
use protocol::{Capabilities, Failed, Message, Operation};

/// Shows a message as it looks to the other side where the server has at most these capabilities.
/// The verdict is that of such a server about what it cannot know.
pub(super) fn show(server: Capabilities, from: Side, message: &mut Message) -> Option<Verdict> {
    let limit = |capabilities: &mut Capabilities| capabilities.0 &= server.0;
    match (from, message) {
        (Side::Client, Message::Hello(hello)) => limit(&mut hello.capabilities),
        (Side::Server, Message::Welcome(welcome)) => limit(&mut welcome.capabilities),
        (Side::Client, Message::Rows(rows)) => {
            let known = server.has(Capabilities::KEY_CHANGES);
            if rows.operation == Operation::KeyChange && !known {
                let failure = Failure::new(Code::MalformedMessage, "unknown operation 5");
                return Some(Verdict::Answer(vec![Message::Failed(Failed::from(&failure))]));
            }
        }
        _ => {}
    }
    None
}
