//! `syncline sync`: makes a file a remote database, if it is not one yet, and synchronizes it.
//!
//! `sync/synchronizer.rs` opens the file and synchronizes it, `sync/secrets.rs` chooses between
//! token and password, `sync/trust.rs` says whom to believe, `sync/watch.rs` repeats,
//! `sync/interruption.rs` ends at Ctrl-C, and `sync/report.rs` prints the result.

pub(crate) mod interruption;
pub(crate) mod progress;
mod report;
mod secrets;
mod silent_triggers;
mod summary;
mod synchronizer;
mod trust;
mod watch;

use crate::args::SyncOptions;
use model::Failure;
use report::told;
pub(crate) use summary::Summary;
pub(crate) use synchronizer::Synchronizer;
use terminal::output;

/// Synchronizes once, or keeps on.
pub(crate) fn run(options: &SyncOptions) -> Result<(), Failure> {
    if !options.watch {
        interruption::tell("nothing is lost; the next `syncline sync` continues")?;
    }
    let mut summary = Summary::of(options);
    // A link that leads nowhere is there too.
    let was_there = options.file.symlink_metadata().is_ok();
    let was_remote = was_there && synchronizer::may_be_remote(&options.file);
    let result = match Synchronizer::open(options, &mut summary) {
        Ok(mut synchronizer) if options.watch => watch::run(&mut synchronizer, options),
        Ok(mut synchronizer) => {
            let started = synchronizer.clock.monotonic_ms();
            let result = synchronizer.synchronize();
            summary.duration_ms = synchronizer.clock.monotonic_ms().saturating_sub(started);
            result.and_then(|report| told(&report, options, &mut summary))
        }
        Err(failure) => Err(failure),
    };
    if !was_remote {
        synchronizer::leave_nothing(&options.file, was_there);
    }
    if let (Err(failure), true) = (&result, options.json) {
        summary.failed(failure);
        // The failure itself matters more than that it could not be printed twice.
        let _ = output::json(&summary.to_json());
    }
    result
}
