//! A link of limited speed between the clients and the server of a run.
//!
//! It is a pair of network interfaces. The clients are in a network namespace of their own, where
//! they see nothing but their end. Only on Linux, as root, with the programs `ip` and `tc`.

use model::{Code, Failure};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What namespaces of runs are called; the number of the process follows.
const NAMESPACE_PREFIX: &str = "syncline-bench-";

/// Where the system keeps the names of namespaces.
const NAMESPACES: &str = "/run/netns";

/// Addresses for measurements of networks, 198.18.0.0/15 (RFC 2544). A link takes four of them.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const LINKS_MAX: u32 = 1 << 15;

/// How long a full link lets bytes wait in its queue, in milliseconds.
const QUEUE_MS: u32 = 50;

/// What may pass at once after a silence: so much time of the link, in milliseconds, and at least
/// one large packet.
const BURST_MS: u32 = 2;
const BURST_BYTES_MIN: u32 = 64 << 10;

/// A link. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Link {
    namespace: String,
    /// The interface at the end of the server.
    interface: String,
    address: Ipv4Addr,
}

impl Link {
    /// Makes a link of so many megabits per second in each direction.
    pub(crate) fn new(mbit: u32) -> Result<Link, Failure> {
        remove_what_killed_runs_left();
        let id = std::process::id();
        let first = FIRST_ADDRESS + id % LINKS_MAX * 4;
        let [address, other] = [first + 1, first + 2].map(Ipv4Addr::from_bits);
        let namespace = format!("{NAMESPACE_PREFIX}{id}");
        let [interface, peer] = ["a", "b"].map(|end| format!("slb{id}{end}"));
        let rate = format!("{mbit}mbit");
        let burst = format!("{}b", (mbit * 125 * BURST_MS).max(BURST_BYTES_MIN));
        let queue = format!("{QUEUE_MS}ms");
        let shape = ["root", "tbf", "rate", &rate, "burst", &burst, "latency", &queue];

        ip(&["netns", "add", &namespace])?;
        // From here on there is something to remove.
        let link = Link { namespace, interface, address };
        let (own, namespace) = (&*link.interface, &*link.namespace);
        ip(&["link", "add", own, "type", "veth", "peer", "name", &peer, "netns", namespace])?;
        ip(&["address", "add", &format!("{address}/30"), "dev", own])?;
        ip(&["-n", namespace, "address", "add", &format!("{other}/30"), "dev", &peer])?;
        command("tc", &[&["qdisc", "add", "dev", own], &shape[..]].concat())?;
        command("tc", &[&["-n", namespace, "qdisc", "add", "dev", &peer], &shape[..]].concat())?;
        ip(&["link", "set", own, "up"])?;
        ip(&["-n", namespace, "link", "set", &peer, "up"])?;
        Ok(link)
    }

    /// Where the server is.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A program at the other end. Its process is the one that is started.
    pub(crate) fn other_end(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        // No proxy is there.
        command.env("NO_PROXY", "*").env("no_proxy", "*");
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Fails where it was not made completely. The other end goes with this one.
        let _ = ip(&["link", "delete", &self.interface]);
        let _ = ip(&["netns", "delete", &self.namespace]);
    }
}

/// Who was killed could not remove its own.
fn remove_what_killed_runs_left() {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().map_while(Result::ok);
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some(id) = name.strip_prefix(NAMESPACE_PREFIX) else { continue };
        let runs = Path::new("/proc").join(id).exists();
        if id.parse::<u32>().is_ok() && !runs {
            // Its interfaces go with it. Another run may have been quicker.
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    command("ip", arguments)
}

fn command(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let failed = |why: String| {
        let message = format!("cannot make a link: {program} {}: {why}", arguments.join(" "));
        Failure::new(Code::CannotLink, message)
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(failed(told.lines().next().unwrap_or("it failed").to_owned()))
        }
    }
}
