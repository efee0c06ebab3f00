//! How a cluster of the tests is configured.

use crate::Chance;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nothing here outlives the machine, so nothing is synced; a killed server loses nothing by that.
///
/// The last lines are a trap: a program that does not say how it wants times, numbers and bytes
/// to be written gets them in a way that hardly anybody expects.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
fsync = off
shared_buffers = 32MB
max_connections = 100
max_prepared_transactions = 20
wal_level = replica
max_wal_senders = 4
hot_standby = on
dynamic_shared_memory_type = mmap
password_encryption = scram-sha-256
jit = off
ssl = on
ssl_ca_file = 'root.crt'
TimeZone = 'America/St_Johns'
DateStyle = 'SQL, DMY'
IntervalStyle = sql_standard
bytea_output = escape
extra_float_digits = -2
";

/// Over TCP everybody shows a password; who can reach the socket may be anybody.
const ACCESS: &str = "
local all         all trust
local replication all trust
host  all         all 127.0.0.1/32 scram-sha-256
";

/// Ports below those that the system gives to outgoing connections, which come and go.
const PORTS: std::ops::Range<u32> = 12_000..30_000;

/// Writes all that is the same wherever the cluster listens.
pub(super) fn write(data: &Path, further: &str, rules: &str) {
    append(data, SETTINGS);
    append(data, further);
    // The first rule that fits counts.
    fs::write(data.join("pg_hba.conf"), format!("{rules}\n{ACCESS}")).unwrap();
}

/// Writes where the cluster listens. What is said last counts.
pub(super) fn write_place(data: &Path, socket_folder: &Path, port: u16) {
    let folder = socket_folder.display();
    append(data, &format!("unix_socket_directories = '{folder}'\nport = {port}\n"));
}

/// A port on 127.0.0.1 that nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    // No seed is named: what a test does must not depend on who listens where.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut chance = Chance::from_seed(u64::from(now.subsec_nanos()) ^ now.as_secs() << 20);
    let choices = u64::from(PORTS.end - PORTS.start);
    loop {
        let port = PORTS.start + u32::try_from(chance.below(choices)).unwrap();
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(super) fn append(data: &Path, text: &str) {
    let path = data.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    writeln!(file, "{text}").unwrap();
}
