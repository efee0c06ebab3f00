//! A program of the system beside a test, which ends with the program that started it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Its input ends when the program does. It has nothing that it could lose.
const SCRIPT: &str = r#"
PATH="$PATH:/usr/sbin"
exec 3<&0
"$@" </dev/null 3<&- &
pid=$!
(cat <&3 >/dev/null; kill -KILL "$pid" 2>/dev/null) &
exec 3<&-
wait "$pid"
"#;

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Beside(Child);

impl Beside {
    /// Starts it. `prepare` may choose who runs it.
    pub(crate) fn start(command: &[&str], prepare: impl FnOnce(&mut Command)) -> Beside {
        let mut shell = Command::new("sh");
        prepare(&mut shell);
        shell.args(["-c", SCRIPT, "beside"]).args(command).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Beside(shell.process_group(0).spawn().unwrap())
    }

    /// Whether it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
