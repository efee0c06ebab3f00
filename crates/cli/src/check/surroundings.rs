//! What surrounds a server: the files of its database, the room on their disk, its clock.

use consolidated::{Administration, Finding, Severity, Url};
use model::{Failure, civil_date};
use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use std::path::Path;

/// With less free room a large upload may fill the disk.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Clocks that differ by more decide otherwise whether a token or a certificate is valid.
const CLOCK_DIFFERENCE_S_MAX: u64 = 60;

const DAY_S: i64 = 24 * 60 * 60;

/// What is wrong with the files of a database that is one, and with their disk.
pub(super) fn of_files(database: &Url) -> Vec<Finding> {
    let Url::Sqlite(file) = database else { return Vec::new() };
    let Some(folder) = file.parent() else { return Vec::new() };
    let needed = Access::READ_OK | Access::WRITE_OK;
    let places = [(folder, needed | Access::EXEC_OK), (file.as_path(), needed)];
    let mut findings: Vec<Finding> =
        places.into_iter().filter_map(|(place, needed)| not_accessible(place, needed)).collect();
    findings.extend(room(folder));
    findings
}

/// What is wrong with the folder for rows that do not fit in memory. The server does not make it,
/// and looks for it when it needs it.
pub(super) fn of_spill(folder: &Path) -> Vec<Finding> {
    if !folder.is_dir() {
        let message = format!(
            "there is no folder {}, which `spill_dir` names; make it, for the user of the server",
            folder.display()
        );
        return vec![Finding { severity: Severity::Error, table: None, message }];
    }
    let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    not_accessible(folder, needed).into_iter().chain(room(folder)).collect()
}

fn room(folder: &Path) -> Option<Finding> {
    let disk = statvfs(folder).ok()?;
    short_of_room(folder, disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn not_accessible(place: &Path, needed: Access) -> Option<Finding> {
    // A file that is missing is told by those who open it.
    let why = access(place, needed).err().filter(|why| *why != Errno::NOENT)?;
    let place = place.display();
    let message = format!(
        "this user may not read and write {place} ({why}); run the command as the user of the \
         server, or give that user {place} with chown"
    );
    Some(Finding { severity: Severity::Error, table: None, message })
}

fn short_of_room(folder: &Path, free_bytes: u64) -> Option<Finding> {
    (free_bytes < FREE_BYTES_MIN).then(|| {
        let (folder, free_mib) = (folder.display(), free_bytes >> 20);
        notice(format!(
            "only {free_mib} MiB are free on the disk of {folder}; free some before uploads fill it"
        ))
    })
}

/// What is wrong with the clock of this machine.
pub(super) fn of_clock(
    now_unix_s: i64,
    admin: &mut dyn Administration,
) -> Result<Vec<Finding>, Failure> {
    let there = admin.clock_unix_s()?;
    let remotes = admin.remotes(None)?.into_iter();
    let newest = remotes.flat_map(|it| [it.last_upload_at, it.last_download_at]).flatten().max();
    Ok(wrong_clock(now_unix_s, there, newest.as_deref()))
}

fn wrong_clock(now_unix_s: i64, there: Option<i64>, newest: Option<&str>) -> Vec<Finding> {
    let set = "set both by the network, as with NTP: tokens and certificates depend on it";
    let differ_s = there.map_or(0, |there| there.abs_diff(now_unix_s));
    let differs = (differ_s > CLOCK_DIFFERENCE_S_MAX).then(|| {
        notice(format!(
            "the clocks of this machine and of the database differ by {differ_s} s; {set}"
        ))
    });
    let (year, ..) = civil_date(now_unix_s.div_euclid(DAY_S));
    let newest_year = newest.and_then(|at| at.get(..4)?.parse::<i64>().ok());
    let before = newest_year.filter(|newest| year < *newest).map(|newest| {
        notice(format!(
            "the clock of this machine says {year}, and a remote has synchronized in {newest}; set \
             the clock"
        ))
    });
    differs.into_iter().chain(before).collect()
}

fn notice(message: String) -> Finding {
    Finding { severity: Severity::Notice, table: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        let tell = |it: Finding| {
            assert_eq!(it.severity, Severity::Notice);
            it.message
        };
        findings.into_iter().map(tell).collect()
    }

    #[test]
    fn clocks_may_differ_by_a_minute_and_stand_in_no_former_year() {
        // 2026-12-01.
        let now = 1_796_083_200;
        let newest = Some("2026-12-24 08:00:00");
        assert!(wrong_clock(now, Some(now + 60), newest).is_empty());
        assert!(wrong_clock(now, None, None).is_empty());
        let differs = told(wrong_clock(now, Some(now - 61), newest));
        assert!(differs.len() == 1 && differs[0].contains("differ by 61 s"), "{differs:?}");
        let before = told(wrong_clock(now, None, Some("2027-01-01 00:00:00")));
        let says = "says 2026, and a remote has synchronized in 2027";
        assert!(before.len() == 1 && before[0].contains(says), "{before:?}");
    }

    #[test]
    fn little_room_is_told_in_mebibytes() {
        let folder = Path::new("/srv/shop");
        assert!(short_of_room(folder, FREE_BYTES_MIN).is_none());
        let told = told(short_of_room(folder, 3 << 20));
        assert!(told[0].starts_with("only 3 MiB are free on the disk of /srv/shop"), "{told:?}");
    }
}
