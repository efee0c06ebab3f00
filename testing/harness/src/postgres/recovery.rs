//! Clusters that were taken back: to a point in time, or to a copy of their folder.

use super::{Cluster, SUPERUSER, settings};
use crate::wait::until;
use std::fs;
use std::path::PathBuf;

/// For [`Cluster::start_with`]: keeps the write-ahead log beside the data.
pub const ARCHIVING: &str = "archive_mode = on
archive_command = 'cd .. && mkdir -p a && cp data/%p a/part && mv a/part a/%f'";

impl Cluster {
    /// A cluster with a copy of the data as it is now, which does not run yet.
    pub fn base_backup(&self) -> Cluster {
        self.backup(&[])
    }

    pub(super) fn backup(&self, further: &[&str]) -> Cluster {
        let backup = Cluster::folder_only();
        backup.must_run(
            backup
                .command("pg_basebackup")
                .args(["--username", SUPERUSER, "--host"])
                .arg(&self.folder)
                .args(["--port", &self.port.to_string(), "--checkpoint=fast"])
                .args(further)
                .args(["--wal-method=stream", "--no-sync", "--pgdata"])
                .arg(backup.data()),
        );
        let given = self.databases.load(std::sync::atomic::Ordering::Relaxed);
        backup.databases.store(given, std::sync::atomic::Ordering::Relaxed);
        backup
    }

    /// Names the present moment, as a target for [`Cluster::recover`].
    pub fn restore_point(&self, name: &str) {
        self.superuser_sql(&format!("SELECT pg_create_restore_point('{name}')"));
    }

    /// Ends the present segment of the log and waits until it is in the archive.
    pub fn archive(&self) {
        let ended = self.superuser_query("SELECT pg_walfile_name(pg_switch_wal())");
        let archived = self.archive_folder().join(ended.trim());
        until("the log to be archived", || archived.exists());
    }

    /// Starts this backup and recovers it from the archive of `origin`, which may be dead, up to a
    /// point of it; there it becomes a primary, on a timeline of its own.
    pub fn recover(&mut self, origin: &Cluster, point: &str) {
        let archive = origin.archive_folder();
        settings::append(
            &self.data(),
            &format!(
                "restore_command = 'cp {}/%f %p'\nrecovery_target_name = '{point}'
recovery_target_action = 'promote'",
                archive.display()
            ),
        );
        let signal = self.data().join("recovery.signal");
        fs::write(&signal, "").unwrap();
        self.account.own(&signal);
        self.start_on_free_port();
        until("the recovery", || self.superuser_query("SELECT pg_is_in_recovery()").trim() == "f");
    }

    /// Copies the data of the stopped cluster aside, as a snapshot of the machine has it.
    pub fn keep_data(&self) {
        self.copy_data(self.data(), self.folder.join("kept"));
    }

    /// Puts the copy in the place of the data of the stopped cluster.
    pub fn set_back(&self) {
        fs::remove_dir_all(self.data()).unwrap();
        self.copy_data(self.folder.join("kept"), self.data());
    }

    fn copy_data(&self, from: PathBuf, to: PathBuf) {
        let mut copy = std::process::Command::new("cp");
        self.account.run(&mut copy);
        self.must_run(copy.arg("-a").arg(from).arg(to));
    }

    fn archive_folder(&self) -> PathBuf {
        self.folder.join("a")
    }
}
