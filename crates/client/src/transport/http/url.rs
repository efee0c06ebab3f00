//! What HTTP makes of the URL of a server.

use model::ServerUrl;

/// `HOST`, with the port where it is not the usual one.
pub(super) fn authority(url: &ServerUrl) -> String {
    let address = url.address();
    match url.port() == url.scheme().port_default() {
        true => address.rsplit_once(':').map_or(&*address, |(host, _)| host).to_owned(),
        false => address,
    }
}

/// The path that synchronizations are posted to.
pub(super) fn sync_path(url: &ServerUrl) -> String {
    format!("{}/sync", url.path())
}

/// The path that a redirect leads to, if it stays within this server.
pub(super) fn redirected(url: &ServerUrl, location: &str) -> Option<String> {
    let path = match location.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, _) = rest.split_at(rest.find('/')?);
            let to = ServerUrl::parse(&format!("{scheme}://{authority}")).ok()?;
            // Who redirects a WebSocket may call it HTTP.
            let same = to.scheme().is_http()
                && to.scheme().is_encrypted() == url.scheme().is_encrypted()
                && to.address() == url.address();
            same.then(|| &rest[authority.len()..])?
        }
        None => location,
    };
    let within = path.starts_with('/') && !path.starts_with("//");
    (within && path.bytes().all(|it| it.is_ascii_graphic())).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_port_is_not_named() {
        let check = |url, name, path| {
            let url = ServerUrl::parse(url).unwrap();
            assert_eq!((authority(&url).as_str(), sync_path(&url).as_str()), (name, path));
        };
        check("http://a", "a", "/sync");
        check("https://a:443/x/", "a", "/x/sync");
        check("https://a:80/x", "a:80", "/x/sync");
        check("http://[::1]/x/y", "[::1]", "/x/y/sync");
        check("http://[::1]:7", "[::1]:7", "/sync");
    }

    // S7: what is sent has a password in it.
    #[test]
    fn a_redirect_stays_within_the_server() {
        let url = ServerUrl::parse("http://a:8080/x").unwrap();
        let check = |location, path: Option<&str>| {
            assert_eq!(redirected(&url, location).as_deref(), path, "{location}");
        };
        check("/y/sync", Some("/y/sync"));
        check("http://a:8080/y/sync", Some("/y/sync"));
        for elsewhere in [
            "http://a/y",
            "http://a:8081/y",
            "http://b:8080/y",
            "https://a:8080/y",
            "//b/y",
            "y",
            "http://a:8080@b/y",
            "http://u@a:8080/y",
            "",
            "http://a:8080",
            "/y\r\nx: y",
        ] {
            check(elsewhere, None);
        }
    }
}
