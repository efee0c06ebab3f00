//! Named points at which a test can have this process killed.
//!
//! `FAILPOINTS="server-upload-committed=return"` in a build with the feature `fail-points` ends
//! the process at that point with SIGKILL: nothing is cleaned up, nothing is flushed. In other
//! builds the points are not there.

macro_rules! fail_point {
    ($name:literal) => {
        fail::fail_point!($name, |_| $crate::fail_point::kill());
    };
    // Prepares for a point: the function returns this value where the point is set.
    ($name:literal, $value:expr) => {
        fail::fail_point!($name, |_| $value);
    };
}
pub(crate) use fail_point;

#[cfg(feature = "fail-points")]
pub(crate) fn kill() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}
