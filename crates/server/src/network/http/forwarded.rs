//! Whose request a proxy hands on: the header `X-Forwarded-For`.
//!
//! Each proxy adds the address from which it got the request at the right. What stands left of the
//! word of somebody who is not trusted may be made up, so it is not read.

use crate::config::Proxies;
use hyper::HeaderMap;
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Who sent the request, which came from `peer`.
pub(super) fn sender(peer: SocketAddr, headers: &HeaderMap, proxies: &Proxies) -> SocketAddr {
    let mut sender = peer;
    let lines = headers.get_all(X_FORWARDED_FOR).iter();
    let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
    for entry in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        if !proxies.trusts(sender.ip()) {
            break;
        }
        let Some(named) = address(entry.trim()) else { break };
        sender = named;
    }
    sender
}

/// An address, as some proxies write it with a port; port 0 where there is none.
fn address(entry: &str) -> Option<SocketAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, 0)),
        Err(_) => entry.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[track_caller]
    fn check(peer: &str, lines: &[&'static str], expected: &str) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_static(line));
        }
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec();
        let proxies = Proxies { trusted, protocol: false };
        let sender = sender(SocketAddr::new(peer.parse().unwrap(), 7), &headers, &proxies);
        assert_eq!(sender.ip().to_string(), expected);
    }

    // S7: nobody chooses the address under which wrong passwords are counted.
    #[test]
    fn only_trusted_proxies_are_believed() {
        check("192.0.2.1", &["198.51.100.1"], "192.0.2.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        // The left one was sent along by the client.
        check("10.0.0.1", &["203.0.113.9, 198.51.100.1"], "198.51.100.1");
        check("10.0.0.1", &["203.0.113.9", "198.51.100.1"], "198.51.100.1");
        // Two proxies in a row, and a remote within their network.
        check("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"], "198.51.100.1");
        check("10.0.0.1", &["10.0.0.3,10.0.0.2"], "10.0.0.3");
    }

    #[test]
    fn addresses_are_written_in_many_ways() {
        check("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1");
        check("2001:db8::1", &["[2001:db9::2]:4711"], "2001:db9::2");
        check("10.0.0.1", &["[2001:db9::2]"], "2001:db9::2");
        check("10.0.0.1", &["2001:db9::2"], "2001:db9::2");
        // Nobody knows who is behind these.
        for rubbish in ["unknown", "", ",", "1.2.3", "_hidden", "198.51.100.1, "] {
            check("10.0.0.1", &[rubbish], "10.0.0.1");
        }
    }
}
