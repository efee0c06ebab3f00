//! Options that are no numbers, as the sample file spells them out.

/// One option: name, example, and what it means.
pub(crate) struct SpelledOption {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    pub(crate) why: &'static str,
}

/// Those of the server itself, in the order of the sample file.
pub(crate) const OPTIONS: &[SpelledOption] = &[
    SpelledOption {
        name: "listen",
        value: "[\"tcp://127.0.0.1:2439\"]",
        why: "(URLs, tls://HOST:PORT, https://HOST:PORT/PREFIX, or without encryption \
              tcp://HOST:PORT and http://HOST:PORT/PREFIX): the addresses of the server. Those of \
              HTTP take HTTP/1.1, HTTP/2 and WebSocket (wss:// and ws:// at a remote). With the \
              default only this machine can reach it, because tcp:// sends passwords in clear \
              text. Port 0 takes a free port.",
    },
    SpelledOption {
        name: "allowed_origins",
        value: "[\"https://app.example.com\"]",
        why: "(https://HOST, or *): the web pages of other servers that may synchronize over HTTP \
              or WebSocket from a browser. Default: none.",
    },
    SpelledOption {
        name: "trusted_proxies",
        value: "[\"10.0.0.0/8\"]",
        why: "(addresses, or networks as ADDRESS/BITS): the balancers and reverse proxies in front \
              of the server. Only they may say whose connection they hand on, in the header \
              X-Forwarded-For of HTTP or by the PROXY protocol. Default: none, and all remotes \
              behind a proxy have its address.",
    },
    SpelledOption {
        name: "proxy_protocol",
        value: "false",
        why: "(true, false): whether each connection of a trusted proxy begins with a header of \
              the PROXY protocol, version 1 or 2.",
    },
    SpelledOption {
        name: "tls_certificate",
        value: "\"server.pem\"",
        why: "(a file, relative to this one): the certificate of the server for tls:// and \
              https://, in PEM format, followed by those of the authorities between it and the \
              root. `syncline cert dev` makes one to try.",
    },
    SpelledOption {
        name: "tls_key",
        value: "\"server.key\"",
        why: "(a file, relative to this one): the key of the certificate, which only its owner \
              may read.",
    },
    SpelledOption {
        name: "tls_client_ca",
        value: "\"ca.pem\"",
        why: "(a file, relative to this one): the authorities whose certificates remotes may \
              show.",
    },
    SpelledOption {
        name: "tls_client",
        value: "\"off\"",
        why: "(off, optional, required): whether remotes show certificates. One that is shown \
              stands for the password, and must always name the user. With required no remote is \
              served without one.",
    },
    SpelledOption {
        name: "tls_client_user",
        value: "\"cn\"",
        why: "(san_uri, san_dns, san_email, cn): where such a certificate names its user.",
    },
    SpelledOption {
        name: "require_tls",
        value: "false",
        why: "(true, false): whether the server refuses to listen for other machines without \
              encryption.",
    },
    SpelledOption {
        name: "allow_drain",
        value: "false",
        why: "(true, false): whether the script handle_error may end the server, by 4000. Without \
              it, 4000 cancels the upload.",
    },
    SpelledOption {
        name: "spill_dir",
        value: "\"/var/tmp\"",
        why: "(a folder): for rows that do not fit in memory. Default: the system's temporary \
              folder. Name a folder on a disk if the temporary folder is in memory.",
    },
    SpelledOption {
        name: "compression",
        value: "[\"zstd\", \"lz4\"]",
        why: "(zstd, lz4): how rows may be compressed on their way. Of these the first is used \
              that a remote reads; remotes on this machine ask for none. []: rows are never \
              compressed.",
    },
    SpelledOption {
        name: "log",
        value: "\"info\"",
        why: "(off, error, warn, info, debug, trace): how much the server logs. `--log` overrides \
              it.",
    },
];
