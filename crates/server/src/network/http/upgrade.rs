//! The handshake of WebSocket, in which a connection leaves HTTP.

use super::answer::{self, Answer};
use super::wire::WireIo;
use crate::network::Stream;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// The version of WebSocket.
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// What RFC 6455 adds to the key of a client, so that no other program answers like this.
const SALT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Bytes of the key.
const KEY_BYTES: usize = 16;

/// What became of the requests of one connection that asked for WebSocket: the last one ends it.
#[derive(Default)]
pub(super) struct Upgrades(Mutex<Option<(OnUpgrade, SocketAddr)>>);

impl Upgrades {
    /// Answers such a request, which `sender` sent.
    pub(super) fn grant(
        &self,
        mut request: Request<Incoming>,
        sender: SocketAddr,
    ) -> Response<Answer> {
        let headers = request.headers();
        if headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            let text = "this server speaks version 13 of WebSocket\n";
            let mut response = answer::text(StatusCode::UPGRADE_REQUIRED, text);
            response.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
            return response;
        }
        let Some(accept) = headers.get(SEC_WEBSOCKET_KEY).and_then(accept) else {
            let text = "the request has no key of WebSocket\n";
            return answer::text(StatusCode::BAD_REQUEST, text);
        };
        let mut response = answer::bare(StatusCode::SWITCHING_PROTOCOLS, Answer::Text(None));
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        let upgrade = hyper::upgrade::on(&mut request);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, sender));
        response
    }

    /// The stream of a connection that has left HTTP, with what was read behind the request, and
    /// who sent that.
    pub(super) async fn taken(&self) -> Option<(Box<dyn Stream>, Bytes, SocketAddr)> {
        let (upgrade, sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Where the peer is gone before the answer, nobody misses it.
        let parts = upgrade.await.ok()?.downcast::<TokioIo<WireIo>>().ok()?;
        Some((parts.io.into_inner().into_stream()?, parts.read_buf, sender))
    }
}

/// The answer to a key; none where it is none.
fn accept(key: &HeaderValue) -> Option<HeaderValue> {
    let bytes = STANDARD.decode(key.as_bytes()).ok()?;
    if bytes.len() != KEY_BYTES {
        return None;
    }
    let salted = [key.as_bytes(), SALT].concat();
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted));
    HeaderValue::try_from(accept).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The key and the answer are those of RFC 6455, section 1.3.
    #[test]
    fn a_key_has_one_answer_and_what_is_no_key_has_none() {
        let of = |key| accept(&HeaderValue::from_static(key));
        let answer = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(of("dGhlIHNhbXBsZSBub25jZQ=="), Some(answer));
        for key in ["", "x", "dGhlIHNhbXBsZSBub25jZ", "AAAA"] {
            assert_eq!(of(key), None, "{key}");
        }
    }
}
