//! What the status line says of a Hello.
//!
//! It is for those between the two: proxies that count errors, and log files. The peer reads the
//! same in the body, with more words.

use hyper::StatusCode;
use model::{Code, Failure};

/// A status, and when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionStatus {
    pub(super) status: StatusCode,
    pub(super) retry_after_s: Option<u32>,
}

impl SessionStatus {
    pub(super) fn of(judgment: Result<(), &Failure>) -> SessionStatus {
        match judgment {
            Ok(()) => SessionStatus { status: StatusCode::OK, retry_after_s: None },
            Err(failure) => {
                SessionStatus { status: status(failure), retry_after_s: failure.retry_after() }
            }
        }
    }
}

fn status(failure: &Failure) -> StatusCode {
    match failure.code() {
        Code::AuthenticationFailed
        | Code::TokenRefused
        | Code::ClientCertificateNeeded
        | Code::CertificateOfAnother => StatusCode::UNAUTHORIZED,
        Code::FrameTooLarge | Code::UploadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::PasswordsSlowed => StatusCode::TOO_MANY_REQUESTS,
        Code::ServerFull
        | Code::ServerStopping
        | Code::MemoryShort
        | Code::PlaceYielded
        | Code::DatabaseBusy
        | Code::DatabaseUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        // What is wrong is between the two ends, which know what to do about it.
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S11
    #[test]
    fn a_status_says_who_must_act_and_when_to_come_back() {
        let check = |code, status, retry_after_s| {
            let mut failure = Failure::new(code, "x");
            if let Some(seconds) = retry_after_s {
                failure = failure.retry_after_s(seconds);
            }
            let verdict = SessionStatus::of(Err(&failure));
            assert_eq!((verdict.status.as_u16(), verdict.retry_after_s), (status, retry_after_s));
        };
        check(Code::AuthenticationFailed, 401, None);
        check(Code::TokenRefused, 401, None);
        check(Code::FrameTooLarge, 413, None);
        check(Code::PasswordsSlowed, 429, Some(7));
        check(Code::ServerFull, 503, Some(3));
        check(Code::ServerStopping, 503, Some(9));
        check(Code::CopiedRemote, 200, None);
        assert_eq!(SessionStatus::of(Ok(())).status.as_u16(), 200);
    }
}
