//! One event in the life of a fleet, as plain data.

use super::model::Model;
use super::write::Write;

/// What happens. One that makes no sense where it comes is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One transaction of the application of a remote.
    WriteRemote {
        /// The number of the remote.
        remote: usize,
        /// Its statements.
        writes: Vec<Write>,
    },
    /// One transaction of another program at the center.
    WriteCenter {
        /// Its statements.
        writes: Vec<Write>,
    },
    /// A remote synchronizes.
    Synchronize {
        /// The number of the remote.
        remote: usize,
        /// Which parts.
        mode: Mode,
        /// What happens to it.
        fault: Fault,
    },
    /// A synchronization that stands still goes on.
    Continue {
        /// The number of the remote.
        remote: usize,
    },
    /// A user has other claims.
    SetClaims {
        /// The number of the user.
        user: usize,
        /// The claim `rep`, and the first of the two `places`.
        rep: i64,
    },
    /// The owner of the center deploys another model.
    Deploy {
        /// The model.
        model: Model,
    },
    /// The server ends, and another one starts.
    RestartServer,
    /// A process meets this at so many operations of its disk from now on.
    Disk {
        /// Whose.
        place: Place,
        /// What happens.
        trouble: Trouble,
        /// Operations until then.
        after: u64,
    },
    /// A wall clock changes.
    StepClock {
        /// Whose.
        place: Place,
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// The file of a remote is copied. The copy is another remote from now on.
    CopyRemote {
        /// The number of the remote.
        remote: usize,
    },
    /// The file of a remote is kept.
    KeepRemote {
        /// The number of the remote.
        remote: usize,
    },
    /// The file of a remote is again what was kept.
    RestoreRemote {
        /// The number of the remote.
        remote: usize,
    },
    /// The file of the center is kept.
    KeepCenter,
    /// The file of the center is again what was kept.
    RestoreCenter,
    /// Nothing happens any more, and everybody synchronizes until nothing moves.
    Quiet,
}

/// Which parts of a synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Both.
    Full,
    /// The upload.
    Up,
    /// The download.
    Down,
}

/// What happens to a synchronization after so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The network ends the connection after so many bytes from the remote.
    CutUp(usize),
    /// The network ends the connection after so many bytes to the remote.
    CutDown(usize),
    /// The remote is killed, and its connection ends.
    Kill(usize),
    /// The remote is killed, and the server does not learn of it.
    Vanish(usize),
    /// Everything stands still.
    Stall(usize),
}

/// Whose disk, or clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// That of the server.
    Center,
    /// That of a remote.
    Remote(usize),
}

/// What happens to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The process is killed.
    Crash,
    /// The machine loses its power, and what was not synchronized to the disk.
    PowerCut,
    /// There is no room for a while.
    Full,
    /// One operation fails.
    Error,
}

impl Trouble {
    /// Whether programs outlive it, and can say what is wrong.
    pub fn is_survived(self) -> bool {
        matches!(self, Trouble::Full | Trouble::Error)
    }
}

/// The kinds of steps, to count which have happened.
pub const KINDS: [&str; 26] = [
    "write at a remote",
    "write at the center",
    "synchronize",
    "upload only",
    "download only",
    "cut upload",
    "cut download",
    "kill",
    "vanish",
    "stall",
    "continue",
    "claims",
    "deploy",
    "restart",
    "crash of the center",
    "crash of a remote",
    "power cut of the center",
    "power cut of a remote",
    "full disk",
    "disk error",
    "clock",
    "copy",
    "keep a remote",
    "restore a remote",
    "keep the center",
    "restore the center",
];

impl Step {
    /// The remote that it is about.
    pub fn remote(&self) -> Option<usize> {
        match self {
            Step::WriteRemote { remote, .. }
            | Step::Synchronize { remote, .. }
            | Step::Continue { remote }
            | Step::CopyRemote { remote }
            | Step::KeepRemote { remote }
            | Step::RestoreRemote { remote }
            | Step::StepClock { place: Place::Remote(remote), .. }
            | Step::Disk { place: Place::Remote(remote), .. } => Some(*remote),
            _ => None,
        }
    }

    /// Its kind, one of [`KINDS`]. None for the end of a round.
    pub fn kind(&self) -> Option<&'static str> {
        let at = match self {
            Step::WriteRemote { .. } => 0,
            Step::WriteCenter { .. } => 1,
            Step::Synchronize { fault: Fault::None, mode, .. } => match mode {
                Mode::Full => 2,
                Mode::Up => 3,
                Mode::Down => 4,
            },
            Step::Synchronize { fault, .. } => match fault {
                Fault::None | Fault::CutUp(_) => 5,
                Fault::CutDown(_) => 6,
                Fault::Kill(_) => 7,
                Fault::Vanish(_) => 8,
                Fault::Stall(_) => 9,
            },
            Step::Continue { .. } => 10,
            Step::SetClaims { .. } => 11,
            Step::Deploy { .. } => 12,
            Step::RestartServer => 13,
            Step::Disk { place, trouble, .. } => match (trouble, place) {
                (Trouble::Crash, Place::Center) => 14,
                (Trouble::Crash, Place::Remote(_)) => 15,
                (Trouble::PowerCut, Place::Center) => 16,
                (Trouble::PowerCut, Place::Remote(_)) => 17,
                (Trouble::Full, _) => 18,
                (Trouble::Error, _) => 19,
            },
            Step::StepClock { .. } => 20,
            Step::CopyRemote { .. } => 21,
            Step::KeepRemote { .. } => 22,
            Step::RestoreRemote { .. } => 23,
            Step::KeepCenter => 24,
            Step::RestoreCenter => 25,
            Step::Quiet => return None,
        };
        Some(KINDS[at])
    }

    /// The remote that synchronizes.
    pub fn synchronizes(&self) -> Option<usize> {
        match self {
            Step::Synchronize { remote, .. } | Step::Continue { remote } => Some(*remote),
            _ => None,
        }
    }
}
