//! The machine on which the figures were measured.

pub(crate) mod cpu;
pub(crate) mod processors;

use serde_json::{Value, json};

/// The profile of cargo that this program was built with: `debug`, `release`, `dist`.
pub(crate) const PROFILE: &str = env!("SYNCLINE_PROFILE");

/// The profile whose figures are published: slow to build, and the fastest.
pub(crate) const PUBLISHED_PROFILE: &str = "dist";

/// The machine and the program.
pub(crate) fn describe() -> Value {
    json!({
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "system": std::env::consts::OS,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "syncline": env!("CARGO_PKG_VERSION"),
        "build": PROFILE,
    })
}

/// Processors that programs of this user may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

fn cpu_model() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
