//! `syncline sync --watch`: synchronizes when there are changes, and at intervals.

use super::interruption;
use super::report::told;
use super::summary::Summary;
use super::synchronizer::Synchronizer;
use crate::args::SyncOptions;
use client::{Components, Mode};
use model::{Code, Failure, Random};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terminal::output;

/// A synchronization begins at least this often, to fetch what changed at the center.
const QUIET_MAX: Duration = Duration::from_secs(30);
/// Local changes are looked for this often.
const PENDING_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After the first failure it is tried again after this long, then after twice as long, …
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// … but never after more than this.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// A signal is noticed within this time.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Synchronizes until a signal ends it or a failure comes that repeating cannot cure.
pub(super) fn run(synchronizer: &mut Synchronizer, options: &SyncOptions) -> Result<(), Failure> {
    // A first signal ends after the synchronization under way, a second at once; both exit 0.
    let ended = interruption::noted(&[SIGINT, SIGTERM], 0)?;
    let mut backoff = Backoff::new(Components::system(&std::env::temp_dir())?.random);
    let (mut first, mut accepted) = (true, synchronizer.was_accepted(options)?);
    let mut refused = None;
    while !ended.load(Ordering::SeqCst) {
        let started = synchronizer.clock.monotonic_ms();
        let ready = refused.map_or(Ok(()), |_| synchronizer.read_secrets(options));
        let result = ready.and_then(|()| synchronizer.synchronize());
        let mut summary = Summary::of(options);
        summary.known(&synchronizer.remote.settings()?);
        summary.duration_ms = synchronizer.clock.monotonic_ms().saturating_sub(started);
        match result {
            Ok(report) => {
                backoff.succeeded();
                accepted = true;
                if refused.take().is_some() {
                    let text = format!("the server accepts user {} again; going on", report.user);
                    output::notice(&output::one_line(&text));
                }
                summary.succeeded(&report);
                let leaves_any = !report.waiting.is_empty() || !report.left_behind.is_empty();
                if first || options.json || !summary.is_quiet() || leaves_any {
                    told(&report, options, &mut summary)?;
                }
                first = false;
                // What stays here for now is no news.
                let kept = if leaves_any { synchronizer.pending()? } else { 0 };
                wait_for_changes(synchronizer, kept, &ended)?;
            }
            Err(failure) if failure.retry() => {
                let delay = backoff.failed(failure.retry_after());
                let then = format!("trying again in {:.1} s", delay.as_secs_f64());
                tell_failure(&failure, Some(&then), options, summary)?;
                wait(delay, &ended);
            }
            // What no server has ever accepted here may be a typing error.
            Err(failure) if accepted && may_be_accepted_later(failure.code()) => {
                let is_news = refused.replace(failure.code()) != Some(failure.code());
                let then = "waiting until the server accepts the user, and reading the files of \
                            password and token again before each try";
                tell_failure(&failure, is_news.then_some(then), options, summary)?;
                wait(backoff.refused(), &ended);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Whether an operator may let the user in again, or somebody write another password or token into
/// its file. While that is done, the file may be missing.
fn may_be_accepted_later(code: Code) -> bool {
    matches!(
        code,
        Code::AuthenticationFailed
            | Code::TokenRefused
            | Code::PasswordExpired
            | Code::SecretMissing
            | Code::SecretExposed
    )
}

/// Tells people what comes `then`, where that is news, and programs the failure.
fn tell_failure(
    failure: &Failure,
    then: Option<&str>,
    options: &SyncOptions,
    mut summary: Summary,
) -> Result<(), Failure> {
    if let Some(then) = then {
        let (code, message) = (failure.code(), failure.full_message());
        output::notice(&format!("error {code}: {message}; {then}"));
    }
    if options.json {
        summary.failed(failure);
        output::json(&summary.to_json())?;
    }
    Ok(())
}

/// Waits until the application has changed something, or long enough.
fn wait_for_changes(
    synchronizer: &Synchronizer,
    kept: u64,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    let mut waited = Duration::ZERO;
    while waited < QUIET_MAX && !ended.load(Ordering::SeqCst) {
        wait(PENDING_CHECK_INTERVAL, ended);
        waited += PENDING_CHECK_INTERVAL;
        if synchronizer.mode != Mode::DownloadOnly && synchronizer.pending()? != kept {
            return Ok(());
        }
    }
    Ok(())
}

fn wait(duration: Duration, ended: &AtomicBool) {
    let mut waited = Duration::ZERO;
    while waited < duration && !ended.load(Ordering::SeqCst) {
        std::thread::sleep(SIGNAL_CHECK_INTERVAL);
        waited += SIGNAL_CHECK_INTERVAL;
    }
}

/// How long to wait after failures: doubled each time, and spread by chance, so that a thousand
/// remotes do not come back to a restarted server in the same second.
struct Backoff {
    next: Duration,
    random: Random,
}

impl Backoff {
    fn new(random: Random) -> Backoff {
        Backoff { next: BACKOFF_MIN, random }
    }

    fn succeeded(&mut self) {
        self.next = BACKOFF_MIN;
    }

    /// The time to wait now: between half of the whole and the whole, but never less than the
    /// server asked for.
    fn failed(&mut self, retry_after_s: Option<u32>) -> Duration {
        let whole = self.refused();
        let share = (self.random.next_u64() % 1000) as f64 / 1000.0;
        let spread = whole.mul_f64(0.5 + share / 2.0);
        let asked = Duration::from_secs(u64::from(retry_after_s.unwrap_or(0))).min(BACKOFF_MAX);
        if asked > spread { asked + spread.mul_f64(share) } else { spread }
    }

    /// The time to wait for a user who is refused: the whole. Each try may be one more wrong
    /// password, and the server delays the next one of this user at this address, too, for up to a
    /// minute. What comes earlier learns nothing.
    fn refused(&mut self) -> Duration {
        let whole = self.next.min(BACKOFF_MAX);
        self.next = whole * 2;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_limit_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(Random::from_seed([1; 32]));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.failed(None);
            let whole = Duration::from_secs(seconds);
            assert!(wait >= whole / 2 && wait <= whole, "{wait:?} for {whole:?}");
        }
        backoff.succeeded();
        assert!(backoff.failed(None) <= BACKOFF_MIN);
        assert!(backoff.failed(Some(20)) >= Duration::from_secs(20));
        assert!(backoff.failed(Some(u32::MAX)) <= BACKOFF_MAX * 2);
    }

    /// The server delays the third wrong password by a second, and each further one twice as long,
    /// up to a minute. Whoever is accepted again learns so within a minute.
    #[test]
    fn a_password_that_is_refused_is_not_sent_earlier_than_the_server_reads_it() {
        let mut backoff = Backoff::new(Random::from_seed([1; 32]));
        for delay_s in [0, 0, 1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.refused();
            assert!(wait >= Duration::from_secs(delay_s) && wait <= BACKOFF_MAX, "{wait:?}");
        }
    }
}
