//! The unprivileged account that runs PostgreSQL, which refuses to be run by root.

use rustix::process::geteuid;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whom to become, unless this process is unprivileged itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account(Option<(u32, u32)>);

impl Account {
    /// The account of PostgreSQL's package, or else nobody's.
    pub(super) fn find() -> Account {
        if !geteuid().is_root() {
            return Account(None);
        }
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap();
        let found = ["postgres", "nobody"].iter().find_map(|name| ids_of(&accounts, name));
        Account(Some(found.expect("an unprivileged account")))
    }

    /// Lets a command run as this account, in a group of its own, so that what ends a test from
    /// the terminal leaves the end of the server to those who know how.
    pub(super) fn run(self, command: &mut Command) {
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command.process_group(0);
    }

    /// Gives it a folder with all that is in it.
    pub(super) fn own(self, path: &Path) {
        let Some((user, group)) = self.0 else { return };
        chown(path, Some(user), Some(group)).unwrap();
        if path.is_dir() {
            for entry in path.read_dir().unwrap() {
                self.own(&entry.unwrap().path());
            }
        }
    }
}

fn ids_of(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
