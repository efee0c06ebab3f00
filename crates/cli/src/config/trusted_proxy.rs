//! A proxy that is believed, as the configuration names it.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The address of a proxy, or a network: `10.0.0.1`, `10.0.0.0/8`, `::1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TrustedProxy(pub(crate) IpNet);

impl TryFrom<String> for TrustedProxy {
    type Error = String;

    fn try_from(text: String) -> Result<TrustedProxy, String> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address)),
            Err(_) => text.parse(),
        };
        let known =
            |_| format!("`{text}` is no address, as 10.0.0.1, and no network, as 10.0.0.0/8");
        net.map(TrustedProxy).map_err(known)
    }
}

impl From<TrustedProxy> for String {
    fn from(proxy: TrustedProxy) -> String {
        proxy.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let of = |text: &str| TrustedProxy::try_from(text.to_owned()).map(String::from);
        assert_eq!(of("10.0.0.1").unwrap(), "10.0.0.1/32");
        assert_eq!(of("10.0.0.0/8").unwrap(), "10.0.0.0/8");
        assert_eq!(of("::1").unwrap(), "::1/128");
        for rubbish in ["", "proxy.example.com", "10.0.0.1:80", "10.0.0.0/33", "10/8"] {
            assert!(of(rubbish).unwrap_err().contains(rubbish), "{rubbish}");
        }
    }
}
