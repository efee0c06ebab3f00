//! The number of processors of a run: those that its processes may use.
//!
//! Only on Linux. The run restricts itself first, and so all processes that it starts. It does not
//! start a database server: the server's processes that work for the run are restricted one by one,
//! and end with the run.

use crate::session::Session;
use model::{Code, Failure};

/// Some of the processors that the run may use.
#[derive(Debug)]
pub(crate) struct Processors(system::Chosen);

impl Processors {
    /// Restricts this thread, and all that it starts from now on, to `count` processors.
    pub(crate) fn restrict(count: u32) -> Result<Processors, Failure> {
        let chosen = system::choose(count).map_err(|error| failed(error, "this program"))?;
        Ok(Processors(chosen))
    }

    /// Restricts the processes of all connections to the database of this session.
    pub(crate) fn pin_backends(&self, session: &mut Session) -> Result<(), Failure> {
        let rows = session.query(
            "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND backend_type = 'client backend'",
        )?;
        rows.iter().try_for_each(|row| {
            system::pin(row.get(0), &self.0).map_err(|error| failed(error, "the database"))
        })
    }
}

fn failed(error: std::io::Error, whom: &str) -> Failure {
    Failure::new(Code::CannotPin, format!("cannot choose the processors of {whom}")).source(error)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::io::Errno;
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::io;

    pub(crate) type Chosen = CpuSet;

    pub(crate) fn choose(count: u32) -> io::Result<Chosen> {
        let allowed = sched_getaffinity(None)?;
        let mut chosen = CpuSet::new();
        let places = (0..CpuSet::MAX_CPU).filter(|place| allowed.is_set(*place));
        places.take(count as usize).for_each(|place| chosen.set(place));
        sched_setaffinity(None, &chosen)?;
        Ok(chosen)
    }

    pub(crate) fn pin(process: i32, chosen: &Chosen) -> io::Result<()> {
        match sched_setaffinity(Pid::from_raw(process), chosen) {
            // It has ended since.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{self, ErrorKind};

    pub(crate) type Chosen = ();

    pub(crate) fn choose(_: u32) -> io::Result<Chosen> {
        Err(io::Error::new(ErrorKind::Unsupported, "this system has no way to do that"))
    }

    pub(crate) fn pin(_: i32, (): &Chosen) -> io::Result<()> {
        Ok(())
    }
}
