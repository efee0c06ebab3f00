//! The URL of a server: `tls://HOST:PORT`, for `sync --server` and `serve --listen`.

use crate::code::Code;
use crate::failure::Failure;
use core::net::IpAddr;
use std::borrow::Cow;
use std::fmt;

/// The port of Syncline when the URL names none.
const PORT_DEFAULT: u16 = 2439;

/// What carries the bytes of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `tcp://`: in clear text.
    Tcp,
    /// `tls://`: encrypted.
    Tls,
    /// `http://`: in clear text, through proxies.
    Http,
    /// `https://`: encrypted, through proxies.
    Https,
    /// `ws://`: in clear text, through proxies, in both directions at once.
    Ws,
    /// `wss://`: the same, encrypted.
    Wss,
}

impl Scheme {
    /// Every one, in the order in which a message lists them.
    pub const ALL: [Scheme; 6] =
        [Scheme::Tcp, Scheme::Tls, Scheme::Http, Scheme::Https, Scheme::Ws, Scheme::Wss];

    /// As in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Tcp => "tcp",
            Scheme::Tls => "tls",
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
        }
    }

    /// The port of a URL that names none.
    pub fn port_default(self) -> u16 {
        match self {
            Scheme::Tcp | Scheme::Tls => PORT_DEFAULT,
            Scheme::Http | Scheme::Ws => 80,
            Scheme::Https | Scheme::Wss => 443,
        }
    }

    /// Whether HTTP is spoken, at least at first, and a URL may have a path.
    pub fn is_http(self) -> bool {
        match self {
            Scheme::Tcp | Scheme::Tls => false,
            Scheme::Http | Scheme::Https | Scheme::Ws | Scheme::Wss => true,
        }
    }

    /// Whether HTTP is left for WebSocket.
    pub fn is_websocket(self) -> bool {
        matches!(self, Scheme::Ws | Scheme::Wss)
    }

    /// Whether nobody on the way can read what is sent.
    pub fn is_encrypted(self) -> bool {
        match self {
            Scheme::Tcp | Scheme::Http | Scheme::Ws => false,
            Scheme::Tls | Scheme::Https | Scheme::Wss => true,
        }
    }
}

/// The URL of a server or of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: Scheme,
    host: String,
    port: u16,
    /// Empty, or `/PREFIX`.
    path: String,
}

impl ServerUrl {
    /// Understands `tls://HOST`, `tls://HOST:PORT` and `tls://[IPv6]:PORT`, the same with another
    /// scheme, and a path behind it where HTTP is spoken.
    pub fn parse(text: &str) -> Result<ServerUrl, Failure> {
        let shown = without_user(text);
        let bad = |why: &str| {
            Failure::new(Code::BadUrl, format!("`{shown}` is no server URL: {why}")).hint(
                "write tls://HOST:PORT, https://HOST:PORT/PREFIX or wss://HOST:PORT/PREFIX; \
                     without encryption tcp://, http:// or ws://",
            )
        };
        if shown != text {
            return Err(bad("it must not contain a user or a password")
                .hint("write tls://HOST:PORT, and give --user and --password-file"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad(
                "it begins with none of tls, https, wss, tcp, http and ws, each with ://",
            ));
        };
        let Some(scheme) = Scheme::ALL.into_iter().find(|known| known.name() == scheme) else {
            return Err(bad(&format!("{scheme}:// is unknown")));
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = if path == "/" { "" } else { path.strip_suffix('/').unwrap_or(path) };
        if !path.is_empty() && !scheme.is_http() {
            return Err(bad(&format!("{}:// has no path", scheme.name())));
        }
        // Spelled the same by everybody who compares it.
        let plain = |it: u8| it.is_ascii_alphanumeric() || b"-_.~/".contains(&it);
        if !path.bytes().all(plain) || path.contains("//") || path.contains("/.") {
            return Err(bad("its path has other characters than letters, digits, - _ . ~ and /"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| bad("its host is malformed"))?;
        let port = match port {
            None => scheme.port_default(),
            Some(port) => port.parse().map_err(|_| bad("its port is not a number up to 65535"))?,
        };
        Ok(ServerUrl { scheme, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// What carries the bytes.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The name or address of the machine, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What stands before every path: empty, or `/PREFIX`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `host:port`, an IPv6 address in brackets.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether what is sent stays within this machine.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.address(), self.path)
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
        check("tls://sync.example.com/", "tls://sync.example.com:2439", false);
        check("tls://[::1]:7", "tls://[::1]:7", true);
        check("http://sync.example.com/a/b/", "http://sync.example.com:80/a/b", false);
        check("https://sync.example.com", "https://sync.example.com:443", false);
        check("https://[::1]:8080/", "https://[::1]:8080", true);
        check("ws://sync.example.com/a", "ws://sync.example.com:80/a", false);
        check("wss://localhost", "wss://localhost:443", true);
    }

    #[test]
    fn a_url_without_a_known_scheme_is_told_all_schemes() {
        for text in ["sync.example.com:2439", "wt://sync.example.com"] {
            let failure = ServerUrl::parse(text).unwrap_err();
            for scheme in Scheme::ALL {
                let scheme = format!("{}://", scheme.name());
                assert!(failure.hint_text().contains(&scheme), "{}", failure.hint_text());
            }
        }
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
            "https://u:secret@host/x",
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
            "wt://a",
            "http://",
            "http://a/?x",
            "http://a/#x",
            "http://a/b c",
            "http://a/x//y",
            "http://a/../y",
            "tls://u@a",
            "tls:///a",
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
