//! The proxies in front of the server, and what they may say of those behind them.

use ipnet::IpNet;
use std::net::IpAddr;

/// Balancers and reverse proxies that stand in front of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Whose word on the address of a remote is believed.
    pub trusted: Vec<IpNet>,
    /// Each of their connections begins with a header of the PROXY protocol.
    pub protocol: bool,
}

impl Proxies {
    /// Whether what comes from this address is believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        // A socket for both families shows an address of IPv4 within one of IPv6.
        let address = address.to_canonical();
        self.trusted.iter().any(|net| net.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_given_to_networks() {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec();
        let proxies = Proxies { trusted, protocol: false };
        for address in ["10.255.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
            assert!(proxies.trusts(address.parse().unwrap()), "{address}");
        }
        for address in ["11.0.0.1", "::10.0.0.1", "2001:db9::1", "127.0.0.1"] {
            assert!(!proxies.trusts(address.parse().unwrap()), "{address}");
        }
        assert!(!Proxies::default().trusts("127.0.0.1".parse().unwrap()));
    }
}
