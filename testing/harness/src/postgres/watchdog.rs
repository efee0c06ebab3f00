//! Ends a cluster when the program that started it is gone, however it went.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Its input ends when the program does, because nobody else has the other end of the pipe.
///
/// A process is ended only where it is the server of this very folder: numbers are used again.
const SCRIPT: &str = r#"
cat >/dev/null
server() { grep -aqs -e "$1" "/proc/$pid/cmdline"; }
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && server "$1"; then
    kill -QUIT "$pid"
    while server "$1"; do sleep 0.05; done
fi
rm -rf "$1"
"#;

/// A small process that waits for the end of this one.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Watches over the cluster in this folder, which goes with it.
    pub(super) fn start(folder: &Path) -> Watchdog {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder).current_dir("/");
        // It must not hold open what the test prints to, nor be ended together with it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Watchdog(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
