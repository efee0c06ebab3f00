//! The certificates of a cluster: an authority of its own, and one for the server signed by it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The authority's certificate, below the data folder.
pub(super) const ROOT: &str = "root.crt";

/// Writes them under the names that PostgreSQL looks for by itself, but for the authority's.
pub(super) fn write(data: &Path) {
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    openssl(
        data,
        &[
            &["req", "-x509", "-days", "3650", "-subj", "/CN=Test authority"][..],
            &new_key,
            &["-keyout", "root.key", "-out", ROOT],
        ]
        .concat(),
    );
    openssl(
        data,
        &[
            &["req", "-subj", "/CN=localhost", "-addext"][..],
            &["subjectAltName=DNS:localhost,IP:127.0.0.1"],
            &new_key,
            &["-keyout", "server.key", "-out", "server.csr"],
        ]
        .concat(),
    );
    openssl(
        data,
        &[
            &["x509", "-req", "-days", "3650", "-copy_extensions", "copyall"][..],
            &["-CA", ROOT, "-CAkey", "root.key", "-CAcreateserial"],
            &["-in", "server.csr", "-out", "server.crt"],
        ]
        .concat(),
    );
    fs::set_permissions(data.join("server.key"), Permissions::from_mode(0o600)).unwrap();
}

/// Writes a certificate for a client of this name, and its key.
pub(super) fn write_client(data: &Path, name: &str) -> (PathBuf, PathBuf) {
    let [key, request, signed] = ["key", "csr", "crt"].map(|end| format!("client-{name}.{end}"));
    let subject = format!("/CN={name}");
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let asked = ["req", "-subj", &subject, "-keyout", &key, "-out", &request];
    openssl(data, &[&asked[..], &new_key].concat());
    openssl(
        data,
        &[
            &["x509", "-req", "-days", "3650", "-CA", ROOT, "-CAkey", "root.key"][..],
            &["-CAcreateserial", "-in", &request, "-out", &signed],
        ]
        .concat(),
    );
    fs::set_permissions(data.join(&key), Permissions::from_mode(0o600)).unwrap();
    (data.join(signed), data.join(key))
}

fn openssl(data: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(data).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {told}");
}
