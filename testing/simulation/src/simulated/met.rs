//! What a seed has brought about, so that a fault that never comes is noticed.

/// How often each of it has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// Delays of which somebody notices something.
    pub(super) long_delays: u64,
    /// Connections that broke.
    pub(super) cuts: u64,
    /// Those of them that broke with an error, and lost what was on its way.
    pub(super) resets: u64,
    /// Writers that found a connection full.
    pub(super) full: u64,
    /// Servers that were killed.
    pub(super) kills: u64,
    /// Servers that were stopped.
    pub(super) drains: u64,
    /// Machines that died at an operation of their disk: the center, and remotes.
    pub(super) center_deaths: u64,
    pub(super) remote_deaths: u64,
}

impl Met {
    /// Adds up.
    pub(super) fn add(&mut self, more: Met) {
        self.long_delays += more.long_delays;
        self.cuts += more.cuts;
        self.resets += more.resets;
        self.full += more.full;
        self.kills += more.kills;
        self.drains += more.drains;
        self.center_deaths += more.center_deaths;
        self.remote_deaths += more.remote_deaths;
    }

    /// Everything with its name.
    pub(super) fn all(self) -> Vec<(&'static str, u64)> {
        vec![
            ("long delay", self.long_delays),
            ("connection that broke", self.cuts),
            ("connection that was reset", self.resets),
            ("full connection", self.full),
            ("kill of the server", self.kills),
            ("stop of the server", self.drains),
            ("death of the center at its disk", self.center_deaths),
            ("death of a remote at its disk", self.remote_deaths),
        ]
    }
}
