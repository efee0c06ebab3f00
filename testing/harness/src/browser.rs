//! A browser without a window, with a profile of its own and no network.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Width and height of a picture.
pub const BROWSER_PICTURE_SIZE: (u32, u32) = (1000, 1400);

/// Longest wait for the browser; it is slow to start where much else runs.
const BROWSER_WAIT_MAX: Duration = Duration::from_secs(300);

/// Chromium, and the folder where it leaves what it must.
#[derive(Debug)]
pub struct Browser {
    folder: PathBuf,
}

/// A browser that runs, with all its processes.
struct Running(Child);

impl Browser {
    /// A browser that leaves its files in a new folder.
    pub fn new(folder: &Path) -> Browser {
        fs::create_dir(folder).unwrap();
        Browser { folder: folder.to_owned() }
    }

    /// The elements of a page, as the browser has understood it.
    pub fn elements(&self, page: &Path) -> String {
        let output = self.folder.join("elements.html");
        self.run(page, &["--dump-dom"], &output);
        fs::read_to_string(output).unwrap()
    }

    /// What the page looks like, as a PNG; `arguments` are the browser's own.
    pub fn picture(&self, page: &Path, picture: &Path, arguments: &[&str]) -> Vec<u8> {
        let screenshot = format!("--screenshot={}", picture.display());
        let size = format!("--window-size={},{}", BROWSER_PICTURE_SIZE.0, BROWSER_PICTURE_SIZE.1);
        let arguments = [arguments, &[&*screenshot, &size, "--hide-scrollbars"]].concat();
        self.run(page, &arguments, &self.folder.join("nothing"));
        fs::read(picture).unwrap()
    }

    fn run(&self, page: &Path, arguments: &[&str], output: &Path) {
        let messages = self.folder.join("messages");
        // A profile is used once, so that no process of an earlier browser holds its lock.
        let profile = tempfile::tempdir_in(&self.folder).unwrap();
        let child = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--no-default-browser-check", "--disable-extensions"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--disable-crash-reporter", "--disable-breakpad"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .env("HOME", &self.folder)
            .env("XDG_CONFIG_HOME", &self.folder)
            .env("XDG_CACHE_HOME", &self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(output).unwrap())
            .stderr(File::create(&messages).unwrap())
            .process_group(0)
            .spawn()
            .expect("chromium, which `./test` installs");
        let mut running = Running(child);
        let started = Instant::now();
        let status = loop {
            if let Some(status) = running.0.try_wait().unwrap() {
                break Some(status);
            }
            if started.elapsed() > BROWSER_WAIT_MAX {
                break None;
            }
            sleep(Duration::from_millis(20));
        };
        let told = || fs::read_to_string(&messages).unwrap_or_default();
        let status = status.unwrap_or_else(|| panic!("the browser does not end: {}", told()));
        assert!(status.success(), "{status}: {}", told());
    }
}

impl Drop for Running {
    /// Ends what is left of the browser: the first process does not take all others with it.
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}
