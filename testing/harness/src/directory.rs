//! A real directory: OpenLDAP's slapd, with a data folder of its own.

use crate::beside::Beside;
use crate::postgres::settings::free_port;
use crate::wait::until;
use crate::world::World;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// Above everybody in it.
const TOP: &str =
    "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\no: test\ndc: test\n";

/// A directory with the suffix `dc=test`. Dropping it ends it.
#[derive(Debug)]
pub struct Directory {
    _beside: Beside,
    /// In clear text.
    pub url: String,
    /// Encrypted, where it has a certificate.
    pub tls_url: String,
    _folder: TempDir,
}

impl Directory {
    /// Starts one with these entries in LDIF. It has the certificate `directory.pem` of the world,
    /// if there is one.
    pub fn start(world: &World, entries: &str) -> Directory {
        for _ in 0..STARTS_MAX {
            let folder = tempfile::Builder::new().prefix("directory-").tempdir().unwrap();
            let (clear, tls) = (free_port(), free_port());
            let has_tls = world.path("directory.pem").exists();
            let config = folder.path().join("slapd.conf");
            fs::write(&config, configuration(folder.path(), has_tls.then_some(world))).unwrap();
            fs::create_dir(folder.path().join("data")).unwrap();
            fill(&config, &format!("{TOP}\n{entries}"));
            let url = format!("ldap://127.0.0.1:{clear}");
            let tls_url = format!("ldaps://127.0.0.1:{tls}");
            let listen = if has_tls { format!("{url}/ {tls_url}/") } else { format!("{url}/") };
            let config = config.to_str().unwrap();
            let command = ["slapd", "-d", "0", "-h", &listen, "-f", config];
            let mut beside = Beside::start(&command, |_| {});
            let mut runs = true;
            until("slapd to listen", || {
                runs = beside.runs();
                !runs || TcpStream::connect(("127.0.0.1", clear)).is_ok()
            });
            if runs {
                return Directory { _beside: beside, url, tls_url, _folder: folder };
            }
        }
        panic!("slapd does not start; is it installed?");
    }

    /// Changes entries, as LDIF says it.
    pub fn modify(&self, ldif: &str) {
        let command = ["-x", "-H", &self.url, "-D", "cn=admin,dc=test", "-w", "admin-password"];
        pipe(Command::new("ldapmodify").args(command), ldif);
    }
}

fn fill(config: &Path, entries: &str) {
    // Not in the PATH of everybody.
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    pipe(Command::new("slapadd").env("PATH", path).arg("-f").arg(config), entries);
}

fn pipe(command: &mut Command, text: &str) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("OpenLDAP is installed (slapd, ldap-utils)");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn configuration(folder: &Path, certified: Option<&World>) -> String {
    let tls = match certified {
        None => String::new(),
        Some(world) => format!(
            "TLSCertificateFile {}\nTLSCertificateKeyFile {}\n",
            world.path("directory.pem").display(),
            world.path("directory.key").display()
        ),
    };
    let folder = folder.display();
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
{tls}access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=\"cn=blind,dc=test\" none by * read
database mdb
suffix dc=test
rootdn cn=admin,dc=test
rootpw admin-password
directory {folder}/data
"
    )
}
