//! The processor time of processes, as the operating system counts it. Only on Linux.

use std::time::Duration;

/// Ticks of a second in which Linux tells processor time to programs, on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// A child that ends while the children are read is in neither sum, so they are read again: so many
/// times, before a server whose processes end all the time counts as one that cannot be seen.
const READS_MAX: u32 = 100;

/// Processor time that a process has used so far; none if it cannot be seen.
pub(crate) fn used_by(process: u32) -> Option<Duration> {
    Stat::read(process).map(|stat| stat.own)
}

/// Processor time of a server of PostgreSQL: its main process, all others that live, and those
/// that have ended. `backend` is the process of one connection.
pub(crate) fn used_by_postgres(backend: u32) -> Option<Duration> {
    // In another container, the process number of a server may mean another process here.
    let command = std::fs::read(format!("/proc/{backend}/cmdline")).ok()?;
    if !command.starts_with(b"postgres:") {
        return None;
    }
    let main = Stat::read(backend)?.parent;
    let mut before = Stat::read(main)?;
    for _ in 0..READS_MAX {
        let living = used_by_children(main)?;
        let after = Stat::read(main)?;
        if after.ended_children == before.ended_children {
            return Some(after.own + after.ended_children + living);
        }
        before = after;
    }
    None
}

/// Living children of a process.
fn used_by_children(parent: u32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(stat) = Stat::read(process).filter(|stat| stat.parent == parent) {
            sum += stat.own;
        }
    }
    Some(sum)
}

/// The most memory that a living process ever held, in bytes.
pub(crate) fn peak_memory_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// The part of `/proc/PID/stat` that counts.
struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

impl Stat {
    fn read(process: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Stat> {
        // The name of the program stands in parentheses and may hold some itself.
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let time = |user: usize, system: usize| {
            Some(Duration::from_millis((ticks(user)? + ticks(system)?) * 1000 / TICKS_PER_SECOND))
        };
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            own: time(11, 12)?,
            ended_children: time(13, 14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let line = "17 (a) b (c)) S 4 17 17 0 -1 4194304 1 2 3 4 250 150 30 20 20 0 1 0 5 6 7";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.parent, 4);
        assert_eq!(stat.own, Duration::from_secs(4));
        assert_eq!(stat.ended_children, Duration::from_millis(500));
        assert!(Stat::parse("17 (a) S").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_seen_and_is_no_postgres() {
        let this = std::process::id();
        assert!(used_by(this).is_some());
        assert!(peak_memory_bytes(this).is_some_and(|bytes| bytes > 0));
        assert_eq!(used_by_postgres(this), None);
        assert_eq!(used_by(u32::MAX), None);
    }
}
