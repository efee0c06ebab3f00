//! Uses a package that was made, as somebody who has nothing else of the project.
//!
//! It is unpacked into an empty folder, and the program runs the demo from there. Where systemd is,
//! it verifies the unit. As root, where nothing of the name is installed, the package of Debian is
//! also installed, its service's user serves a remote from the folders of the package, and the
//! package is purged again.

use super::file::at;
use crate::checkout::output;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Unpacks, checks and uses the package.
pub(super) fn run(package: &Path) -> Result<(), String> {
    let folder = TempDir::with_prefix("syncline-package-").map_err(|error| error.to_string())?;
    let is_debian = package.extension().is_some_and(|it| it == "deb");
    let usr = match is_debian {
        true => {
            output(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder.path()))?;
            folder.path().join("usr")
        }
        false => {
            let mut tar = Command::new("tar");
            output(tar.arg("--extract").arg("--file").arg(package).arg("-C").arg(folder.path()))?;
            only_folder(folder.path())?
        }
    };
    use_tree(&usr, folder.path())?;
    if is_debian {
        ask_systemd(folder.path())?;
        if may_install() {
            installed(package, folder.path())?;
        } else {
            println!("not installed: this needs root, and no package syncline on the machine");
        }
    }
    Ok(())
}

/// Everything has its place and its mode, and the program does its main job.
fn use_tree(usr: &Path, folder: &Path) -> Result<(), String> {
    let expected = [
        ("bin/syncline", 0o755),
        ("share/man/man1/syncline.1", 0o644),
        ("share/man/man1/syncline-serve.1", 0o644),
        ("share/bash-completion/completions/syncline", 0o644),
        ("lib/systemd/system/syncline.service", 0o644),
        ("share/doc/syncline/README.md", 0o644),
    ];
    for (place, mode) in expected {
        let path = usr.join(place);
        let metadata = fs::metadata(&path).map_err(|error| at(&path, &error))?;
        let found = metadata.permissions().mode() & 0o7777;
        if found != mode || metadata.len() == 0 {
            return Err(format!("{place}: mode {found:o} in place of {mode:o}, or empty"));
        }
    }
    let demo = folder.join("demo");
    output(Command::new(usr.join("bin/syncline")).args(["demo", "--dir"]).arg(&demo))?;
    Ok(())
}

/// The unit is one that systemd understands; its program is looked for in the unpacked tree.
fn ask_systemd(root: &Path) -> Result<(), String> {
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").arg("--man=no").arg("--recursive-errors=no");
    verify.arg(format!("--root={}", root.display()));
    let said = match verify.arg("syncline.service").output() {
        Ok(said) => said,
        Err(_) => {
            println!("no systemd-analyze on this machine: the unit is not verified");
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&said.stderr);
    match said.status.success() && !text.contains("syncline.service:") {
        true => Ok(()),
        false => Err(format!("systemd-analyze: {text}")),
    }
}

fn may_install() -> bool {
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let is_known = Command::new("dpkg")
        .args(["--status", "syncline"])
        .output()
        .is_ok_and(|said| said.status.success());
    is_root && !is_known && !Path::new("/etc/syncline").exists()
}

/// Installs the package, serves a remote as the service would, and purges it.
fn installed(package: &Path, folder: &Path) -> Result<(), String> {
    output(Command::new("dpkg").arg("--install").arg(package))?;
    let used = serve_and_synchronize(folder);
    let purged = output(Command::new("dpkg").args(["--purge", "syncline"]));
    for left in ["/etc/syncline", "/var/lib/syncline"] {
        fs::remove_dir_all(left).map_err(|error| at(Path::new(left), &error))?;
    }
    let _user = output(Command::new("deluser").args(["--quiet", "--system", "syncline"]))?;
    used.and(purged.map(drop))
}

fn serve_and_synchronize(folder: &Path) -> Result<(), String> {
    let secret = "/etc/syncline/ann.secret";
    let steps: &[&[&str]] = &[
        &["init", "/etc/syncline", "--consolidated", "sqlite:/var/lib/syncline/shop.db"],
        &["deploy", "--dir", "/etc/syncline"],
        &["user", "add", "ann", "--dir", "/etc/syncline", "--password-file", secret],
    ];
    let sql = "CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT); \
               INSERT INTO product VALUES (1, 'Tea')";
    output(as_service("sqlite3").args(["/var/lib/syncline/shop.db", sql]))?;
    let write = format!("umask 077; echo 'open sesame' > {secret}");
    output(as_service("sh").args(["-c", &write]))?;
    for step in steps {
        output(as_service("/usr/bin/syncline").args(*step))?;
    }
    let (mut server, url) = listening(
        as_service("/usr/bin/syncline")
            .args(["serve", "--dir", "/etc/syncline", "--log", "off"])
            .args(["--listen", "tcp://127.0.0.1:0"]),
    )?;
    let remote = folder.join("ann.db");
    let synchronized = output(Command::new("/usr/bin/syncline").arg("sync").arg(&remote).args([
        "--server",
        &url,
        "--user",
        "ann",
        "--password-file",
        secret,
    ]));
    server.kill().and_then(|()| server.wait().map(drop)).map_err(|error| error.to_string())?;
    let said = synchronized?;
    match said.contains("downloaded 1 row") {
        true => Ok(()),
        false => Err(format!("the installed server sent something else: {said}")),
    }
}

/// A program that runs as the user of the service.
fn as_service(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=syncline", "--regid=syncline", "--clear-groups", "--", program]);
    command.current_dir("/var/lib/syncline");
    command
}

/// A server that has said where it listens.
fn listening(command: &mut Command) -> Result<(Child, String), String> {
    let mut server = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut line = String::new();
    if let Some(printed) = server.stdout.take() {
        BufReader::new(printed).read_line(&mut line).map_err(|error| error.to_string())?;
    }
    match line.trim().strip_prefix("listening on ") {
        Some(url) => Ok((server, url.to_owned())),
        None => Err("the installed server does not listen".to_owned()),
    }
}

fn only_folder(folder: &Path) -> Result<PathBuf, String> {
    let mut entries = fs::read_dir(folder).map_err(|error| at(folder, &error))?;
    match (entries.next(), entries.next()) {
        (Some(Ok(entry)), None) => Ok(entry.path()),
        _ => Err("the archive has not exactly one folder".to_owned()),
    }
}
