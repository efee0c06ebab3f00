//! The URL of a server: `tcp://HOST:PORT`, for `sync --server` and `serve --listen`.

use model::{Code, Failure};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// The port of Syncline when the URL names none.
const PORT_DEFAULT: u16 = 2439;

/// The URL of a server or of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    host: String,
    port: u16,
}

impl ServerUrl {
    /// Understands `tcp://HOST`, `tcp://HOST:PORT` and `tcp://[IPv6]:PORT`.
    pub(crate) fn parse(text: &str) -> Result<ServerUrl, Failure> {
        let shown = without_user(text);
        let bad = |why: &str| {
            Failure::new(Code::BadUrl, format!("`{shown}` is no server URL: {why}"))
                .hint("write tcp://HOST:PORT")
        };
        if shown != text {
            return Err(bad("it must not contain a user or a password")
                .hint("write tcp://HOST:PORT, and give --user and --password-file"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad("it does not begin with tcp://"));
        };
        match scheme {
            "tcp" => {}
            "tls" | "http" | "https" => {
                return Err(bad(&format!("{scheme}:// is not supported by this version")));
            }
            _ => return Err(bad(&format!("{scheme}:// is unknown"))),
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_port(authority).ok_or_else(|| bad("its host is malformed"))?;
        let port = match port {
            None => PORT_DEFAULT,
            Some(port) => port.parse().map_err(|_| bad("its port is not a number up to 65535"))?,
        };
        Ok(ServerUrl { host: host.to_owned(), port })
    }

    /// `host:port`, an IPv6 address in brackets.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether what is sent stays within this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp://{}", self.address())
    }
}

/// The URL without the part before an `@`, which may be a password.
fn without_user(text: &str) -> Cow<'_, str> {
    let begin = text.find("://").map_or(0, |at| at + "://".len());
    match text.rfind('@') {
        Some(at) if at >= begin => format!("{}…{}", &text[..begin], &text[at..]).into(),
        Some(at) => format!("…{}", &text[at..]).into(),
        None => text.into(),
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':')?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let malformed = host.is_empty() || host.contains(|c: char| "/@?#".contains(c) || c <= ' ');
    (!malformed).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, url: &str, loopback: bool) {
        let parsed = ServerUrl::parse(text).unwrap();
        assert_eq!((parsed.to_string().as_str(), parsed.is_loopback()), (url, loopback));
    }

    #[test]
    fn urls_are_understood_and_completed() {
        check("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", true);
        check("tcp://localhost", "tcp://localhost:2439", true);
        check("tcp://sync.example.com:99/", "tcp://sync.example.com:99", false);
        check("tcp://[::1]:7", "tcp://[::1]:7", true);
        check("tcp://[fe80::1]", "tcp://[fe80::1]:2439", false);
        check("tcp://0.0.0.0:1", "tcp://0.0.0.0:1", false);
    }

    /// It was printed, and so went into logs.
    #[test]
    fn a_password_in_a_url_is_not_repeated() {
        for text in [
            "tcp://u:secret@host:1",
            "tcp://secret@host",
            "tcp://u:se@secret@host/",
            "u:secret@host",
            "u:secret@tcp://host",
            "tls://u:secret@host",
            "tcp://host/?x=secret@y",
        ] {
            let failure = ServerUrl::parse(text).unwrap_err();
            assert_eq!(failure.code(), Code::BadUrl);
            assert!(!failure.full_message().contains("secret"), "{failure}");
            assert!(failure.hint_text().contains("--password-file"));
        }
    }

    #[test]
    fn what_is_no_server_url_is_refused() {
        for text in [
            "",
            "localhost:2439",
            "tls://a:1",
            "http://a",
            "sqlite:x",
            "tcp://",
            "tcp://:1",
            "tcp://a:b",
            "tcp://a:65536",
            "tcp://u@a",
            "tcp://[::1",
            "tcp://[::1]x",
            "tcp://a/b",
        ] {
            assert_eq!(ServerUrl::parse(text).unwrap_err().code(), Code::BadUrl, "{text}");
        }
    }
}
