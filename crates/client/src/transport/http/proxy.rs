//! The proxy that leads out of a company's network, as the environment names it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Code, Failure, ServerUrl};

/// A forward proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) url: ServerUrl,
    /// What it wants to know of its user, for its header.
    pub(super) authorization: Option<Authorization>,
}

/// `Basic …`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authorization(pub(super) String);

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authorization(…)")
    }
}

impl Proxy {
    /// The proxy on the way to this URL, if the environment names one. The machine itself is never
    /// behind one.
    pub(super) fn to(
        url: &ServerUrl,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Proxy>, Failure> {
        let either = |upper: &str| {
            let lower = || variable(&upper.to_ascii_lowercase());
            lower().or_else(|| variable(upper)).filter(|it| !it.is_empty())
        };
        let encrypted = url.scheme().is_encrypted();
        let named = either(if encrypted { "HTTPS_PROXY" } else { "HTTP_PROXY" });
        let Some(named) = named else { return Ok(None) };
        if url.is_loopback() || is_exempt(url, &either("NO_PROXY").unwrap_or_default()) {
            return Ok(None);
        }
        Proxy::parse(&named).map(Some)
    }

    /// `[http://][USER:PASSWORD@]HOST[:PORT][/]`.
    fn parse(text: &str) -> Result<Proxy, Failure> {
        let bad = |why: &str| {
            Failure::new(Code::ProxyRefused, format!("the proxy of the environment {why}"))
        };
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(bad("is not one of http://")),
            None => text,
        };
        let rest = rest.trim_end_matches('/');
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        // What is wrong with it may be a password.
        let url = ServerUrl::parse(&format!("http://{authority}"));
        let url = url.map_err(|_| bad("is no http://HOST:PORT"))?;
        let authorization =
            user.map(|user| Authorization(format!("Basic {}", STANDARD.encode(unescaped(user)))));
        Ok(Proxy { url, authorization })
    }

    /// What it is told of its user: a line of a head, or nothing.
    pub(super) fn authorization_line(&self) -> String {
        match &self.authorization {
            Some(Authorization(value)) => format!("proxy-authorization: {value}\r\n"),
            None => String::new(),
        }
    }
}

/// `NO_PROXY`: hosts, with all that ends in them, separated by commas; `*` is everything.
fn is_exempt(url: &ServerUrl, list: &str) -> bool {
    let host = url.host().to_ascii_lowercase();
    list.split(',').map(str::trim).filter(|it| !it.is_empty()).any(|entry| {
        // The port of an IPv6 address stands behind a bracket.
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
            _ => (entry, None),
        };
        if port.is_some_and(|port| port != url.port().to_string()) {
            return false;
        }
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
        let below = || host.strip_suffix(&name).is_some_and(|rest| rest.ends_with('.'));
        entry == "*" || host == name || below()
    })
}

/// A user part with its `%40` and the like.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let escaped = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match escaped.and_then(|it| u8::from_str_radix(it, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<(String, u16)> {
        let variable = |name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = Proxy::to(&ServerUrl::parse(url).unwrap(), variable).unwrap();
        proxy.map(|proxy| (proxy.url.host().to_owned(), proxy.url.port()))
    }

    #[test]
    fn the_environment_names_a_proxy_and_its_exceptions() {
        let named = Some(("proxy".to_owned(), 3128));
        let check = |url, no_proxy, wanted: &Option<(String, u16)>| {
            let variables = [("HTTP_PROXY", "http://proxy:3128/"), ("NO_PROXY", no_proxy)];
            assert_eq!(&proxy(url, &variables), wanted, "{url} {no_proxy}");
        };
        check("http://a.example", "", &named);
        check("http://a.example", "example", &None);
        check("http://a.example", "b.example, a.example", &None);
        check("http://a.example", ".example", &None);
        check("http://a.example", "*.example:81", &named);
        check("http://a.example:81", "*.example:81", &None);
        check("http://notexample", "example", &named);
        check("http://a.example", "*", &None);
        check("https://a.example", "", &None);
        check("http://[fe80::1]:81", "[fe80::1]:81", &None);
        check("http://[fe80::1]:81", "fe80::1", &None);
        check("http://[fe80::1]:82", "[fe80::1]:81", &named);
        check("http://127.0.0.1", "", &None);
        check("http://localhost:1", "", &None);
        check("http://[::1]:1", "", &None);
        assert_eq!(proxy("http://a", &[]), None);
        let encrypted = proxy("https://a", &[("https_proxy", "http://q:9")]);
        assert_eq!(encrypted, Some(("q".to_owned(), 9)));
        assert_eq!(proxy("http://a", &[("http_proxy", "p")]), Some(("p".to_owned(), 80)));
    }

    #[test]
    fn a_proxy_gets_its_password_and_no_log_does() {
        let proxy = Proxy::parse("http://ann:s%40crét@p:1").unwrap();
        let shown = format!("{proxy:?}");
        assert!(!shown.contains("crét") && !shown.contains("Basic"), "{shown}");
        let encoded = format!("Basic {}", STANDARD.encode("ann:s@crét"));
        assert_eq!(proxy.authorization, Some(Authorization(encoded)));
        for bad in ["socks5://p", "http://", "p:x"] {
            assert_eq!(Proxy::parse(bad).unwrap_err().code(), Code::ProxyRefused, "{bad}");
        }
    }
}
