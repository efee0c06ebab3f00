//! How long the server waits for a peer.
//!
//! Only the time counts in which the server waits for bytes to arrive or to leave. The time of the
//! database, or of others before it, is not the peer's fault.
//!
//! Progress is the number of bytes that were read, and that the peer has acknowledged. What only
//! lies in the buffer of the network is none (`acknowledged.rs`).

use crate::config::Config;
use model::{Code, Failure};
use std::time::Duration;

/// What a peer may ask of the server's patience.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Without a byte from the peer.
    silence: Duration,
    /// Bytes that are made on average over each `window`, unless there were heartbeats.
    bytes_per_s_min: u64,
    window: Duration,
    /// All waiting, beside the time that the peer's bytes take at `bytes_per_s_min`; and all
    /// waiting that only heartbeats excuse.
    life: Duration,
}

/// The patience with one peer.
#[derive(Debug)]
pub(crate) struct Patience {
    limits: Limits,
    /// In all.
    waited: Duration,
    bytes: u64,
    /// Since the last byte.
    silent: Duration,
    /// Since the present window began.
    window: Window,
    /// In windows that were excused by heartbeats.
    excused: Duration,
}

#[derive(Debug, Default)]
struct Window {
    waited: Duration,
    bytes: u64,
    heartbeats: bool,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Bytes of the peer, of which so many more were announced.
    Receiving(u64),
    /// The peer, which is to acknowledge so many bytes.
    Sending(u64),
}

impl Limits {
    /// For a peer that has not said yet who it is.
    pub(crate) fn of_newcomers(config: &Config) -> Limits {
        let hello = Duration::from_secs(config.hello_timeout_s);
        Limits { silence: hello, life: hello, ..Limits::of_known(config) }
    }

    /// For a peer that is known.
    pub(crate) fn of_known(config: &Config) -> Limits {
        Limits {
            silence: Duration::from_secs(config.idle_timeout_s),
            bytes_per_s_min: config.progress_bytes_per_s_min.max(1),
            window: Duration::from_secs(config.progress_window_s.max(1)),
            life: Duration::from_secs(config.patience_s),
        }
    }

    fn silence(&self, wait: Wait) -> Duration {
        match wait {
            Wait::Receiving(_) => self.silence,
            // A modem may need a while until the network takes more than it has in its buffer.
            Wait::Sending(_) => self.silence.max(self.window),
        }
    }
}

impl Patience {
    pub(crate) fn new(limits: Limits) -> Patience {
        Patience {
            limits,
            waited: Duration::ZERO,
            bytes: 0,
            silent: Duration::ZERO,
            window: Window::default(),
            excused: Duration::ZERO,
        }
    }

    /// As at the beginning, for what the server itself has still to say.
    pub(crate) fn renew(&mut self) {
        *self = Patience::new(self.limits);
    }

    /// How long to wait before [`Patience::note`] is asked whether to go on.
    pub(crate) fn next(&self, wait: Wait) -> Duration {
        let silence = self.limits.silence(wait).saturating_sub(self.silent);
        let window = self.limits.window.saturating_sub(self.window.waited);
        let life = self.life(wait).saturating_sub(self.waited);
        silence.min(window).min(life)
    }

    /// Notes that so many bytes moved after so long a time. Fails where patience is over.
    pub(crate) fn note(&mut self, wait: Wait, time: Duration, bytes: u64) -> Result<(), Failure> {
        let life = self.life(wait);
        self.waited += time;
        self.window.waited += time;
        self.window.bytes += bytes;
        self.bytes += bytes;
        self.silent = if bytes > 0 { Duration::ZERO } else { self.silent + time };
        if self.silent >= self.limits.silence(wait) {
            return Err(Failure::new(Code::PeerSilent, "the peer was silent for too long"));
        }
        if self.window.waited >= self.limits.window {
            self.end_window()?;
        }
        if self.waited >= life {
            let message = format!("the peer took {} s in all", self.waited.as_secs());
            return Err(Failure::new(Code::PeerTooSlow, message));
        }
        Ok(())
    }

    /// A sign of life of so many bytes arrived, which are not progress.
    pub(crate) fn heartbeat(&mut self, bytes: u64) {
        self.window.heartbeats = true;
        self.window.bytes = self.window.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn end_window(&mut self) -> Result<(), Failure> {
        let Window { waited, bytes, heartbeats } = std::mem::take(&mut self.window);
        if bytes >= self.limits.bytes_per_s_min.saturating_mul(self.limits.window.as_secs()) {
            return Ok(());
        }
        self.excused += waited;
        if heartbeats && self.excused <= self.limits.life {
            return Ok(());
        }
        let message = format!("the peer moved {bytes} bytes in {} s", waited.as_secs());
        Err(Failure::new(Code::PeerTooSlow, message))
    }

    fn life(&self, wait: Wait) -> Duration {
        let (Wait::Receiving(announced) | Wait::Sending(announced)) = wait;
        let bytes = self.bytes.saturating_add(announced);
        let paid = Duration::from_secs(bytes / self.limits.bytes_per_s_min);
        self.limits.life.saturating_add(paid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 bytes a second over two minutes, ten minutes of life.
    fn patience() -> Patience {
        Patience::new(Limits::of_known(&Config::default()))
    }

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Seconds until it is over, where every `every` seconds so many bytes come.
    fn lasts(patience: &mut Patience, every: u64, bytes: u64, heartbeats: bool) -> Option<u64> {
        let wait = Wait::Receiving(0);
        (1..100_000).map(|step| step * every).find(|_| {
            let over = patience.note(wait, seconds(every), bytes).is_err();
            if heartbeats {
                patience.heartbeat(bytes);
            }
            over
        })
    }

    // S9
    #[test]
    fn an_honest_modem_is_waited_for_and_who_drips_is_not() {
        assert_eq!(lasts(&mut patience(), 1, 480, false), None, "4,800 baud");
        assert_eq!(lasts(&mut patience(), 1, 64, false), None);
        assert_eq!(lasts(&mut patience(), 1, 63, false), Some(120));
        assert_eq!(lasts(&mut patience(), 59, 1, false), Some(177), "the window that is full then");
        assert_eq!(lasts(&mut patience(), 60, 0, false), Some(60), "silent");
    }

    // S9
    #[test]
    fn heartbeats_count_for_ten_minutes_however_much_was_moved_before() {
        let mut patience = patience();
        assert_eq!(lasts(&mut patience, 15, 5, true), Some(600));
        let mut patience = self::patience();
        patience.note(Wait::Receiving(0), seconds(1), 1 << 30).unwrap();
        assert_eq!(lasts(&mut patience, 15, 5, true), Some(14 * 60), "the first window was good");
    }

    // S9
    #[test]
    fn a_life_is_ten_minutes_and_the_announced_bytes_at_the_least_rate() {
        let wait = Wait::Receiving(64 * 50);
        let mut patience = patience();
        assert_eq!(patience.next(wait), seconds(60));
        for _ in 0..64 {
            patience.note(wait, seconds(10), 0).unwrap();
            patience.window = Window::default();
            patience.silent = Duration::ZERO;
        }
        assert_eq!(patience.next(wait), seconds(10));
        let over = patience.note(wait, seconds(10), 0).unwrap_err();
        assert_eq!(over.code(), Code::PeerTooSlow);
    }

    // S9
    #[test]
    fn who_has_not_said_its_name_has_less_time_but_for_the_bytes_it_announces() {
        let newcomer = Limits::of_newcomers(&Config::default());
        let mut drips = Patience::new(newcomer);
        assert_eq!(lasts(&mut drips, 1, 1, false), Some(10));
        // Ten kilobytes of Hello at 4,800 baud.
        let mut modem = Patience::new(newcomer);
        for sent in 0..21 {
            let wait = Wait::Receiving(10_080 - sent * 480);
            modem.note(wait, seconds(1), 480).unwrap();
        }
    }
}
