//! Places where a test may kill this process, to prove that this is safe at any moment.
//!
//! The environment activates them in a program built with the feature `fail-points`, for example
//! `FAILPOINTS="client-frozen=return"`. Without the feature they are not compiled.

/// Kills the process here when the point of this name is set.
macro_rules! fail_point {
    ($name:literal) => {
        #[cfg(feature = "fail-points")]
        crate::fail_point::pass($name);
    };
}
pub(crate) use fail_point;

/// Returns, unless the point is set.
#[cfg(feature = "fail-points")]
pub(crate) fn pass(name: &str) {
    fail::fail_point!(name, |_| kill());
}

/// Ends the process as a power cut would: nothing is flushed, nothing is dropped.
#[cfg(feature = "fail-points")]
fn kill() {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort();
}
